/* Global functions: range, dict, namespace, cycler, joiner, raise_exception, strftime_now. */
#include "engine/text/jinja_builtin.h"
#include "engine/text/jinja_date.h"
#include "engine/text/jinja_eval.h"

static int range_call(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	int64_t first, second, step;
	TRY(jinja_need_int(r, c, 0, 0, &first));
	TRY(jinja_need_int(r, c, 1, 0, &second));
	TRY(jinja_need_int(r, c, 2, 1, &step));
	if (c->p[0].type == JINJA_NONE || c->p[1].type == JINJA_NONE)
		return jinja_fail(r, "'NoneType' object cannot be interpreted as an integer");
	if (step == 0)
		return jinja_fail(r, "range() arg 3 must not be zero");
	struct jinja_range *range = jinja_alloc(r, sizeof *range);
	if (!range)
		return ERR_INPUT;
	bool one = c->p[1].type == JINJA_MISSING;
	*range = (struct jinja_range){one ? 0 : first, one ? first : second, step, 0};
	int64_t low = step > 0 ? range->start : range->stop, high = step > 0 ? range->stop : range->start;
	uint64_t span = high > low ? (uint64_t)high - (uint64_t)low : 0;
	uint64_t stride = step > 0 ? (uint64_t)step : -(uint64_t)step;
	uint64_t count = span ? (span - 1) / stride + 1 : 0;
	if (count > JINJA_RANGE_MAX)
		return jinja_fail(r, "range too big: more than %d items", JINJA_RANGE_MAX);
	range->count = (int64_t)count;
	*out = (struct jinja_value){.type = JINJA_RANGE, .range = range};
	return 0;
}

/* The pairs of a dict, or of a list of pairs. */
static int pairs_add(struct jinja_run *r, const struct jinja_value *from, struct jinja_dict *dict)
{
	struct jinja_list items;
	if (from->type == JINJA_DICT || from->type == JINJA_NAMESPACE) {
		for (size_t i = 0; i < from->dict->count; i++)
			TRY(jinja_dict_set(r, dict, from->dict->pairs[i].key, from->dict->pairs[i].value));
		return 0;
	}
	TRY(jinja_iterate(r, from, &items));
	for (size_t i = 0; i < items.count; i++) {
		struct jinja_list pair;
		TRY(jinja_iterate(r, &items.items[i], &pair));
		if (pair.count != 2)
			return jinja_fail(r, "element %zu has length %zu; 2 is required", i, pair.count);
		TRY(jinja_dict_set(r, dict, pair.items[0], pair.items[1]));
	}
	return 0;
}

static int dict_make(struct jinja_run *r, const struct jinja_call *c, enum jinja_type type, struct jinja_value *out)
{
	const struct jinja_arguments *a = c->arguments;
	if (a->values.count > 1)
		return jinja_fail(r, "%s expected at most 1 argument, got %zu", c->name, a->values.count);
	TRY(jinja_dict_new(r, type, a->keywords.count, out));
	if (a->values.count)
		TRY(pairs_add(r, &a->values.items[0], out->dict));
	for (size_t i = 0; i < a->keywords.count; i++)
		TRY(jinja_dict_set(r, out->dict, a->keywords.pairs[i].key, a->keywords.pairs[i].value));
	return 0;
}

static int dict_call(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return dict_make(r, c, JINJA_DICT, out);
}

static int namespace_call(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	TRY(dict_make(r, c, JINJA_NAMESPACE, out));
	for (size_t i = 0; i < out->dict->count; i++) {
		const struct jinja_value *key = &out->dict->pairs[i].key;
		if (key->type == JINJA_TEXT && key->text.length && key->text.data[0] == '_')
			return jinja_fail(r,
				"a namespace cannot have the attribute '%.*s': it begins with an underscore",
				STR_ARG(key->text));
	}
	return 0;
}

static int cycler_new(
	struct jinja_run *r, enum jinja_type type, const struct jinja_list *items, struct jinja_value *out)
{
	struct jinja_cycler *cycler = jinja_alloc(r, sizeof *cycler);
	if (!cycler)
		return ERR_INPUT;
	for (size_t i = 0; i < items->count; i++)
		TRY(jinja_list_add(r, &cycler->items, items->items[i]));
	*out = (struct jinja_value){.type = type, .cycler = cycler};
	return 0;
}

static int cycler_call(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	if (c->arguments->values.count == 0)
		return jinja_fail(r, "at least one item has to be provided");
	return cycler_new(r, JINJA_CYCLER, &c->arguments->values, out);
}

static int joiner_make(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct jinja_value between = c->p[0].type == JINJA_MISSING ? jinja_text(str_of(", ")) : c->p[0];
	struct jinja_list items = {&between, 1, 1};
	return cycler_new(r, JINJA_JOINER, &items, out);
}

static int raise_exception(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct str message;
	(void)out;
	TRY(jinja_string(r, &c->p[0], &message));
	return jinja_fail(r, "%.*s", STR_ARG(message));
}

static int strftime_now(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct str format;
	struct buf text = {0};
	TRY(jinja_need_text(r, c, 0, &format));
	r->asked_for_date = true;
	TRY(jinja_work(r, 8 * format.length));
	jinja_strftime(&r->now, format, &text);
	return jinja_buf_keep(r, jinja_append_text(r, &text, ""), &text, out);
}

const struct jinja_builtin jinja_functions[] = {
	{"range", "start stop? step?", range_call},
	{"dict", "*", dict_call},
	{"namespace", "*", namespace_call},
	{"cycler", "*", cycler_call},
	{"joiner", "sep?", joiner_make},
	{"raise_exception", "message", raise_exception},
	{"strftime_now", "format", strftime_now},
	{NULL, NULL, NULL},
};

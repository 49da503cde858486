/* Methods of dicts, lists, tuples, loops and cyclers. Of those that change their object only append, pop, insert and
 * update are allowed: published templates need them, the sandbox of the reference refuses the others too. */
#include <math.h>

#include "engine/text/jinja_builtin.h"
#include "engine/text/jinja_eval.h"

/* ---- Dicts ---- */

static int view(const struct jinja_call *c, enum jinja_view which, struct jinja_value *out)
{
	*out = c->self;
	out->type = JINJA_VIEW;
	out->view = which;
	return 0;
}

static int dict_items(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	(void)r;
	return view(c, JINJA_ITEMS, out);
}

static int dict_keys(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	(void)r;
	return view(c, JINJA_KEYS, out);
}

static int dict_values(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	(void)r;
	return view(c, JINJA_VALUES, out);
}

static int dict_get(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct jinja_pair *pair;
	TRY(jinja_dict_find(r, c->self.dict, c->p[0], &pair));
	*out = pair ? pair->value : c->p[1].type == JINJA_MISSING ? jinja_none() : c->p[1];
	return 0;
}

static int dict_copy(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	const struct jinja_dict *from = c->self.dict;
	TRY(jinja_dict_new(r, JINJA_DICT, from->count, out));
	if (from->count)
		memcpy(out->dict->pairs, from->pairs, from->count * sizeof *from->pairs);
	out->dict->count = from->count;
	return 0;
}

static int dict_pop(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct jinja_dict *dict = c->self.dict;
	struct jinja_pair *pair;
	TRY(jinja_dict_find(r, dict, c->p[0], &pair));
	if (!pair && c->p[1].type == JINJA_MISSING) {
		struct str key;
		TRY(jinja_string(r, &c->p[0], &key));
		return jinja_fail(r, "pop(): the dict has no key '%.*s'", STR_ARG(key));
	}
	*out = pair ? pair->value : c->p[1];
	if (!pair)
		return 0;
	size_t behind = dict->count - (size_t)(pair - dict->pairs) - 1;
	memmove(pair, pair + 1, behind * sizeof *pair);
	dict->count--;
	return jinja_work_bytes(r, behind * sizeof *pair);
}

static int dict_update(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	const struct jinja_builtin *make = jinja_function_find(str_of("dict"));
	struct jinja_value with;
	TRY(jinja_builtin_call(r, make, jinja_none(), c->arguments, &with));
	for (size_t i = 0; i < with.dict->count; i++)
		TRY(jinja_dict_set(r, c->self.dict, with.dict->pairs[i].key, with.dict->pairs[i].value));
	*out = jinja_none();
	return 0;
}

/* ---- Lists and tuples ---- */

static int list_index(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	for (size_t i = 0; i < c->self.list->count; i++) {
		bool same;
		TRY(jinja_equal(r, &c->self.list->items[i], &c->p[0], &same));
		if (same) {
			*out = jinja_int((int64_t)i);
			return 0;
		}
	}
	return jinja_fail(r, "index(): the item is not in the %s", jinja_type_name(&c->self));
}

static int list_count(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	int64_t n = 0;
	for (size_t i = 0; i < c->self.list->count; i++) {
		bool same;
		TRY(jinja_equal(r, &c->self.list->items[i], &c->p[0], &same));
		n += same;
	}
	*out = jinja_int(n);
	return 0;
}

static int list_copy(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	TRY(jinja_list_new(r, JINJA_LIST, c->self.list->count, out));
	return jinja_iterate(r, &c->self, out->list);
}

static int list_append(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	*out = jinja_none();
	return jinja_list_add(r, c->self.list, c->p[0]);
}

static int list_pop(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct jinja_list *list = c->self.list;
	int64_t index, count = (int64_t)list->count;
	TRY(jinja_need_int(r, c, 0, -1, &index));
	if (count == 0)
		return jinja_fail(r, "pop from empty list");
	index += index < 0 ? count : 0;
	if (index < 0 || index >= count)
		return jinja_fail(r, "pop index out of range");
	*out = list->items[index];
	size_t behind = (size_t)(count - index - 1);
	memmove(list->items + index, list->items + index + 1, behind * sizeof *list->items);
	list->count--;
	return jinja_work_bytes(r, behind * sizeof *list->items);
}

static int list_insert(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct jinja_list *list = c->self.list;
	int64_t index, count = (int64_t)list->count;
	TRY(jinja_need_int(r, c, 0, 0, &index));
	index = index < 0 ? (index + count < 0 ? 0 : index + count) : index > count ? count : index;
	TRY(jinja_list_add(r, list, c->p[1]));
	memmove(list->items + index + 1, list->items + index, (size_t)(count - index) * sizeof *list->items);
	list->items[index] = c->p[1];
	*out = jinja_none();
	return jinja_work_bytes(r, (size_t)(count - index) * sizeof *list->items);
}

static int refuse_change(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	(void)out;
	return jinja_fail(r, "%s() of a %s changes it: not allowed in a template", c->name, jinja_type_name(&c->self));
}

/* ---- Numbers ---- */

static int real_is_integer(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	(void)r;
	*out = jinja_bool(isfinite(c->self.real) && c->self.real == floor(c->self.real));
	return 0;
}

/* ---- Loops and cyclers ---- */

static int loop_cycle(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	const struct jinja_list *items = &c->arguments->values;
	if (items->count == 0)
		return jinja_fail(r, "no items for cycling given");
	*out = items->items[c->self.loop->index % items->count];
	return 0;
}

static int loop_changed(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct jinja_loop *loop = c->self.loop;
	struct jinja_value now;
	bool same = false;
	TRY(jinja_list_new(r, JINJA_TUPLE, 0, &now));
	for (size_t i = 0; i < c->arguments->values.count; i++)
		TRY(jinja_list_add(r, now.list, c->arguments->values.items[i]));
	if (loop->has_changed)
		TRY(jinja_equal(r, &loop->last, &now, &same));
	loop->has_changed = true;
	loop->last = now;
	*out = jinja_bool(!same);
	return 0;
}

static int cycler_next(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct jinja_cycler *cycler = c->self.cycler;
	(void)r;
	*out = cycler->items.items[cycler->at];
	cycler->at = (cycler->at + 1) % cycler->items.count;
	return 0;
}

static int cycler_reset(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	(void)r;
	c->self.cycler->at = 0;
	*out = jinja_none();
	return 0;
}

/* ---- Tables ---- */

static const struct jinja_builtin dict_methods[] = {
	{"items", "", dict_items},
	{"keys", "", dict_keys},
	{"values", "", dict_values},
	{"get", "key default?", dict_get},
	{"copy", "", dict_copy},
	{"pop", "key default?", dict_pop},
	{"update", "*", dict_update},
	{"clear", "*", refuse_change},
	{"popitem", "*", refuse_change},
	{"setdefault", "*", refuse_change},
	{NULL, NULL, NULL},
};

static const struct jinja_builtin list_methods[] = {
	{"index", "item", list_index},
	{"count", "item", list_count},
	{"copy", "", list_copy},
	{"append", "item", list_append},
	{"pop", "index?", list_pop},
	{"insert", "index item", list_insert},
	{"clear", "*", refuse_change},
	{"extend", "*", refuse_change},
	{"remove", "*", refuse_change},
	{"reverse", "*", refuse_change},
	{"sort", "*", refuse_change},
	{NULL, NULL, NULL},
};

static const struct jinja_builtin tuple_methods[] = {
	{"index", "item", list_index},
	{"count", "item", list_count},
	{NULL, NULL, NULL},
};

static const struct jinja_builtin real_methods[] = {
	{"is_integer", "", real_is_integer},
	{NULL, NULL, NULL},
};

static const struct jinja_builtin loop_methods[] = {
	{"cycle", "*", loop_cycle},
	{"changed", "*", loop_changed},
	{NULL, NULL, NULL},
};

static const struct jinja_builtin cycler_methods[] = {
	{"next", "", cycler_next},
	{"reset", "", cycler_reset},
	{NULL, NULL, NULL},
};

const struct jinja_builtin *jinja_method_find(enum jinja_type type, struct str name)
{
	static const struct jinja_builtin *const tables[] = {
		[JINJA_REAL] = real_methods,
		[JINJA_TEXT] = jinja_text_methods,
		[JINJA_LIST] = list_methods,
		[JINJA_TUPLE] = tuple_methods,
		[JINJA_DICT] = dict_methods,
		[JINJA_LOOP] = loop_methods,
		[JINJA_CYCLER] = cycler_methods,
		[JINJA_JOINER] = NULL,
	};
	const struct jinja_builtin *row = tables[type];
	for (; row && row->name; row++)
		if (str_is(name, row->name))
			return row;
	return NULL;
}

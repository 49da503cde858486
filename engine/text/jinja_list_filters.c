/* Filters on sequences. Those that give generators in the reference give iterators here, worked out at once. */
#include <stdlib.h>

#include "engine/base/python_text.h"
#include "engine/text/jinja_builtin.h"
#include "engine/text/jinja_eval.h"
#include "engine/text/jinja_text.h"

/* ---- Elements ---- */

static int end_element(struct jinja_run *r, const struct jinja_call *c, bool last, struct jinja_value *out)
{
	struct jinja_list items;
	if (last && c->self.type == JINJA_ITERATOR)
		return jinja_fail(r, "'generator' object is not reversible");
	TRY(jinja_iterate(r, &c->self, &items));
	if (items.count == 0)
		return jinja_undefined(r, out, "No %s item, sequence was empty.", last ? "last" : "first");
	*out = items.items[last ? items.count - 1 : 0];
	if (c->self.type == JINJA_ITERATOR) /* the rest is still to come */
		*c->self.list = (struct jinja_list){items.items + 1, items.count - 1, items.count - 1};
	return 0;
}

static int filter_first(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return end_element(r, c, false, out);
}

static int filter_last(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return end_element(r, c, true, out);
}

static int filter_length(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	int64_t length;
	TRY(jinja_length(r, &c->self, &length));
	*out = jinja_int(length);
	return 0;
}

static int list_of(struct jinja_run *r, enum jinja_type type, struct jinja_list items, struct jinja_value *out)
{
	TRY(jinja_list_new(r, type, 0, out));
	*out->list = items;
	return 0;
}

static int filter_list(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct jinja_list items, copy = {0};
	TRY(jinja_iterate(r, &c->self, &items));
	if (c->self.type != JINJA_TUPLE)
		return list_of(r, JINJA_LIST, items, out);
	for (size_t i = 0; i < items.count; i++)
		TRY(jinja_list_add(r, &copy, items.items[i]));
	return list_of(r, JINJA_LIST, copy, out);
}

static int filter_reverse(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	const struct jinja_value backwards[3] = {[2] = jinja_int(-1)};
	struct jinja_list items, reversed = {0};
	if (c->self.type == JINJA_TEXT)
		return jinja_slice(r, &c->self, backwards, out);
	TRY(jinja_iterate(r, &c->self, &items));
	for (size_t i = items.count; i-- > 0;)
		TRY(jinja_list_add(r, &reversed, items.items[i]));
	return list_of(r, c->self.type == JINJA_ITERATOR ? JINJA_LIST : JINJA_ITERATOR, reversed, out);
}

static int filter_items(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct jinja_value view = c->self;
	struct jinja_list items = {0};
	if (c->self.type != JINJA_UNDEFINED && c->self.type != JINJA_DICT)
		return jinja_fail(r, "Can only get item pairs from a mapping.");
	view.type = JINJA_VIEW;
	view.view = JINJA_ITEMS;
	if (c->self.type == JINJA_DICT)
		TRY(jinja_iterate(r, &view, &items));
	return list_of(r, JINJA_ITERATOR, items, out);
}

/* ---- map, select, reject ---- */

/* What is left of a call's arguments behind the first n. */
static struct jinja_arguments arguments_behind(const struct jinja_arguments *a, size_t n)
{
	struct jinja_arguments rest = *a;
	size_t skipped = n < a->values.count ? n : a->values.count;
	if (skipped)
		rest.values.items += skipped;
	rest.values.count -= skipped;
	return rest;
}

static int keyword(struct jinja_run *r, const struct jinja_arguments *a, const char *name, struct jinja_value *out)
{
	struct jinja_pair *pair;
	TRY(jinja_dict_find_text(r, &a->keywords, str_of(name), &pair));
	*out = pair ? pair->value : (struct jinja_value){.type = JINJA_MISSING};
	return 0;
}

static int map_attribute(struct jinja_run *r, const struct jinja_list *items, const struct jinja_value *path,
	const struct jinja_value *fallback, struct jinja_list *out)
{
	bool replaces = jinja_given(fallback);
	for (size_t i = 0; i < items->count; i++) {
		struct jinja_value v;
		TRY(jinja_follow(r, &items->items[i], path, replaces ? fallback : NULL, &v));
		TRY(jinja_list_add(r, out, v));
	}
	return 0;
}

/* What is false has no items, whether it could be gone through or not. */
static int iterate_true(struct jinja_run *r, const struct jinja_value *v, struct jinja_list *out)
{
	*out = (struct jinja_list){0};
	return jinja_truth(v) ? jinja_iterate(r, v, out) : 0;
}

static int filter_map(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	const struct jinja_arguments *a = c->arguments;
	struct jinja_list items, mapped = {0};
	struct jinja_value path, fallback;
	TRY(keyword(r, a, "attribute", &path));
	TRY(keyword(r, a, "default", &fallback));
	TRY(iterate_true(r, &c->self, &items));
	if (a->values.count == 0) {
		size_t known = (path.type != JINJA_MISSING) + (size_t)(fallback.type != JINJA_MISSING);
		if (path.type == JINJA_MISSING || a->keywords.count > known)
			return jinja_fail(r, "map requires a filter argument, or attribute=");
		TRY(map_attribute(r, &items, &path, &fallback, &mapped));
		return list_of(r, JINJA_ITERATOR, mapped, out);
	}
	const struct jinja_value *name = &a->values.items[0];
	const struct jinja_builtin *filter = name->type == JINJA_TEXT ? jinja_filter_find(name->text) : NULL;
	struct jinja_arguments rest = arguments_behind(a, 1);
	if (!filter)
		return name->type == JINJA_TEXT ? jinja_fail(r, "no filter is named '%.*s'", STR_ARG(name->text))
						: jinja_fail(r, "map: a filter's name must be str");
	for (size_t i = 0; i < items.count; i++) {
		struct jinja_value v;
		TRY(jinja_builtin_call(r, filter, items.items[i], &rest, &v));
		TRY(jinja_list_add(r, &mapped, v));
	}
	return list_of(r, JINJA_ITERATOR, mapped, out);
}

/* select, reject and their attr forms: items whose test (or truth) is as wanted. */
static int choose(struct jinja_run *r, const struct jinja_call *c, bool attribute, bool wanted, struct jinja_value *out)
{
	const struct jinja_arguments *a = c->arguments;
	struct jinja_list items, chosen = {0};
	const struct jinja_builtin *test = NULL;
	size_t place = attribute;
	if (a->values.count < place)
		return jinja_fail(r, "%s: missing parameter for attribute name", c->name);
	if (a->values.count > place) {
		const struct jinja_value *name = &a->values.items[place];
		test = name->type == JINJA_TEXT ? jinja_test_find(name->text) : NULL;
		if (!test)
			return name->type == JINJA_TEXT ? jinja_fail(r, "no test is named '%.*s'", STR_ARG(name->text))
							: jinja_fail(r, "%s: a test's name must be str", c->name);
	}
	struct jinja_arguments rest = arguments_behind(a, place + 1);
	TRY(iterate_true(r, &c->self, &items));
	for (size_t i = 0; i < items.count; i++) {
		struct jinja_value v = items.items[i], holds;
		if (attribute)
			TRY(jinja_follow(r, &items.items[i], &a->values.items[0], NULL, &v));
		holds = v;
		if (test)
			TRY(jinja_builtin_call(r, test, v, &rest, &holds));
		if (jinja_truth(&holds) == wanted)
			TRY(jinja_list_add(r, &chosen, items.items[i]));
	}
	return list_of(r, JINJA_ITERATOR, chosen, out);
}

static int filter_select(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return choose(r, c, false, true, out);
}

static int filter_reject(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return choose(r, c, false, false, out);
}

static int filter_selectattr(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return choose(r, c, true, true, out);
}

static int filter_rejectattr(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return choose(r, c, true, false, out);
}

/* ---- Order ---- */

struct sorted {
	struct jinja_value key, item;
	size_t place; /* before sorting: equals keep their order */
};

struct sorting {
	struct jinja_run *r;
	bool reverse;
	int status;
};

/* The key to order by: an attribute, without regard to case unless that is asked for. */
static int sort_key(struct jinja_run *r, const struct jinja_value *item, const struct jinja_value *path,
	bool case_sensitive, struct jinja_value *out)
{
	*out = *item;
	if (jinja_given(path))
		TRY(jinja_follow(r, item, path, NULL, out));
	if (out->type == JINJA_TEXT && !case_sensitive) {
		struct str text = out->text;
		return jinja_change_case(r, python_lower, text, out);
	}
	return 0;
}

/* "a,b": several keys, one after the other. */
static int sort_keys(struct jinja_run *r, const struct jinja_value *item, const struct jinja_value *path,
	bool case_sensitive, struct jinja_value *out)
{
	if (path->type != JINJA_TEXT || str_find(path->text, str_of(","), 0) == SIZE_MAX)
		return sort_key(r, item, path, case_sensitive, out);
	TRY(jinja_list_new(r, JINJA_LIST, 0, out));
	for (size_t at = 0; at <= path->text.length;) {
		size_t comma = str_find(path->text, str_of(","), at);
		size_t end = comma == SIZE_MAX ? path->text.length : comma;
		struct jinja_value part = jinja_text((struct str){path->text.data + at, end - at}), key;
		TRY(sort_key(r, item, &part, case_sensitive, &key));
		TRY(jinja_list_add(r, out->list, key));
		at = end + 1;
	}
	return 0;
}

static int compare_sorted(const void *a, const void *b, void *context)
{
	const struct sorted *left = a, *right = b;
	struct sorting *s = context;
	int order = 0;
	if (s->status == 0)
		s->status = jinja_compare(s->r, &left->key, &right->key, "<", &order);
	order = order == JINJA_UNORDERED ? 0 : s->reverse ? -order : order;
	return order ? order : left->place < right->place ? -1 : left->place > right->place;
}

static int keyed(struct jinja_run *r, const struct jinja_list *items, const struct jinja_value *path,
	bool case_sensitive, struct sorted **out)
{
	*out = jinja_alloc(r, (items->count + 1) * sizeof **out);
	if (!*out)
		return ERR_INPUT;
	for (size_t i = 0; i < items->count; i++) {
		(*out)[i].item = items->items[i];
		(*out)[i].place = i;
		TRY(sort_keys(r, &items->items[i], path, case_sensitive, &(*out)[i].key));
	}
	return 0;
}

static int sort_items(struct jinja_run *r, struct sorted *entries, size_t count, bool reverse, struct jinja_value *out)
{
	struct sorting sorting = {r, reverse, 0};
	qsort_r(entries, count, sizeof *entries, compare_sorted, &sorting);
	TRY(sorting.status);
	TRY(jinja_list_new(r, JINJA_LIST, count, out));
	for (size_t i = 0; i < count; i++)
		TRY(jinja_list_add(r, out->list, entries[i].item));
	return 0;
}

static int filter_sort(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct jinja_list items;
	struct sorted *entries;
	TRY(jinja_iterate(r, &c->self, &items));
	TRY(keyed(r, &items, &c->p[2], jinja_flag(c, 1, false), &entries));
	return sort_items(r, entries, items.count, jinja_flag(c, 0, false), out);
}

static int filter_dictsort(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct jinja_value pairs = c->self, place = jinja_int(0);
	struct jinja_list items;
	struct sorted *entries;
	struct str by = str_of("key");
	if (c->self.type != JINJA_DICT)
		return jinja_fail(r, "dictsort: expected a dict, found %s", jinja_type_name(&c->self));
	if (c->p[1].type != JINJA_MISSING)
		TRY(jinja_need_text(r, c, 1, &by));
	if (!str_is(by, "key") && !str_is(by, "value"))
		return jinja_fail(r, "You can only sort by either \"key\" or \"value\"");
	place.integer = str_is(by, "value");
	pairs.type = JINJA_VIEW;
	pairs.view = JINJA_ITEMS;
	TRY(jinja_iterate(r, &pairs, &items));
	TRY(keyed(r, &items, &place, jinja_flag(c, 0, false), &entries));
	return sort_items(r, entries, items.count, jinja_flag(c, 2, false), out);
}

static int extreme(struct jinja_run *r, const struct jinja_call *c, bool highest, struct jinja_value *out)
{
	struct jinja_list items;
	struct sorted *entries;
	size_t best = 0;
	TRY(jinja_iterate(r, &c->self, &items));
	if (items.count == 0)
		return jinja_undefined(r, out, "No aggregated item, sequence was empty.");
	TRY(keyed(r, &items, &c->p[1], jinja_flag(c, 0, false), &entries));
	for (size_t i = 1; i < items.count; i++) {
		int order;
		TRY(jinja_compare(r, &entries[i].key, &entries[best].key, highest ? ">" : "<", &order));
		if (order == (highest ? 1 : -1))
			best = i;
	}
	*out = items.items[best];
	return 0;
}

static int filter_min(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return extreme(r, c, false, out);
}

static int filter_max(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return extreme(r, c, true, out);
}

static int filter_unique(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct jinja_list items, kept = {0};
	struct jinja_dict seen = {0};
	struct sorted *entries;
	TRY(jinja_iterate(r, &c->self, &items));
	TRY(keyed(r, &items, &c->p[1], jinja_flag(c, 0, false), &entries));
	for (size_t i = 0; i < items.count; i++) {
		struct jinja_pair *pair;
		TRY(jinja_dict_find(r, &seen, entries[i].key, &pair));
		if (pair)
			continue;
		TRY(jinja_dict_set(r, &seen, entries[i].key, jinja_none()));
		TRY(jinja_list_add(r, &kept, items.items[i]));
	}
	return list_of(r, JINJA_ITERATOR, kept, out);
}

/* ---- Together ---- */

static int filter_join(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct jinja_list items, mapped = {0};
	const struct jinja_value none = {.type = JINJA_MISSING};
	struct str between = {"", 0};
	TRY(jinja_iterate(r, &c->self, &items));
	if (c->p[0].type != JINJA_MISSING)
		TRY(jinja_string(r, &c->p[0], &between));
	if (!jinja_given(&c->p[1]))
		return jinja_join(r, between, &items, out);
	TRY(map_attribute(r, &items, &c->p[1], &none, &mapped));
	return jinja_join(r, between, &mapped, out);
}

static int filter_sum(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct jinja_list items;
	TRY(jinja_iterate(r, &c->self, &items));
	*out = c->p[1].type == JINJA_MISSING ? jinja_int(0) : c->p[1];
	if (out->type == JINJA_TEXT)
		return jinja_fail(r, "sum() can't sum strings [use ''.join(seq) instead]");
	for (size_t i = 0; i < items.count; i++) {
		struct jinja_value v = items.items[i], sum = *out;
		if (jinja_given(&c->p[0]))
			TRY(jinja_follow(r, &items.items[i], &c->p[0], NULL, &v));
		TRY(jinja_binary(r, '+', &sum, &v, out));
	}
	return 0;
}

/* Lists of n items; the last one filled up where something is given for it. */
static int filter_batch(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct jinja_list items, batches = {0};
	struct jinja_value batch = {.type = JINJA_MISSING};
	int64_t n;
	TRY(jinja_need_int(r, c, 0, 0, &n));
	TRY(jinja_iterate(r, &c->self, &items));
	for (size_t i = 0; i < items.count; i++) {
		if (batch.type == JINJA_MISSING || (int64_t)batch.list->count == n) {
			TRY(jinja_list_new(r, JINJA_LIST, 0, &batch));
			TRY(jinja_list_add(r, &batches, batch));
		}
		TRY(jinja_list_add(r, batch.list, items.items[i]));
	}
	while (batch.type != JINJA_MISSING && jinja_given(&c->p[1]) && (int64_t)batch.list->count < n)
		TRY(jinja_list_add(r, batch.list, c->p[1]));
	return list_of(r, JINJA_ITERATOR, batches, out);
}

/* n lists, the first ones one item longer where it does not come out even. */
static int filter_slice(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct jinja_list items, slices = {0};
	int64_t n;
	TRY(jinja_need_int(r, c, 0, 0, &n));
	TRY(jinja_iterate(r, &c->self, &items));
	if (n <= 0)
		return jinja_fail(r, "slice: expected at least one slice, not %lld", (long long)n);
	size_t each = items.count / (size_t)n, longer = items.count % (size_t)n, at = 0;
	for (size_t i = 0; i < (size_t)n; i++) {
		struct jinja_value part;
		TRY(jinja_list_new(r, JINJA_LIST, 0, &part));
		for (size_t j = 0; j < each + (i < longer); j++)
			TRY(jinja_list_add(r, part.list, items.items[at++]));
		if (jinja_given(&c->p[1]) && i >= longer)
			TRY(jinja_list_add(r, part.list, c->p[1]));
		TRY(jinja_list_add(r, &slices, part));
	}
	return list_of(r, JINJA_ITERATOR, slices, out);
}

const struct jinja_builtin jinja_list_filters[] = {
	{"first", "", filter_first},
	{"last", "", filter_last},
	{"length", "", filter_length},
	{"count", "", filter_length},
	{"list", "", filter_list},
	{"reverse", "", filter_reverse},
	{"items", "", filter_items},
	{"map", "*", filter_map},
	{"select", "*", filter_select},
	{"reject", "*", filter_reject},
	{"selectattr", "*", filter_selectattr},
	{"rejectattr", "*", filter_rejectattr},
	{"sort", "reverse? case_sensitive? attribute?", filter_sort},
	{"dictsort", "case_sensitive? by? reverse?", filter_dictsort},
	{"min", "case_sensitive? attribute?", filter_min},
	{"max", "case_sensitive? attribute?", filter_max},
	{"unique", "case_sensitive? attribute?", filter_unique},
	{"join", "d? attribute?", filter_join},
	{"sum", "attribute? start?", filter_sum},
	{"batch", "linecount fill_with?", filter_batch},
	{"slice", "slices fill_with?", filter_slice},
	{NULL, NULL, NULL},
};

#include "engine/text/jinja_value.h"

#include <math.h>

#include "engine/base/decimal.h"
#include "engine/base/utf8.h"

/* ---- The rendering's bounds ---- */

int jinja_fail(struct jinja_run *r, const char *format, ...)
{
	char message[700];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(message, sizeof message, format, arguments);
	va_end(arguments);
	return error_set(r->e, ERR_INPUT, "%s:%d: %s", r->name, r->line, message);
}

int jinja_work(struct jinja_run *r, size_t steps)
{
	if (steps > r->steps_left) {
		r->steps_left = 0;
		return jinja_fail(r, "the template works for too long: more than %d steps", JINJA_STEPS);
	}
	r->steps_left -= steps;
	return 0;
}

int jinja_work_bytes(struct jinja_run *r, size_t bytes)
{
	return jinja_work(r, bytes / 32);
}

int jinja_work_text(struct jinja_run *r, size_t bytes)
{
	return jinja_work(r, bytes / 4);
}

void *jinja_alloc(struct jinja_run *r, size_t bytes)
{
	if (jinja_work_bytes(r, bytes) < 0)
		return NULL;
	void *memory = arena_alloc(&r->arena, bytes);
	if (!memory)
		jinja_fail(r, "the template's values need more than %d MiB", JINJA_MEMORY_MAX >> 20);
	return memory;
}

int jinja_append(struct jinja_run *r, struct buf *out, struct str s)
{
	if (s.length > JINJA_TEXT_MAX || out->length + s.length > JINJA_TEXT_MAX)
		return jinja_fail(r, "a text is longer than %d MiB", JINJA_TEXT_MAX >> 20);
	TRY(jinja_work(r, 1 + s.length / 32));
	buf_append_str(out, s);
	return buf_check(out, r->e);
}

int jinja_append_text(struct jinja_run *r, struct buf *out, const char *text)
{
	return jinja_append(r, out, str_of(text));
}

int jinja_text_keep(struct jinja_run *r, struct str s, struct jinja_value *out)
{
	char *copy = jinja_alloc(r, s.length + 1);
	if (!copy)
		return ERR_INPUT;
	if (s.length > 0)
		memcpy(copy, s.data, s.length);
	*out = jinja_text((struct str){copy, s.length});
	return 0;
}

int jinja_buf_keep(struct jinja_run *r, int status, struct buf *text, struct jinja_value *out)
{
	if (status == 0)
		status = buf_check(text, r->e);
	if (status == 0)
		status = jinja_text_keep(r, buf_str(text), out);
	buf_free(text);
	return status;
}

int jinja_undefined(struct jinja_run *r, struct jinja_value *out, const char *format, ...)
{
	char message[256];
	va_list arguments;
	va_start(arguments, format);
	int length = vsnprintf(message, sizeof message, format, arguments);
	va_end(arguments);
	size_t kept = length < (int)sizeof message ? (size_t)length : sizeof message - 1;
	TRY(jinja_text_keep(r, (struct str){message, kept}, out));
	out->type = JINJA_UNDEFINED;
	return 0;
}

int jinja_fail_undefined(struct jinja_run *r, const struct jinja_value *v)
{
	return jinja_fail(r, "%.*s", STR_ARG(v->text));
}

/* ---- Lists and dicts ---- */

int jinja_list_new(struct jinja_run *r, enum jinja_type type, size_t capacity, struct jinja_value *out)
{
	struct jinja_list *list = jinja_alloc(r, sizeof *list);
	if (!list)
		return ERR_INPUT;
	if (capacity > 0) {
		list->items = capacity > JINJA_MEMORY_MAX / sizeof *list->items
			? NULL
			: jinja_alloc(r, capacity * sizeof *list->items);
		if (!list->items)
			return jinja_fail(r, "a list of %zu items is too long", capacity);
		list->capacity = capacity;
	}
	*out = (struct jinja_value){.type = type, .list = list};
	return 0;
}

/* What an array needs to hold one more; 0 while it has room. */
static size_t grown(size_t count, size_t capacity)
{
	return count < capacity ? 0 : capacity ? 2 * capacity : 4;
}

int jinja_list_add(struct jinja_run *r, struct jinja_list *list, struct jinja_value item)
{
	size_t capacity = grown(list->count, list->capacity);
	TRY(jinja_work(r, 1));
	if (capacity) {
		struct jinja_value *items = jinja_alloc(r, capacity * sizeof *items);
		if (!items)
			return ERR_INPUT;
		if (list->count)
			memcpy(items, list->items, list->count * sizeof *items);
		list->items = items;
		list->capacity = capacity;
	}
	list->items[list->count++] = item;
	return 0;
}

int jinja_pair_new(struct jinja_run *r, struct jinja_value first, struct jinja_value second, struct jinja_value *out)
{
	TRY(jinja_list_new(r, JINJA_TUPLE, 2, out));
	out->list->items[0] = first;
	out->list->items[1] = second;
	out->list->count = 2;
	return 0;
}

int jinja_dict_new(struct jinja_run *r, enum jinja_type type, size_t capacity, struct jinja_value *out)
{
	struct jinja_dict *dict = jinja_alloc(r, sizeof *dict);
	if (!dict)
		return ERR_INPUT;
	if (capacity > 0) {
		dict->pairs = jinja_alloc(r, capacity * sizeof *dict->pairs);
		if (!dict->pairs)
			return ERR_INPUT;
		dict->capacity = capacity;
	}
	*out = (struct jinja_value){.type = type, .dict = dict};
	return 0;
}

int jinja_dict_find_text(struct jinja_run *r, const struct jinja_dict *dict, struct str key, struct jinja_pair **out)
{
	TRY(jinja_work(r, dict->count / 8 + key.length / 32));
	*out = NULL;
	for (size_t i = 0; i < dict->count && !*out; i++)
		if (dict->pairs[i].key.type == JINJA_TEXT && str_equal(dict->pairs[i].key.text, key))
			*out = &dict->pairs[i];
	return 0;
}

static bool is_hashable(const struct jinja_value *v)
{
	if (v->type == JINJA_TUPLE) {
		for (size_t i = 0; i < v->list->count; i++)
			if (v->list->items[i].type == JINJA_TUPLE || !is_hashable(&v->list->items[i]))
				return false;
		return true;
	}
	return v->type != JINJA_LIST && v->type != JINJA_DICT && v->type != JINJA_NAMESPACE;
}

int jinja_dict_find(struct jinja_run *r, const struct jinja_dict *dict, struct jinja_value key, struct jinja_pair **out)
{
	if (key.type == JINJA_TEXT)
		return jinja_dict_find_text(r, dict, key.text, out);
	*out = NULL;
	if (!is_hashable(&key))
		return jinja_fail(r, "unhashable type: '%s'", jinja_type_name(&key));
	for (size_t i = 0; i < dict->count; i++) {
		bool same;
		TRY(jinja_equal(r, &dict->pairs[i].key, &key, &same));
		if (same) {
			*out = &dict->pairs[i];
			return 0;
		}
	}
	return 0;
}

int jinja_dict_set(struct jinja_run *r, struct jinja_dict *dict, struct jinja_value key, struct jinja_value value)
{
	struct jinja_pair *pair;
	TRY(jinja_dict_find(r, dict, key, &pair));
	if (pair) {
		pair->value = value;
		return 0;
	}
	size_t capacity = grown(dict->count, dict->capacity);
	if (capacity) {
		struct jinja_pair *pairs = jinja_alloc(r, capacity * sizeof *pairs);
		if (!pairs)
			return ERR_INPUT;
		if (dict->count)
			memcpy(pairs, dict->pairs, dict->count * sizeof *pairs);
		dict->pairs = pairs;
		dict->capacity = capacity;
	}
	dict->pairs[dict->count++] = (struct jinja_pair){key, value};
	return 0;
}

/* ---- Kinds ---- */

const char *jinja_type_name(const struct jinja_value *v)
{
	static const char *const names[] = {
		[JINJA_MISSING] = "missing",
		[JINJA_UNDEFINED] = "Undefined",
		[JINJA_NONE] = "NoneType",
		[JINJA_BOOL] = "bool",
		[JINJA_INT] = "int",
		[JINJA_BIG] = "int",
		[JINJA_REAL] = "float",
		[JINJA_TEXT] = "str",
		[JINJA_LIST] = "list",
		[JINJA_TUPLE] = "tuple",
		[JINJA_DICT] = "dict",
		[JINJA_RANGE] = "range",
		[JINJA_ITERATOR] = "generator",
		[JINJA_NAMESPACE] = "Namespace",
		[JINJA_MACRO] = "Macro",
		[JINJA_FUNCTION] = "function",
		[JINJA_METHOD] = "builtin_function_or_method",
		[JINJA_LOOP] = "LoopContext",
		[JINJA_CYCLER] = "Cycler",
		[JINJA_JOINER] = "Joiner",
	};
	static const char *const views[] = {"dict_keys", "dict_values", "dict_items"};
	return v->type == JINJA_VIEW ? views[v->view] : names[v->type];
}

bool jinja_is_number(const struct jinja_value *v)
{
	return v->type == JINJA_INT || v->type == JINJA_REAL || v->type == JINJA_BOOL || v->type == JINJA_BIG;
}

bool jinja_is_text(const struct jinja_value *v)
{
	return v->type == JINJA_TEXT;
}

bool jinja_is_iterable(const struct jinja_value *v)
{
	switch (v->type) {
	case JINJA_UNDEFINED:
	case JINJA_TEXT:
	case JINJA_LIST:
	case JINJA_TUPLE:
	case JINJA_DICT:
	case JINJA_VIEW:
	case JINJA_RANGE:
	case JINJA_ITERATOR:
	case JINJA_LOOP:
		return true;
	default:
		return false;
	}
}

bool jinja_truth(const struct jinja_value *v)
{
	switch (v->type) {
	case JINJA_MISSING:
	case JINJA_UNDEFINED:
	case JINJA_NONE:
		return false;
	case JINJA_BOOL:
		return v->boolean;
	case JINJA_INT:
		return v->integer != 0;
	case JINJA_REAL:
		return v->real != 0;
	case JINJA_TEXT:
		return v->text.length > 0;
	case JINJA_LIST:
	case JINJA_TUPLE:
		return v->list->count > 0;
	case JINJA_DICT:
	case JINJA_VIEW:
		return v->dict->count > 0;
	case JINJA_RANGE:
		return v->range->count > 0;
	default:
		return true;
	}
}

double jinja_as_real(const struct jinja_value *v)
{
	if (v->type == JINJA_BOOL)
		return v->boolean;
	if (v->type == JINJA_INT)
		return (double)v->integer;
	return v->type == JINJA_BIG ? decimal_to_double(v->text.data) : v->real;
}

bool jinja_as_int(const struct jinja_value *v, int64_t *out)
{
	if (v->type != JINJA_INT && v->type != JINJA_BOOL)
		return false;
	*out = v->type == JINJA_INT ? v->integer : v->boolean;
	return true;
}

int jinja_length(struct jinja_run *r, const struct jinja_value *v, int64_t *out)
{
	switch (v->type) {
	case JINJA_UNDEFINED:
		*out = 0;
		return 0;
	case JINJA_TEXT:
		*out = (int64_t)utf8_count(v->text);
		return jinja_work_text(r, v->text.length);
	case JINJA_LIST:
	case JINJA_TUPLE:
		*out = (int64_t)v->list->count;
		return 0;
	case JINJA_DICT:
	case JINJA_VIEW:
		*out = (int64_t)v->dict->count;
		return 0;
	case JINJA_RANGE:
		*out = v->range->count;
		return 0;
	default:
		return jinja_fail(r, "object of type '%s' has no len()", jinja_type_name(v));
	}
}

/* ---- Iteration ---- */

struct str jinja_characters(struct str s, size_t first, size_t last)
{
	size_t start = 0, position = 0, index = 0;
	for (; index < last && position < s.length; index++) {
		if (index == first)
			start = position;
		utf8_next(s, &position);
	}
	if (index <= first)
		start = position;
	return (struct str){s.data ? s.data + start : NULL, position - start};
}

static int iterate_text(struct jinja_run *r, struct str s, struct jinja_list *out)
{
	for (size_t position = 0; position < s.length;) {
		size_t start = position;
		utf8_next(s, &position);
		TRY(jinja_list_add(r, out, jinja_text((struct str){s.data + start, position - start})));
	}
	return 0;
}

static int iterate_dict(
	struct jinja_run *r, const struct jinja_dict *dict, enum jinja_view view, struct jinja_list *out)
{
	for (size_t i = 0; i < dict->count; i++) {
		struct jinja_value item = view == JINJA_VALUES ? dict->pairs[i].value : dict->pairs[i].key;
		if (view == JINJA_ITEMS)
			TRY(jinja_pair_new(r, dict->pairs[i].key, dict->pairs[i].value, &item));
		TRY(jinja_list_add(r, out, item));
	}
	return 0;
}

static int iterate_range(struct jinja_run *r, const struct jinja_range *range, struct jinja_list *out)
{
	for (int64_t i = 0; i < range->count; i++)
		TRY(jinja_list_add(r, out, jinja_int(range->start + i * range->step)));
	return 0;
}

/* A list's items as they are now: the list may change under who goes through them. */
static int iterate_list(struct jinja_run *r, const struct jinja_list *list, struct jinja_list *out)
{
	TRY(jinja_work(r, list->count / 8));
	if (list->count == 0)
		return 0;
	out->items = jinja_alloc(r, list->count * sizeof *out->items);
	if (!out->items)
		return ERR_INPUT;
	memcpy(out->items, list->items, list->count * sizeof *out->items);
	out->count = out->capacity = list->count;
	return 0;
}

int jinja_iterate(struct jinja_run *r, const struct jinja_value *v, struct jinja_list *out)
{
	*out = (struct jinja_list){0};
	switch (v->type) {
	case JINJA_UNDEFINED:
		return 0;
	case JINJA_TEXT:
		return iterate_text(r, v->text, out);
	case JINJA_LIST:
		return iterate_list(r, v->list, out);
	case JINJA_TUPLE:
		*out = *v->list;
		return 0;
	case JINJA_ITERATOR:
		*out = *v->list;
		*v->list = (struct jinja_list){0};
		return 0;
	case JINJA_DICT:
		return iterate_dict(r, v->dict, JINJA_KEYS, out);
	case JINJA_VIEW:
		return iterate_dict(r, v->dict, v->view, out);
	case JINJA_RANGE:
		return iterate_range(r, v->range, out);
	default:
		return jinja_fail(r, "'%s' object is not iterable", jinja_type_name(v));
	}
}

/* ---- Equality and order ---- */

static int lists_equal(struct jinja_run *r, const struct jinja_list *a, const struct jinja_list *b, bool *out)
{
	*out = a->count == b->count;
	for (size_t i = 0; i < a->count && *out; i++)
		TRY(jinja_equal(r, &a->items[i], &b->items[i], out));
	return 0;
}

static int dicts_equal(struct jinja_run *r, const struct jinja_dict *a, const struct jinja_dict *b, bool *out)
{
	*out = a->count == b->count;
	for (size_t i = 0; i < a->count && *out; i++) {
		struct jinja_pair *other;
		TRY(jinja_dict_find(r, b, a->pairs[i].key, &other));
		*out = other != NULL;
		if (other)
			TRY(jinja_equal(r, &a->pairs[i].value, &other->value, out));
	}
	return 0;
}

/* -1, 0, 1; JINJA_UNORDERED where one is NaN. */
static int compare_numbers(const struct jinja_value *a, const struct jinja_value *b)
{
	int64_t i, j;
	if (jinja_as_int(a, &i) && jinja_as_int(b, &j))
		return (i > j) - (i < j);
	if (a->type == JINJA_BIG && b->type == JINJA_BIG && str_equal(a->text, b->text))
		return 0;
	double x = jinja_as_real(a), y = jinja_as_real(b);
	if (isnan(x) || isnan(y))
		return JINJA_UNORDERED;
	return (x > y) - (x < y);
}

int jinja_nest(struct jinja_run *r)
{
	if (r->depth >= JINJA_DEPTH_MAX + JINJA_NESTING_MAX)
		return jinja_fail(r, "values are nested too deeply");
	r->depth++;
	return 0;
}

int jinja_equal(struct jinja_run *r, const struct jinja_value *a, const struct jinja_value *b, bool *out)
{
	TRY(jinja_work(r, 1));
	*out = false;
	if (jinja_is_number(a) && jinja_is_number(b)) {
		*out = compare_numbers(a, b) == 0;
		return 0;
	}
	if (a->type != b->type)
		return 0;
	int status = 0;
	switch (a->type) {
	case JINJA_UNDEFINED:
	case JINJA_NONE:
		*out = true;
		return 0;
	case JINJA_TEXT:
		*out = str_equal(a->text, b->text);
		return jinja_work_bytes(r, a->text.length == b->text.length ? a->text.length : 0);
	case JINJA_LIST:
	case JINJA_TUPLE:
		TRY(jinja_nest(r));
		status = lists_equal(r, a->list, b->list, out);
		r->depth--;
		return status;
	case JINJA_DICT:
		TRY(jinja_nest(r));
		status = dicts_equal(r, a->dict, b->dict, out);
		r->depth--;
		return status;
	case JINJA_RANGE:
		*out = a->range->count == b->range->count &&
			(a->range->count == 0 ||
				(a->range->start == b->range->start &&
					(a->range->count == 1 || a->range->step == b->range->step)));
		return 0;
	default:
		*out = a->list == b->list; /* the same object */
		return 0;
	}
}

static int compare_text(struct str a, struct str b)
{
	size_t both = a.length < b.length ? a.length : b.length;
	int order = both ? memcmp(a.data, b.data, both) : 0;
	return order ? (order > 0) - (order < 0) : (a.length > b.length) - (a.length < b.length);
}

static int compare_lists(
	struct jinja_run *r, const struct jinja_list *a, const struct jinja_list *b, const char *operator, int * order)
{
	for (size_t i = 0; i < a->count && i < b->count; i++) {
		bool same;
		TRY(jinja_equal(r, &a->items[i], &b->items[i], &same));
		if (!same)
			return jinja_compare(r, &a->items[i], &b->items[i], operator, order);
	}
	*order = (a->count > b->count) - (a->count < b->count);
	return 0;
}

int jinja_compare(struct jinja_run *r, const struct jinja_value *a, const struct jinja_value *b, const char *operator,
	int * order)
{
	TRY(jinja_work(r, 1));
	if (a->type == JINJA_UNDEFINED || b->type == JINJA_UNDEFINED)
		return jinja_fail_undefined(r, a->type == JINJA_UNDEFINED ? a : b);
	if (jinja_is_number(a) && jinja_is_number(b)) {
		*order = compare_numbers(a, b);
		return 0;
	}
	if (a->type == JINJA_TEXT && b->type == JINJA_TEXT) {
		*order = compare_text(a->text, b->text);
		return jinja_work_bytes(r, a->text.length);
	}
	if (a->type == b->type && (a->type == JINJA_LIST || a->type == JINJA_TUPLE)) {
		TRY(jinja_nest(r));
		int status = compare_lists(r, a->list, b->list, operator, order);
		r->depth--;
		return status;
	}
	return jinja_fail(r, "'%s' not supported between instances of '%s' and '%s'", operator, jinja_type_name(a),
		jinja_type_name(b));
}

int jinja_contains(struct jinja_run *r, const struct jinja_value *container, const struct jinja_value *item, bool *out)
{
	struct jinja_pair *pair;
	struct jinja_list items;
	*out = false;
	if (container->type == JINJA_TEXT) {
		if (item->type != JINJA_TEXT)
			return jinja_fail(
				r, "'in <string>' requires string as left operand, not %s", jinja_type_name(item));
		*out = str_find(container->text, item->text, 0) != SIZE_MAX;
		return jinja_work_bytes(r, container->text.length);
	}
	if (container->type == JINJA_DICT || (container->type == JINJA_VIEW && container->view == JINJA_KEYS)) {
		TRY(jinja_dict_find(r, container->dict, *item, &pair));
		*out = pair != NULL;
		return 0;
	}
	if (!jinja_is_iterable(container))
		return jinja_fail(r, "argument of type '%s' is not iterable", jinja_type_name(container));
	TRY(jinja_iterate(r, container, &items));
	for (size_t i = 0; i < items.count && !*out; i++)
		TRY(jinja_equal(r, &items.items[i], item, out));
	return 0;
}

#include "engine/text/jinja_eval.h"

/* ---- Names, attributes, items ---- */

static int name_eval(struct jinja_run *r, struct str name, struct jinja_value *out)
{
	for (const struct jinja_scope *s = r->scope; s; s = s->parent) {
		struct jinja_pair *pair;
		TRY(jinja_dict_find_text(r, &s->names, name, &pair));
		if (pair) {
			*out = pair->value;
			return 0;
		}
	}
	const struct jinja_builtin *function = jinja_function_find(name);
	if (!function)
		return jinja_undefined(r, out, "'%.*s' is undefined", STR_ARG(name));
	*out = (struct jinja_value){.type = JINJA_FUNCTION, .function = function};
	return 0;
}

/* As messages name an object: "'dict object'", "None". */
static int no_attribute(struct jinja_run *r, const struct jinja_value *v, struct str name, struct jinja_value *out)
{
	if (v->type == JINJA_NONE)
		return jinja_undefined(r, out, "None has no attribute '%.*s'", STR_ARG(name));
	return jinja_undefined(r, out, "'%s object' has no attribute '%.*s'", jinja_type_name(v), STR_ARG(name));
}

/* A method, or what a loop, a namespace and the like have; MISSING where there is none of that name. */
static int own_attribute(struct jinja_run *r, const struct jinja_value *v, struct str name, struct jinja_value *out)
{
	struct jinja_pair *pair = NULL;
	out->type = JINJA_MISSING;
	if (v->type == JINJA_LOOP)
		return jinja_loop_attribute(r, v, name, out);
	if (v->type == JINJA_NAMESPACE) {
		TRY(jinja_dict_find_text(r, v->dict, name, &pair));
		*out = pair ? pair->value : *out;
		return 0;
	}
	if (v->type == JINJA_CYCLER && str_is(name, "current")) {
		*out = v->cycler->items.items[v->cycler->at];
		return 0;
	}
	if (v->type == JINJA_MACRO && str_is(name, "name")) {
		*out = jinja_text(jinja_macro_name(v->macro));
		return 0;
	}
	const struct jinja_builtin *function = jinja_method_find(v->type, name);
	if (!function)
		return 0;
	struct jinja_method *method = jinja_alloc(r, sizeof *method);
	if (!method)
		return ERR_INPUT;
	*method = (struct jinja_method){*v, function};
	*out = (struct jinja_value){.type = JINJA_METHOD, .method = method};
	return 0;
}

int jinja_attribute(struct jinja_run *r, const struct jinja_value *v, struct str name, struct jinja_value *out)
{
	struct jinja_pair *pair = NULL;
	struct jinja_value found;
	if (v->type == JINJA_UNDEFINED)
		return jinja_fail_undefined(r, v);
	TRY(own_attribute(r, v, name, &found));
	if (found.type != JINJA_MISSING) {
		*out = found;
		return 0;
	}
	if (v->type == JINJA_DICT)
		TRY(jinja_dict_find_text(r, v->dict, name, &pair));
	if (!pair)
		return no_attribute(r, v, name, out);
	*out = pair->value;
	return 0;
}

static int index_item(struct jinja_run *r, const struct jinja_value *v, int64_t index, struct jinja_value *out)
{
	int64_t length;
	TRY(jinja_length(r, v, &length));
	int64_t place = index < 0 ? index + length : index;
	if (place < 0 || place >= length)
		return jinja_undefined(r, out, "'%s object' has no element %lld", jinja_type_name(v), (long long)index);
	if (v->type == JINJA_RANGE)
		*out = jinja_int(v->range->start + place * v->range->step);
	else if (v->type == JINJA_TEXT)
		*out = jinja_text(
			jinja_characters(v->text, (size_t)place, (size_t)place + 1)); /* as much work as its length */
	else
		*out = v->list->items[place];
	return 0;
}

int jinja_item(struct jinja_run *r, const struct jinja_value *v, const struct jinja_value *key, struct jinja_value *out)
{
	struct jinja_value found = {.type = JINJA_MISSING};
	struct jinja_pair *pair = NULL;
	int64_t index;
	if (v->type == JINJA_UNDEFINED)
		return jinja_fail_undefined(r, v);
	bool sequence =
		v->type == JINJA_TEXT || v->type == JINJA_LIST || v->type == JINJA_TUPLE || v->type == JINJA_RANGE;
	if (sequence && jinja_as_int(key, &index))
		return index_item(r, v, index, out);
	bool unhashable = key->type == JINJA_LIST || key->type == JINJA_DICT;
	if (v->type == JINJA_DICT && !unhashable)
		TRY(jinja_dict_find(r, v->dict, *key, &pair));
	if (pair) {
		*out = pair->value;
		return 0;
	}
	if (key->type == JINJA_TEXT) {
		TRY(own_attribute(r, v, key->text, &found));
		if (found.type == JINJA_MISSING)
			return no_attribute(r, v, key->text, out);
		*out = found;
		return 0;
	}
	return jinja_undefined(r, out, "'%s object' has no such element", jinja_type_name(v));
}

/* ---- Slices ---- */

struct slice {
	int64_t start, step, count;
};

/* Python's slice.indices. */
static int slice_resolve(struct jinja_run *r, const struct jinja_value bounds[3], int64_t length, struct slice *out)
{
	int64_t values[3] = {0, 0, 1};
	bool given[3];
	for (int i = 0; i < 3; i++) {
		given[i] = bounds[i].type != JINJA_MISSING && bounds[i].type != JINJA_NONE;
		if (given[i] && !jinja_as_int(&bounds[i], &values[i]))
			return bounds[i].type == JINJA_UNDEFINED
				? jinja_fail_undefined(r, &bounds[i])
				: jinja_fail(r, "slice indices must be integers or None, not %s",
					  jinja_type_name(&bounds[i]));
	}
	int64_t step = values[2];
	if (step == 0)
		return jinja_fail(r, "slice step cannot be zero");
	int64_t lowest = step > 0 ? 0 : -1, highest = step > 0 ? length : length - 1;
	if (!given[0])
		values[0] = step > 0 ? lowest : highest;
	if (!given[1])
		values[1] = step > 0 ? highest : lowest;
	for (int i = 0; i < 2; i++) {
		if (!given[i])
			continue;
		if (values[i] < 0)
			values[i] = values[i] + length < lowest ? lowest : values[i] + length;
		else if (values[i] > highest)
			values[i] = highest;
	}
	int64_t span = step > 0 ? values[1] - values[0] : values[0] - values[1];
	uint64_t stride = step > 0 ? (uint64_t)step : -(uint64_t)step;
	*out = (struct slice){values[0], step, span > 0 ? (int64_t)(((uint64_t)span - 1) / stride) + 1 : 0};
	return 0;
}

static int slice_text(struct jinja_run *r, struct str s, struct slice slice, struct jinja_value *out)
{
	TRY(jinja_work_text(r, s.length));
	if (slice.step == 1) {
		*out = jinja_text(jinja_characters(s, (size_t)slice.start, (size_t)(slice.start + slice.count)));
		return 0;
	}
	struct jinja_value text = jinja_text(s);
	struct jinja_list characters;
	struct buf b = {0};
	int status = jinja_iterate(r, &text, &characters);
	for (int64_t i = 0; i < slice.count && status == 0; i++)
		status = jinja_append(r, &b, characters.items[slice.start + i * slice.step].text);
	return jinja_buf_keep(r, status, &b, out);
}

static int slice_list(struct jinja_run *r, const struct jinja_value *v, struct slice slice, struct jinja_value *out)
{
	TRY(jinja_list_new(r, v->type, (size_t)slice.count, out));
	for (int64_t i = 0; i < slice.count; i++)
		TRY(jinja_list_add(r, out->list, v->list->items[slice.start + i * slice.step]));
	return 0;
}

static int slice_range(
	struct jinja_run *r, const struct jinja_range *range, struct slice slice, struct jinja_value *out)
{
	struct jinja_range *part = jinja_alloc(r, sizeof *part);
	if (!part)
		return ERR_INPUT;
	int64_t step = range->step * (slice.count > 1 ? slice.step : 1);
	int64_t start = range->start + slice.start * range->step;
	*part = (struct jinja_range){start, start + slice.count * step, step, slice.count};
	*out = (struct jinja_value){.type = JINJA_RANGE, .range = part};
	return 0;
}

int jinja_slice(
	struct jinja_run *r, const struct jinja_value *v, const struct jinja_value bounds[3], struct jinja_value *out)
{
	struct slice slice = {0};
	int64_t length;
	if (v->type == JINJA_UNDEFINED)
		return jinja_fail_undefined(r, v);
	if (v->type != JINJA_TEXT && v->type != JINJA_LIST && v->type != JINJA_TUPLE && v->type != JINJA_RANGE)
		return jinja_fail(r, "'%s' object has no slices", jinja_type_name(v));
	TRY(jinja_length(r, v, &length));
	TRY(slice_resolve(r, bounds, length, &slice));
	if (v->type == JINJA_TEXT)
		return slice_text(r, v->text, slice, out);
	return v->type == JINJA_RANGE ? slice_range(r, v->range, slice, out) : slice_list(r, v, slice, out);
}

static int slice_eval(struct jinja_run *r, const struct jinja_node *n, struct jinja_value *out)
{
	const struct jinja_node *parts[] = {n->b, n->c, n->d};
	struct jinja_value v, bounds[3] = {0};
	TRY(jinja_eval(r, n->a, &v));
	for (int i = 0; i < 3; i++)
		if (parts[i])
			TRY(jinja_eval(r, parts[i], &bounds[i]));
	r->line = n->line;
	return jinja_slice(r, &v, bounds, out);
}

/* ---- Calls ---- */

static int keywords_spread(struct jinja_run *r, const struct jinja_value *v, struct jinja_dict *keywords)
{
	if (v->type != JINJA_DICT)
		return jinja_fail(r, "argument after ** must be a mapping, not %s", jinja_type_name(v));
	for (size_t i = 0; i < v->dict->count; i++)
		TRY(jinja_dict_set(r, keywords, v->dict->pairs[i].key, v->dict->pairs[i].value));
	return 0;
}

int jinja_arguments_eval(struct jinja_run *r, const struct jinja_node *items, struct jinja_arguments *out)
{
	*out = (struct jinja_arguments){0};
	for (const struct jinja_node *n = items; n; n = n->next) {
		struct jinja_value v;
		struct jinja_list spread;
		TRY(jinja_eval(r, n->a, &v));
		if (n->op == 'p') {
			TRY(keywords_spread(r, &v, &out->keywords));
		} else if (n->op == '*') {
			TRY(jinja_iterate(r, &v, &spread));
			for (size_t i = 0; i < spread.count; i++)
				TRY(jinja_list_add(r, &out->values, spread.items[i]));
		} else if (n->name.length) {
			TRY(jinja_dict_set(r, &out->keywords, jinja_text(n->name), v));
		} else {
			TRY(jinja_list_add(r, &out->values, v));
		}
	}
	return 0;
}

static int joiner_call(struct jinja_cycler *joiner, struct jinja_value *out)
{
	*out = joiner->at ? joiner->items.items[0] : jinja_text((struct str){"", 0});
	joiner->at = 1;
	return 0;
}

int jinja_call_value(struct jinja_run *r, const struct jinja_value *callee, const struct jinja_arguments *arguments,
	struct jinja_value *out)
{
	switch (callee->type) {
	case JINJA_FUNCTION:
		return jinja_builtin_call(r, callee->function, jinja_none(), arguments, out);
	case JINJA_METHOD:
		return jinja_builtin_call(r, callee->method->function, callee->method->self, arguments, out);
	case JINJA_MACRO:
		return jinja_macro_call(r, callee->macro, arguments, out);
	case JINJA_LOOP:
		return jinja_loop_call(r, callee->loop, arguments, out);
	case JINJA_JOINER:
		return joiner_call(callee->cycler, out);
	case JINJA_UNDEFINED:
		return jinja_fail_undefined(r, callee);
	default:
		return jinja_fail(r, "'%s' object is not callable", jinja_type_name(callee));
	}
}

static int call_eval(struct jinja_run *r, const struct jinja_node *n, struct jinja_value *out)
{
	struct jinja_value callee;
	struct jinja_arguments arguments;
	TRY(jinja_eval(r, n->a, &callee));
	TRY(jinja_arguments_eval(r, n->items, &arguments));
	r->line = n->line;
	return jinja_call_value(r, &callee, &arguments, out);
}

static int builtin_eval(struct jinja_run *r, const struct jinja_node *n, struct jinja_value *out)
{
	struct jinja_value self;
	struct jinja_arguments arguments;
	TRY(jinja_eval(r, n->a, &self));
	TRY(jinja_arguments_eval(r, n->items, &arguments));
	r->line = n->line;
	if (!n->builtin)
		return jinja_fail(
			r, "no %s is named '%.*s'", n->type == JINJA_N_FILTER ? "filter" : "test", STR_ARG(n->name));
	return jinja_builtin_call(r, n->builtin, self, &arguments, out);
}

/* ---- Operators ---- */

/* The digits of a big integer with the other sign: the lowest 64-bit integer is written as the opposite of one that has
 * no place in 64 bits. */
static int negate_big(struct jinja_run *r, struct str digits, struct jinja_value *out)
{
	struct json number = {.type = JSON_NUMBER};
	struct buf text = {0};
	int64_t integer;
	bool negative = digits.data[0] == '-';
	buf_append_text(&text, negative ? "" : "-");
	buf_append(&text, digits.data + negative, digits.length - negative);
	TRY(jinja_buf_keep(r, 0, &text, out));
	number.text = out->text;
	out->type = JINJA_BIG;
	if (json_int64(&number, &integer))
		*out = jinja_int(integer);
	return 0;
}

static int unary_eval(struct jinja_run *r, const struct jinja_node *n, struct jinja_value *out)
{
	struct jinja_value v, zero = jinja_int(0);
	TRY(jinja_eval(r, n->a, &v));
	r->line = n->line;
	if (n->op == '!') {
		*out = jinja_bool(!jinja_truth(&v));
		return 0;
	}
	if (v.type == JINJA_UNDEFINED)
		return jinja_fail_undefined(r, &v);
	if (!jinja_is_number(&v))
		return jinja_fail(r, "bad operand type for unary %c: '%s'", n->op, jinja_type_name(&v));
	if (v.type == JINJA_REAL) {
		*out = jinja_real(n->op == '-' ? -v.real : v.real);
		return 0;
	}
	if (v.type == JINJA_BIG && n->op == '-')
		return negate_big(r, v.text, out);
	if (v.type == JINJA_BIG) {
		*out = v;
		return 0;
	}
	return jinja_binary(r, n->op, &zero, &v, out);
}

static int choice_eval(struct jinja_run *r, const struct jinja_node *n, struct jinja_value *out)
{
	TRY(jinja_eval(r, n->a, out));
	bool first = jinja_truth(out) == (n->type == JINJA_N_OR);
	return first ? 0 : jinja_eval(r, n->b, out);
}

static int condition_eval(struct jinja_run *r, const struct jinja_node *n, struct jinja_value *out)
{
	TRY(jinja_eval(r, n->b, out));
	if (jinja_truth(out))
		return jinja_eval(r, n->a, out);
	if (n->c)
		return jinja_eval(r, n->c, out);
	return jinja_undefined(r, out,
		"the inline if-expression on line %d evaluated to false and no else section was defined.", n->line);
}

static int binary_eval(struct jinja_run *r, const struct jinja_node *n, struct jinja_value *out)
{
	struct jinja_value a, b;
	TRY(jinja_eval(r, n->a, &a));
	TRY(jinja_eval(r, n->b, &b));
	r->line = n->line;
	return jinja_binary(r, n->op, &a, &b, out);
}

static int compare_eval(struct jinja_run *r, const struct jinja_node *n, struct jinja_value *out)
{
	struct jinja_value left, right;
	bool holds = true;
	TRY(jinja_eval(r, n->a, &left));
	for (const struct jinja_node *operand = n->items; operand && holds; operand = operand->next) {
		TRY(jinja_eval(r, operand->a, &right));
		r->line = n->line;
		TRY(jinja_relation(r, operand->op, &left, &right, &holds));
		left = right;
	}
	*out = jinja_bool(holds);
	return 0;
}

static int concat_eval(struct jinja_run *r, const struct jinja_node *n, struct jinja_value *out)
{
	struct buf text = {0};
	int status = 0;
	for (const struct jinja_node *item = n->items; item && status == 0; item = item->next) {
		struct jinja_value v;
		status = jinja_eval(r, item, &v);
		if (status == 0)
			status = jinja_print(r, &v, &text);
	}
	return jinja_buf_keep(r, status, &text, out);
}

/* ---- Literals ---- */

static int list_eval(struct jinja_run *r, const struct jinja_node *n, struct jinja_value *out)
{
	TRY(jinja_list_new(r, n->type == JINJA_N_TUPLE ? JINJA_TUPLE : JINJA_LIST, 0, out));
	struct jinja_list *list = out->list;
	for (const struct jinja_node *item = n->items; item; item = item->next) {
		struct jinja_value v;
		TRY(jinja_eval(r, item, &v));
		TRY(jinja_list_add(r, list, v));
	}
	return 0;
}

static int dict_eval(struct jinja_run *r, const struct jinja_node *n, struct jinja_value *out)
{
	TRY(jinja_dict_new(r, JINJA_DICT, 0, out));
	for (const struct jinja_node *pair = n->items; pair; pair = pair->next) {
		struct jinja_value key, value;
		TRY(jinja_eval(r, pair->a, &key));
		TRY(jinja_eval(r, pair->b, &value));
		TRY(jinja_dict_set(r, out->dict, key, value));
	}
	return 0;
}

static int item_eval(struct jinja_run *r, const struct jinja_node *n, struct jinja_value *out)
{
	struct jinja_value v, key;
	TRY(jinja_eval(r, n->a, &v));
	TRY(jinja_eval(r, n->b, &key));
	r->line = n->line;
	return jinja_item(r, &v, &key, out);
}

static int attribute_eval(struct jinja_run *r, const struct jinja_node *n, struct jinja_value *out)
{
	struct jinja_value v;
	TRY(jinja_eval(r, n->a, &v));
	r->line = n->line;
	return jinja_attribute(r, &v, n->name, out);
}

static int node_eval(struct jinja_run *r, const struct jinja_node *n, struct jinja_value *out)
{
	switch (n->type) {
	case JINJA_N_CONSTANT:
		*out = n->value;
		return 0;
	case JINJA_N_NAME:
		return name_eval(r, n->name, out);
	case JINJA_N_TUPLE:
	case JINJA_N_LIST:
		return list_eval(r, n, out);
	case JINJA_N_DICT:
		return dict_eval(r, n, out);
	case JINJA_N_ATTRIBUTE:
		return attribute_eval(r, n, out);
	case JINJA_N_ITEM:
		return item_eval(r, n, out);
	case JINJA_N_SLICE:
		return slice_eval(r, n, out);
	case JINJA_N_CALL:
		return call_eval(r, n, out);
	case JINJA_N_FILTER:
	case JINJA_N_TEST:
		return builtin_eval(r, n, out);
	case JINJA_N_UNARY:
		return unary_eval(r, n, out);
	case JINJA_N_AND:
	case JINJA_N_OR:
		return choice_eval(r, n, out);
	case JINJA_N_BINARY:
		return binary_eval(r, n, out);
	case JINJA_N_CONCAT:
		return concat_eval(r, n, out);
	case JINJA_N_COMPARE:
		return compare_eval(r, n, out);
	case JINJA_N_CONDITION:
		return condition_eval(r, n, out);
	default:
		*out = r->block; /* JINJA_N_BODY: statements do not come here */
		return 0;
	}
}

int jinja_eval(struct jinja_run *r, const struct jinja_node *n, struct jinja_value *out)
{
	r->line = n->line;
	if (r->depth >= JINJA_DEPTH_MAX)
		return jinja_fail(
			r, "calls and expressions are nested too deeply: more than %d levels", JINJA_DEPTH_MAX);
	TRY(jinja_work(r, 1));
	r->depth++;
	int status = node_eval(r, n, out);
	r->depth--;
	return status;
}

/* BFCL's AST checker. Its order of checks decides the error type, so it is kept, with its oddities: an acceptable ""
 * among lists reads as the empty list, calls are matched greedily, lists are compared in order. */
#include <stdlib.h>

#include "engine/base/json_number.h"
#include "engine/base/python_text.h"
#include "engine/base/utf8.h"
#include "engine/engine.h"
#include "evals/bfcl_type.h"

enum { COMPARE_WORK = 100000000 };

/* One call against one function and its answers. */
struct check {
	struct bfcl_checker *checker;
	enum bfcl_language language;
	bool underscore_to_dot;
	struct bfcl_verdict *verdict;
	struct error *e;
};

/* One argument of it. */
struct param {
	struct str name;
	const struct json *value;
	const struct json *answers; /* acceptable values; "" among them: it may be left out */
	enum python_type expected;
	int nested; /* enum python_type of the elements, or -1 */
	bool is_variable;
};

/* ---- Types ---- */

enum python_type python_type_of(const struct json *value)
{
	switch (value->type) {
	case JSON_NULL:
		return PY_NONE;
	case JSON_FALSE:
	case JSON_TRUE:
		return PY_BOOL;
	case JSON_NUMBER:
		return json_is_integer(value) ? PY_INT : PY_FLOAT;
	case JSON_STRING:
		return PY_STR;
	case JSON_ARRAY:
		return PY_LIST;
	case JSON_OBJECT:
		break;
	}
	return PY_DICT;
}

static const struct type_row {
	const char *name;
	enum python_type type;
} python_types[] = {{"string", PY_STR}, {"integer", PY_INT}, {"float", PY_FLOAT}, {"boolean", PY_BOOL},
	{"array", PY_LIST}, {"tuple", PY_LIST}, {"dict", PY_DICT}, {"any", PY_STR}, {0}},
  schema_types[] = {{"string", PY_STR}, {"integer", PY_INT}, {"number", PY_FLOAT}, {"boolean", PY_BOOL},
	  {"array", PY_LIST}, {"object", PY_DICT}, {0}},
  java_types[] = {{"byte", PY_INT}, {"short", PY_INT}, {"integer", PY_INT}, {"float", PY_FLOAT}, {"double", PY_FLOAT},
	  {"long", PY_INT}, {"boolean", PY_BOOL}, {"char", PY_STR}, {"Array", PY_LIST}, {"ArrayList", PY_LIST},
	  {"HashMap", PY_DICT}, {"String", PY_STR}, {"any", PY_STR}, {0}},
  js_types[] = {{"String", PY_STR}, {"integer", PY_INT}, {"float", PY_FLOAT}, {"Bigint", PY_INT}, {"Boolean", PY_BOOL},
	  {"dict", PY_DICT}, {"array", PY_LIST}, {"any", PY_STR}, {0}};

bool bfcl_type_of(enum bfcl_language language, struct str name, enum python_type *out)
{
	static const struct type_row *const tables[] = {[BFCL_PYTHON] = python_types,
		[BFCL_JAVA] = java_types,
		[BFCL_JAVASCRIPT] = js_types,
		[BFCL_OWN] = schema_types};
	for (const struct type_row *row = tables[language]; row->name; row++) {
		if (str_is(name, row->name)) {
			*out = row->type;
			return true;
		}
	}
	return false;
}

/* ---- Values ---- */

void bfcl_standardize(struct str text, struct buf *out)
{
	struct buf kept = {0};
	size_t start = out->length;
	for (size_t i = 0; i < text.length; i++) {
		if (!text.data[i] || !strchr(" ,./-_*^", text.data[i]))
			buf_append_char(&kept, text.data[i]);
	}
	python_lower(buf_str(&kept), out);
	for (size_t i = start; i < out->length; i++) {
		if (out->data[i] == '\'')
			out->data[i] = '"';
	}
	out->failed |= kept.failed;
	buf_free(&kept);
}

static bool equal_texts(struct str a, struct str b)
{
	struct buf x = {0}, y = {0};
	bfcl_standardize(a, &x);
	bfcl_standardize(b, &y);
	bool equal = str_equal(buf_str(&x), buf_str(&y));
	buf_free(&x);
	buf_free(&y);
	return equal;
}

/* Python's ==. */
static bool equal_values(const struct json *a, const struct json *b)
{
	uint64_t work = COMPARE_WORK;
	return json_equal(a, b, JSON_EQUAL_PYTHON, &work);
}

/* == after both are standardised where they are strings. */
static bool equal_loosely(const struct json *a, const struct json *b)
{
	if (a->type == JSON_STRING && b->type == JSON_STRING)
		return equal_texts(a->text, b->text);
	return equal_values(a, b);
}

static bool is_empty_text(const struct json *value)
{
	return value->type == JSON_STRING && value->text.length == 0;
}

/* "" in answers; of a text, which is a list of characters to BFCL, "" is always a part. */
static bool may_be_omitted(const struct json *answers)
{
	if (answers->type == JSON_STRING)
		return true;
	JSON_EACH (answer, answers) {
		if (is_empty_text(answer))
			return true;
	}
	return false;
}

/* The last of doubled keys counts; each key is met at its first place. */
static const struct json *member_value(const struct json *object, const struct json *member)
{
	return member->shadowed ? json_get_str(object, member->key) : member;
}

/* ---- Verdicts ---- */

/* Returns 0: not right. */
static int wrong(const struct check *c, const char *type, struct str about)
{
	snprintf(c->verdict->type, sizeof(c->verdict->type), "%s", type);
	buf_clear(&c->verdict->about);
	buf_append_str(&c->verdict->about, about);
	return 0;
}

static void right(const struct check *c)
{
	c->verdict->type[0] = '\0';
	buf_clear(&c->verdict->about);
}

void bfcl_verdict_free(struct bfcl_verdict *v)
{
	buf_free(&v->about);
	*v = (struct bfcl_verdict){0};
}

static int fail_answers(const struct check *c, struct str name, const char *what)
{
	return error_set(c->e, ERR_INPUT, "the answers for \"%.*s\" hold %s", STR_ARG(name), what);
}

/* ---- Type check ---- */

/* The type of the first answer that is not "": -1 without one. */
static int answer_type(const struct json *answers)
{
	JSON_EACH (answer, answers) {
		if (!is_empty_text(answer))
			return (int)python_type_of(answer);
	}
	return -1;
}

/* Each element has the nested type, or that of the answer's first one. */
static bool elements_fit(const struct json *value, int nested, const struct json *answer)
{
	int other = answer_type(answer);
	JSON_EACH (item, value) {
		int type = (int)python_type_of(item);
		if (type != nested && type != other)
			return false;
	}
	return true;
}

/* 1, or 0 with the verdict. Sets is_variable: the value is compared as it is. */
static int check_type(const struct check *c, struct param *p)
{
	int type = (int)python_type_of(p->value), by_answer = answer_type(p->answers);
	if (type != (int)p->expected) {
		p->is_variable = true;
		return type == by_answer ? 1 : wrong(c, "type_error:simple", p->name);
	}
	p->is_variable = by_answer >= 0 && by_answer != (int)p->expected;
	if (p->nested < 0)
		return 1;
	JSON_EACH (answer, p->answers) {
		if (answer->type != JSON_ARRAY || elements_fit(p->value, p->nested, answer))
			return 1;
	}
	return wrong(c, type == by_answer ? "type_error:nested" : "type_error:simple", p->name);
}

/* ---- Value checks ---- */

static int check_string(const struct check *c, const struct param *p)
{
	JSON_EACH (answer, p->answers) {
		if (answer->type == JSON_STRING && equal_texts(p->value->text, answer->text))
			return 1;
	}
	return wrong(c, "value_error:string", p->name);
}

static bool equal_lists(const struct json *value, const struct json *answer)
{
	if (value->count != answer->count)
		return false;
	const struct json *other = answer->child;
	JSON_EACH (item, value) {
		if (!equal_loosely(item, other))
			return false;
		other = other->next;
	}
	return true;
}

/* A string among the lists is the list of its characters to BFCL: "" is the empty one. */
static bool equal_characters(const struct json *value, struct str characters)
{
	size_t at = 0;
	JSON_EACH (item, value) {
		size_t from = at;
		if (at == characters.length || item->type != JSON_STRING)
			return false;
		utf8_next(characters, &at);
		if (!equal_texts(item->text, (struct str){characters.data + from, at - from}))
			return false;
	}
	return at == characters.length;
}

static int check_list(const struct check *c, const struct param *p)
{
	bool found = false;
	JSON_EACH (answer, p->answers) {
		if (answer->type == JSON_ARRAY)
			found = found || equal_lists(p->value, answer);
		else if (answer->type == JSON_STRING)
			found = found || equal_characters(p->value, answer->text);
		else
			return fail_answers(c, p->name, "what is no list");
	}
	return found ? 1 : wrong(c, "value_error:list/tuple", p->name);
}

/* value standardises to what one of the characters does. */
static bool is_a_character(const struct json *value, struct str characters)
{
	for (size_t at = 0, from = 0; value->type == JSON_STRING && at < characters.length; from = at) {
		utf8_next(characters, &at);
		if (equal_texts(value->text, (struct str){characters.data + from, at - from}))
			return true;
	}
	return false;
}

/* Whether a member's value is among the answer's for that key; a negative status when those are no list. */
static int member_matches(const struct check *c, const struct json *value, const struct json *accepted)
{
	if (accepted->type == JSON_STRING)
		return is_a_character(value, accepted->text);
	if (accepted->type != JSON_ARRAY)
		return fail_answers(c, accepted->key, "what is no list");
	JSON_EACH (answer, accepted) {
		if (equal_loosely(value, answer))
			return 1;
	}
	return 0;
}

/* A dict against one answer. */
static int check_dict_answer(const struct check *c, const struct json *value, const struct json *answer)
{
	int result = 1;
	if (answer->type != JSON_OBJECT)
		return fail_answers(c, value->key, "what is no object");
	JSON_EACH (member, value) {
		const struct json *accepted = json_get_str(answer, member->key);
		int matches = accepted ? member_matches(c, member_value(value, member), accepted) : 0;
		TRY(matches);
		if (!matches) {
			result = wrong(c, accepted ? "value_error:dict_value" : "value_error:dict_key", member->key);
			break;
		}
	}
	JSON_EACH (member, answer) {
		if (!json_get_str(value, member->key) && !may_be_omitted(member_value(answer, member)))
			return wrong(c, "value_error:dict_key", member->key);
	}
	return result;
}

static int check_dict(const struct check *c, const struct json *value, const struct json *answers, struct str name)
{
	int result = wrong(c, "dict_checker:unclear", name);
	JSON_EACH (answer, answers) {
		if (is_empty_text(answer))
			continue;
		result = check_dict_answer(c, value, answer);
		if (result != 0)
			return result;
	}
	return result;
}

/* A list of dicts against one answer of as many. */
static int check_dicts_answer(const struct check *c, const struct param *p, const struct json *answer)
{
	const struct json *other = answer->child;
	JSON_EACH (item, p->value) {
		if (item->type != JSON_OBJECT || !other)
			return fail_answers(c, p->name, "what is no list of objects");
		int result = is_empty_text(other) ? wrong(c, "dict_checker:unclear", p->name)
						  : check_dict_answer(c, item, other);
		if (result != 1)
			return result;
		other = other->next;
	}
	return 1;
}

static int check_dicts(const struct check *c, const struct param *p)
{
	int result = wrong(c, "list_dict_checker:unclear", p->name);
	JSON_EACH (answer, p->answers) {
		if (answer->type != JSON_ARRAY && answer->type != JSON_STRING)
			return fail_answers(c, p->name, "what is no list");
		size_t count = answer->type == JSON_ARRAY ? answer->count : utf8_count(answer->text);
		if (p->value->count != count) {
			result = wrong(c, "value_error:list_dict_count", p->name);
			continue;
		}
		result = check_dicts_answer(c, p, answer);
		if (result != 0)
			return result;
	}
	return result;
}

static int check_member(const struct check *c, const struct param *p)
{
	JSON_EACH (answer, p->answers) {
		if (equal_values(p->value, answer))
			return 1;
	}
	return wrong(c, "value_error:others", p->name);
}

static int check_value(const struct check *c, const struct param *p)
{
	if (!p->is_variable) {
		if (p->expected == PY_DICT)
			return check_dict(c, p->value, p->answers, p->name);
		if (p->expected == PY_LIST)
			return p->nested == PY_DICT ? check_dicts(c, p) : check_list(c, p);
		if (p->expected == PY_STR)
			return check_string(c, p);
	}
	return check_member(c, p);
}

/* ---- One argument ---- */

static int read_type(
	const struct check *c, const struct json *schema, struct str name, struct str *word, enum python_type *type)
{
	const struct json *value = json_get(schema, "type");
	if (!json_is(value, JSON_STRING))
		return error_set(c->e, ERR_INPUT, "parameter \"%.*s\" has no \"type\"", STR_ARG(name));
	*word = value->text;
	if (!bfcl_type_of(c->language, *word, type))
		return error_set(c->e, ERR_INPUT, "parameter \"%.*s\": BFCL knows no type \"%.*s\"", STR_ARG(name),
			STR_ARG(*word));
	return 0;
}

static bool has_elements(struct str type)
{
	return str_is(type, "array") || str_is(type, "tuple") || str_is(type, "Array") || str_is(type, "ArrayList");
}

/* The value as the checker compares it: a literal of Java or JavaScript converted, an int where Python would make it a
 * float. *document is owned by the caller. 0 with the verdict, 1, or a negative status. */
static int convert_value(
	const struct check *c, struct param *p, struct str type, struct str nested, struct json_document **document)
{
	struct buf json = {0};
	const bool is_literal = c->language == BFCL_JAVA || c->language == BFCL_JAVASCRIPT;
	if (!is_literal) {
		if (p->expected != PY_FLOAT || !json_is_integer(p->value))
			return 1;
		json_write_double(json_double(p->value), &json);
	} else if (p->value->type != JSON_STRING) {
		return wrong(c, c->language == BFCL_JAVA ? "type_error:java" : "type_error:js", p->name);
	}
	int status = 0;
	if (is_literal)
		status = bfcl_convert(c->checker, c->language, p->value->text, type, nested, &json, c->e);
	if (status == 0)
		status = buf_check(&json, c->e);
	if (status == 0)
		status = json_parse(buf_str(&json), NULL, JSON_PYTHON_CONSTANTS, document, c->e);
	buf_free(&json);
	if (status < 0)
		return status;
	p->value = json_root(*document);
	return 1;
}

/* The types that a schema names in BFCL's words. */
static int read_types(
	const struct check *c, struct param *p, const struct json *schema, struct str *type, struct str *nested)
{
	enum python_type nested_type;
	TRY(read_type(c, schema, p->name, type, &p->expected));
	if (!has_elements(*type))
		return 0;
	TRY(read_type(c, json_get(schema, "items"), p->name, nested, &nested_type));
	p->nested = (int)nested_type;
	return 0;
}

/* Of tools of one's own: a schema may name no type, or several; then the first answer has it. */
static void own_types(struct param *p, const struct json *schema)
{
	const struct json *type = json_get(schema, "type"), *nested = json_get(json_get(schema, "items"), "type");
	enum python_type nested_type;
	int by_answer = answer_type(p->answers);
	if (!json_is(type, JSON_STRING) || !bfcl_type_of(BFCL_OWN, type->text, &p->expected))
		p->expected = by_answer >= 0 ? (enum python_type)by_answer : python_type_of(p->value);
	if (p->expected == PY_LIST && json_is(nested, JSON_STRING) &&
		bfcl_type_of(BFCL_OWN, nested->text, &nested_type))
		p->nested = (int)nested_type;
}

static int check_param(const struct check *c, struct param *p, const struct json *schema)
{
	struct json_document *document = NULL;
	struct str type = {0}, nested = {0};
	p->nested = -1;
	if (p->answers->type != JSON_ARRAY)
		return fail_answers(c, p->name, "no list");
	if (c->language == BFCL_OWN)
		own_types(p, schema);
	else
		TRY(read_types(c, p, schema, &type, &nested));
	int result = convert_value(c, p, type, nested, &document);
	if (result == 1)
		result = check_type(c, p);
	if (result == 1)
		result = check_value(c, p);
	json_free(document);
	return result;
}

/* ---- One call ---- */

/* A function's name as it was sent. */
static bool is_name(const struct check *c, struct str sent, struct str name)
{
	if (sent.length != name.length)
		return false;
	for (size_t i = 0; i < name.length; i++) {
		char want = c->underscore_to_dot && name.data[i] == '.' ? '_' : name.data[i];
		if (sent.data[i] != want)
			return false;
	}
	return true;
}

static int check_params(
	const struct check *c, const struct json *arguments, const struct json *properties, const struct json *answers)
{
	JSON_EACH (member, arguments) {
		const struct json *schema = json_get_str(properties, member->key);
		struct param p = {.name = member->key,
			.value = member_value(arguments, member),
			.answers = json_get_str(answers, member->key)};
		if (!schema || !p.answers)
			return wrong(c, "simple_function_checker:unexpected_param", member->key);
		int result = check_param(c, &p, schema);
		if (result != 1)
			return result;
	}
	return 1;
}

/* 1, 0 with the verdict, or a negative status. answers: {parameter: [values]}. */
static int check_call(
	const struct check *c, const struct json *function, const struct bfcl_call *call, const struct json *answers)
{
	const struct json *name = json_get(function, "name"), *parameters = json_get(function, "parameters");
	if (!json_is(name, JSON_STRING) || !json_is(parameters, JSON_OBJECT) || !json_is(answers, JSON_OBJECT))
		return error_set(c->e, ERR_INPUT, "a function or its answer is not of BFCL's form");
	if (!is_name(c, call->name, name->text))
		return wrong(c, "simple_function_checker:wrong_func_name", call->name);
	JSON_EACH (required, json_get(parameters, "required")) {
		if (json_is(required, JSON_STRING) && !json_get_str(call->arguments, required->text))
			return wrong(c, "simple_function_checker:missing_required", required->text);
	}
	int result = check_params(c, call->arguments, json_get(parameters, "properties"), answers);
	if (result != 1)
		return result;
	JSON_EACH (member, answers) {
		if (!json_get_str(call->arguments, member->key) && !may_be_omitted(member_value(answers, member)))
			return wrong(c, "simple_function_checker:missing_optional", member->key);
	}
	right(c);
	return 1;
}

/* ---- The calls of an item ---- */

/* A ground truth is {function: {parameter: [values]}}. */
static const struct json *truth_answers(const struct json *truth)
{
	return json_is(truth, JSON_OBJECT) && truth->child ? member_value(truth, truth->child) : NULL;
}

static const struct json *find_function(const struct json *functions, const struct json *truth)
{
	return json_is(truth, JSON_OBJECT) && truth->child ? tool_function_find(functions, truth->child->key) : NULL;
}

/* Greedy: each answer takes the first call left that passes. */
static int check_parallel(
	const struct check *c, const struct bfcl_item *item, const struct bfcl_call *calls, int n_calls)
{
	if (n_calls != (int)item->ground_truth->count)
		return wrong(c, "parallel_function_checker_no_order:wrong_count", (struct str){0});
	bool *matched = mem_calloc((size_t)n_calls, sizeof(*matched), c->e);
	if (!matched)
		return ERR_MEMORY;
	int result = 1;
	JSON_EACH (truth, item->ground_truth) {
		const struct json *function = find_function(item->functions, truth);
		result = 0;
		for (int i = 0; i < n_calls && result == 0; i++) {
			if (matched[i])
				continue;
			result = check_call(c, function, &calls[i], truth_answers(truth));
			matched[i] = result == 1;
		}
		if (result != 1)
			break;
	}
	free(matched);
	return result != 0 ? result : wrong(c, "parallel_function_checker_no_order:cannot_find_match", (struct str){0});
}

static int check_ast(const struct check *c, const struct bfcl_item *item, const struct bfcl_call *calls, int n_calls)
{
	if (!json_is(item->functions, JSON_ARRAY) || !json_is(item->ground_truth, JSON_ARRAY))
		return error_set(c->e, ERR_INPUT, "expected functions and a ground truth");
	for (int i = 0; i < n_calls; i++) {
		if (!json_is(calls[i].arguments, JSON_OBJECT))
			return wrong(c, "ast_decoder:decoder_wrong_output_format", calls[i].name);
	}
	if (item->category->kind == BFCL_PARALLEL)
		return check_parallel(c, item, calls, n_calls);
	const struct json *truth = json_at(item->ground_truth, 0);
	if (item->category->kind == BFCL_MULTIPLE) {
		if (n_calls != (int)item->ground_truth->count)
			return wrong(c, "multiple_function_checker:wrong_count", (struct str){0});
		return check_call(c, find_function(item->functions, truth), &calls[0], truth_answers(truth));
	}
	if (n_calls != 1)
		return wrong(c, "simple_function_checker:wrong_count", (struct str){0});
	return check_call(c, json_at(item->functions, 0), &calls[0], truth_answers(truth));
}

int bfcl_check(struct bfcl_checker *checker, const struct bfcl_item *item, const struct bfcl_call *calls, int n_calls,
	struct bfcl_verdict *out, struct error *e)
{
	const struct check c = {checker, item->category->language, item->underscore_to_dot, out, e};
	*out = (struct bfcl_verdict){0};
	bool called = n_calls > 0;
	for (int i = 0; i < n_calls; i++)
		called = called && json_is(calls[i].arguments, JSON_OBJECT);
	int result = 1;
	if (item->category->kind == BFCL_IRRELEVANCE)
		result = called ? wrong(&c, "irrelevance_error:decoder_success", calls[0].name) : 1;
	else if (item->category->kind == BFCL_RELEVANCE)
		result = called ? 1 : wrong(&c, "relevance_error:decoder_failed", (struct str){0});
	else
		result = check_ast(&c, item, calls, n_calls);
	if (result >= 0 && buf_check(&out->about, e) < 0)
		result = ERR_MEMORY;
	if (result < 0)
		bfcl_verdict_free(out);
	return result;
}

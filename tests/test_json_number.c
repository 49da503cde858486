/* Numbers of JSON as Python's json.loads has them: their kinds, their order, equality, multiples, its constants. */
#include "engine/base/json_number.h"
#include "tests/support.h"

const char *const test_program_name = "json_number";

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static struct json_document *parse(const char *text)
{
	struct json_document *document;
	CHECK_OK(json_parse(str_of(text), NULL, JSON_PYTHON_CONSTANTS, &document, &test_error));
	return document;
}

static const struct {
	const char *text;
	bool integer, integral, constant;
} kinds[] = {
	{"0", true, true, false},
	{"-0", true, true, false},
	{"9007199254740993", true, true, false},
	{"1.0", false, true, false},
	{"1e2", false, true, false},
	{"1E400", false, false, false},
	{"0.5", false, false, false},
	{"NaN", false, false, true},
	{"Infinity", false, false, true},
	{"-Infinity", false, false, true},
	{"true", false, false, false},
	{"\"1\"", false, false, false},
};

START_TEST(knows_kinds)
{
	struct json_document *document = parse(kinds[_i].text);
	const struct json *value = json_root(document);
	ck_assert_int_eq(json_is_integer(value), kinds[_i].integer);
	ck_assert_int_eq(json_is_integral(value), kinds[_i].integral);
	ck_assert_int_eq(json_is_python_constant(value), kinds[_i].constant);
	json_free(document);
}
END_TEST

/* Python 3.11: a < b, a == b, a > b. */
static const struct {
	const char *a, *b;
	enum json_order order;
} orders[] = {
	{"1", "1.0", JSON_SAME},
	{"-0", "0.0", JSON_SAME},
	{"-0.0", "0", JSON_SAME},
	{"2", "10", JSON_LESS},
	{"-2", "-10", JSON_GREATER},
	{"-1", "1", JSON_LESS},
	{"9007199254740993", "9007199254740992", JSON_GREATER},
	{"9007199254740993", "9007199254740992.0", JSON_GREATER},
	{"9007199254740992", "9007199254740993.0", JSON_SAME},
	{"123456789012345678901234567890", "123456789012345678901234567891", JSON_LESS},
	{"3", "2.5", JSON_GREATER},
	{"-3", "-2.5", JSON_LESS},
	{"2", "2.5", JSON_LESS},
	{"-2", "-2.5", JSON_GREATER},
	{"1", "1e400", JSON_LESS},
	{"1", "-1e400", JSON_GREATER},
	{"1e308", "1e309", JSON_LESS},
	{"0", "1e-400", JSON_SAME},
	{"NaN", "NaN", JSON_UNORDERED},
	{"1", "NaN", JSON_UNORDERED},
	{"Infinity", "1e400", JSON_SAME},
};

START_TEST(compares)
{
	struct json_document *a = parse(orders[_i].a), *b = parse(orders[_i].b);
	ck_assert_int_eq(json_number_compare(json_root(a), json_root(b)), orders[_i].order);
	enum json_order back =
		orders[_i].order == JSON_UNORDERED ? JSON_UNORDERED : (enum json_order)(-(int)orders[_i].order);
	ck_assert_int_eq(json_number_compare(json_root(b), json_root(a)), back);
	json_free(a);
	json_free(b);
}
END_TEST

/* jsonschema 4.26.0, multipleOf. */
static const struct {
	const char *value, *step;
	bool multiple;
} multiples[] = {
	{"0", "3", true},
	{"9", "3", true},
	{"-9", "3", true},
	{"10", "3", false},
	{"0.3", "0.1", false},
	{"0.5", "0.1", true},
	{"4.5", "1.5", true},
	{"4.0", "2", true},
	{"4.5", "2", false},
	{"123456789012345678901234567890", "3", true},
	{"123456789012345678901234567891", "3", false},
	{"1000000000000000000000000000000000000001", "1000000000000000000000000000000000000001", true},
	{"1000000000000000000000000000000000000002", "1000000000000000000000000000000000000001", false},
	{"7", "100000000000000000000", false},
	{"1e308", "0.5", true},
	{"1e308", "1e-10", false},
	{"NaN", "2", false},
	{"Infinity", "2", false},
};

START_TEST(knows_multiples)
{
	struct json_document *value = parse(multiples[_i].value), *step = parse(multiples[_i].step);
	ck_assert_int_eq(json_is_multiple(json_root(value), json_root(step)), multiples[_i].multiple);
	json_free(value);
	json_free(step);
}
END_TEST

static const struct {
	const char *a, *b;
	bool python, schema;
} equals[] = {
	{"1", "1.0", true, true},
	{"true", "1", true, false},
	{"false", "0.0", true, false},
	{"true", "2", false, false},
	{"[true]", "[1]", true, false},
	{"null", "0", false, false},
	{"\"1\"", "1", false, false},
	{"\"a\"", "\"a\\u0000\"", false, false},
	{"[1, 2]", "[2, 1]", false, false},
	{"[]", "{}", false, false},
	{"{\"a\": 1, \"b\": [2]}", "{\"b\": [2.0], \"a\": 1}", true, true},
	{"{\"a\": 1, \"a\": 2}", "{\"a\": 2}", true, true},
	{"{\"a\": 1}", "{\"a\": 1, \"b\": 1}", false, false},
	{"{\"a\": 1}", "{\"A\": 1}", false, false},
	{"NaN", "NaN", false, false},
};

START_TEST(compares_values)
{
	struct json_document *a = parse(equals[_i].a), *b = parse(equals[_i].b);
	uint64_t work = 1000;
	ck_assert_int_eq(json_equal(json_root(a), json_root(b), JSON_EQUAL_PYTHON, &work), equals[_i].python);
	ck_assert_int_eq(json_equal(json_root(b), json_root(a), JSON_EQUAL_SCHEMA, &work), equals[_i].schema);
	ck_assert_uint_gt(work, 0);
	work = 1;
	ck_assert(!json_equal(json_root(a), json_root(b), JSON_EQUAL_PYTHON, &work));
	ck_assert_uint_eq(work, 0);
	json_free(a);
	json_free(b);
}
END_TEST

/* Without the flag Python's constants are refused by their name. */
START_TEST(refuses_constants)
{
	static const char *const texts[] = {"NaN", "[Infinity]", "{\"a\": -Infinity}"};
	static const char *const names[] = {"of NaN,", "of Infinity,", "of -Infinity,"};
	struct json_document *document;
	int status = json_parse(str_of(texts[_i]), NULL, JSON_LAST_KEY_WINS, &document, &test_error);
	ck_assert_int_eq(status, ERR_INPUT);
	ck_assert_ptr_nonnull(strstr(test_error.message, names[_i]));
	ck_assert_ptr_nonnull(strstr(test_error.message, "Python's json.loads"));
	json_free(parse(texts[_i]));
	/* what is only like one */
	ck_assert_int_lt(json_parse(str_of("Nan"), NULL, JSON_PYTHON_CONSTANTS, &document, &test_error), 0);
	ck_assert_int_lt(json_parse(str_of("-NaN"), NULL, JSON_PYTHON_CONSTANTS, &document, &test_error), 0);
	ck_assert_int_lt(json_parse(str_of("Infinityx"), NULL, JSON_PYTHON_CONSTANTS, &document, &test_error), 0);
	ck_assert_int_lt(json_parse(str_of("Inf"), NULL, JSON_PYTHON_CONSTANTS, &document, &test_error), 0);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *numbers = test_case(suite, "numbers", 0);
	tcase_add_loop_test(numbers, knows_kinds, 0, COUNT(kinds));
	tcase_add_loop_test(numbers, compares, 0, COUNT(orders));
	tcase_add_loop_test(numbers, knows_multiples, 0, COUNT(multiples));
	TCase *values = test_case(suite, "values", 0);
	tcase_add_loop_test(values, compares_values, 0, COUNT(equals));
	tcase_add_loop_test(values, refuses_constants, 0, 3);
}

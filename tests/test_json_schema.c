/* JSON Schema against Python's jsonschema; patterns in ECMA-262's meaning; what is refused; that work is bounded. */
#include "datasets/records.h"
#include "evals/ecma_pattern.h"
#include "evals/json_schema.h"
#include "tests/support.h"

const char *const test_program_name = "json_schema";

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* ---- Values of jsonschema ---- */

/* Every line of a file of {"schema", "instance", "valid"} agrees. */
static void check_golden_file(const char *path, size_t at_least)
{
	struct records expected, actual;
	struct buf out = {0};
	CHECK_OK(records_load(&expected, path, &test_error));
	ck_assert_uint_ge(expected.count, at_least);
	CHECK_OK(json_schema_rescore(path, &out, &test_error));
	CHECK_OK(records_load(&actual, test_write_file("out.jsonl", out.data, out.length), &test_error));
	ck_assert_uint_eq(actual.count, expected.count);
	for (size_t i = 0; i < expected.count; i++) {
		const struct json *want = json_get(expected.items[i].doc, "valid");
		const struct json *got = json_get(actual.items[i].doc, "valid");
		ck_assert_msg(got && got->type == want->type, "line %zu", i + 1);
	}
	records_free(&expected);
	records_free(&actual);
	buf_free(&out);
}

START_TEST(goldens_agree)
{
	check_golden_file(golden_path("tools/schema.jsonl"), 400);
}
END_TEST

START_TEST(shared_goldens_agree)
{
	const char *path = shared_path("golden/schemas/instances.jsonl");
	if (!path)
		SKIP("no golden/schemas/instances.jsonl");
	check_golden_file(path, 1600);
}
END_TEST

/* ---- One at a time ---- */

/* 1, 0, or a negative status with test_error. */
static int judge(const char *schema, const char *instance, struct buf *why)
{
	struct json_document *s, *i;
	struct json_schema *compiled = NULL;
	CHECK_OK(json_parse(str_of(schema), "schema", JSON_LAST_KEY_WINS, &s, &test_error));
	CHECK_OK(json_parse(str_of(instance), "instance", JSON_LAST_KEY_WINS, &i, &test_error));
	int result = json_schema_new(json_root(s), &compiled, &test_error);
	if (result == 0)
		result = json_schema_check(compiled, json_root(i), why, &test_error);
	json_schema_delete(compiled);
	json_free(s);
	json_free(i);
	return result;
}

static const struct {
	const char *schema, *instance;
	int valid;
} cases[] = {
	{"true", "1", 1},
	{"false", "1", 0},
	{"{}", "1", 1},
	{"{\"type\": \"integer\"}", "1e2", 1},
	{"{\"type\": \"integer\"}", "1.5", 0},
	{"{\"type\": \"integer\"}", "true", 0},
	{"{\"type\": \"integer\"}", "1e400", 0},
	{"{\"type\": \"number\", \"maximum\": 9007199254740992}", "9007199254740993", 0},
	{"{\"const\": 9007199254740993}", "9007199254740992", 0},
	{"{\"enum\": [1]}", "true", 0},
	{"{\"minLength\": 2}", "\"\\ud83d\\ude00\"", 0},
	{"{\"minLength\": 3}", "\"a\\u0000b\"", 1},
	{"{\"format\": \"email\"}", "\"no\"", 1},
	{"{\"x-order\": 1, \"$comment\": \"c\", \"title\": \"t\", \"default\": 5}", "1", 1},
	{"{\"properties\": {\"n\": {\"type\": \"integer\"}}}", "{\"n\": \"x\", \"n\": 2}", 1},
	{"{\"maxProperties\": 1}", "{\"n\": 1, \"n\": 2}", 1},
	{"{\"properties\": {\"a\": {\"type\": \"string\"}, \"a\": {\"type\": \"integer\"}}}", "{\"a\": 1}", 1},
	{"{\"uniqueItems\": true}", "[1, true, \"1\", [1], [true], null, {\"a\": 1}, {\"a\": true}]", 1},
	{"{\"uniqueItems\": true}", "[{\"a\": 1, \"b\": 2}, 5, {\"b\": 2.0, \"a\": 1}]", 0},
	{"{\"uniqueItems\": true}", "[0, -0.0]", 0},
	{"{\"uniqueItems\": true}", "[1, 2, 1.0]", 0},
	{"{\"uniqueItems\": true}", "[[1, {\"a\": 100}], 2, [1, {\"a\": 1e2}]]", 0},
	{"{\"uniqueItems\": true}", "[{\"a\": 1, \"a\": 2}, {\"a\": 2}]", 0},
	{"{\"uniqueItems\": true}", "[{\"a\": 1, \"b\": 2}, {\"a\": 2, \"b\": 1}, [1, 2], [2, 1]]", 1},
	{"{\"uniqueItems\": true}", "[\"\", null, 0, false, [], {}, [[]], [{}], \"0\"]", 1},
	{"{\"uniqueItems\": true}", "[9007199254740993, 9007199254740992]", 1},
	{"{\"uniqueItems\": true}", "[]", 1},
	/* references */
	{"{\"$ref\": \"#/$defs/n~1m~0o%25\", \"$defs\": {\"n/m~o%\": {\"type\": \"null\"}}}", "null", 1},
	{"{\"$ref\": \"#here\", \"$defs\": {\"a\": {\"$anchor\": \"here\", \"type\": \"null\"}}}", "1", 0},
	{"{\"$ref\": \"#/anyOf/1\", \"anyOf\": [{}, {\"type\": \"null\"}]}", "1", 0},
	{"{\"$ref\": \"#/other/deep\", \"$comment\": \"\", \"x-y\": 1, \"default\": {}, \"$defs\": {}, \"examples\": "
	 "[{\"type\": "
	 "\"null\"}], \"allOf\": [{\"$ref\": \"#/examples/0\"}], \"not\": false, \"other\": 1}",
		"1", ERR_INPUT},
	{"{\"$ref\": \"#/examples/0\", \"examples\": [{\"type\": \"null\"}]}", "1", 0},
	{"{\"$id\": \"http://a.b/c/d.json\", \"$ref\": \"e.json#/$defs/x\", \"$defs\": {\"e\": {\"$id\": \"e.json\", "
	 "\"$defs\": "
	 "{\"x\": {\"type\": \"null\"}}}}}",
		"1", 0},
	{"{\"$id\": \"http://a.b/c/d.json\", \"$ref\": \"http://a.b/e.json\", \"$defs\": {\"e\": {\"$id\": "
	 "\"/e.json\", "
	 "\"type\": \"null\"}}}",
		"1", 0},
	{"{\"$defs\": {\"e\": {\"$id\": \"urn:e\", \"$defs\": {\"t\": {\"type\": \"null\"}}, \"$ref\": "
	 "\"#/$defs/t\"}}, "
	 "\"$ref\": \"urn:e\"}",
		"1", 0},
	{"{\"properties\": {\"next\": {\"$ref\": \"#\"}}, \"additionalProperties\": false}",
		"{\"next\": {\"next\": {\"next\": {}}}}", 1},
	{"{\"properties\": {\"next\": {\"$ref\": \"#\"}}, \"additionalProperties\": false}",
		"{\"next\": {\"next\": {\"last\": {}}}}", 0},
	/* unevaluatedProperties */
	{"{\"properties\": {\"a\": {}}, \"allOf\": [{\"unevaluatedProperties\": false}]}", "{\"a\": 1}", 0},
	{"{\"anyOf\": [{\"properties\": {\"a\": {}}}, {\"properties\": {\"b\": {}}}], \"unevaluatedProperties\": "
	 "false}",
		"{\"a\": 1, \"b\": 2}", 1},
	{"{\"not\": {\"not\": {\"properties\": {\"a\": {}}}}, \"unevaluatedProperties\": false}", "{\"a\": 1}", 0},
	{"{\"if\": {\"required\": [\"a\"], \"properties\": {\"a\": {}}}, \"else\": {\"properties\": {\"b\": {}}}, "
	 "\"unevaluatedProperties\": false}",
		"{\"b\": 1}", 1},
	/* refused by name */
	{"{\"frob\": 1}", "1", ERR_INPUT},
	{"{\"unevaluatedItems\": false}", "1", ERR_INPUT},
	{"{\"nullable\": true}", "1", ERR_INPUT},
	{"{\"$dynamicRef\": \"#\"}", "1", ERR_INPUT},
	{"{\"dependencies\": {}}", "1", ERR_INPUT},
	{"{\"properties\": {\"a\": {\"Type\": \"string\"}}}", "1", ERR_INPUT},
	{"{\"$defs\": {\"unused\": {\"frob\": 1}}}", "1", ERR_INPUT},
	{"{\"type\": \"dict\"}", "1", ERR_INPUT},
	{"{\"type\": []}", "1", ERR_INPUT},
	{"{\"items\": [{}]}", "[]", ERR_INPUT},
	{"{\"required\": true}", "{}", ERR_INPUT},
	{"{\"minLength\": -1}", "1", ERR_INPUT},
	{"{\"minLength\": 1.5}", "1", ERR_INPUT},
	{"{\"multipleOf\": 0}", "1", ERR_INPUT},
	{"{\"exclusiveMinimum\": true}", "1", ERR_INPUT},
	{"{\"anyOf\": []}", "1", ERR_INPUT},
	{"{\"properties\": {\"a\": 1}}", "1", ERR_INPUT},
	{"{\"description\": null}", "1", ERR_INPUT},
	{"{\"$id\": \"http://a.b/c#/$defs/d\"}", "1", ERR_INPUT},
	{"{\"$ref\": \"http://a.b/c\"}", "1", ERR_INPUT},
	{"{\"$ref\": \"#/$defs/none\"}", "1", ERR_INPUT},
	{"{\"$ref\": \"#none\"}", "1", ERR_INPUT},
	{"{\"pattern\": \"(\"}", "1", ERR_INPUT},
	{"[]", "1", ERR_INPUT},
	{"1", "1", ERR_INPUT},
	/* bounded */
	{"{\"$ref\": \"#\"}", "1", ERR_LIMIT},
	{"{\"allOf\": [{\"$ref\": \"#\"}]}", "1", ERR_LIMIT},
	{"{\"pattern\": \"(a+)+$\"}", "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\"", ERR_LIMIT},
	{"{\"$defs\": {\"a\": {\"anyOf\": [{\"$ref\": \"#/$defs/b\"}, {\"$ref\": \"#/$defs/b\"}]}, \"b\": {\"items\": "
	 "{\"anyOf\": "
	 "[{\"$ref\": \"#/$defs/a\"}, {\"$ref\": \"#/$defs/a\"}]}, \"not\": {\"type\": \"number\"}}}, \"$ref\": "
	 "\"#/$defs/a\"}",
		"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]", 0},
	{"{\"propertyNames\": {\"$ref\": \"#/$defs/n\"}, \"$defs\": {\"n\": {\"anyOf\": [{\"$ref\": \"#/$defs/m\"}, "
	 "{\"maxLength\": "
	 "1}]}, \"m\": {\"const\": \"long\"}}}",
		"{\"a\": 1, \"long\": 2, \"b\": 3}", 1},
	{"{\"propertyNames\": {\"$ref\": \"#/$defs/n\"}, \"$defs\": {\"n\": {\"anyOf\": [{\"$ref\": \"#/$defs/m\"}, "
	 "{\"maxLength\": "
	 "1}]}, \"m\": {\"const\": \"long\"}}}",
		"{\"a\": 1, \"long\": 2, \"other\": 3}", 0},
	/* what a schema evaluated is known also when it is asked for later */
	{"{\"allOf\": [{\"$ref\": \"#/$defs/a\"}, {\"$ref\": \"#/$defs/b\"}], \"$defs\": {\"a\": {\"properties\": "
	 "{\"x\": {}}}, "
	 "\"b\": {\"$ref\": \"#/$defs/a\", \"unevaluatedProperties\": false}}}",
		"{\"x\": 1}", 1},
	{"{\"allOf\": [{\"$ref\": \"#/$defs/a\"}, {\"$ref\": \"#/$defs/b\"}], \"$defs\": {\"a\": {\"properties\": "
	 "{\"x\": {}}}, "
	 "\"b\": {\"$ref\": \"#/$defs/a\", \"unevaluatedProperties\": false}}}",
		"{\"x\": 1, \"y\": 2}", 0},
	{"{\"anyOf\": [{\"$ref\": \"#/$defs/a\"}, {\"$ref\": \"#/$defs/a\"}], \"unevaluatedProperties\": false, "
	 "\"$defs\": "
	 "{\"a\": {\"properties\": {\"x\": {}}}}}",
		"{\"x\": 1}", 1},
};

START_TEST(judges)
{
	struct buf why = {0};
	int result = judge(cases[_i].schema, cases[_i].instance, &why);
	ck_assert_msg(result == cases[_i].valid, "%s on %s: %d, expected %d (%s)", cases[_i].schema, cases[_i].instance,
		result, cases[_i].valid, result < 0 ? test_error.message : buf_text(&why));
	ck_assert_int_eq(why.length > 0, result == 0);
	buf_free(&why);
}
END_TEST

static const struct {
	const char *schema, *instance, *why;
} reasons[] = {
	{"{\"properties\": {\"a\": {\"items\": {\"type\": \"string\"}}}}", "{\"a\": [\"x\", 5]}",
		"/a/1: type: number is not string"},
	{"{\"required\": [\"n\"]}", "{}", "required: \"n\" is missing"},
	{"{\"anyOf\": [{\"type\": \"null\"}, {\"minimum\": 3}]}", "1", "anyOf: none of the 2 schemas holds"},
	{"{\"additionalProperties\": false}", "{\"b\": 1}", "additionalProperties: \"b\" is not allowed"},
	{"{\"propertyNames\": {\"maxLength\": 1}}", "{\"a\": 1, \"bb\": 1}", "/bb: maxLength: 2 against 1"},
};

/* {"$defs": {"d0": {"type": "string"}, "d1": {"anyOf": [d0, d0]}, ...}, "$ref": the last}: 2^levels ways. */
static struct buf doubling(int levels, const char *keyword, const char *rest)
{
	struct buf out = {0};
	buf_append_text(&out, "{\"$defs\": {\"d0\": {\"properties\": {\"x\": {\"type\": \"string\"}}}");
	for (int i = 1; i <= levels; i++)
		buf_printf(&out, ", \"d%d\": {\"%s\": [{\"$ref\": \"#/$defs/d%d\"}, {\"$ref\": \"#/$defs/d%d\"}]}", i,
			keyword, i - 1, i - 1);
	buf_printf(&out, "}, \"$ref\": \"#/$defs/d%d\"%s}", levels, rest);
	return out;
}

/* Branches that try the same again and again take no longer for it. */
static const struct {
	const char *keyword, *rest, *instance, *why; /* why: "" where it is valid */
} doublings[] = {
	{"anyOf", "", "{\"x\": 1}", "anyOf: none of the 2 schemas holds"},
	{"anyOf", ", \"unevaluatedProperties\": false", "{\"x\": \"a\"}", ""},
	{"anyOf", ", \"unevaluatedProperties\": false", "{\"x\": \"a\", \"y\": 1}",
		"unevaluatedProperties: \"y\" is not allowed"},
	{"allOf", "", "{\"x\": \"a\"}", ""},
	{"allOf", "", "{\"x\": 1}", "/x: type: number is not string"},
	{"oneOf", "", "{\"x\": \"a\"}", "oneOf: none of the 2 schemas holds"},
};

START_TEST(doubling_takes_no_longer)
{
	struct buf schema = doubling(400, doublings[_i].keyword, doublings[_i].rest), why = {0};
	int result = judge(buf_text(&schema), doublings[_i].instance, &why);
	ck_assert_msg(result == !doublings[_i].why[0], "%d: %s", result, test_error.message);
	ck_assert_str_eq(buf_text(&why), doublings[_i].why);
	buf_free(&schema);
	buf_free(&why);
}
END_TEST

/* Each of many references to the last of many definitions: their product is bounded. */
START_TEST(references_are_bounded)
{
	enum { DEFINITIONS = 20000, REFERENCES = 3000 };
	struct buf schema = {0};
	buf_append_text(&schema, "{\"$defs\": {");
	for (int i = 0; i < DEFINITIONS; i++)
		buf_printf(&schema, "\"d%d\": true, ", i);
	buf_append_text(&schema, "\"last\": true}, \"allOf\": [true");
	for (int i = 0; i < REFERENCES; i++)
		buf_append_text(&schema, ", {\"$ref\": \"#/$defs/last\"}");
	buf_append_text(&schema, "]}");
	ck_assert_int_eq(judge(buf_text(&schema), "1", NULL), ERR_LIMIT);
	ck_assert_ptr_nonnull(strstr(test_error.message, "references"));
	buf_free(&schema);
}
END_TEST

/* Many members against many names take no product of them. */
static const struct {
	int left_out, wrong; /* of the members; -1: none */
	const char *extra, *why;
} large_objects[] = {
	{-1, -1, "", ""},
	{4999, -1, "", "required: \"k4999\" is missing"},
	{-1, 2500, "", "/k2500: type: string is not integer"},
	{-1, -1, ", \"k5000\": 1", "additionalProperties: \"k5000\" is not allowed"},
};

START_TEST(large_objects_are_judged)
{
	enum { MEMBERS = 5000 };
	struct buf schema = {0}, instance = {0}, why = {0};
	buf_append_text(&schema, "{\"properties\": {\"k\": true");
	buf_append_text(&instance, "{\"k\": 1");
	for (int i = 0; i < MEMBERS; i++) {
		buf_printf(&schema, ", \"k%d\": {\"type\": \"integer\"}", i);
		if (i != large_objects[_i].left_out)
			buf_printf(&instance, ", \"k%d\": %s", i, i == large_objects[_i].wrong ? "\"\"" : "1");
	}
	buf_append_text(&schema, "}, \"additionalProperties\": false, \"required\": [\"k\"");
	for (int i = 0; i < MEMBERS; i++)
		buf_printf(&schema, ", \"k%d\"", i);
	buf_append_text(&schema, "]}");
	buf_printf(&instance, "%s}", large_objects[_i].extra);
	int result = judge(buf_text(&schema), buf_text(&instance), &why);
	ck_assert_msg(result == !large_objects[_i].why[0], "%d: %s", result, test_error.message);
	ck_assert_str_eq(buf_text(&why), large_objects[_i].why);
	buf_free(&schema);
	buf_free(&instance);
	buf_free(&why);
}
END_TEST

START_TEST(many_items_are_compared)
{
	enum { ITEMS = 3000 };
	struct buf items = {0};
	for (int i = 0; i < ITEMS; i++)
		buf_printf(&items, "%s{\"id\": %d, \"name\": \"n\", \"at\": [%d, null]}", i ? ", " : "[", i, i % 7);
	buf_append_text(&items, "]");
	ck_assert_int_eq(judge("{\"uniqueItems\": true}", buf_text(&items), NULL), 1);
	items.length--;
	buf_append_text(&items, ", {\"at\": [3, null], \"name\": \"n\", \"id\": 10.0}]");
	ck_assert_int_eq(judge("{\"uniqueItems\": true}", buf_text(&items), NULL), 0);
	buf_free(&items);
}
END_TEST

START_TEST(says_why)
{
	struct buf why = {0};
	ck_assert_int_eq(judge(reasons[_i].schema, reasons[_i].instance, &why), 0);
	ck_assert_str_eq(buf_text(&why), reasons[_i].why);
	buf_free(&why);
}
END_TEST

START_TEST(names_what_it_refuses)
{
	ck_assert_int_eq(judge("{\"properties\": {\"a\": {\"frob\": 1}}}", "1", NULL), ERR_INPUT);
	ck_assert_ptr_nonnull(strstr(test_error.message, "/properties/a: unknown keyword \"frob\""));
	ck_assert_int_eq(judge("{\"$id\": \"u#name\"}", "1", NULL), ERR_INPUT);
	ck_assert_ptr_nonnull(strstr(test_error.message, "\"$id\" is \"u#name\""));
}
END_TEST

/* ---- Patterns ---- */

/* ECMA-262 2024, u flag (checked by hand against its grammar); found -1: refused. */
static const struct {
	const char *pattern, *text;
	int found;
} patterns[] = {
	{"", "", 1},
	{"b", "abc", 1},
	{"^a$", "a\n", 0},
	{"a.c", "a\nc", 0},
	{"a.c",
		"a\xe2\x80\xa8"
		"c",
		0},
	{"^.$", "\xf0\x9f\x98\x80", 1},
	{"^\\d$", "\xd9\xa3", 0},
	{"^\\w$", "\xc3\xa9", 0},
	{"^\\s$", "\xc2\xa0", 1},
	{"^\\s$", "\xef\xbb\xbf", 1},
	{"^\\s$", "\xc2\x85", 0},
	{"^\\S$", "\xc2\xa0", 0},
	{"^[\\s]$", "\xe3\x80\x80", 1},
	{"^[\\S]$", "x", 1},
	{"^[^\\S]$", "x", 0},
	{"^[a\\s-]$", "-", 1},
	{"^[\\s-z]$", "-", 1},
	{"[[:alpha:]]", "p]", 1},
	{"[[:alpha:]]", "q]", 0},
	{"^[]$", "", 0},
	{"^[^]$", "\n", 1},
	{"^\\u00e9$", "\xc3\xa9", 1},
	{"^\\u{1f600}$", "\xf0\x9f\x98\x80", 1},
	{"^\\ud83d\\ude00$", "\xf0\x9f\x98\x80", 1},
	{"^\\x41\\cA\\0\\v$", "A\x01", 0},
	{"^\\x41\\cJ\\v$", "A\n\v", 1},
	{"^\\p{L}+$",
		"\xc3\xa9"
		"a",
		1},
	{"^(?<q>['\"])a\\k<q>$", "'a'", 1},
	{"^(a)?\\1b$", "b", 1},
	{"^(a)\\10$", "aa0", -1},
	{"(?<=a)b", "ab", 1},
	{"(?<!a)b", "ab", 0},
	{"^(?:a|b){2}$", "ab", 1},
	{"a{,3}", "a{,3}", 1},
	{"^a{2,}?$", "aaa", 1},
	{"^\\/\\-\\.$", "/-.", 1},
	{"^# x$", "# x", 1},
	{"a++", "a", -1},
	{"a{2}+", "aa", -1},
	{"(?i)a", "A", -1},
	{"(?>a)", "a", -1},
	{"(?#c)a", "a", -1},
	{"(*ACCEPT)", "a", -1},
	{"(?R)", "a", -1},
	{"\\Aa\\Z", "a", -1},
	{"\\Qa\\E", "a", -1},
	{"\\h", " ", -1},
	{"\\u12", "", -1},
	{"\\ud800", "", -1},
	{"\\x4", "", -1},
	{"a\\", "", -1},
	{"[a", "a", -1},
	{"(", "", -1},
	{"*a", "", -1},
	{"a{99999}", "", -1},
	/* runs of any character at the ends */
	{".*cat.*", "a cat sat", 1},
	{".*cat.*", "a dog sat", 0},
	{".*cat.*", "dog\ncat", 1},
	{".*?cat.*?", "cat", 1},
	{".+cat", "cat", 0},
	{".+cat", "\ncat", 0},
	{".+cat", "a\nacat", 1},
	{"cat.+", "a cat", 0},
	{"cat.+?", "cat\n", 0},
	{"cat.+", "cats", 1},
	{"[\\s\\S]*cat[\\s\\S]*", "\n\ncat\n", 1},
	{"[\\s\\S]+cat[\\s\\S]+", "cat\n", 0},
	{"[\\s\\S]+cat[\\s\\S]+", "\ncat\n", 1},
	{"[^]+?cat", "\ncat", 1},
	{".*.+cat", "cat", 0},
	{".*.+cat", "acat", 1},
	{".*(?<=a)b", "ab", 1},
	{".*^a", "ba", 0},
	{".+^a", "aa", 0},
	{"a$.*", "ab", 0},
	{".*a|b", "b", 1},
	{".*a|b", "c", 0},
	{".+a|b", "b", 1},
	{"a|b.+", "b", 0},
	{"^a|.*b$", "cb", 1},
	{"(^a.*)b", "acb", 1},
	{"^(.*)\\1$", "abab", 1},
	{"^[.*]+$", ".*", 1},
	{"^a[.*", ".*", -1},
	{"^[^]*$", "\n", 1},
	{"^a\\.*$", "a..", 1},
	{"^a\\.*", "b.", 0},
	{"a\\\\.*", "a", 0},
	{"a\\\\.*", "a\\", 1},
	{"^(a.*)$", "ab", 1},
	{"(a.*", "a", -1},
	{".**", "", -1},
	{".*?+", "", -1},
	{"^$|.*", "a", 1},
	{".*", "", 1},
	{".+", "", 0},
	{".+", "\n", 0},
	{".+.+", "a", 0},
	{".+.+", "ab", 1},
	/* properties by all of their names */
	{"^\\p{Letter}\\P{Letter}$",
		"\xc3\xa9"
		"1",
		1},
	{"^\\p{Uppercase_Letter}\\p{Lowercase_Letter}$", "Aa", 1},
	{"^\\p{Cased_Letter}+$", "Aa", 1},
	{"^\\p{gc=LC}$", "\xd7\x90", 0},
	{"^\\p{gc=Lu}$", "a", 0},
	{"^\\p{General_Category=Letter}$", "a", 1},
	{"^\\p{General_Category=Decimal_Number}$", "\xd9\xa3", 1},
	{"^\\p{gc=Latin}$", "a", -1},
	{"^\\p{gc=}$", "a", -1},
	{"^[\\p{punct}\\p{digit}]+$", "1!", 1},
	{"^\\p{cntrl}$", "\n", 1},
	{"^\\p{Assigned}\\P{Assigned}$", "a\xcd\xb8", 1},
	{"^[^\\p{Assigned}]$", "a", 0},
	{"^\\p{Any}$", "\n", 1},
	{"^\\p{ASCII}\\P{ASCII}$", "a\xc3\xa9", 1},
	{"^\\p{Script=Greek}\\p{sc=Greek}\\p{scx=Greek}$", "\xce\xb1\xce\xb1\xce\xb1", 1},
	{"^\\p{Alphabetic}$", "a", 1},
	{"^\\p{Letters}$", "a", -1},
};

/* From each place anew: n^2 steps in all, though few from one place. */
START_TEST(searches_are_bounded)
{
	struct ecma_pattern *p = NULL;
	struct buf text = {0};
	uint64_t work = 10000, plenty = 1000000;
	for (int i = 0; i < 500; i++)
		buf_append_char(&text, 'a');
	CHECK_OK(ecma_pattern_new(str_of("a*[bc]"), &p, &test_error));
	ck_assert_int_eq(ecma_pattern_found(p, buf_str(&text), &work, &test_error), ERR_LIMIT);
	ck_assert_uint_eq(work, 0);
	buf_append_char(&text, 'b');
	ck_assert_int_eq(ecma_pattern_found(p, buf_str(&text), &plenty, &test_error), 1);
	ck_assert_uint_lt(plenty, 1000000);
	ecma_pattern_delete(p);
	buf_free(&text);
}
END_TEST

START_TEST(finds_patterns)
{
	struct ecma_pattern *p = NULL;
	uint64_t work = 1000;
	int status = ecma_pattern_new(str_of(patterns[_i].pattern), &p, &test_error);
	int found = status < 0 ? -1 : ecma_pattern_found(p, str_of(patterns[_i].text), &work, &test_error);
	ck_assert_msg(found == patterns[_i].found, "'%s' in '%s': %d, expected %d (%s)", patterns[_i].pattern,
		patterns[_i].text, found, patterns[_i].found, status < 0 ? test_error.message : "");
	if (status < 0)
		ck_assert_int_eq(status, ERR_INPUT);
	ecma_pattern_delete(p);
}
END_TEST

/* Each long name of a category compiles, and as a class of its own. */
START_TEST(knows_categories)
{
	static const char names[] =
		"Letter Cased_Letter Uppercase_Letter Lowercase_Letter Titlecase_Letter Modifier_Letter Other_Letter "
		"Mark "
		"Combining_Mark Nonspacing_Mark Spacing_Mark Enclosing_Mark Number Decimal_Number Letter_Number "
		"Other_Number Punctuation Connector_Punctuation Dash_Punctuation Open_Punctuation Close_Punctuation "
		"Initial_Punctuation Final_Punctuation Other_Punctuation Symbol Math_Symbol Currency_Symbol "
		"Modifier_Symbol "
		"Other_Symbol Separator Space_Separator Line_Separator Paragraph_Separator Other Control Format "
		"Surrogate "
		"Private_Use Unassigned punct digit cntrl ";
	int count = 0;
	for (const char *name = names, *end; (end = strchr(name, ' ')) != NULL; name = end + 1, count++) {
		struct buf pattern = {0};
		struct ecma_pattern *p = NULL;
		buf_printf(&pattern, "\\p{%.*s}[\\P{gc=%.*s}]", (int)(end - name), name, (int)(end - name), name);
		CHECK_OK(ecma_pattern_new(buf_str(&pattern), &p, &test_error));
		ecma_pattern_delete(p);
		buf_free(&pattern);
	}
	ck_assert_int_eq(count, 42);
}
END_TEST

/* head, n times the unit, tail */
struct repeated {
	const char *head, *unit;
	int n;
	const char *tail;
};

static struct buf repeated_text(const struct repeated *r)
{
	struct buf out = {0};
	buf_append_text(&out, r->head);
	for (int i = 0; i < r->n; i++)
		buf_append_text(&out, r->unit);
	buf_append_text(&out, r->tail);
	return out;
}

/* What json_schema_check allows for all of a value. */
enum { PLENTY = 50000000 };

/* Large patterns and long texts: found, not found, or more work than is bounded. */
static const struct {
	struct repeated pattern, text;
	int found;
} searches[] = {
	{{"^(", "Africa/Abidjan|", 598, "Etc/UTC)$"}, {"Etc/UTC", "", 0, ""}, 1},
	{{"^(", "Africa/Abidjan|", 598, "Etc/UTC)$"}, {"Etc/UTC+", "", 0, ""}, 0},
	{{"(", "Africa/Abidjan|", 598, "Etc/UTC)"}, {"", "lorem Africa/Abidja ", 500, "Etc/UTC"}, 1},
	{{"^([0-9a-f]{2}){1,1024}$", "", 0, ""}, {"", "a0", 1024, ""}, 1},
	{{"^([0-9a-f]{2}){1,1024}$", "", 0, ""}, {"", "a0", 1025, ""}, 0},
	{{"^[^,]+(,[^,]+){0,2000}$", "", 0, ""}, {"abc", ",abc", 2000, ""}, 1},
	{{"^[^,]+(,[^,]+){0,2000}$", "", 0, ""}, {"abc", ",abc", 2001, ""}, 0},
	{{"", "a", 8209, "b"}, {"", "a", 9000, "b"}, 1},
	{{"", "a", 8209, "b"}, {"", "a", 9000, ""}, 0},
	{{"", "a", 8209, "b"}, {"", "a", 8208, "b"}, 0},
	{{"(a+)+$|", "x", 8300, ""}, {"", "a", 40, "b"}, ERR_LIMIT},
	{{"a*[bc]|", "x", 8300, ""}, {"", "a", 100000, ""}, ERR_LIMIT},
	{{".*cat.*", "", 0, ""}, {"", "lorem ca t ", 8000, ""}, 0},
	{{".*cat.*", "", 0, ""}, {"", "lorem ca t ", 8000, "cat"}, 1},
	{{"[\\s\\S]*cat[\\s\\S]*", "", 0, ""}, {"", "lorem ca t\n", 8000, ""}, 0},
	{{".*[A-Z]{2}.*", "", 0, ""}, {"", "lorem Ipsum ", 8000, ""}, 0},
	{{".+@.+\\..+", "", 0, ""}, {"", "lorem. ipsum ", 7000, "@"}, 0},
	{{".+@.+\\..+", "", 0, ""}, {"", "lorem ipsum ", 8000, "a@b.c"}, 1},
	{{".*(NOTE|BUG).*", "", 0, ""}, {"", "lorem ipsum NO ", 7000, ""}, 0},
	{{"(a+)+$", "", 0, ""}, {"", "a", 20000, "b"}, ERR_LIMIT},
};

START_TEST(searches_large_patterns_and_texts)
{
	struct buf pattern = repeated_text(&searches[_i].pattern), text = repeated_text(&searches[_i].text);
	struct ecma_pattern *p = NULL;
	uint64_t work = PLENTY;
	CHECK_OK(ecma_pattern_new(buf_str(&pattern), &p, &test_error));
	int found = ecma_pattern_found(p, buf_str(&text), &work, &test_error);
	ck_assert_msg(found == searches[_i].found, "%d, expected %d (%s)", found, searches[_i].found,
		found < 0 ? test_error.message : "");
	ecma_pattern_delete(p);
	buf_free(&pattern);
	buf_free(&text);
}
END_TEST

/* ---- Lines ---- */

START_TEST(rescores_lines)
{
	static const char lines[] = "{\"schema\": {\"type\": \"integer\"}, \"instance\": \"5\"}\n"
				    "{\"schema\": {\"type\": \"integer\"}, \"instance\": \"[\"}\n"
				    "{\"schema\": {\"type\": \"integer\"}, \"instance\": \"NaN\"}\n"
				    "{\"schema\": {\"frob\": 1}, \"instance\": \"5\"}\n"
				    "{\"schema\": true, \"instance\": {\"a\": 1}}\n";
	struct buf out = {0};
	CHECK_OK(json_schema_rescore(test_write_file("s.jsonl", lines, strlen(lines)), &out, &test_error));
	ck_assert_ptr_nonnull(strstr(buf_text(&out), "{\"valid\": true}\n{\"valid\": false, \"why\": \"not JSON: "));
	ck_assert_ptr_nonnull(strstr(buf_text(&out), "{\"error\": \"schema at its root: unknown keyword \\\"frob\\\""));
	buf_free(&out);
	static const char bad[] = "{\"schema\": true}\n";
	int status = json_schema_rescore(test_write_file("bad.jsonl", bad, strlen(bad)), &out, &test_error);
	ck_assert_int_eq(status, ERR_INPUT);
	ck_assert_ptr_nonnull(strstr(test_error.message, "bad.jsonl:1: "));
	buf_free(&out);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *goldens = test_case(suite, "goldens", 0);
	tcase_add_test(goldens, goldens_agree);
	tcase_add_test(goldens, shared_goldens_agree);
	TCase *single = test_case(suite, "single", 60);
	tcase_add_loop_test(single, judges, 0, COUNT(cases));
	tcase_add_loop_test(single, says_why, 0, COUNT(reasons));
	tcase_add_loop_test(single, doubling_takes_no_longer, 0, COUNT(doublings));
	tcase_add_test(single, references_are_bounded);
	tcase_add_loop_test(single, large_objects_are_judged, 0, COUNT(large_objects));
	tcase_add_test(single, many_items_are_compared);
	tcase_add_test(single, names_what_it_refuses);
	tcase_add_test(single, rescores_lines);
	TCase *ecma = test_case(suite, "patterns", 0);
	tcase_add_loop_test(ecma, finds_patterns, 0, COUNT(patterns));
	tcase_add_test(ecma, searches_are_bounded);
	tcase_add_test(ecma, knows_categories);
	tcase_add_loop_test(ecma, searches_large_patterns_and_texts, 0, COUNT(searches));
}

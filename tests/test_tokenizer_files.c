/* tokenizer.json and tokenizer_config.json: what is read, what is refused and with which words, and hostile files. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/base/json_strict.h"
#include "engine/text/tokenizer.h"
#include "tests/support.h"

const char *const test_program_name = "tokenizer_files";

/* A file of one model member and other members; the last of doubled keys wins, so a case overrides what comes
 * before. */
#define MODEL_OF(members) \
	"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[[\"a\",\"b\"]]" members "}"
#define WITH_MODEL(members) MODEL_OF("," members) "}"
#define WITH(members) MODEL_OF("") "," members "}"
#define ADDED(id, content, flags)                                                          \
	"{\"id\":" id ",\"content\":\"" content                                            \
	"\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false," \
	"\"special\":true" flags "}"
#define SPLIT(members)                                                                                              \
	"\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Isolated\",\"invert\":" \
	"false" members "}"
#define TEMPLATE(single)                                                         \
	"\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":" single \
	",\"special_tokens\":{\"x\":{\"id\":\"x\",\"ids\":[1,0]},"               \
	"\"y\":{\"id\":\"y\",\"ids\":[-1]},\"z\":{\"id\":\"z\"}}}"

static int open_with(const char *json, const char *config, struct tokenizer **t)
{
	*t = NULL;
	return tokenizer_open(str_of(json), "F", str_of(config), "C", t, &test_error);
}

static void check_ids(const char *name, const struct tokenizer *t, const char *text, enum tokenizer_specials specials,
	const char *expected)
{
	struct token_ids ids = {0};
	struct buf got = {0};
	CHECK_OK(tokenizer_encode(t, str_of(text), specials, &ids, &test_error));
	for (size_t i = 0; i < ids.count; i++)
		buf_printf(&got, i > 0 ? " %d" : "%d", ids.data[i]);
	ck_assert_msg(strcmp(buf_text(&got), expected) == 0, "%s: \"%s\" gives %s, expected %s", name, text,
		buf_text(&got), expected);
	buf_free(&got);
	token_ids_free(&ids);
}

/* ---- Files that are read ---- */

static const struct {
	const char *name, *json, *text, *ids;
} good[] = {
	{"smallest", "{\"model\":{\"vocab\":{},\"merges\":[]}}", "anything", ""},
	{"base", WITH("\"version\":\"1.0\""), "abba", "2 1 0"},
	{"last of doubled tokens", "{\"model\":{\"vocab\":{\"a\":5,\"b\":1,\"a\":0},\"merges\":[]}}", "ab", "0 1"},
	{"later merge of the same pair",
		WITH_MODEL("\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"bb\":3},\"merges\":[\"a b\",\"b b\",\"a b\"]"), "abb",
		"0 3"},
	{"nulls",
		WITH_MODEL("\"dropout\":null,\"unk_token\":null,\"fuse_unk\":null,\"continuing_subword_prefix\":null"),
		"ab", "2"},
	{"empty affixes, no dropout",
		WITH_MODEL("\"dropout\":0.0,\"continuing_subword_prefix\":\"\",\"end_of_word_suffix\":\"\""), "ab",
		"2"},
	{"unknown members", WITH("\"truncation\":{\"max_length\":1},\"padding\":null,\"more\":[1]"), "abab", "2 2"},
	{"unknown characters left out", WITH("\"decoder\":null"), "axb", "2"},
	{"unknown characters", WITH_MODEL("\"unk_token\":\"b\""), "xaxx", "1 2 1"},
	{"unknown characters as one", WITH_MODEL("\"unk_token\":\"b\",\"fuse_unk\":true"), "xaxx", "1 2"},
	{"empty parts",
		WITH("\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[]},\"pre_tokenizer\":{\"type\":"
		     "\"Sequence\",\"pretokenizers\":[]},"
		     "\"post_processor\":{\"type\":\"Sequence\",\"processors\":[]},\"decoder\":{\"type\":\"Sequence\","
		     "\"decoders\":[]}"),
		"ab", "2"},
	{"old Metaspace",
		WITH("\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"b\",\"add_prefix_space\":true}"),
		"a a", "1 0 1 0"},
	{"old Metaspace without prefix",
		WITH("\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"b\",\"add_prefix_space\":false}"),
		"a a", "0 1 0"},
	{"ids with holes", "{\"model\":{\"vocab\":{\"a\":65000,\"b\":3},\"merges\":[]}}", "ab", "65000 3"},
	{"place decides the id of an added token", WITH("\"added_tokens\":[" ADDED("77", "<x>", "") "]"), "a<x>",
		"0 3"},
	{"the same added token twice",
		WITH("\"added_tokens\":[" ADDED("3", "<x>", "") "," ADDED("3", "<x>", ",\"lstrip\":true") "]"), "a <x>",
		"0 3"},
	{"longest added token",
		WITH("\"added_tokens\":[" ADDED("3", "<x", "") "," ADDED("4", "<x>>", "") "," ADDED("5", ">a", "") "]"),
		"<x>a<x>>a", "3 5 4 0"},
	{"BertProcessing", WITH("\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"c\",1],\"sep\":[\"s\",2]}"),
		"a", "1 0 2"},
	{"template",
		WITH(TEMPLATE("[{\"SpecialToken\":{\"id\":\"x\"}},{\"Sequence\":{\"id\":\"A\"}},{\"SpecialToken\":{"
			      "\"id\":\"x\"}}]")),
		"ab", "1 0 2 1 0"},
};

START_TEST(good_file)
{
	struct tokenizer *t;
	CHECK_OK(open_with(good[_i].json, "", &t));
	check_ids(good[_i].name, t, good[_i].text, TOKENIZER_SPECIALS, good[_i].ids);
	tokenizer_free(t);
}
END_TEST

/* ---- Files that are refused ---- */

static const struct {
	const char *json, *message;
} bad[] = {
	{"", "F"},
	{"[]", "F: the file holds array, expected an object"},
	{"{}", "F: \"model\" is missing, expected an object"},
	{"{\"model\":{\"vocab\":{},\"merges\":[]}", "F"},
	{WITH("\"version\":\"2.0\""), "\"version\" is \"2.0\", expected \"1.0\""},
	{WITH_MODEL("\"type\":\"Unigram\""), "model of type \"Unigram\" is not supported; known: BPE"},
	{WITH_MODEL("\"type\":\"WordPiece\""), "WordPiece"},
	{WITH_MODEL("\"dropout\":0.1"), "\"dropout\" is not supported"},
	{WITH_MODEL("\"continuing_subword_prefix\":\"##\""), "\"continuing_subword_prefix\" is not supported"},
	{WITH_MODEL("\"end_of_word_suffix\":\"</w>\""), "\"end_of_word_suffix\" is not supported"},
	{WITH_MODEL("\"ignore_merges\":1"), "\"ignore_merges\" is number, expected true or false"},
	{WITH_MODEL("\"unk_token\":3"), "\"unk_token\" is number, expected a string"},
	{WITH_MODEL("\"vocab\":[]"), "\"vocab\" is array, expected an object"},
	{WITH_MODEL("\"vocab\":{\"a\":-1}"), "the id of \"a\" is -1, expected an integer from 0 to 16777215"},
	{WITH_MODEL("\"vocab\":{\"a\":2147483648}"), "the id of \"a\" is 2147483648"},
	{WITH_MODEL("\"vocab\":{\"a\":99999999999999999999}"), "the id of \"a\" is 99999999999999999999"},
	{WITH_MODEL("\"vocab\":{\"a\":1.5}"), "the id of \"a\" is 1.5"},
	{WITH_MODEL("\"vocab\":{\"a\":\"1\"}"), "the id of \"a\" is 1"},
	{WITH_MODEL("\"vocab\":{\"a\":0,\"b\":0,\"ab\":1}"), "the tokens \"a\" and \"b\" both have id 0"},
	{WITH_MODEL("\"vocab\":{\"a\":0,\"b\":1,\"ab\":16777215}"),
		"the token \"ab\" has id 16777215, expected less than 65560"},
	{WITH_MODEL("\"merges\":null"), "\"merges\" is null, expected an array"},
	{WITH_MODEL("\"merges\":[[\"a\",\"c\"]]"), "merge 0 needs the token \"c\""},
	{WITH_MODEL("\"merges\":[[\"b\",\"a\"]]"), "merge 0 needs the token \"ba\""},
	{WITH_MODEL("\"merges\":[[\"a\",\"b\"],\"a b\"]"), "merge 1 is string, expected two tokens"},
	{WITH_MODEL("\"merges\":[\"a b\",[\"a\",\"b\"]]"), "merge 1 is array, expected a string"},
	{WITH_MODEL("\"merges\":[\"a b c\"]"), "merge 0 is \"a b c\", expected two tokens with one space"},
	{WITH_MODEL("\"merges\":[\"ab\"]"), "merge 0 is \"ab\""},
	{WITH_MODEL("\"merges\":[[\"a\"]]"), "merge 0 is array, expected two tokens"},
	{WITH_MODEL("\"merges\":[[\"a\",1]]"), "merge 0 is array, expected two tokens"},
	{WITH("\"normalizer\":{\"type\":\"Precompiled\"}"), "normalizer of type \"Precompiled\" is not supported"},
	{WITH("\"normalizer\":[]"), "normalizer is array without a \"type\""},
	{WITH("\"normalizer\":{\"type\":\"Sequence\"}"), "normalizer Sequence: \"normalizers\" is missing"},
	{WITH("\"normalizer\":{\"type\":\"Strip\",\"strip_left\":true}"),
		"normalizer Strip: \"strip_right\" is missing"},
	{WITH("\"normalizer\":{\"type\":\"Replace\",\"content\":\"\",\"pattern\":{\"Regex\":\"(\"}}"),
		"normalizer Replace: pattern \"(\""},
	{WITH("\"normalizer\":{\"type\":\"Replace\",\"content\":\"\",\"pattern\":{}}"),
		"normalizer Replace: \"pattern\" is object, expected"},
	{WITH("\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}"),
		"pre_tokenizer of type \"BertPreTokenizer\" is not supported"},
	{WITH("\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"UnicodeScripts\"}]}"),
		"\"UnicodeScripts\""},
	{WITH(SPLIT(",\"behavior\":\"isolated\"")), "pre_tokenizer Split: \"behavior\" is \"isolated\""},
	{WITH(SPLIT(",\"invert\":null")), "pre_tokenizer Split: \"invert\" is null"},
	{WITH(SPLIT(",\"pattern\":{\"Regex\":\"[[:alpha:]]\"}")), "a POSIX bracket at byte 1 is not supported"},
	{WITH("\"pre_tokenizer\":{\"type\":\"ByteLevel\"}"),
		"pre_tokenizer ByteLevel: \"add_prefix_space\" is missing"},
	{WITH("\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"__\"}"),
		"\"replacement\" is \"__\", expected one character"},
	{WITH("\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"last\"}"),
		"\"prepend_scheme\" is \"last\""},
	{WITH("\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"first\",\"add_"
	      "prefix_space\":false}"),
		"\"add_prefix_space\" is false, but \"prepend_scheme\" is \"first\""},
	{WITH("\"decoder\":{\"type\":\"WordPiece\"}"), "decoder of type \"WordPiece\" is not supported"},
	{WITH("\"decoder\":{\"type\":\"Strip\",\"content\":\" \",\"start\":-1,\"stop\":0}"),
		"decoder Strip: \"start\" is -1"},
	{WITH("\"post_processor\":{\"type\":\"Mystery\"}"), "post_processor of type \"Mystery\" is not supported"},
	{WITH(TEMPLATE("[{\"SpecialToken\":{\"id\":\"x\"}}]")), "\"single\" has no sequence A"},
	{WITH(TEMPLATE("[{\"Sequence\":{\"id\":\"B\"}}]")), "\"single\" has sequence \"B\""},
	{WITH(TEMPLATE("[{\"Sequence\":{\"id\":\"A\"}},{\"Sequence\":{\"id\":\"A\"}}]")), "after A"},
	{WITH(TEMPLATE("[{\"Sequence\":{\"id\":\"A\"}},{\"SpecialToken\":{\"id\":\"w\"}}]")),
		"\"w\" is not among its special_tokens"},
	{WITH(TEMPLATE("[{\"Sequence\":{\"id\":\"A\"}},{\"SpecialToken\":{\"id\":\"y\"}}]")),
		"the ids of \"y\" hold -1"},
	{WITH(TEMPLATE("[{\"Sequence\":{\"id\":\"A\"}},{\"SpecialToken\":{\"id\":\"z\"}}]")), "\"ids\" is missing"},
	{WITH(TEMPLATE("[{}]")), "\"single\" holds object"},
	{WITH("\"added_tokens\":{}"), "\"added_tokens\" is object, expected an array"},
	{WITH("\"added_tokens\":[{\"id\":3,\"content\":\"<x>\"}]"), "added_tokens: \"single_word\" is missing"},
	{WITH("\"added_tokens\":[" ADDED("-3", "<x>", "") "]"), "added_tokens: \"id\" is -3"},
	{WITH("\"added_tokens\":[" ADDED("2147483648", "<x>", "") "]"), "added_tokens: \"id\" is 2147483648"},
	{WITH("\"added_tokens\":[" ADDED("3", "<x>", "") "," ADDED("3", "<y>", "") "]"),
		"\"<x>\" and \"<y>\" both have id 3"},
	{"{\"model\":{\"vocab\":{\"a\":0,\"b\":2},\"merges\":[]},\"added_tokens\":[" ADDED("3", "<x>", "") "]}",
		"the tokens \"b\" and \"<x>\" both have id 2"},
	{WITH("\"normalizer\":{\"type\":\"Lowercase\"},\"added_tokens\":[" ADDED(
		 "3", "X", ",\"normalized\":true") "," ADDED("4", "x", ",\"normalized\":true") "]"),
		"the added tokens 3 and 4 are both \"x\""},
};

START_TEST(bad_file)
{
	struct tokenizer *t;
	int status = open_with(bad[_i].json, "", &t);
	ck_assert_msg(status == ERR_INPUT, "%s: status %d, expected %s", bad[_i].json, status, bad[_i].message);
	ck_assert_msg(
		strstr(test_error.message, bad[_i].message), "%s, expected %s", test_error.message, bad[_i].message);
	ck_assert_msg(strncmp(test_error.message, "F", 1) == 0, "%s does not name the file", test_error.message);
	ck_assert_ptr_null(t);
}
END_TEST

/* The unknown token is missed only when it is needed. */
START_TEST(unknown_token_missing)
{
	struct tokenizer *t;
	struct token_ids ids = {0};
	CHECK_OK(open_with(WITH_MODEL("\"unk_token\":\"<unk>\""), "", &t));
	check_ids("known characters", t, "ab", TOKENIZER_PLAIN, "2");
	ck_assert_int_eq(tokenizer_encode(t, str_of("ax"), TOKENIZER_PLAIN, &ids, &test_error), ERR_INPUT);
	ck_assert_ptr_nonnull(strstr(test_error.message, "\"x\""));
	ck_assert_uint_eq(ids.count, 0);
	token_ids_free(&ids);
	tokenizer_free(t);
}
END_TEST

/* ---- tokenizer_config.json, as transformers 5.24's AutoTokenizer reads it ---- */

#define TOKEN_X "\"added_tokens\":[" ADDED("3", "<x>", "") "]"

static const struct {
	const char *name, *json, *config;
	int32_t bos, eos;
	size_t size;
	const char *text, *ids;
} configs[] = {
	{"none", WITH(TOKEN_X), "{}", -1, -1, 4, "a<x>", "0 3"},
	{"strings", WITH(TOKEN_X), "{\"bos_token\":\"<x>\",\"eos_token\":\"b\"}", 3, 1, 4, "ab<x>", "0 1 3"},
	{"object", WITH(TOKEN_X), "{\"bos_token\":{\"content\":\"<x>\"},\"eos_token\":null}", 3, -1, 4, "ab", "2"},
	{"empty", WITH(TOKEN_X), "{\"bos_token\":\"\"}", -1, -1, 4, "ab", "2"},
	{"add_bos_token does nothing", WITH(TOKEN_X),
		"{\"tokenizer_class\":\"LlamaTokenizerFast\",\"bos_token\":\"<x>\",\"eos_token\":\"<x>\",\"add_bos_"
		"token\":true,\"add_eos_token\":true}",
		3, 3, 4, "ab", "2"},
	{"the file's own template decides",
		WITH(TOKEN_X "," TEMPLATE("[{\"SpecialToken\":{\"id\":\"x\"}},{\"Sequence\":{\"id\":\"A\"}}]")),
		"{\"bos_token\":\"<x>\",\"add_bos_token\":false}", 3, -1, 4, "ab", "1 0 2"},
	{"order of new tokens", WITH(TOKEN_X),
		"{\"additional_special_tokens\":[\"<m>\",\"<n>\"],\"pad_token\":\"<p>\",\"eos_token\":\"<e>\",\"bos_"
		"token\":\"<b>\",\"image_token\":\"<i>\"}",
		4, 5, 10, "<b><e><p><i><m><n>", "4 5 6 7 8 9"},
	{"flags of the file stay", WITH("\"added_tokens\":[" ADDED("3", "<x>", ",\"lstrip\":true") "]"),
		"{\"bos_token\":\"<x>\"}", 3, -1, 4, "a  <x>", "0 3"},
	{"flags of added_tokens_decoder", WITH(TOKEN_X),
		"{\"added_tokens_decoder\":{\"9\":{\"content\":\"<q>\",\"rstrip\":true},\"3\":{\"content\":\"<x>\","
		"\"lstrip\":true}}}",
		-1, -1, 5, "a <x><q> a", "0 3 4 0"},
	{"split_special_tokens", WITH(TOKEN_X), "{\"split_special_tokens\":true,\"eos_token\":\"<x>\"}", -1, 3, 4,
		"a<x>b", "2"},
	{"extra tokens by name", WITH(TOKEN_X),
		"{\"extra_special_tokens\":{\"k\":\"<k>\"},\"additional_special_tokens\":[\"<m>\"]}", -1, -1, 5,
		"<k><m>", "4"},
	{"count begins anew behind the largest id",
		"{\"model\":{\"vocab\":{\"a\":0,\"<x>\":7},\"merges\":[]}," TOKEN_X "}", "{\"bos_token\":\"<b>\"}", 8,
		-1, 9, "<b>a<x>", "8 0 7"},
};

START_TEST(config)
{
	struct tokenizer *t;
	CHECK_OK(open_with(configs[_i].json, configs[_i].config, &t));
	ck_assert_msg(tokenizer_bos(t) == configs[_i].bos && tokenizer_eos(t) == configs[_i].eos, "%s: bos %d, eos %d",
		configs[_i].name, tokenizer_bos(t), tokenizer_eos(t));
	ck_assert_uint_eq(tokenizer_vocab_size(t), configs[_i].size);
	if (configs[_i].bos >= 0)
		ck_assert(tokenizer_is_special(t, configs[_i].bos));
	check_ids(configs[_i].name, t, configs[_i].text, TOKENIZER_SPECIALS, configs[_i].ids);
	tokenizer_free(t);
}
END_TEST

static const struct {
	const char *config, *message;
} bad_configs[] = {
	{"{", "C"},
	{"[1]", "C: the file holds array"},
	{"{\"bos_token\":7}", "C: \"bos_token\" is number, expected a token"},
	{"{\"bos_token\":{}}", "C: bos_token: \"content\" is missing"},
	{"{\"added_tokens_decoder\":[]}", "C: \"added_tokens_decoder\" is array"},
	{"{\"added_tokens_decoder\":{\"x\":{\"content\":\"a\"}}}", "C: added_tokens_decoder: \"x\""},
	{"{\"added_tokens_decoder\":{\"-1\":{\"content\":\"a\"}}}", "C: added_tokens_decoder: \"-1\""},
	{"{\"added_tokens_decoder\":{\"1\":\"a\"}}", "C: added_tokens_decoder: \"1\" is string"},
	{"{\"extra_special_tokens\":\"abc\",\"x\":1}", "C: \"extra_special_tokens\" is string"},
	{"{\"split_special_tokens\":\"yes\"}", "C: the file: \"split_special_tokens\" is string"},
};

START_TEST(bad_config)
{
	struct tokenizer *t;
	ck_assert_int_eq(open_with(WITH(TOKEN_X), bad_configs[_i].config, &t), ERR_INPUT);
	ck_assert_msg(strncmp(test_error.message, bad_configs[_i].message, strlen(bad_configs[_i].message)) == 0,
		"%s, expected %s", test_error.message, bad_configs[_i].message);
}
END_TEST

/* ---- Folders ---- */

START_TEST(folder)
{
	static const char json[] = WITH(TOKEN_X), config_text[] = "{\"bos_token\":\"<x>\"}";
	const char *path = scratch_folder();
	struct tokenizer *t;
	char expected[SHA256_HEX_SIZE];
	test_write_file("tokenizer.json", json, sizeof(json) - 1);
	CHECK_OK(tokenizer_open_folder(path, &t, &test_error));
	sha256_hex(json, sizeof(json) - 1, expected);
	ck_assert_str_eq(tokenizer_fingerprint(t), expected);
	ck_assert_int_eq(tokenizer_bos(t), -1);
	tokenizer_free(t);

	test_write_file("tokenizer_config.json", config_text, sizeof(config_text) - 1);
	CHECK_OK(tokenizer_open_folder(path, &t, &test_error));
	ck_assert_str_ne(tokenizer_fingerprint(t), expected);
	ck_assert_int_eq(tokenizer_bos(t), 3);
	tokenizer_free(t);

	test_write_file("tokenizer.json", "{}", 2);
	ck_assert_int_eq(tokenizer_open_folder(path, &t, &test_error), ERR_INPUT);
	ck_assert_ptr_nonnull(strstr(test_error.message, "/tokenizer.json: "));
}
END_TEST

START_TEST(folder_missing)
{
	struct tokenizer *t = NULL;
	ck_assert_int_eq(tokenizer_open_folder(scratch_folder(), &t, &test_error), ERR_MISSING);
	ck_assert_ptr_nonnull(strstr(test_error.message, "tokenizer.json"));
	ck_assert_ptr_null(t);
}
END_TEST

/* ---- Hostile files ---- */

static struct buf golden_file(void)
{
	struct buf text = test_read_file(golden_path("tokenizer/cases.json"));
	struct json_document *document;
	CHECK_OK(json_parse(buf_str(&text), "cases", JSON_LAST_KEY_WINS, &document, &test_error));
	buf_clear(&text);
	json_dump_python(json_get(json_get(json_root(document), "tokenizers"), "mark_first"), -1, true, &text);
	json_free(document);
	return text;
}

/* Every prefix of a file is refused. */
START_TEST(truncated)
{
	struct buf text = golden_file();
	struct tokenizer *t = NULL;
	CHECK_OK(tokenizer_open(buf_str(&text), "F", str_of(""), NULL, &t, &test_error));
	tokenizer_free(t);
	for (size_t length = 0; length < text.length; length++) {
		struct str part = {text.data, length};
		ck_assert_int_eq(tokenizer_open(part, "F", str_of(""), NULL, &t, &test_error), ERR_INPUT);
	}
	buf_free(&text);
}
END_TEST

/* A file with one changed byte is refused or works; it never does worse. */
START_TEST(changed)
{
	struct buf text = golden_file();
	size_t opened = 0;
	for (size_t i = 0; i < text.length; i++) {
		struct tokenizer *t = NULL;
		char kept = text.data[i];
		text.data[i] = (char)("\"0}],a-"[i % 7]);
		if (tokenizer_open(buf_str(&text), "F", str_of(""), NULL, &t, &test_error) == 0) {
			struct token_ids ids = {0};
			int status =
				tokenizer_encode(t, str_of("the als <s> x"), TOKENIZER_SPECIALS, &ids, &test_error);
			ck_assert(status == 0 || status == ERR_INPUT);
			token_ids_free(&ids);
			tokenizer_free(t);
			opened++;
		}
		text.data[i] = kept;
	}
	ck_assert_uint_gt(opened, 0);
	ck_assert_uint_lt(opened, text.length);
	buf_free(&text);
}
END_TEST

/* Many added tokens, each the beginning of the next, in a text of the same. */
START_TEST(nested_added_tokens)
{
	enum { TOKENS = 400 };
	struct buf json = {0}, text = {0};
	struct tokenizer *t;
	struct token_ids ids = {0};
	buf_append_text(&json, "{\"model\":{\"vocab\":{},\"merges\":[]},\"added_tokens\":[");
	for (int i = 0; i < TOKENS; i++) {
		buf_printf(&json,
			"%s{\"id\":%d,\"single_word\":false,\"lstrip\":true,\"rstrip\":true,\"normalized\":false,"
			"\"special\":true,\"content\":\"",
			i > 0 ? "," : "", i);
		for (int n = 0; n <= i; n++)
			buf_append_char(&json, ' ');
		buf_append_text(&json, "x\"}");
	}
	buf_append_text(&json, "]}");
	CHECK_OK(tokenizer_open(buf_str(&json), "F", str_of(""), NULL, &t, &test_error));
	while (text.length < 1 << 18)
		buf_append_char(&text, ' ');
	buf_append_text(&text, "x  x");
	CHECK_OK(tokenizer_encode(t, buf_str(&text), TOKENIZER_PLAIN, &ids, &test_error));
	ck_assert_uint_eq(ids.count, 2);
	ck_assert_int_eq(ids.data[0], TOKENS - 1);
	ck_assert_int_eq(ids.data[1], 1);
	token_ids_free(&ids);
	tokenizer_free(t);
	buf_free(&json);
	buf_free(&text);
}
END_TEST

START_TEST(added_token_length)
{
	for (int extra = 0; extra < 2; extra++) {
		struct buf json = {0};
		struct tokenizer *t = NULL;
		buf_append_text(&json,
			"{\"model\":{\"vocab\":{},\"merges\":[]},\"added_tokens\":[" ADDED(
				"0", "<x>", ",\"content\":\""));
		json.length--; /* the brace behind the flags: the content comes last */
		for (int n = 0; n < 1024 + extra; n++)
			buf_append_char(&json, 'x');
		buf_append_text(&json, "\"}]}");
		int status = tokenizer_open(buf_str(&json), "F", str_of(""), NULL, &t, &test_error);
		ck_assert_msg(status == (extra ? ERR_INPUT : 0), "%d: %s", extra, test_error.message);
		tokenizer_free(t);
		buf_free(&json);
	}
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *files = test_case(suite, "files", 0);
	tcase_add_loop_test(files, good_file, 0, sizeof(good) / sizeof(good[0]));
	tcase_add_loop_test(files, bad_file, 0, sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(files, unknown_token_missing);

	TCase *configuration = test_case(suite, "config", 0);
	tcase_add_loop_test(configuration, config, 0, sizeof(configs) / sizeof(configs[0]));
	tcase_add_loop_test(configuration, bad_config, 0, sizeof(bad_configs) / sizeof(bad_configs[0]));

	TCase *folders = test_case(suite, "folder", 0);
	tcase_add_test(folders, folder);
	tcase_add_test(folders, folder_missing);

	TCase *hostile = test_case(suite, "hostile", 60);
	tcase_add_test(hostile, truncated);
	tcase_add_test(hostile, changed);
	tcase_add_test(hostile, nested_added_tokens);
	tcase_add_test(hostile, added_token_length);
}

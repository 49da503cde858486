/* Text to ids and back: the same as Hugging Face's tokenizers on frozen cases and on the shared ones, whatever the
 * text. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/json_strict.h"
#include "engine/base/utf8.h"
#include "engine/text/encode_pair.h"
#include "engine/text/tokenizer.h"
#include "tests/support.h"

const char *const test_program_name = "tokenizer";

static struct json_document *read_json(const char *path)
{
	struct buf text = test_read_file(path);
	struct json_document *document;
	CHECK_OK(json_parse(buf_str(&text), path, JSON_LAST_KEY_WINS, &document, &test_error));
	buf_free(&text);
	return document;
}

static struct tokenizer *open_text(const char *json)
{
	struct tokenizer *t;
	CHECK_OK(tokenizer_open(str_of(json), "case", str_of(""), NULL, &t, &test_error));
	return t;
}

static struct tokenizer *open_value(const struct json *value)
{
	struct buf text = {0};
	json_dump_python(value, -1, true, &text);
	struct tokenizer *t = open_text(buf_text(&text));
	buf_free(&text);
	return t;
}

static struct tokenizer *open_file(const char *path)
{
	struct buf text = test_read_file(path);
	struct tokenizer *t = open_text(buf_text(&text));
	buf_free(&text);
	return t;
}

static void print_ids(const struct token_ids *ids, struct buf *out)
{
	buf_append_char(out, '[');
	for (size_t i = 0; i < ids->count; i++)
		buf_printf(out, i > 0 ? ", %d" : "%d", ids->data[i]);
	buf_append_char(out, ']');
}

/* The ids of a text are those of a JSON array. */
static void check_ids(const struct tokenizer *t, const char *name, struct str text, enum tokenizer_specials specials,
	const struct json *expected)
{
	struct token_ids ids = {0};
	struct buf got = {0}, wanted = {0};
	CHECK_OK(tokenizer_encode(t, text, specials, &ids, &test_error));
	print_ids(&ids, &got);
	json_dump_python(expected, -1, true, &wanted);
	ck_assert_msg(str_equal(buf_str(&got), buf_str(&wanted)), "%s: \"%.*s\" (specials %d) gives %s, expected %s",
		name, STR_ARG(text), specials, buf_text(&got), buf_text(&wanted));
	buf_free(&got);
	buf_free(&wanted);
	token_ids_free(&ids);
}

static struct token_ids ids_of(const struct json *array)
{
	struct token_ids ids = {0};
	JSON_EACH (id, array) {
		int64_t value;
		ck_assert(json_int64(id, &value));
		CHECK_OK(token_ids_push(&ids, (int32_t)value, &test_error));
	}
	return ids;
}

static void check_text(
	const struct tokenizer *t, const char *name, const struct json *array, bool skip, struct str expected)
{
	struct token_ids ids = ids_of(array);
	struct buf got = {0};
	tokenizer_decode(t, ids.data, ids.count, skip, &got);
	ck_assert_msg(str_equal(buf_str(&got), expected), "%s: ids (%zu, skip %d) give \"%s\", expected \"%.*s\"", name,
		ids.count, skip, buf_text(&got), STR_ARG(expected));
	buf_free(&got);
	token_ids_free(&ids);
}

/* ---- Frozen cases ---- */

START_TEST(golden_encode)
{
	struct json_document *document = read_json(golden_path("tokenizer/cases.json"));
	const struct json *tokenizers = json_get(json_root(document), "tokenizers");
	size_t cases = 0;
	JSON_EACH (file, tokenizers) {
		struct tokenizer *t = open_value(file);
		JSON_EACH (c, json_get(json_root(document), "encode")) {
			if (!str_equal(json_get(c, "tokenizer")->text, file->key))
				continue;
			struct str text = json_get(c, "text")->text;
			check_ids(t, file->key.data, text, TOKENIZER_PLAIN, json_get(c, "plain"));
			check_ids(t, file->key.data, text, TOKENIZER_SPECIALS, json_get(c, "specials"));
			cases++;
		}
		tokenizer_free(t);
	}
	ck_assert_uint_eq(cases, json_get(json_root(document), "encode")->count);
	json_free(document);
}
END_TEST

START_TEST(golden_decode)
{
	struct json_document *document = read_json(golden_path("tokenizer/cases.json"));
	size_t cases = 0;
	JSON_EACH (file, json_get(json_root(document), "tokenizers")) {
		struct tokenizer *t = open_value(file);
		JSON_EACH (c, json_get(json_root(document), "decode")) {
			if (!str_equal(json_get(c, "tokenizer")->text, file->key))
				continue;
			check_text(t, file->key.data, json_get(c, "ids"), false, json_get(c, "text")->text);
			check_text(t, file->key.data, json_get(c, "ids"), true, json_get(c, "skipped")->text);
			cases++;
		}
		tokenizer_free(t);
	}
	ck_assert_uint_eq(cases, json_get(json_root(document), "decode")->count);
	json_free(document);
}
END_TEST

/* ---- A byte-level tokenizer for the cases below ---- */

/* Writes the 256 characters of the byte alphabet as vocabulary members, then more. */
static void write_byte_vocab(struct buf *out, const char *more)
{
	buf_append_text(out, "{");
	int next = 0;
	for (int byte = 0; byte < 256; byte++) {
		bool prints = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
		char character[5] = {0};
		utf8_encode(prints ? byte : 256 + next++, character);
		json_write_string(str_of(character), false, out);
		buf_printf(out, ":%d,", byte);
	}
	buf_printf(out, "%s}", more);
}

/* ids 0-255: the bytes; 256 "lo", 257 "low"; 258 <s>, 259 </s>, 260 <tool> (not special). */
static struct tokenizer *open_bytes(const char *members, const char *config)
{
	struct buf json = {0};
	struct tokenizer *t;
	buf_append_text(&json, "{\"model\":{\"type\":\"BPE\",\"vocab\":");
	write_byte_vocab(&json, "\"lo\":256,\"low\":257");
	buf_printf(&json,
		",\"merges\":[\"l o\",\"lo w\"]},\"decoder\":{\"type\":\"ByteLevel\"},"
		"\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
		"\"added_tokens\":[{\"id\":258,\"content\":\"<s>\",\"special\":true,\"normalized\":false,\"lstrip\":"
		"false,"
		"\"rstrip\":false,\"single_word\":false},{\"id\":259,\"content\":\"</"
		"s>\",\"special\":true,\"normalized\":false,"
		"\"lstrip\":false,\"rstrip\":false,\"single_word\":false},{\"id\":260,\"content\":\"<tool>\","
		"\"special\":false,"
		"\"normalized\":false,\"lstrip\":false,\"rstrip\":false,\"single_word\":false}]%s}",
		members);
	CHECK_OK(tokenizer_open(buf_str(&json), "case", str_of(config), "config", &t, &test_error));
	buf_free(&json);
	return t;
}

#define BOS_TEMPLATE                                                                                                 \
	",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\",\"type_"   \
	"id\":0}},"                                                                                                  \
	"{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[],\"special_tokens\":{\"x\":{\"id\":\"x\",\"ids\":[" \
	"258],"                                                                                                      \
	"\"tokens\":[\"<s>\"]}}}"
#define BOS_CONFIG "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}"

static void check_numbers(const char *name, const struct token_ids *ids, const char *expected)
{
	struct buf got = {0};
	for (size_t i = 0; i < ids->count; i++)
		buf_printf(&got, i > 0 ? " %d" : "%d", ids->data[i]);
	ck_assert_msg(strcmp(buf_text(&got), expected) == 0, "%s: %s, expected %s", name, buf_text(&got), expected);
	buf_free(&got);
}

/* ---- Encoding ---- */

START_TEST(encode_appends)
{
	struct tokenizer *t = open_bytes("", "");
	struct token_ids ids = {0};
	CHECK_OK(tokenizer_encode(t, str_of("low"), TOKENIZER_SPECIALS, &ids, &test_error));
	CHECK_OK(tokenizer_encode(t, (struct str){NULL, 0}, TOKENIZER_SPECIALS, &ids, &test_error));
	CHECK_OK(tokenizer_encode(t, str_of("</s>lo<tool>"), TOKENIZER_PLAIN, &ids, &test_error));
	CHECK_OK(tokenizer_encode(t, (struct str){"l\0o", 3}, TOKENIZER_PLAIN, &ids, &test_error));
	check_numbers("several texts", &ids, "257 259 256 260 108 0 111");
	token_ids_free(&ids);
	tokenizer_free(t);
}
END_TEST

/* Not UTF-8: an error, and the ids stay as they were. */
START_TEST(encode_invalid)
{
	static const char *const texts[] = {"low\xff", "\xc3", "\xed\xa0\x80", "\xc0\x80", "\xf4\x90\x80\x80"};
	struct tokenizer *t = open_bytes(BOS_TEMPLATE, BOS_CONFIG);
	struct token_ids ids = {0};
	CHECK_OK(token_ids_push(&ids, 7, &test_error));
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		ck_assert_int_eq(
			tokenizer_encode(t, str_of(texts[i]), TOKENIZER_SPECIALS, &ids, &test_error), ERR_INPUT);
	check_numbers("ids before the error", &ids, "7");
	token_ids_free(&ids);
	tokenizer_free(t);
}
END_TEST

static const struct {
	const char *name, *members, *unit;
} long_texts[] = {
	{"one letter", "", "a"},
	{"merged letters", "", "lol"},
	{"spaces", "", " "},
	{"line feeds", "", "\n"},
	{"added tokens", "", "<s>"},
	{"beginnings of added tokens", "", "</"},
	{"marks out of order", ",\"normalizer\":{\"type\":\"NFC\"}", "\xcc\x81\xcc\x96"},
	{"longest decomposition", ",\"normalizer\":{\"type\":\"NFKD\"}", "\xef\xb7\xba"},
	{"emoji", ",\"normalizer\":{\"type\":\"NFKC\"}", "\xf0\x9f\x98\x80"},
};

/* A mebibyte without a break takes time in proportion, not by its square. */
START_TEST(encode_long)
{
	struct tokenizer *t = open_bytes(long_texts[_i].members, "");
	struct buf text = {0}, back = {0};
	struct token_ids ids = {0};
	while (text.length < 1 << 20)
		buf_append_text(&text, long_texts[_i].unit);
	CHECK_OK(tokenizer_encode(t, buf_str(&text), TOKENIZER_SPECIALS, &ids, &test_error));
	tokenizer_decode(t, ids.data, ids.count, false, &back);
	if (long_texts[_i].members[0] == '\0')
		ck_assert(str_equal(buf_str(&text), buf_str(&back)));
	else
		ck_assert_uint_gt(back.length, text.length / 2);
	buf_free(&text);
	buf_free(&back);
	token_ids_free(&ids);
	tokenizer_free(t);
}
END_TEST

/* A normaliser may not blow a text up without end. */
START_TEST(encode_growth)
{
	struct buf members = {0}, text = {0};
	buf_append_text(
		&members, ",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"");
	for (int i = 0; i < 60000; i++)
		buf_append_char(&members, 'b');
	buf_append_text(&members, "\"}");
	for (int i = 0; i < 100000; i++)
		buf_append_char(&text, 'a');
	struct tokenizer *t = open_bytes(buf_text(&members), "");
	struct token_ids ids = {0};
	ck_assert_int_eq(tokenizer_encode(t, buf_str(&text), TOKENIZER_PLAIN, &ids, &test_error), ERR_LIMIT);
	ck_assert_uint_eq(ids.count, 0);
	CHECK_OK(tokenizer_encode(t, str_of("bab"), TOKENIZER_PLAIN, &ids, &test_error));
	ck_assert_uint_eq(ids.count, 60002);
	token_ids_free(&ids);
	tokenizer_free(t);
	buf_free(&members);
	buf_free(&text);
}
END_TEST

struct thread_work {
	const struct tokenizer *t;
	struct str text;
	struct token_ids ids;
	int status;
};

static void *encode_often(void *argument)
{
	struct thread_work *w = argument;
	for (int i = 0; i < 200 && w->status == 0; i++) {
		w->ids.count = 0;
		w->status = tokenizer_encode(w->t, w->text, TOKENIZER_SPECIALS, &w->ids, NULL);
	}
	return NULL;
}

START_TEST(encode_threads)
{
	enum { THREADS = 4 };
	struct tokenizer *t = open_bytes(",\"normalizer\":{\"type\":\"NFC\"}", "");
	struct thread_work work[THREADS];
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++) {
		work[i] = (struct thread_work){.t = t, .text = str_of("below e\xcc\x81 <s> yellow, slowly 12")};
		ck_assert_int_eq(pthread_create(&threads[i], NULL, encode_often, &work[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		ck_assert_int_eq(work[i].status, 0);
		ck_assert_uint_eq(work[i].ids.count, work[0].ids.count);
		ck_assert_int_eq(memcmp(work[i].ids.data, work[0].ids.data, work[0].ids.count * sizeof(int32_t)), 0);
	}
	for (int i = 0; i < THREADS; i++)
		token_ids_free(&work[i].ids);
	tokenizer_free(t);
}
END_TEST

/* ---- Decoding ---- */

START_TEST(decode_bytes)
{
	struct tokenizer *t = open_bytes("", "");
	static const int32_t ids[] = {258, 0xf0, 0x9f, -1, 261, 1 << 30, INT32_MIN, 0x98, 260, 257, 0x80};
	struct buf bytes = {0}, text = {0};
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
		tokenizer_decode_id(t, ids[i], true, &bytes);
	ck_assert(str_is(buf_str(&bytes), "\xf0\x9f\x98<tool>low\x80"));
	tokenizer_decode(t, ids, sizeof(ids) / sizeof(ids[0]), false, &text);
	ck_assert_msg(str_is(buf_str(&text), "<s>\xef\xbf\xbd<tool>low\xef\xbf\xbd"), "%s", buf_text(&text));
	buf_clear(&bytes);
	tokenizer_decode_id(t, 258, false, &bytes);
	ck_assert(str_is(buf_str(&bytes), "<s>"));
	buf_clear(&text);
	tokenizer_decode(t, NULL, 0, false, &text);
	ck_assert_uint_eq(text.length, 0);
	buf_free(&bytes);
	buf_free(&text);
	tokenizer_free(t);
}
END_TEST

START_TEST(decode_id_of_marks)
{
	struct json_document *document = read_json(golden_path("tokenizer/cases.json"));
	struct tokenizer *t = open_value(json_get(json_get(json_root(document), "tokenizers"), "mark_prepend"));
	static const char *const pieces[] = {"\xe2\x96\x81the", "<0xE6>", "<0x97>", "<0xA5>", "</s>"};
	struct buf bytes = {0};
	for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++)
		tokenizer_decode_id(t, tokenizer_id(t, str_of(pieces[i])), true, &bytes);
	ck_assert_msg(str_is(buf_str(&bytes), " the\xe6\x97\xa5"), "%s", buf_text(&bytes));
	buf_free(&bytes);
	tokenizer_free(t);
	json_free(document);
}
END_TEST

START_TEST(look_up)
{
	struct tokenizer *t = open_bytes("", BOS_CONFIG);
	ck_assert_uint_eq(tokenizer_vocab_size(t), 261);
	ck_assert(str_is(tokenizer_piece(t, 257), "low"));
	ck_assert(str_is(tokenizer_piece(t, 32), "\xc4\xa0"));
	ck_assert(str_is(tokenizer_piece(t, 258), "<s>"));
	ck_assert_uint_eq(tokenizer_piece(t, 261).length + tokenizer_piece(t, -1).length, 0);
	ck_assert_int_eq(tokenizer_id(t, str_of("low")), 257);
	ck_assert_int_eq(tokenizer_id(t, str_of("</s>")), 259);
	ck_assert_int_eq(tokenizer_id(t, str_of("lo ")), -1);
	ck_assert_int_eq(tokenizer_id(t, str_of("")), -1);
	ck_assert_int_eq(tokenizer_bos(t), 258);
	ck_assert_int_eq(tokenizer_eos(t), 259);
	ck_assert(tokenizer_is_special(t, 258) && !tokenizer_is_special(t, 260) && !tokenizer_is_special(t, 257));
	ck_assert(!tokenizer_is_special(t, -1) && !tokenizer_is_special(t, 1 << 20));
	ck_assert_uint_eq(strlen(tokenizer_fingerprint(t)), 64);
	tokenizer_free(t);
}
END_TEST

/* ---- Context and continuation ---- */

static const struct {
	const char *name, *context, *continuation, *ids;
	size_t n_context;
	bool specials;
} pairs[] = {
	{"plain", "ab", "low", "97 98 257", 2, false},
	{"bos", "ab", "low", "258 97 98 257", 3, true},
	{"space moves", "ab ", "low", "258 97 98 32 257", 3, true},
	{"line feed moves", "ab\n", "low", "258 97 98 10 257", 3, true},
	{"several move", "ab \t\n", "low", "258 97 98 32 9 10 257", 3, true},
	{"no-break space moves", "ab\xc2\xa0", "x", "97 98 194 160 120", 2, false},
	{"file separator moves", "ab\x1c", "x", "97 98 28 120", 2, false},
	{"zero width space stays", "ab\xe2\x80\x8b", "x", "97 98 226 128 139 120", 5, false},
	{"leading space of the continuation stays there", "ab", " low", "97 98 32 257", 2, false},
	{"split by length where tokens join", "abl", "ow", "97 98 108", 3, false},
	{"own prefix", "<s>ab", "x", "258 97 98 120", 3, true},
	{"empty context", "", "low", "258 257", 1, true},
	{"empty context, no specials", "", "low", "258 257", 1, false},
	{"empty context, prefix in the continuation", "", "<s>low", "258 257", 1, true},
	{"both empty", "", "", "258", 1, true},
	{"empty continuation", "ab", "", "258 97 98", 3, true},
	{"white space alone", " \n", "x", "258 32 10 120", 1, true},
	{"white space alone, no specials", " \n", "x", "258 32 10 120", 1, false},
};

START_TEST(pair_table)
{
	struct tokenizer *t = open_bytes(BOS_TEMPLATE, BOS_CONFIG);
	struct token_ids ids = {0};
	size_t n_context = 99;
	CHECK_OK(token_ids_push(&ids, 5, &test_error));
	CHECK_OK(encode_pair(t, str_of(pairs[_i].context), str_of(pairs[_i].continuation),
		pairs[_i].specials ? TOKENIZER_SPECIALS : TOKENIZER_PLAIN, &ids, &n_context, &test_error));
	ck_assert_int_eq(ids.data[0], 5);
	memmove(ids.data, ids.data + 1, --ids.count * sizeof(*ids.data));
	check_numbers(pairs[_i].name, &ids, pairs[_i].ids);
	ck_assert_uint_eq(n_context, pairs[_i].n_context);
	token_ids_free(&ids);
	tokenizer_free(t);
}
END_TEST

START_TEST(pair_prefix)
{
	static const struct {
		const char *config, *ids; /* ids NULL: an error */
	} cases[] = {
		{"{\"eos_token\":\"</s>\"}", "259 257"},
		{"{\"bos_token\":null,\"eos_token\":{\"content\":\"</s>\"}}", "259 257"},
		{"{}", NULL},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tokenizer *t = open_bytes("", cases[i].config);
		struct token_ids ids = {0};
		size_t n_context;
		int status =
			encode_pair(t, str_of(""), str_of("low"), TOKENIZER_SPECIALS, &ids, &n_context, &test_error);
		ck_assert_int_eq(status, cases[i].ids ? 0 : ERR_INPUT);
		check_numbers(cases[i].config, &ids, cases[i].ids ? cases[i].ids : "");
		token_ids_free(&ids);
		tokenizer_free(t);
	}
}
END_TEST

/* ---- The shared cases ---- */

static const char *need_shared(const char *relative)
{
	const char *path = shared_path(relative);
	if (!path)
		test_skip("%s is not there", relative);
	return path;
}

START_TEST(shared_trailing_space)
{
	const char *path = need_shared("trials/T02/tokenizer.json"),
		   *expected = need_shared("trials/T02/expected.json");
	if (!path || !expected)
		return;
	struct json_document *document = read_json(expected);
	struct tokenizer *t = open_file(path);
	JSON_EACH (pair, json_get(json_root(document), "pairs")) {
		struct token_ids ids = {0};
		size_t n_context;
		CHECK_OK(encode_pair(t, json_get(pair, "ctx")->text, json_get(pair, "cont")->text, TOKENIZER_SPECIALS,
			&ids, &n_context, &test_error));
		ck_assert_uint_eq(n_context, json_get(pair, "ctx_ids")->count);
		struct token_ids whole = ids_of(json_get(pair, "whole_ids"));
		ck_assert_uint_eq(ids.count, whole.count);
		ck_assert_int_eq(memcmp(ids.data, whole.data, ids.count * sizeof(*ids.data)), 0);
		token_ids_free(&whole);
		token_ids_free(&ids);
	}
	tokenizer_free(t);
	json_free(document);
}
END_TEST

START_TEST(shared_ignore_merges)
{
	const char *expected = need_shared("trials/T04/expected.json");
	if (!expected)
		return;
	struct json_document *document = read_json(expected);
	const struct json *root = json_root(document);
	struct tokenizer *yes = open_file(need_shared("trials/T04/ignore_true.json"));
	struct tokenizer *no = open_file(need_shared("trials/T04/ignore_false.json"));
	check_ids(yes, "ignore_merges", json_get(root, "text")->text, TOKENIZER_PLAIN, json_get(root, "ids_true"));
	check_ids(no, "merges", json_get(root, "text")->text, TOKENIZER_PLAIN, json_get(root, "ids_false"));
	check_ids(yes, "ignore_merges", json_get(root, "text2")->text, TOKENIZER_PLAIN, json_get(root, "ids_true2"));
	check_ids(no, "merges", json_get(root, "text2")->text, TOKENIZER_PLAIN, json_get(root, "ids_true2"));
	tokenizer_free(yes);
	tokenizer_free(no);
	json_free(document);
}
END_TEST

START_TEST(shared_merge_forms)
{
	const char *expected = need_shared("trials/T06/expected.json");
	if (!expected)
		return;
	struct json_document *document = read_json(expected);
	struct tokenizer *forms[] = {
		open_file(need_shared("trials/T06/pairs.json")), open_file(need_shared("trials/T06/strings.json"))};
	check_ids(forms[0], "pairs", str_of("a bc"), TOKENIZER_PLAIN, json_get(json_root(document), "pairs_ids"));
	check_ids(forms[1], "strings", str_of("abcab"), TOKENIZER_PLAIN, json_get(json_root(document), "strings_ids"));
	tokenizer_free(forms[0]);
	tokenizer_free(forms[1]);
	json_free(document);
}
END_TEST

START_TEST(shared_space_marks)
{
	const char *expected = need_shared("trials/T08/expected.json");
	if (!expected)
		return;
	struct json_document *document = read_json(expected);
	const struct json *root = json_root(document);
	JSON_EACH (file, json_get(root, "ids")) {
		struct buf relative = {0};
		buf_printf(&relative, "trials/T08/%.*s.json", STR_ARG(file->key));
		struct tokenizer *t = open_file(need_shared(buf_text(&relative)));
		const struct json *text = json_get(root, "strings")->child;
		for (const struct json *ids = file->child; ids; ids = ids->next, text = text->next)
			check_ids(t, buf_text(&relative), text->text, TOKENIZER_SPECIALS, ids);
		tokenizer_free(t);
		buf_free(&relative);
	}
	json_free(document);
}
END_TEST

START_TEST(shared_past_vocabulary)
{
	const char *path = need_shared("trials/T10/tokenizer.json");
	if (!path)
		return;
	struct tokenizer *t = open_file(path);
	static const int32_t ids[] = {97, 300, 98};
	struct buf text = {0};
	ck_assert_uint_eq(tokenizer_vocab_size(t), 257);
	tokenizer_decode(t, ids, 3, true, &text);
	ck_assert(str_is(buf_str(&text), "ab"));
	buf_clear(&text);
	tokenizer_decode_id(t, 300, true, &text);
	tokenizer_decode(t, ids + 1, 1, false, &text);
	ck_assert_uint_eq(text.length, 0);
	buf_free(&text);
	tokenizer_free(t);
}
END_TEST

/* Each line of a file under the shared folder; the caller's function sees it parsed. */
static size_t for_lines(
	const char *path, void (*see)(const struct tokenizer *, const struct json *), const struct tokenizer *t)
{
	struct buf text = test_read_file(path);
	size_t lines = 0;
	for (size_t start = 0, end; start < text.length; start = end + 1, lines++) {
		struct json_document *document;
		end = str_find(buf_str(&text), str_of("\n"), start);
		end = end == (size_t)-1 ? text.length : end;
		CHECK_OK(json_parse((struct str){text.data + start, end - start}, path, JSON_LAST_KEY_WINS, &document,
			&test_error));
		see(t, json_root(document));
		json_free(document);
	}
	buf_free(&text);
	return lines;
}

static void see_pair(const struct tokenizer *t, const struct json *line)
{
	struct token_ids ids = {0};
	size_t n_context;
	int64_t tokens;
	CHECK_OK(encode_pair(t, json_get(line, "context")->text, json_get(line, "continuation")->text,
		TOKENIZER_SPECIALS, &ids, &n_context, &test_error));
	ck_assert(json_int64(json_get(line, "tokens"), &tokens));
	ck_assert_msg(ids.count - n_context == (size_t)tokens, "\"%.*s\" has %zu tokens, expected %lld",
		STR_ARG(json_get(line, "continuation")->text), ids.count - n_context, (long long)tokens);
	token_ids_free(&ids);
}

static void see_generated(const struct tokenizer *t, const struct json *line)
{
	struct token_ids ids = ids_of(json_get(line, "tokens"));
	struct buf text = {0};
	tokenizer_decode(t, ids.data, ids.count, true, &text);
	struct str expected = json_get(line, "text")->text;
	ck_assert_msg(str_starts_with(buf_str(&text), expected), "\"%s\", expected \"%.*s\"", buf_text(&text),
		STR_ARG(expected));
	buf_free(&text);
	token_ids_free(&ids);
}

START_TEST(shared_pocket)
{
	const char *folder = need_shared("pocket/model"), *pair_file = need_shared("golden/pocket/logprobs.jsonl");
	const char *generated = need_shared("golden/pocket/generate.jsonl");
	if (!folder || !pair_file || !generated)
		return;
	struct tokenizer *t;
	CHECK_OK(tokenizer_open_folder(folder, &t, &test_error));
	ck_assert_int_eq(tokenizer_bos(t), 0);
	ck_assert_int_eq(tokenizer_eos(t), 2);
	ck_assert_uint_gt(for_lines(pair_file, see_pair, t), 400);
	ck_assert_uint_gt(for_lines(generated, see_generated, t), 50);
	tokenizer_free(t);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *golden = test_case(suite, "golden", 60);
	tcase_add_test(golden, golden_encode);
	tcase_add_test(golden, golden_decode);

	TCase *encode = test_case(suite, "encode", 60);
	tcase_add_test(encode, encode_appends);
	tcase_add_test(encode, encode_invalid);
	tcase_add_loop_test(encode, encode_long, 0, sizeof(long_texts) / sizeof(long_texts[0]));
	tcase_add_test(encode, encode_growth);
	tcase_add_test(encode, encode_threads);

	TCase *decode = test_case(suite, "decode", 0);
	tcase_add_test(decode, decode_bytes);
	tcase_add_test(decode, decode_id_of_marks);
	tcase_add_test(decode, look_up);

	TCase *pair = test_case(suite, "pair", 0);
	tcase_add_loop_test(pair, pair_table, 0, sizeof(pairs) / sizeof(pairs[0]));
	tcase_add_test(pair, pair_prefix);

	TCase *shared = test_case(suite, "shared", 60);
	tcase_add_test(shared, shared_trailing_space);
	tcase_add_test(shared, shared_ignore_merges);
	tcase_add_test(shared, shared_merge_forms);
	tcase_add_test(shared, shared_space_marks);
	tcase_add_test(shared, shared_past_vocabulary);
	tcase_add_test(shared, shared_pocket);
}

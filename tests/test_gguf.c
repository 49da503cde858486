/* GGUF files: what is read, what is refused and with which words, and hostile files. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gguf_file.h"

const char *const test_program_name = "gguf";

/* ---- Files from a script ---- Words between spaces: u8: u32: u64: (numbers of that size), f32: f64:, s: (a string
 * with its length), pad (zeros to a multiple of 32), zero: (so many zero bytes); head:T:K is GGUF, version 3, T
 * tensors, K keys. */

static void write_word(const char *word, struct buf *out)
{
	const char *colon = strchr(word, ':');
	const char *value = colon ? colon + 1 : "";
	size_t name = colon ? (size_t)(colon - word) : strlen(word);
	struct str kind = {word, name};
	char *end;
	uint64_t number = strtoull(value, &end, 0);

	if (str_is(kind, "head")) {
		buf_append_text(out, "GGUF");
		put_u32(out, 3);
		put_u64(out, number);
		put_u64(out, strtoull(end + 1, NULL, 0));
	} else if (str_is(kind, "raw")) {
		buf_append_text(out, value);
	} else if (str_is(kind, "s")) {
		put_text(out, str_of(value));
	} else if (str_is(kind, "u8")) {
		buf_append_char(out, (char)number);
	} else if (str_is(kind, "u32")) {
		put_u32(out, (uint32_t)number);
	} else if (str_is(kind, "u64")) {
		put_u64(out, number);
	} else if (str_is(kind, "f32")) {
		float single = strtof(value, NULL);
		buf_append(out, &single, sizeof(single));
	} else if (str_is(kind, "f64")) {
		double wide = strtod(value, NULL);
		buf_append(out, &wide, sizeof(wide));
	} else if (str_is(kind, "zero")) {
		for (uint64_t i = 0; i < number; i++)
			buf_append_char(out, 0);
	} else {
		ck_assert_msg(str_is(kind, "pad"), "the script has a word '%s'", word);
		while (out->length % 32 != 0)
			buf_append_char(out, 0);
	}
}

static struct buf write_script(const char *script)
{
	struct buf out = {0};
	for (const char *at = script; *at;) {
		size_t length = strcspn(at, " ");
		char word[128];
		ck_assert_uint_lt(length, sizeof(word));
		snprintf(word, sizeof(word), "%.*s", (int)length, at);
		if (length > 0)
			write_word(word, &out);
		at += length + (at[length] == ' ');
	}
	return out;
}

/* From memory of exactly that size, so that a sanitizer sees a byte too many. The caller frees *copy after the file. */
static int parse_copy(const void *data, size_t size, uint8_t **copy, struct gguf **out)
{
	*copy = malloc(size ? size : 1);
	ck_assert_ptr_nonnull(*copy);
	if (size > 0)
		memcpy(*copy, data, size);
	return gguf_parse(*copy, size, "case", out, &test_error);
}

/* Reads all that is there. */
static void walk(const struct gguf *g)
{
	float block[256];
	for (size_t i = 0; i < gguf_key_count(g); i++) {
		const struct gguf_key *key = gguf_key_at(g, i);
		const uint8_t *at = key->value.data;
		if (i > 0)
			ck_assert(!str_equal(key->name, gguf_key_at(g, i - 1)->name));
		for (uint64_t item = 0; key->value.type == GGUF_STRING && item < key->value.count; item++)
			gguf_next_text(&at);
		ck_assert(key->value.type != GGUF_STRING || at == key->value.data + key->value.size);
	}
	for (size_t i = 0; i < gguf_tensor_count(g); i++) {
		const struct tensor *t = gguf_tensor_at(g, i);
		ck_assert_ptr_eq(gguf_tensor_find(g, t->name), t);
		ck_assert_uint_eq(t->size, t->count / tensor_type_block(t->type) * tensor_type_size(t->type));
		uint64_t n = tensor_type_block(t->type);
		for (uint64_t first = 0; first < t->count; first += n)
			(void)tensor_to_float(t, first, n, block);
	}
}

/* ---- Good files ---- */

#define ARCHITECTURE "s:general.architecture u32:8 s:llama "
#define T2 "s:t u32:1 u64:2 u32:0 u64:0 "

static const struct {
	const char *name, *script;
	size_t keys, tensors;
} good[] = {
	{"one key, one tensor", "head:1:1 " ARCHITECTURE T2 "pad f32:1 f32:2", 1, 1},
	{"version 2", "raw:GGUF u32:2 u64:1 u64:0 " T2 "pad zero:8", 0, 1},
	{"nothing", "head:0:0", 0, 0},
	{"keys only", "head:0:1 " ARCHITECTURE, 1, 0},
	{"bytes behind the last tensor", "head:1:0 " T2 "pad zero:1000", 0, 1},
	{"a scalar", "head:1:0 s:t u32:0 u32:0 u64:0 pad f32:1", 0, 1},
	{"an empty tensor", "head:1:0 s:t u32:2 u64:0 u64:7 u32:0 u64:0", 0, 1},
	{"an empty tensor of blocks", "head:1:0 s:t u32:2 u64:32 u64:0 u32:2 u64:0 pad", 0, 1},
	{"an empty tensor beside another", "head:2:0 s:e u32:1 u64:0 u32:0 u64:0 " T2 "pad zero:8", 0, 2},
	{"four dimensions", "head:1:0 s:t u32:4 u64:2 u64:1 u64:3 u64:1 u32:0 u64:0 pad zero:24", 0, 1},
	{"last first", "head:2:0 s:b u32:1 u64:2 u32:0 u64:32 " T2 "pad zero:40", 0, 2},
	{"a gap between tensors", "head:2:0 s:b u32:1 u64:2 u32:0 u64:96 " T2 "pad zero:104", 0, 2},
	{"a block", "head:1:0 s:t u32:1 u64:32 u32:2 u64:0 pad zero:18", 0, 1},
	{"integers and doubles", "head:2:0 s:i u32:1 u64:1 u32:27 u64:0 s:d u32:1 u64:1 u32:28 u64:32 pad zero:40", 0,
		2},
	{"alignment 64", "head:1:1 s:general.alignment u32:4 u32:64 " T2 "pad pad zero:72", 1, 1},
	{"alignment 1", "head:1:1 s:general.alignment u32:4 u32:1 " T2 "zero:8", 1, 1},
	{"alignment as u64", "head:1:1 s:general.alignment u32:10 u64:32 " T2 "pad zero:8", 1, 1},
	{"a large alignment without data", "head:0:1 s:general.alignment u32:4 u32:0x40000000", 1, 0},
	{"an empty array", "head:0:1 s:a u32:9 u32:4 u64:0", 1, 0},
	{"an empty array of strings", "head:0:1 s:a u32:9 u32:8 u64:0", 1, 0},
	{"an empty name of a key", "head:0:1 s: u32:0 u8:7", 1, 0},
	{"every type",
		"head:0:13 s:a u32:0 u8:1 s:b u32:1 u8:1 s:c u32:2 u8:1 u8:0 s:d u32:3 u8:1 u8:0 s:e u32:4 u32:1 s:f "
		"u32:5 u32:1 s:g u32:6 f32:1 "
		"s:h u32:7 u8:1 s:i u32:8 s:x s:j u32:9 u32:8 u64:2 s:y s: s:k u32:10 u64:1 s:l u32:11 u64:1 s:m "
		"u32:12 f64:1",
		13, 0},
};

START_TEST(accepts_good_files)
{
	struct buf file = write_script(good[_i].script);
	uint8_t *copy;
	struct gguf *g;
	ck_assert_msg(parse_copy(file.data, file.length, &copy, &g) == 0, "%s: %s", good[_i].name, test_error.message);
	ck_assert_uint_eq(gguf_key_count(g), good[_i].keys);
	ck_assert_uint_eq(gguf_tensor_count(g), good[_i].tensors);
	walk(g);
	gguf_close(g);
	free(copy);
	buf_free(&file);
}
END_TEST

/* ---- Bad files ---- */

static const struct {
	const char *script, *expected; /* how the message begins, after the name of the file */
} bad[] = {
	{"", "the head of a GGUF file needs 4 bytes at offset 0, but the file ends at 0: "},
	{"raw:GGUE u32:3 u64:0 u64:0", "does not begin with GGUF"},
	{"raw:GGUF u32:1 u64:0 u64:0", "GGUF version 1 is not built; built: 2, 3"},
	{"raw:GGUF u32:4 u64:0 u64:0", "GGUF version 4 is not built"},
	{"raw:GGUF u32:0x03000000 u64:0 u64:0", "GGUF version 50331648 (a big-endian file) is not built"},
	{"head:0:0x8000000000000000", "the header says 9223372036854775808 keys, but 0 bytes are left: "},
	{"head:0:2 " ARCHITECTURE, "a key needs 8 bytes at offset 69"},
	{"head:0xffffffffffffffff:0", "the header says 18446744073709551615 tensors, but 0 bytes are left: "},
	{"head:2:0 " T2 "pad zero:64", "the tensor's name at offset 65 is empty"},
	/* keys */
	{"head:0:1 u64:0xffffffffffffffff zero:64", "a key needs 18446744073709551615 bytes at offset 32"},
	{"head:0:1 s:a u32:8 u64:0x7fffffffffffffff zero:64", "a string of a key needs 9223372036854775807 bytes"},
	{"head:0:1 s:a u32:8 u64:2 u8:0", "a string of a key needs 2 bytes at offset 45"},
	{"head:0:1 s:a u32:13 zero:64", "key \"a\": value type 13 is not known, expected 0 to 12"},
	{"head:0:1 s:a u32:0xffffffff zero:64", "key \"a\": value type 4294967295 is not known"},
	{"head:0:1 s:a u32:9 u32:13 u64:1 zero:64", "key \"a\": value type 13 is not known"},
	{"head:0:1 s:a u32:9 u32:9 u64:1 u32:0 u64:1 u8:0", "key \"a\" is an array of arrays"},
	{"head:0:1 s:a u32:9 u32:0 u64:0x8000000000000000 zero:64",
		"key \"a\" has 9223372036854775808 items of type u8, more than the file"},
	{"head:0:1 s:a u32:9 u32:12 u64:0x2000000000000001 zero:64",
		"key \"a\" has 2305843009213693953 items of type f64"},
	{"head:0:1 s:a u32:9 u32:4 u64:3 zero:11", "key \"a\" has 3 items of type u32"},
	{"head:0:1 s:a u32:9 u32:8 u64:0x8000000000000000 zero:64", "a string of a key needs 8 bytes at offset 113"},
	{"head:0:1 s:a u32:9 u32:8 u64:2 s:x u64:5 zero:4", "a string of a key needs 5 bytes"},
	{"head:0:1 s:a u32:10 u32:0", "key \"a\" has 1 items of type u64"},
	{"head:0:2 s:a u32:0 u8:1 s:a u32:4 u32:1", "key \"a\" is there twice"},
	{"head:0:3 s:b u32:0 u8:1 s:a u32:0 u8:1 s:b u32:0 u8:1", "key \"b\" is there twice"},
	/* shapes and types */
	{"head:1:0 s: u32:0 u32:0 u64:0 zero:64", "the tensor's name at offset 32 is empty or holds a zero byte"},
	{"head:1:0 u64:2 u8:65 u8:0 u32:0 u32:0 u64:0 zero:64",
		"the tensor's name at offset 32 is empty or holds a zero byte"},
	{"head:1:0 s:t u32:5 u64:1 u64:1 u64:1 u64:1 u64:1 u32:0 u64:0 zero:64",
		"tensor \"t\" has 5 dimensions, at most 4"},
	{"head:1:0 s:t u32:0xffffffff zero:64", "tensor \"t\" has 4294967295 dimensions, at most 4"},
	{"head:1:0 s:t u32:1 u64:0x8000000000000000 u32:0 u64:0 zero:64",
		"tensor \"t\": with dimension 9223372036854775808 the number"},
	{"head:1:0 s:t u32:2 u64:0x100000000 u64:0x100000000 u32:0 u64:0 zero:64",
		"tensor \"t\": with dimension 4294967296 the number"},
	{"head:1:0 s:t u32:2 u64:0x40000000 u64:0x200000000 u32:28 u64:0 zero:64",
		"tensor \"t\": the number of bytes overflows"},
	{"head:1:0 s:t u32:1 u64:2 u32:40 u64:0 zero:64",
		"tensor \"t\": type unknown (40) is not built; built: F32 F16 BF16 Q8_0"},
	{"head:1:0 s:t u32:1 u64:256 u32:10 u64:0 zero:640", "tensor \"t\": type Q2_K (10) is not built"},
	{"head:1:0 s:t u32:1 u64:32 u32:20 u64:0 zero:640", "tensor \"t\": type IQ4_NL (20) is not built"},
	{"head:1:0 s:t u32:1 u64:33 u32:2 u64:0 zero:640",
		"tensor \"t\" has rows of 33 values, expected a multiple of 32, the block of Q4_0"},
	{"head:1:0 s:t u32:2 u64:32 u64:8 u32:12 u64:0 zero:640",
		"tensor \"t\" has rows of 32 values, expected a multiple of 256, the block of Q4_K"},
	{"head:1:0 s:t u32:0 u32:8 u64:0 zero:640", "tensor \"t\" has rows of 1 values, expected a multiple of 32"},
	{"head:1:0 s:t u32:1 u64:2 u32:0", "the offset of a tensor needs 8 bytes"},
	/* places */
	{"head:1:0 s:t u32:1 u64:2 u32:0 u64:8 pad zero:64",
		"tensor \"t\" begins at offset 8, expected a multiple of the alignment 32"},
	{"head:1:0 " T2 "pad zero:7", "tensor \"t\" has 8 bytes at offset 0 of the data, but 7 are there: "},
	{"head:1:0 " T2, "tensor \"t\" has 8 bytes at offset 0 of the data, but 0 are there: "},
	{"head:1:0 s:t u32:1 u64:2 u32:0 u64:32 pad zero:39",
		"tensor \"t\" has 8 bytes at offset 32 of the data, but 39 are there"},
	{"head:1:0 s:t u32:1 u64:2 u32:0 u64:0xffffffffffffffe0 pad zero:64",
		"tensor \"t\" has 8 bytes at offset 18446744073709551584"},
	{"head:1:0 s:t u32:1 u64:0x2000000000000000 u32:24 u64:0 pad zero:64",
		"tensor \"t\" has 2305843009213693952 bytes"},
	{"head:2:0 s:a u32:1 u64:9 u32:0 u64:0 s:b u32:1 u64:1 u32:0 u64:32 pad zero:64",
		"tensors \"a\" and \"b\" overlap"},
	{"head:2:0 s:a u32:1 u64:1 u32:0 u64:0 s:b u32:1 u64:1 u32:0 u64:0 pad zero:64", "tensors \""},
	{"head:2:0 s:a u32:1 u64:1 u32:0 u64:32 s:b u32:1 u64:9 u32:0 u64:0 pad zero:64",
		"tensors \"b\" and \"a\" overlap"},
	{"head:2:0 " T2 "s:t u32:1 u64:2 u32:0 u64:32 pad zero:64", "tensor \"t\" is there twice"},
	/* alignment */
	{"head:1:1 s:general.alignment u32:4 u32:0 " T2 "pad zero:64",
		"general.alignment is 0, which is not a power of two"},
	{"head:1:1 s:general.alignment u32:4 u32:3 " T2 "pad zero:64",
		"general.alignment is 3, which is not a power of two"},
	{"head:1:1 s:general.alignment u32:4 u32:48 " T2 "pad zero:64",
		"general.alignment is 48, which is not a power of two"},
	{"head:1:1 s:general.alignment u32:5 u32:0xffffffe0 " T2 "pad zero:64",
		"general.alignment is -32, expected an integer from 0"},
	{"head:1:1 s:general.alignment u32:10 u64:0x100000020 " T2 "pad zero:64",
		"general.alignment is 4294967328, expected an integer"},
	{"head:1:1 s:general.alignment u32:8 s:32 " T2 "pad zero:64",
		"general.alignment is \"32\", expected an integer"},
	{"head:1:1 s:general.alignment u32:9 u32:4 u64:1 u32:32 " T2 "pad zero:64",
		"general.alignment is an array, expected an integer"},
	{"head:0:1 s:general.alignment u32:4 u32:3", "general.alignment is 3, which is not a power of two"},
	{"head:1:1 s:general.alignment u32:4 u32:0x40000000 " T2 "zero:64",
		"tensor \"t\" has 8 bytes at offset 0 of the data, but 0 are there"},
};

START_TEST(refuses_bad_files)
{
	static const char name[] = "case: ";
	struct buf file = write_script(bad[_i].script);
	uint8_t *copy;
	struct gguf *g;
	int status = parse_copy(file.data, file.length, &copy, &g);
	ck_assert_msg(status == ERR_INPUT && g == NULL, "%s: status %d", bad[_i].script, status);
	ck_assert_msg(strncmp(test_error.message, name, strlen(name)) == 0 &&
			strncmp(test_error.message + strlen(name), bad[_i].expected, strlen(bad[_i].expected)) == 0,
		"%s: %s, expected %s", bad[_i].script, test_error.message, bad[_i].expected);
	free(copy);
	buf_free(&file);
}
END_TEST

/* ---- Every byte ---- */

/* A file with keys of all kinds and tensors of several types; nothing behind the last tensor's data. */
static struct buf whole_file(void)
{
	static const float values[2] = {1, 2};
	static const char block[34] = {0};
	struct gguf_file f = {0};
	file_text(&f, "general.architecture", "llama");
	file_u32(&f, "llama.block_count", 2);
	file_f32(&f, "llama.rope.freq_base", 10000.0f);
	file_bool(&f, "tokenizer.ggml.add_bos_token", true);
	file_array(&f, "tokenizer.ggml.tokens", GGUF_STRING, 2);
	put_text(&f.keys, str_of("a"));
	put_text(&f.keys, str_of("bc"));
	file_array(&f, "tokenizer.ggml.token_type", GGUF_I32, 2);
	put_u64(&f.keys, 3);
	file_tensor(&f, "output_norm.weight", FILE_F32, 0, 2, values, sizeof(values));
	file_tensor(&f, "token_embd.weight", FILE_Q8_0, 1, 32, block, sizeof(block));
	return file_finish(&f);
}

START_TEST(refuses_every_truncation)
{
	struct buf file = whole_file();
	for (size_t n = 0; n <= file.length; n++) {
		uint8_t *copy;
		struct gguf *g;
		int status = parse_copy(file.data, n, &copy, &g);
		ck_assert_msg(status == (n == file.length ? 0 : ERR_INPUT), "%zu of %zu bytes: %s", n, file.length,
			test_error.message);
		gguf_close(g);
		free(copy);
	}
	buf_free(&file);
}
END_TEST

/* Any byte changed: refused, or a file whose parts can all be read. */
START_TEST(survives_every_changed_byte)
{
	static const uint8_t changes[] = {0x01, 0x80, 0xff, 0x10};
	struct buf file = whole_file();
	for (size_t at = 0; at < file.length; at++)
		for (size_t change = 0; change < sizeof(changes); change++) {
			uint8_t *copy;
			struct gguf *g;
			file.data[at] = (char)(file.data[at] ^ (char)changes[change]);
			if (parse_copy(file.data, file.length, &copy, &g) == 0)
				walk(g);
			gguf_close(g);
			free(copy);
			file.data[at] = (char)(file.data[at] ^ (char)changes[change]);
		}
	buf_free(&file);
}
END_TEST

/* ---- Values ---- */

static const char values_script[] =
	"head:0:17 s:u8 u32:0 u8:200 s:i8 u32:1 u8:200 s:u16 u32:2 u8:255 u8:255 s:i16 u32:3 u8:255 u8:255 s:u32 u32:4 "
	"u32:0xffffffff "
	"s:i32 u32:5 u32:0xffffffff s:u64 u32:10 u64:0xffffffffffffffff s:i64 u32:11 u64:0xfffffffffffffffe s:f32 "
	"u32:6 f32:0.5 "
	"s:f64 u32:12 f64:-2.5 s:nan u32:6 u32:0x7fc00000 s:yes u32:7 u8:1 s:no u32:7 u8:0 s:text u32:8 s:word "
	"s:texts u32:9 u32:8 u64:3 s:a s: s:bcd s:ints u32:9 u32:5 u64:2 u32:7 u32:0xfffffff8 s:bytes u32:9 u32:0 "
	"u64:3 u8:1 u8:2 u8:255";

struct opened {
	struct buf file;
	struct gguf *g;
};

static struct opened open_values(void)
{
	struct opened o = {.file = write_script(values_script)};
	CHECK_OK(gguf_parse((const uint8_t *)o.file.data, o.file.length, "case", &o.g, &test_error));
	return o;
}

static void close_values(struct opened *o)
{
	gguf_close(o->g);
	buf_free(&o->file);
}

START_TEST(reads_values)
{
	struct opened o = open_values();
	int number = -7;
	double real = 0;
	bool truth = false;
	struct str text = {0};
	ck_assert(gguf_int(o.g, "u8", 0, 255, &number, &test_error) == 1 && number == 200);
	ck_assert(gguf_int(o.g, "i8", -128, 127, &number, &test_error) == 1 && number == -56);
	ck_assert(gguf_int(o.g, "u16", 0, 65535, &number, &test_error) == 1 && number == 65535);
	ck_assert(gguf_int(o.g, "i16", -1, 5, &number, &test_error) == 1 && number == -1);
	ck_assert(gguf_int(o.g, "i32", -1, -1, &number, &test_error) == 1 && number == -1);
	ck_assert(gguf_int(o.g, "i64", -2, 0, &number, &test_error) == 1 && number == -2);
	ck_assert(gguf_int(o.g, "none", 0, 1, &number, &test_error) == 0 && number == -2);
	ck_assert(gguf_double(o.g, "f32", 0.5, 0.5, &real, &test_error) == 1 && real == 0.5);
	ck_assert(gguf_double(o.g, "f64", -3, 0, &real, &test_error) == 1 && real == -2.5);
	ck_assert(gguf_bool(o.g, "yes", &truth, &test_error) == 1 && truth);
	ck_assert(gguf_bool(o.g, "no", &truth, &test_error) == 1 && !truth);
	ck_assert(gguf_text(o.g, "text", &text, &test_error) == 1 && str_is(text, "word"));
	ck_assert(gguf_text(o.g, "none", &text, &test_error) == 0 && str_is(text, "word"));
	close_values(&o);
}
END_TEST

START_TEST(reads_arrays)
{
	struct opened o = open_values();
	struct gguf_value v;
	ck_assert_int_eq(gguf_texts(o.g, "texts", &v, &test_error), 1);
	ck_assert(v.is_array && v.count == 3);
	const uint8_t *at = v.data;
	ck_assert(str_is(gguf_next_text(&at), "a"));
	ck_assert(str_is(gguf_next_text(&at), ""));
	ck_assert(str_is(gguf_next_text(&at), "bcd"));
	ck_assert_int_eq(gguf_ints(o.g, "ints", &v, &test_error), 1);
	ck_assert(v.count == 2 && gguf_int_at(&v, 0) == 7 && gguf_int_at(&v, 1) == -8);
	ck_assert_int_eq(gguf_ints(o.g, "bytes", &v, &test_error), 1);
	ck_assert(v.count == 3 && gguf_int_at(&v, 2) == 255);
	ck_assert_int_eq(gguf_ints(o.g, "none", &v, &test_error), 0);
	ck_assert_ptr_null(gguf_find(o.g, "text "));
	ck_assert_ptr_null(gguf_find(o.g, ""));
	close_values(&o);
}
END_TEST

enum reader { READ_INT, READ_DOUBLE, READ_BOOL, READ_TEXT, READ_TEXTS, READ_INTS, READ_REQUIRED };

static const struct {
	enum reader reader;
	const char *key, *expected;
} wrong[] = {
	{READ_INT, "u8", "case: u8 is 200, expected an integer from -5 to 5"},
	{READ_INT, "u32", "case: u32 is 4294967295, expected an integer"},
	{READ_INT, "u64", "case: u64 is 9223372036854775807, expected an integer"},
	{READ_INT, "f32", "case: f32 is 0.5, expected an integer"},
	{READ_INT, "yes", "case: yes is true, expected an integer"},
	{READ_INT, "text", "case: text is \"word\", expected an integer"},
	{READ_INT, "ints", "case: ints is an array, expected an integer"},
	{READ_DOUBLE, "u8", "case: u8 is 200, expected a number from -1 to 1"},
	{READ_DOUBLE, "f64", "case: f64 is -2.5, expected a number"},
	{READ_DOUBLE, "nan", "case: nan is nan, expected a number"},
	{READ_BOOL, "u8", "case: u8 is 200, expected true or false"},
	{READ_TEXT, "no", "case: no is false, expected a string"},
	{READ_TEXT, "texts", "case: texts is an array, expected a string"},
	{READ_TEXTS, "text", "case: text is \"word\", expected an array of strings"},
	{READ_TEXTS, "ints", "case: ints is an array, expected an array of strings"},
	{READ_INTS, "texts", "case: texts is an array, expected an array of integers"},
	{READ_INTS, "u8", "case: u8 is 200, expected an array of integers"},
	{READ_REQUIRED, "none", "case: none is missing"},
};

static int read_wrong(const struct gguf *g, enum reader reader, const char *key)
{
	int number;
	double real;
	bool truth;
	struct str text;
	struct gguf_value list;
	switch (reader) {
	case READ_INT:
		return gguf_int(g, key, -5, 5, &number, &test_error);
	case READ_DOUBLE:
		return gguf_double(g, key, -1, 1, &real, &test_error);
	case READ_BOOL:
		return gguf_bool(g, key, &truth, &test_error);
	case READ_TEXT:
		return gguf_text(g, key, &text, &test_error);
	case READ_TEXTS:
		return gguf_texts(g, key, &list, &test_error);
	case READ_INTS:
		return gguf_ints(g, key, &list, &test_error);
	default:
		return gguf_required(gguf_text(g, key, &text, &test_error), g, key, &test_error);
	}
}

START_TEST(refuses_wrong_values)
{
	struct opened o = open_values();
	ck_assert_int_eq(read_wrong(o.g, wrong[_i].reader, wrong[_i].key), ERR_INPUT);
	ck_assert_msg(strncmp(test_error.message, wrong[_i].expected, strlen(wrong[_i].expected)) == 0,
		"%s, expected %s", test_error.message, wrong[_i].expected);
	close_values(&o);
}
END_TEST

/* ---- Cases from the field ---- */

static const struct {
	const char *file, *refused; /* NULL: it loads */
	int tensors;
	float first_t, first_u; /* values of t[0] and u[0] */
} field[] = {
	{"T27/ndims_0.gguf", NULL, 1, 0, NAN},
	{"T27/ndims_5.gguf", "tensor \"t\" has 5 dimensions, at most 4 are supported", 0, 0, 0},
	{"T27/ndims_huge.gguf", "tensor \"t\" has 4294967295 dimensions, at most 4 are supported", 0, 0, 0},
	{"T29/align_0.gguf", "general.alignment is 0, which is not a power of two", 0, 0, 0},
	{"T29/align_3.gguf", "general.alignment is 3, which is not a power of two", 0, 0, 0},
	{"T29/align_64.gguf", NULL, 2, 1, 3},
	{"T31/no_tail_pad.gguf", NULL, 2, 1, 3},
	{"T31/extra_tail.gguf", NULL, 1, 1, NAN},
	{"T31/kv_only.gguf", NULL, 0, NAN, NAN},
};

static void check_first(const struct gguf *g, const char *name, float expected)
{
	const struct tensor *t = gguf_tensor_find(g, name);
	float value;
	ck_assert_int_eq(t == NULL, isnan(expected));
	if (!t)
		return;
	CHECK_OK(tensor_to_float(t, 0, 1, &value));
	ck_assert_float_eq(value, expected);
}

START_TEST(cases_from_the_field)
{
	char relative[64];
	struct gguf *g;
	snprintf(relative, sizeof(relative), "trials/%s", field[_i].file);
	const char *path = shared_path(relative);
	if (!path)
		SKIP("no shared %s", relative);
	int status = gguf_open(path, &g, &test_error);
	if (field[_i].refused) {
		ck_assert_int_eq(status, ERR_INPUT);
		ck_assert_msg(
			strstr(test_error.message, field[_i].refused) && strstr(test_error.message, field[_i].file),
			"%s", test_error.message);
		return;
	}
	CHECK_OK(status);
	ck_assert_uint_eq(gguf_tensor_count(g), (size_t)field[_i].tensors);
	ck_assert_str_eq(gguf_name(g), path);
	check_first(g, "t", field[_i].first_t);
	check_first(g, "u", field[_i].first_u);
	gguf_close(g);
}
END_TEST

START_TEST(files_that_are_none)
{
	struct gguf *g;
	ck_assert_int_eq(gguf_open("/nowhere/x.gguf", &g, &test_error), ERR_MISSING);
	ck_assert_ptr_nonnull(strstr(test_error.message, "/nowhere/x.gguf"));
	ck_assert_int_eq(gguf_open(scratch_folder(), &g, &test_error), ERR_MISSING);
	ck_assert_int_eq(gguf_open(test_write_file("empty.gguf", "", 0), &g, &test_error), ERR_INPUT);
	ck_assert_ptr_null(g);
	gguf_close(NULL);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *files = test_case(suite, "files", 60), *values = test_case(suite, "values", 0);

	tcase_add_loop_test(files, accepts_good_files, 0, sizeof(good) / sizeof(good[0]));
	tcase_add_loop_test(files, refuses_bad_files, 0, sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(files, refuses_every_truncation);
	tcase_add_test(files, survives_every_changed_byte);
	tcase_add_loop_test(files, cases_from_the_field, 0, sizeof(field) / sizeof(field[0]));
	tcase_add_test(files, files_that_are_none);
	tcase_add_test(values, reads_values);
	tcase_add_test(values, reads_arrays);
	tcase_add_loop_test(values, refuses_wrong_values, 0, sizeof(wrong) / sizeof(wrong[0]));
}

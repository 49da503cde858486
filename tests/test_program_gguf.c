/* The program on GGUF files: the same commands as on folders, and files that are refused by name with the right exit
 * code. */
#include "tests/program.h"

const char *const test_program_name = "program_gguf";

#define LLAMA SOURCE_DIR "/tests/golden/gguf/llama.gguf"
#define QWEN3 SOURCE_DIR "/tests/golden/gguf/qwen3.gguf"

START_TEST(tools)
{
	expect_output(RUN_WITH("hello world\n", "tokenize", "--model", QWEN3), "hello \u0120world\n");
	expect_output(RUN_WITH("hello world\n", "tokenize", "--model", LLAMA), "<|begin|> hello \u0120world\n");
	struct outcome text =
		RUN_WITH("{\"context\": \"hello\", \"continuation\": \" world\"}\n", "logprobs", "--model", QWEN3);
	expect_exit(&text, 0);
	/* The ids of the same pair. */
	expect_output(RUN_WITH("{\"context\": [259], \"continuation\": [264]}\n", "logprobs", "--model", QWEN3),
		buf_text(&text.out));
	outcome_free(&text);
	struct outcome o =
		RUN("generate", "--model", LLAMA, "--prompt", "hello", "--max-tokens", "5", "--variant", "int4/fp8");
	expect_exit(&o, 0);
	ck_assert_uint_gt(o.out.length, 0);
	outcome_free(&o);
}
END_TEST

START_TEST(paths)
{
	struct buf file = test_read_file(QWEN3);
	const char *other = test_write_file("model.bin", file.data, file.length);
	EXPECT_FAILURE(RUN_WITH("a\n", "tokenize", "--model", other), 2, "model.bin' is a file: expected a .gguf file");
	const char *good = test_write_file("m.gguf", file.data, file.length);
	expect_output(RUN_WITH("hello\n", "tokenize", "--ids", "--model", good), "259\n");
	const char *cut = test_write_file("cut.gguf", file.data, file.length - 4096);
	EXPECT_FAILURE(RUN_WITH("[]\n", "logprobs", "--model", cut), 2, "cut.gguf: tensor \"",
		"the file is cut short or damaged");
	EXPECT_FAILURE(RUN_WITH("a\n", "tokenize", "--model", "/nowhere/m.gguf"), 2,
		"model '/nowhere/m.gguf': no such folder or file");
	const char *empty = test_write_file("empty.gguf", "", 0);
	EXPECT_FAILURE(RUN_WITH("a\n", "tokenize", "--model", empty), 2, "empty.gguf: the head of a GGUF file");
	buf_free(&file);
}
END_TEST

/* A tokenizer that is not built is named where it is needed; token ids need none. */
START_TEST(tokenizers_that_are_not_built)
{
	struct buf file = test_read_file(QWEN3);
	const char *changed = test_write_file("unknown.gguf", file.data, file.length);
	file_change(changed, "qwen2\x15", "qwen9\x15"); /* tokenizer.ggml.pre: the next key's name has 0x15 bytes */
	static const char named[] = "tokenizer.ggml.pre 'qwen9' is not built";
	EXPECT_FAILURE(RUN_WITH("a\n", "tokenize", "--model", changed), 2, "unknown.gguf: ", named);
	EXPECT_FAILURE(RUN("generate", "--model", changed, "--prompt", "a"), 2, named);
	EXPECT_FAILURE(
		RUN("run", "--model", changed, "--limit", "1", "--db", path_in(scratch_folder(), "a.db")), 2, named);
	EXPECT_FAILURE(RUN_WITH("{\"context\": \"a\", \"continuation\": \"b\"}\n", "logprobs", "--model", changed), 2,
		named, "give token ids");
	struct outcome o = RUN_WITH("{\"context\": [259], \"continuation\": [264]}\n", "logprobs", "--model", changed);
	expect_output(RUN_WITH("{\"context\": [259], \"continuation\": [264]}\n", "logprobs", "--model", QWEN3),
		buf_text(&o.out));
	outcome_free(&o);
	buf_free(&file);
}
END_TEST

static const struct {
	const char *file, *expected;
} field[] = {
	{"T27/ndims_0.gguf", "llama.embedding_length is missing"},
	{"T27/ndims_5.gguf", "5 dimensions, at most 4"},
	{"T27/ndims_huge.gguf", "4294967295 dimensions, at most 4"},
	{"T29/align_0.gguf", "general.alignment is 0, which is not a power of two"},
	{"T29/align_3.gguf", "general.alignment is 3, which is not a power of two"},
	{"T29/align_64.gguf", "llama.embedding_length is missing"},
	{"T31/extra_tail.gguf", "llama.embedding_length is missing"},
	{"T31/kv_only.gguf", "llama.embedding_length is missing"},
	{"T31/no_tail_pad.gguf", "llama.embedding_length is missing"},
};

START_TEST(cases_from_the_field)
{
	char relative[64];
	snprintf(relative, sizeof(relative), "trials/%s", field[_i].file);
	const char *path = shared_path(relative);
	if (!path)
		SKIP("no shared %s", relative);
	EXPECT_FAILURE(RUN_WITH("{\"context\": [0], \"continuation\": [0]}\n", "logprobs", "--model", path), 2,
		field[_i].file, field[_i].expected);
}
END_TEST

/* A run knows its model: fingerprint, tokenizer and template are there, and differ between two files. */
START_TEST(runs)
{
	static const char *const members[] = {"model_fingerprint", "tokenizer_hash", "template_hash"};
	static const char *const models[] = {LLAMA, QWEN3};
	struct json_document *documents[2];
	for (int i = 0; i < 2; i++) {
		struct outcome o = RUN("run", "--model", models[i], "--suite", "recall", "--data", POCKET_DATA,
			"--limit", "1", "--db", path_in(scratch_folder(), "a.db"), "--json");
		expect_exit(&o, 0);
		documents[i] = parse(buf_str(&o.out));
		ck_assert(str_is(json_get(json_root(documents[i]), "status")->text, "complete"));
		outcome_free(&o);
	}
	for (int m = 0; m < COUNT(members); m++) {
		struct str first = json_get(json_root(documents[0]), members[m])->text;
		struct str second = json_get(json_root(documents[1]), members[m])->text;
		ck_assert(first.length == 64 && second.length == 64);
		ck_assert_int_eq(str_equal(first, second), m == 2); /* one template in both */
	}
	json_free(documents[0]);
	json_free(documents[1]);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *program = test_case(suite, "program", 120);

	tcase_add_test(program, tools);
	tcase_add_test(program, paths);
	tcase_add_test(program, tokenizers_that_are_not_built);
	tcase_add_loop_test(program, cases_from_the_field, 0, COUNT(field));
	tcase_add_test(program, runs);
}

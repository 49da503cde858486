/* The small tools as filters: lines in, lines out in the same order; a bad line is named, and nothing is printed that
 * could be taken for a result. */
#include <math.h>

#include "tests/program.h"
#include "tests/tiny_model.h"

const char *const test_program_name = "program_tools";

/* A file of lines, each with its end. */
static struct buf golden(const char *name)
{
	struct buf file = test_read_file(golden_path(name));
	if (file.data[file.length - 1] != '\n')
		buf_append_char(&file, '\n');
	return file;
}

/* ---- tokenize ---- */

START_TEST(tokenize)
{
	expect_output(RUN_WITH("Tom has 2 boxes\n\nTom", "tokenize", "--ids"), "87 393 285 35 53 496\n\n87 393\n");
	expect_output(RUN_WITH("Tom has", "tokenize"), "T om \u0120has\n");
	expect_output(
		RUN_WITH("\"Tom\\nhas\"\n  \n\"\"\n", "tokenize", "--json-lines", "--ids"), "87 393 13 262 118\n\n");
	expect_output(RUN_WITH("", "tokenize"), "");
	expect_output(RUN_WITH("\n", "tokenize"), "\n");
	const char *file = test_write_file("lines", "Tom\r\nTom", 8);
	expect_output(RUN("tokenize", "--ids", file), "87 393 16\n87 393\n");
	expect_output(RUN_WITH("Tom", "tokenize", "--ids", "-"), "87 393\n");
	/* A line may hold anything that is UTF-8, U+0000 too. */
	struct outcome o = program_run(&(struct call){.arguments = {"tokenize", "--ids"}, .input = {"a\0b\n", 4}});
	expect_output(o, "100 3 101\n");
}
END_TEST

START_TEST(tokenize_bad_input)
{
	EXPECT_FAILURE(RUN_WITH("good\n\xff\xfe\n", "tokenize"), 2, "standard input:2: ", "UTF-8");
	EXPECT_FAILURE(RUN_WITH("\"good\"\n5\n", "tokenize", "--json-lines"), 2, "standard input:2: ", "number");
	const char *file = test_write_file("lines.jsonl", "\"good\"\n\n\"bad\n", 13);
	EXPECT_FAILURE(RUN("tokenize", "--json-lines", file), 2, file, "lines.jsonl:3: ");
	EXPECT_FAILURE(RUN("tokenize", "/nonexistent/lines"), 2, "/nonexistent/lines", "No such file");
	EXPECT_FAILURE(RUN("tokenize", "/"), 2, "/", "folder");
	EXPECT_FAILURE(RUN("tokenize", "a", "b"), 2, "unexpected argument 'b'");
}
END_TEST

/* ---- logprobs ---- */

static void check_logprob(const struct json *got, const struct json *want, int line)
{
	double expected = json_double(json_path(want, "logprob")), actual = json_double(json_path(got, "logprob")),
	       sum = 0;
	int64_t tokens = json_path_int(want, "tokens");
	const struct json *values = json_path(got, "token_logprobs");
	JSON_EACH (value, values)
		sum += json_double(value);
	ck_assert_msg(fabs(actual - expected) <= 2e-4 * (double)tokens, "line %d: %.7f, expected %.7f", line, actual,
		expected);
	ck_assert_msg(fabs(sum - actual) <= 1e-5, "line %d: the tokens add up to %.7f, not to %.7f", line, sum, actual);
	ck_assert_int_eq(json_path_int(got, "tokens"), tokens);
	ck_assert_uint_eq(values->count, (size_t)tokens);
	ck_assert_int_eq(json_bool(json_path(got, "is_greedy"), false), json_bool(json_path(want, "is_greedy"), true));
}

/* Values of transformers (golden/engine/README.md), line for line. */
START_TEST(logprobs_agree_with_transformers)
{
	struct buf file = golden("engine/pocket_logprobs.jsonl");
	struct outcome o = program_run(
		&(struct call){.arguments = {"logprobs", "--variant", "bf16/f32"}, .input = buf_str(&file)});
	expect_exit(&o, 0);
	ck_assert_uint_eq(o.err.length, 0);
	struct str want = buf_str(&file), got = buf_str(&o.out);
	int lines = 0;
	for (struct json_document *w, *g; (w = parse_line(&want)); json_free(w), json_free(g)) {
		g = parse_line(&got);
		check_logprob(json_root(g), json_root(w), ++lines);
	}
	ck_assert_int_eq(lines, 44);
	ck_assert_uint_eq(got.length, 0);
	buf_free(&file);
	outcome_free(&o);
}
END_TEST

/* One output, as bytes, on one and two threads, alone and in batches, in pieces and in other pages. */
START_TEST(logprobs_are_one_output)
{
	static const char *const options[][4] = {
		{"--threads", "1"}, {"--threads", "2"}, {"--max-requests", "1"}, {"--chunk", "3", "--page-size", "4"}};
	struct buf file = golden("engine/pocket_logprobs.jsonl");
	for (int variant = 0; variant < 2; variant++) {
		const char *name = variant ? "int4/fp8" : "bf16/bf16";
		struct outcome first = program_run(
			&(struct call){.arguments = {"logprobs", "--variant", name}, .input = buf_str(&file)});
		expect_exit(&first, 0);
		for (int i = 0; i < COUNT(options); i++)
			expect_output(
				program_run(&(struct call){.arguments = {"logprobs", "--variant", name, options[i][0],
								   options[i][1], options[i][2], options[i][3]},
					.input = buf_str(&file)}),
				buf_text(&first.out));
		outcome_free(&first);
	}
	buf_free(&file);
}
END_TEST

/* Ids ask the same as the text that they spell, and need no tokenizer. */
START_TEST(logprobs_of_ids)
{
	const char *bare = pocket_copy();
	unlink(path_in(bare, "tokenizer.json"));
	struct outcome text = RUN_WITH("{\"context\": \"Tom has 2\", \"continuation\": \" boxes\"}\n", "logprobs");
	expect_exit(&text, 0);
	const char *ids = "{\"context\": [87, 393, 285, 35, 53], \"continuation\": [496]}\n";
	struct outcome o = RUN_WITH(ids, "logprobs", "--model", bare);
	expect_output(o, buf_text(&text.out));
	expect_output(RUN_WITH(ids, "logprobs"), buf_text(&text.out));
	EXPECT_FAILURE(RUN_WITH("{\"context\": \"a\", \"continuation\": \"b\"}", "logprobs", "--model", bare), 2,
		"standard input:1: ", "tokenizer.json");
	EXPECT_FAILURE(RUN("tokenize", "--model", bare), 2, "tokenizer.json");
	EXPECT_FAILURE(RUN("generate", "--prompt", "a", "--model", bare), 2, "tokenizer.json");
	EXPECT_FAILURE(RUN("run", "--limit", "1", "--model", bare, "--db", path_in(bare, "a.db")), 2, "tokenizer.json");
	outcome_free(&text);
}
END_TEST

static const struct {
	const char *name, *pair, *same; /* asks the same as */
} white_space_cases[] = {
	{"blank", "{\"context\": \"Tom has \", \"continuation\": \"2\"}",
		"{\"context\": \"Tom has\", \"continuation\": \" 2\"}"},
	{"line feed", "{\"context\": \"Tom has\\n\", \"continuation\": \"2\"}",
		"{\"context\": \"Tom has\", \"continuation\": \"\\n2\"}"},
	{"no-break space", "{\"context\": \"Tom has\\u00a0\", \"continuation\": \"2\"}",
		"{\"context\": \"Tom has\", \"continuation\": \"\\u00a02\"}"},
};

START_TEST(white_space_moves)
{
	struct outcome moved = RUN_WITH(white_space_cases[_i].same, "logprobs");
	expect_exit(&moved, 0);
	expect_output(RUN_WITH(white_space_cases[_i].pair, "logprobs"), buf_text(&moved.out));
	outcome_free(&moved);
}
END_TEST

static void append_ids(struct buf *out, const struct json *ids)
{
	buf_append_char(out, '[');
	JSON_EACH (id, ids)
		buf_printf(out, "%s%.*s", id == ids->child ? "" : ", ", STR_ARG(id->text));
	buf_append_char(out, ']');
}

/* The trial's contexts under its tokenizer: text asks the same as the ids that the reference made of it. */
START_TEST(trial_02)
{
	const char *tokenizer = shared_path("trials/T02/tokenizer.json"),
		   *expected = shared_path("trials/T02/expected.json");
	if (!tokenizer || !expected)
		SKIP("no trials/T02");
	const char *model = tiny_model(300, -1);
	file_copy(tokenizer, path_in(model, "tokenizer.json"));
	struct buf file = test_read_file(expected), text = {0}, ids = {0};
	struct json_document *document = parse(buf_str(&file));
	JSON_EACH (pair, json_path(json_root(document), "pairs")) {
		buf_append_text(&text, "{\"context\": ");
		json_write_string(json_path(pair, "ctx")->text, true, &text);
		buf_append_text(&text, ", \"continuation\": ");
		json_write_string(json_path(pair, "cont")->text, true, &text);
		buf_append_text(&text, "}\n");
		buf_append_text(&ids, "{\"context\": ");
		append_ids(&ids, json_path(pair, "ctx_ids"));
		buf_append_text(&ids, ", \"continuation\": ");
		append_ids(&ids, json_path(pair, "cont_ids"));
		buf_append_text(&ids, "}\n");
	}
	struct outcome want = RUN_WITH(buf_text(&ids), "logprobs", "--model", model);
	expect_exit(&want, 0);
	expect_output(RUN_WITH(buf_text(&text), "logprobs", "--model", model), buf_text(&want.out));
	outcome_free(&want);
	json_free(document);
	buf_free(&file);
	buf_free(&text);
	buf_free(&ids);
}
END_TEST

START_TEST(trial_55)
{
	const char *model = shared_path("trials/T55/hf");
	if (!model)
		SKIP("no trials/T55");
	struct outcome o = RUN_WITH("{\"context\": [1, 5, 9, 33], \"continuation\": [44]}", "logprobs", "--model",
		model, "--variant", "bf16/f32");
	expect_exit(&o, 0);
	struct json_document *document = parse(buf_str(&o.out));
	ck_assert_double_eq_tol(json_double(json_path(json_root(document), "logprob")), -0.29855, 2e-5);
	ck_assert(json_bool(json_path(json_root(document), "is_greedy"), false));
	json_free(document);
	outcome_free(&o);
}
END_TEST

/* Each stands behind a line that is good. */
static const struct {
	const char *line, *message;
	int exit_code;
} bad_pairs[] = {
	{"{\"context\": \"a\"}", "\"continuation\" is missing", 2},
	{"{\"continuation\": \"a\"}", "\"context\" is missing", 2},
	{"{\"context\": \"a\", \"continuation\": null}", "\"continuation\" is null", 2},
	{"{\"context\": \"a\", \"continuation\": [1]}", "must both be", 2},
	{"{\"context\": [], \"continuation\": [1]}", "the context has no token", 2},
	{"{\"context\": [1], \"continuation\": [1024]}", "id 1024", 2},
	{"{\"context\": [1], \"continuation\": [-1]}", "\"continuation\"[0]", 2},
	{"{\"context\": [1, 2.0], \"continuation\": [1]}", "\"context\"[1]", 2},
	{"{\"context\": [1e3], \"continuation\": [1]}", "\"context\"[0]", 2},
	{"{\"context\": [1, 99999999999999999999], \"continuation\": [1]}", "\"context\"[1]", 2},
	{"{\"context\": [true], \"continuation\": [1]}", "\"context\"[0]", 2},
	{"[]", "\"context\" is missing", 2},
	{"\"a\"", "\"context\" is missing", 2},
	{"{\"context\": \"a\", \"continuation\": \"b\"", "column", 2},
	{"{\"context\": \"a\", \"continuation\": \"b\"} {}", "column", 2},
	{"{'context': 'a', 'continuation': 'b'}", "column", 2},
	{"{\"context\": \"a\", \"continuation\": \"\xc3\"}", "UTF-8", 2},
	{"\xef\xbb\xbf{\"context\": \"a\", \"continuation\": \"b\"}", "column 1", 2},
	{"{\"context\": \"a\", \"continuation\": \"\"}", "nothing to score", 2},
	{"{\"context\": \"a\", \"continuation\": \"b\"}", "nothing to score", 2}, /* one token together */
	{"{\"context\": [5, 6], \"continuation\": []}", "nothing to score", 2},
};

START_TEST(logprobs_bad_line)
{
	struct buf text = {0};
	buf_printf(&text, "{\"context\": \"a\", \"continuation\": \" b\"}\n\n%s\n", bad_pairs[_i].line);
	EXPECT_FAILURE(RUN_WITH(buf_text(&text), "logprobs"), bad_pairs[_i].exit_code,
		"standard input:3: ", bad_pairs[_i].message);
	buf_free(&text);
}
END_TEST

START_TEST(logprobs_of_what_does_not_fit)
{
	struct buf text = {0};
	buf_append_text(&text, "{\"context\": [1], \"continuation\": [2]}\n{\"context\": [1], \"continuation\": [2");
	for (int i = 0; i < 2000; i++)
		buf_append_text(&text, ", 2");
	buf_append_text(&text, "]}\n");
	EXPECT_FAILURE(RUN_WITH(buf_text(&text), "logprobs"), 4, "standard input:2: ", "1024");
	EXPECT_FAILURE(RUN_WITH("{\"context\": [1], \"continuation\": [2]}", "logprobs", "--variant", "bf16/bf16",
			       "--variant", "fp8/fp8"),
		2, "--variant", "one variant");
	expect_output(RUN_WITH("", "logprobs"), "");
	expect_output(RUN_WITH("\n \n", "logprobs"), "");
	buf_free(&text);
}
END_TEST

/* ---- generate ---- */

static void check_generated(const struct json *got, const struct json *want, int line)
{
	const struct json *tokens = json_path(want, "tokens"), *logprobs = json_path(got, "logprobs");
	ck_assert_msg(str_equal(json_path(got, "text")->text, json_path(want, "text")->text), "line %d: %.*s", line,
		STR_ARG(json_path(got, "text")->text));
	ck_assert_uint_eq(json_path(got, "tokens")->count, tokens->count);
	for (size_t i = 0; i < tokens->count; i++)
		ck_assert(str_equal(json_at(json_path(got, "tokens"), i)->text, json_at(tokens, i)->text));
	ck_assert(str_equal(json_path(got, "finish_reason")->text, json_path(want, "finish_reason")->text));
	ck_assert_uint_eq(logprobs->count, tokens->count);
	JSON_EACH (value, logprobs)
		ck_assert(json_double(value) <= 0);
}

START_TEST(generate_agrees_with_transformers)
{
	struct buf file = golden("engine/pocket_generate.jsonl");
	struct outcome o = RUN("generate", "--prompts", golden_path("engine/pocket_generate.jsonl"), "--json",
		"--variant", "bf16/f32");
	expect_exit(&o, 0);
	struct str want = buf_str(&file), got = buf_str(&o.out);
	int lines = 0;
	for (struct json_document *w, *g; (w = parse_line(&want)); json_free(w), json_free(g)) {
		g = parse_line(&got);
		check_generated(json_root(g), json_root(w), ++lines);
	}
	ck_assert_int_eq(lines, 7);
	ck_assert_uint_eq(got.length, 0);
	buf_free(&file);
	outcome_free(&o);
}
END_TEST

START_TEST(generate)
{
	const char *prompt = "Codes: Ida glass lion, Dan wool goose.\n\nQuestion: What is the code of Ida?\nAnswer:";
	expect_output(RUN("generate", "--prompt", prompt, "--max-tokens", "3"), " Ida glass lion\n");
	expect_output(RUN("generate", "--prompt", prompt, "--stop", "lion", "--stop", "goose"), " Ida glass \n");
	struct outcome o = RUN("generate", "--prompt", prompt, "--max-tokens", "3", "--json");
	expect_exit(&o, 0);
	ck_assert_ptr_nonnull(strstr(buf_text(&o.out), "\"finish_reason\": \"length\""));
	outcome_free(&o);
	/* The same seed draws the same, another one something else. */
	struct outcome first =
		RUN("generate", "--prompt", "Question:", "--temperature", "1.5", "--seed", "5", "--max-tokens", "40");
	struct outcome other =
		RUN("generate", "--prompt", "Question:", "--temperature", "1.5", "--seed", "6", "--max-tokens", "40");
	expect_output(
		RUN("generate", "--prompt", "Question:", "--temperature", "1.5", "--seed", "5", "--max-tokens", "40"),
		buf_text(&first.out));
	ck_assert_str_ne(buf_text(&first.out), buf_text(&other.out));
	outcome_free(&first);
	outcome_free(&other);
}
END_TEST

/* An id past the tokenizer's vocabulary wins every step: it has no text, and generation goes on. */
START_TEST(trial_10)
{
	const char *tokenizer = shared_path("trials/T10/tokenizer.json");
	if (!tokenizer)
		SKIP("no trials/T10");
	const char *model = tiny_model(320, 300);
	file_copy(tokenizer, path_in(model, "tokenizer.json"));
	struct outcome o = RUN("generate", "--model", model, "--prompt", "ab", "--max-tokens", "3", "--json");
	expect_exit(&o, 0);
	ck_assert_msg(
		strstr(buf_text(&o.out), "{\"text\": \"\", \"tokens\": [300, 300, 300], \"finish_reason\": \"length\""),
		"%s", buf_text(&o.out));
	outcome_free(&o);
}
END_TEST

/* Prompts in another order: each has the bits that it had before. */
START_TEST(order_changes_nothing)
{
	static const int orders[][5] = {{0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}, {2, 0, 4, 1, 3}, {3, 4, 0, 2, 1}};
	static const char *const kv[] = {
		"1GiB", "1408KiB", "704KiB"}; /* the last two hold fewer pages than all prompts need */
	struct str lines[5], answers[5] = {0};
	char common[600] = "";
	for (int i = 0; i < 10; i++)
		snprintf(common + strlen(common), sizeof(common) - strlen(common),
			"The box holds red, green and blue stones. ");
	struct buf texts[5] = {0};
	static const char *const ends[5] = {
		"Count the red ones:", "Count the red ones:", "Count the blue ones:", "", "Count the red ones:"};
	for (int i = 0; i < 5; i++) {
		buf_printf(&texts[i], "{\"prompt\": \"%s%s\", \"max_tokens\": 8}\n", common, ends[i]);
		lines[i] = buf_str(&texts[i]);
	}
	for (int round = 0; round < COUNT(orders) * COUNT(kv); round++) {
		const int *order = orders[round % COUNT(orders)];
		struct buf file = {0};
		for (int i = 0; i < 5; i++)
			buf_append_str(&file, lines[order[i]]);
		struct outcome o = program_run(&(struct call){
			.arguments = {"generate", "--prompts", "-", "--json", "--kv-memory", kv[round / COUNT(orders)]},
			.input = buf_str(&file)});
		expect_exit(&o, 0);
		const char *at = buf_text(&o.out);
		for (int i = 0; i < 5; i++) {
			struct str line = {at, strcspn(at, "\n") + 1};
			if (round == 0)
				answers[i] = (struct str){strndup(line.data, line.length), line.length};
			ck_assert_msg(str_equal(line, answers[order[i]]), "round %d, prompt %d: %.*s", round, order[i],
				STR_ARG(line));
			at += line.length;
		}
		ck_assert(*at == '\0');
		buf_free(&file);
		outcome_free(&o);
	}
	ck_assert(str_equal(answers[0], answers[1]) && str_equal(answers[0], answers[4]) &&
		!str_equal(answers[0], answers[2]));
	for (int i = 0; i < 5; i++) {
		free((char *)(uintptr_t)answers[i].data);
		buf_free(&texts[i]);
	}
}
END_TEST

static const struct {
	const char *line, *message;
	int exit_code;
} bad_prompts[] = {
	{"{}", "\"prompt\" is missing", 2},
	{"{\"prompt\": 5}", "\"prompt\" is number", 2},
	{"{\"prompt\": \"\"}", "no token", 2},
	{"{\"messages\": []}", "--chat", 2},
	{"{\"prompt\": \"a\", \"max_tokens\": 0}", "\"max_tokens\"", 2},
	{"{\"prompt\": \"a\", \"max_tokens\": 1.5}", "\"max_tokens\"", 2},
	{"{\"prompt\": \"a\", \"max_tokens\": 3000000000}", "\"max_tokens\"", 2},
	{"{\"prompt\": \"a\", \"max_tokens\": 1025}", "1024", 4},
	{"{\"prompt\": \"a\", \"stop\": 5}", "\"stop\" is number", 2},
	{"{\"prompt\": \"a\", \"stop\": [\"b\", null]}", "\"stop\" holds null", 2},
	{"{\"prompt\": \"a\"", "column", 2},
	{"nothing", "column 1", 2},
};

START_TEST(generate_bad_line)
{
	struct buf text = {0};
	buf_printf(&text, "{\"prompt\": \"a\", \"max_tokens\": 1}\n%s\n", bad_prompts[_i].line);
	const char *path = test_write_file("prompts.jsonl", text.data, text.length);
	EXPECT_FAILURE(RUN("generate", "--prompts", path), bad_prompts[_i].exit_code,
		"prompts.jsonl:2: ", bad_prompts[_i].message, path);
	buf_free(&text);
}
END_TEST

START_TEST(generate_bad_options)
{
	EXPECT_FAILURE(RUN("generate"), 2, "--prompt", "--prompts");
	EXPECT_FAILURE(RUN("generate", "--prompt", "a", "--prompts", "b"), 2, "--prompt", "--prompts");
	EXPECT_FAILURE(RUN("generate", "--prompts", "/nonexistent/p"), 2, "/nonexistent/p");
	EXPECT_FAILURE(RUN("generate", "--prompt", ""), 2, "no token");
	EXPECT_FAILURE(RUN("generate", "--prompt", "a", "--max-tokens", "0"), 2, "--max-tokens", "'0'");
	EXPECT_FAILURE(RUN("generate", "--prompt", "a", "--max-tokens", "2147483648"), 2, "--max-tokens", "2147483648");
	EXPECT_FAILURE(RUN("generate", "--prompt", "a", "--max-tokens", "2147483647"), 4, "2147483647", "1024");
	EXPECT_FAILURE(RUN("generate", "--prompt", "a", "--temperature", "-1"), 2, "--temperature", "'-1'");
	EXPECT_FAILURE(RUN("generate", "--prompt", "a", "--top-p", "1.01"), 2, "--top-p", "1.01");
	EXPECT_FAILURE(RUN("generate", "--prompt", "\xff"), 2, "UTF-8");
}
END_TEST

/* ---- prompts, rescore ---- */

/* The prompts' hashes are the reference's (golden/suites/README.md). */
START_TEST(prompts)
{
	const char *data = golden_path("suites/data");
	struct outcome o =
		RUN("prompts", "--data", data, "--suite", "gsm8k", "--fewshot", "0", "--hashes", "--limit", "1");
	expect_output(o,
		"task\tdoc_id\tdoc_hash16\tprompt_hash16\ttarget_hash16\n"
		"gsm8k\t0\t1c5c0d0c36edf37b\tef20b9ffd3501854\te681fda5d1698415\n");
	o = RUN("prompts", "--suite", "ARC_EASY", "--samples", "--limit", "1");
	expect_output(o,
		"{\"task\": \"arc_easy\", \"doc_id\": 0, \"prompt\": \"Question: Which tool belongs to a "
		"writer?\\nAnswer:\", \"choices\": "
		"[\"a plow\", \"a pen\", \"a rake\", \"scissors\"], \"target\": \"1\"}\n");
	EXPECT_FAILURE(RUN("prompts", "--suite", "gsm8k"), 2, "--hashes", "--samples");
	EXPECT_FAILURE(RUN("prompts", "--hashes"), 2, "--suite");
	EXPECT_FAILURE(RUN("prompts", "--suite", "gsm8k,arc", "--hashes"), 2, "\"arc\"", "arc_easy");
	EXPECT_FAILURE(RUN("prompts", "--suite", "gsm8k,arc_challenge", "--hashes"), 2, "ARC-Challenge/test.jsonl");
}
END_TEST

START_TEST(rescore_filters)
{
	struct buf file = golden("suites/filters.jsonl");
	struct outcome o = RUN("rescore", "--suite", "filters", golden_path("suites/filters.jsonl"));
	expect_exit(&o, 0);
	struct str want = buf_str(&file), got = buf_str(&o.out);
	int lines = 0;
	for (struct json_document *w, *g; (w = parse_line(&want)); json_free(w), json_free(g), lines++) {
		g = parse_line(&got);
		const struct json *value =
			json_root(g)->child; /* {"output"}, or {"exact_match"} of a line that asks for a metric */
		ck_assert(str_equal(value->text, json_get_str(json_root(w), value->key)->text));
	}
	ck_assert_int_gt(lines, 50);
	ck_assert_uint_eq(got.length, 0);
	buf_free(&file);
	outcome_free(&o);
}
END_TEST

START_TEST(rescore_samples)
{
	struct buf file = golden("suites/gsm8k.samples.jsonl");
	struct outcome o = program_run(
		&(struct call){.arguments = {"rescore", "--suite", "gsm8k", "--data", golden_path("suites/data"), "-"},
			.input = buf_str(&file)});
	expect_exit(&o, 0);
	struct json_document *document = parse(buf_str(&o.out));
	const struct json *task = json_path(json_root(document), "results/gsm8k");
	ck_assert_double_eq_tol(json_double(json_path(task, "exact_match,strict-match")), 0.4, 1e-12);
	ck_assert_double_eq_tol(
		json_double(json_path(task, "exact_match_stderr,strict-match")), 0.24494897427831783, 1e-12);
	ck_assert_double_eq_tol(json_double(json_path(task, "exact_match,flexible-extract")), 0.8, 1e-12);
	ck_assert_ptr_nonnull(strstr(buf_text(&o.err), "10 lines rescored, 0 of them"));
	json_free(document);
	outcome_free(&o);
	buf_free(&file);
}
END_TEST

static const struct {
	const char *suite, *text, *message;
	int exit_code;
} bad_samples[] = {
	{"filters", "{\"filter\": \"gsm8k:strict-match\", \"input\": \"x\"}\n{\"filter\": \"x\", \"input\": \"\"}\n",
		":2: ", 2},
	{"filters", "{\"filter\": \"gsm8k:strict-match\", \"input\": \"x\"}\n{\"filter\": \"gsm8k:strict-match\"}\n",
		":2: ", 2},
	{"filters", "{\"filter\": \"gsm8k:strict-match\", \"input\": \"x\"}\n[", ":2: column 2: ", 2},
	{"gsm8k", "", "no line", 5},
	{"gsm8k", "{\"doc_id\": 0}\n", ":1: ", 2},
	{"gsm8k", "{\"doc_id\": 0\n", ":1: ", 2},
	{"gsm8k", "\x1f\x8b\x08\x00 no gzip after all", "samples", 2},
	{"gsm9k", "", "gsm9k", 2},
};

START_TEST(rescore_bad_input)
{
	const char *path = test_write_file("samples", bad_samples[_i].text, strlen(bad_samples[_i].text));
	EXPECT_FAILURE(RUN("rescore", "--suite", bad_samples[_i].suite, path), bad_samples[_i].exit_code,
		bad_samples[_i].message);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *tokens = test_case(suite, "tokenize", 60);
	tcase_add_test(tokens, tokenize);
	tcase_add_test(tokens, tokenize_bad_input);

	TCase *pairs = test_case(suite, "logprobs", 60);
	tcase_add_test(pairs, logprobs_agree_with_transformers);
	tcase_add_test(pairs, logprobs_are_one_output);
	tcase_add_test(pairs, logprobs_of_ids);
	tcase_add_loop_test(pairs, white_space_moves, 0, COUNT(white_space_cases));
	tcase_add_test(pairs, trial_02);
	tcase_add_test(pairs, trial_55);
	tcase_add_loop_test(pairs, logprobs_bad_line, 0, COUNT(bad_pairs));
	tcase_add_test(pairs, logprobs_of_what_does_not_fit);

	TCase *texts = test_case(suite, "generate", 60);
	tcase_add_test(texts, generate_agrees_with_transformers);
	tcase_add_test(texts, generate);
	tcase_add_test(texts, trial_10);
	tcase_add_test(texts, order_changes_nothing);
	tcase_add_loop_test(texts, generate_bad_line, 0, COUNT(bad_prompts));
	tcase_add_test(texts, generate_bad_options);

	TCase *samples = test_case(suite, "samples", 60);
	tcase_add_test(samples, prompts);
	tcase_add_test(samples, rescore_filters);
	tcase_add_test(samples, rescore_samples);
	tcase_add_loop_test(samples, rescore_bad_input, 0, COUNT(bad_samples));
}

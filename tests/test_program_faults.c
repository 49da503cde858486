/* Bad and hostile files: each ends with its exit code and a message that names the file and the value, never with a
 * signal, a hang, a sanitizer's report or memory beyond measure (program.h watches over these in every call). */
#include "tests/program_store.h"
#include "tests/tiny_model.h"

const char *const test_program_name = "program_faults";

enum { TINY_VOCAB = 32 };

#define ONE_PAIR "{\"context\": [1], \"continuation\": [2]}\n"

static struct outcome ask(const char *model)
{
	return RUN_WITH(ONE_PAIR, "logprobs", "--kv-memory", "64KiB", "--threads", "1", "--model", model);
}

/* It is refused by name, or it is harmless and has one answer. */
static void expect_refused_or_answered(struct outcome o, const char *file, const char *what, long at)
{
	if (o.exit_code == 0)
		ck_assert_msg(strncmp(buf_text(&o.out), "{\"logprob\": ", 12) == 0, "%s at %ld: %s", what, at,
			buf_text(&o.out));
	else
		ck_assert_msg(o.exit_code == 2 && o.out.length == 0 && strstr(buf_text(&o.err), file),
			"%s at %ld: exit %d: %s", what, at, o.exit_code, buf_text(&o.err));
	outcome_free(&o);
}

/* ---- Damaged model files ---- */

/* Where a file is cut: everywhere where it is short, else at the beginning, at the end and here and there between. */
static size_t next_cut(size_t at, size_t length)
{
	size_t step = length / 48 + 1;
	if (at < 16 || length - at <= 8)
		return at + 1;
	return at + step < length - 8 ? at + step : length - 8;
}

static const struct {
	const char *file;
	bool pocket; /* of the pocket model, else of a tiny one */
} damaged_files[] = {{"config.json", false}, {"model.safetensors", false}, {"tokenizer.json", true},
	{"generation_config.json", true}, {"tokenizer_config.json", true}};

/* The beginning of a file that says what is in it. */
static size_t described_length(const struct buf *whole, const char *file)
{
	uint64_t header;
	if (strcmp(file, "model.safetensors") != 0)
		return whole->length;
	memcpy(&header, whole->data, sizeof(header));
	return sizeof(header) + header;
}

START_TEST(truncated)
{
	const char *name = damaged_files[_i].file,
		   *folder = damaged_files[_i].pocket ? pocket_copy() : tiny_model(TINY_VOCAB, -1);
	const char *path = path_in(folder, name);
	struct buf whole = test_read_file(path);
	size_t length = described_length(&whole, name), white = 0;
	while (whole.data[length - 1 - white] == '\n')
		white++;
	for (size_t at = 0; at < length - white; at = next_cut(at, length - white)) {
		overwrite(path, whole.data, at);
		EXPECT_FAILURE(ask(folder), 2, path);
	}
	buf_free(&whole);
}
END_TEST

START_TEST(flipped)
{
	const char *name = damaged_files[_i].file,
		   *folder = damaged_files[_i].pocket ? pocket_copy() : tiny_model(TINY_VOCAB, -1);
	const char *path = path_in(folder, name);
	struct buf whole = test_read_file(path);
	struct py_random random;
	py_random_seed(&random, 7);
	for (int i = 0; i < 40; i++) {
		size_t at = (size_t)py_random_below(&random, described_length(&whole, name));
		char kept = whole.data[at];
		whole.data[at] = (char)(kept ^ (1 << py_random_below(&random, 8)));
		overwrite(path, whole.data, whole.length);
		expect_refused_or_answered(ask(folder), folder, "a flipped bit", (long)at);
		whole.data[at] = kept;
	}
	buf_free(&whole);
}
END_TEST

static const struct {
	const char *from, *to, *message; /* "": nothing of it is left */
} configs[] = {
	{"", "", "line 1, column 1"},
	{"", "[]", "array"},
	{"", "{}", "model_type"},
	{"\"llama\"", "\"mamba\"", "mamba"},
	{"\"llama\"", "7", "model_type is 7"},
	{": 8,", ": 0,", "hidden_size is 0"},
	{": 8,", ": -8,", "hidden_size is -8"},
	{": 8,", ": 8.5,", "hidden_size is 8.5"},
	{": 8,", ": \"8\",", "hidden_size is \"8\""},
	{": 8,", ": 99999999999999999999,", "99999999999999999999"},
	{": 8,", ": 16,", "[8]"},
	{"\"num_hidden_layers\": 1", "\"num_hidden_layers\": 2", "model.layers.1"},
	{"\"num_hidden_layers\": 1", "\"num_hidden_layers\": 1000000000", "1000000000"},
	{"_value_heads\": 1", "_value_heads\": 2", "k_proj.weight"},
	{"_value_heads\": 1", "_value_heads\": 3", "num_key_value_heads is 3"},
	{"_value_heads\": 1", "_value_heads\": 0", "num_key_value_heads is 0"},
	{"\"vocab_size\": 32", "\"vocab_size\": 33", "embed_tokens"},
	{"\"vocab_size\": 32", "\"vocab_size\": 2147483647", "2147483647"},
	{"1e-05", "-1", "rms_norm_eps is -1"},
	{"10000.0", "0", "rope_theta is 0"},
	{"true", "false", "lm_head.weight"},
	{"true", "true, \"hidden_act\": \"relu\"", "relu"},
	{"true", "true, \"rope_scaling\": {\"rope_type\": \"dynamic\"}", "dynamic"},
	{"true", "true, \"quantization_config\": {\"quant_method\": \"gptq\"}", "gptq"},
	{"true", "true, \"head_dim\": 1000000", "1000000"},
	{"true", "true, \"head_dim\": 8", "q_proj.weight"},
};

START_TEST(hostile_config)
{
	const char *folder = tiny_model(TINY_VOCAB, -1), *path = path_in(folder, "config.json");
	file_change(path, configs[_i].from, configs[_i].to);
	EXPECT_FAILURE(ask(folder), 2, folder, configs[_i].message);
}
END_TEST

START_TEST(missing_files)
{
	static const char *const needed[] = {"config.json", "model.safetensors"};
	for (int i = 0; i < COUNT(needed); i++) {
		const char *folder = tiny_model(TINY_VOCAB, -1);
		unlink(path_in(folder, needed[i]));
		EXPECT_FAILURE(ask(folder), 2, folder, needed[i]);
		mkdir(path_in(folder, needed[i]), 0700);
		EXPECT_FAILURE(ask(folder), 2, folder, needed[i]);
	}
	EXPECT_FAILURE(ask(scratch_folder()), 2, "config.json");
	EXPECT_FAILURE(ask("/nonexistent/model"), 2, "/nonexistent/model");
	EXPECT_FAILURE(ask("nobody/nothing"), 2, "nobody/nothing", "hub cache");
	EXPECT_FAILURE(ask(ASSAY_PROGRAM), 2, ASSAY_PROGRAM, "Hugging Face folder");
	EXPECT_FAILURE(ask(""), 2, "--model");
}
END_TEST

/* A shard's name stays in its folder, whatever the index says. */
START_TEST(hostile_index)
{
	static const char *const names[] = {"../model.safetensors", "/etc/passwd", "", ".", "absent.safetensors"};
	for (int i = 0; i < COUNT(names); i++) {
		char index[200];
		const char *folder = tiny_model(TINY_VOCAB, -1);
		rename(path_in(folder, "model.safetensors"), path_in(folder, "one.safetensors"));
		int length =
			snprintf(index, sizeof(index), "{\"weight_map\": {\"model.norm.weight\": \"%s\"}}", names[i]);
		overwrite(path_in(folder, "model.safetensors.index.json"), index, (size_t)length);
		EXPECT_FAILURE(ask(folder), 2, folder);
	}
}
END_TEST

static const char *const trial_files[] = {"T19/dup_gap", "T19/dup_same", "T19/dup_shape", "T21/meta_int",
	"T21/meta_empty", "T21/meta_null", "T21/meta_tensor", "T23/zero_mid", "T23/zero_only", "T23/empty", "T23/hole",
	"T23/tail", "T23/overlap"};

/* Well-formed ones lack the model's tensors: refused, too. */
START_TEST(trial_safetensors)
{
	char relative[64];
	snprintf(relative, sizeof(relative), "trials/%s.safetensors", trial_files[_i]);
	const char *file = shared_path(relative), *folder = tiny_model(TINY_VOCAB, -1),
		   *path = path_in(folder, "model.safetensors");
	if (!file)
		SKIP("no trials");
	file_copy(file, path);
	EXPECT_FAILURE(ask(folder), 2, path);
}
END_TEST

START_TEST(trial_missing_shard)
{
	static const char *const names[] = {
		"model.safetensors.index.json", "model-00001-of-00002.safetensors", "stray.safetensors"};
	const char *folder = tiny_model(TINY_VOCAB, -1);
	unlink(path_in(folder, "model.safetensors"));
	for (int i = 0; i < COUNT(names); i++) {
		char relative[80];
		snprintf(relative, sizeof(relative), "trials/T25/%s", names[i]);
		if (!shared_path(relative))
			SKIP("no trials");
		file_copy(shared_path(relative), path_in(folder, names[i]));
	}
	EXPECT_FAILURE(ask(folder), 2, "model-00002-of-00002.safetensors");
}
END_TEST

/* Names that messages quote cannot reach a terminal's escapes. */
START_TEST(escapes_in_names)
{
	struct outcome o = RUN("run", "--suite", "a\033[31mb\r");
	ck_assert_ptr_null(strchr(buf_text(&o.err), '\033'));
	ck_assert_ptr_null(strchr(buf_text(&o.err), '\r'));
	EXPECT_FAILURE(o, 2, "[31mb");
	const char *folder = tiny_model(TINY_VOCAB, -1);
	file_change(path_in(folder, "config.json"), "\"llama\"", "\"\\u001b[31m\"");
	o = ask(folder);
	ck_assert_ptr_null(strchr(buf_text(&o.err), '\033'));
	EXPECT_FAILURE(o, 2, "config.json");
}
END_TEST

/* ---- Damaged data ---- */

static const struct {
	const char *suite, *file, *line, *message;
} records[] = {
	{"gsm8k", "gsm8k/test.jsonl", "{\"question\": \"a\"", "column"},
	{"gsm8k", "gsm8k/test.jsonl", "[]", "array"},
	{"gsm8k", "gsm8k/test.jsonl", "{\"question\": \"a\"}", "answer"},
	{"gsm8k", "gsm8k/test.jsonl", "{\"question\": 5, \"answer\": \"#### 5\"}", "question"},
	{"gsm8k", "gsm8k/test.jsonl", "{\"question\": \"\xff\", \"answer\": \"#### 5\"}", "UTF-8"},
	{"gsm8k", "gsm8k/train.jsonl", "{\"question\": \"a\", \"answer\": null}", "answer"},
	{"arc_easy", "arc/ARC-Easy/test.jsonl",
		"{\"question\": \"a\", \"choices\": {\"text\": [\"b\"], \"label\": [\"A\", \"B\"]}, "
		"\"answerKey\": \"A\"}",
		"choices"},
	{"arc_easy", "arc/ARC-Easy/test.jsonl",
		"{\"question\": \"a\", \"choices\": {\"text\": [\"b\"], \"label\": [\"A\"]}, "
		"\"answerKey\": \"C\"}",
		"answerKey"},
	{"arc_easy", "arc/ARC-Easy/test.jsonl", "{\"question\": \"a\", \"choices\": [], \"answerKey\": \"C\"}",
		"choices"},
	{"arc_easy", "arc/ARC-Easy/test.jsonl",
		"{\"question\": \"a\", \"choices\": {\"text\": [], \"label\": []}, \"answerKey\": \"\"}", ":2"},
	{"recall", "recall/test.jsonl", "{\"context\": \"a\", \"question\": \"b\"}", "answer"},
	{"recall", "recall/test.jsonl", "{\"context\": [], \"question\": \"b\", \"answer\": \"c\"}", "context"},
};

/* The bundled data with one bad line, the second of a file. */
START_TEST(hostile_record)
{
	static const char *const names[] = {
		"gsm8k/test.jsonl", "gsm8k/train.jsonl", "arc/ARC-Easy/test.jsonl", "recall/test.jsonl"};
	const char *folder = scratch_folder(), *db = path_in(folder, "a.db");
	char where[64];
	for (int i = 0; i < COUNT(names); i++) {
		struct buf text = test_read_file(path_in(POCKET_DATA, names[i])), bad = {0};
		size_t first = strcspn(text.data, "\n") + 1;
		buf_append(&bad, text.data, first);
		if (strcmp(names[i], records[_i].file) == 0)
			buf_printf(&bad, "%s\n", records[_i].line);
		buf_append(&bad, text.data + first, text.length - first);
		test_write_file(names[i], bad.data, bad.length);
		buf_free(&text);
		buf_free(&bad);
	}
	snprintf(where, sizeof(where), "%s:2", records[_i].file);
	EXPECT_FAILURE(
		RUN("run", "--data", folder, "--suite", records[_i].suite, "--db", db), 2, where, records[_i].message);
	ck_assert_int_ne(access(db, F_OK), 0); /* nothing was begun */
	EXPECT_FAILURE(RUN("prompts", "--data", folder, "--suite", records[_i].suite, "--hashes"), 2, where,
		records[_i].message);
}
END_TEST

/* ---- Databases ---- */

/* What lies where the database should be. */
static const char *bad_database(const char *kind)
{
	const char *path = path_in(scratch_folder(), "a.db");
	sqlite3 *handle = NULL;
	char lines[4096];
	memset(lines, 'x', sizeof(lines));
	if (strcmp(kind, "short text") == 0)
		overwrite(path, "hello\n", 6);
	else if (strcmp(kind, "long text") == 0)
		overwrite(path, lines, sizeof(lines));
	else if (strcmp(kind, "folder") == 0)
		mkdir(path, 0700);
	else if (strcmp(kind, "link to itself") == 0)
		ck_assert_int_eq(symlink("a.db", path), 0);
	else if (strcmp(kind, "device") == 0)
		return "/dev/full";
	else if (strcmp(kind, "below a file") == 0)
		return POCKET "/config.json/a.db";
	else {
		struct outcome o = RUN("run", "--limit", "1", "--suite", "recall", "--db", path);
		expect_exit(&o, 0);
		outcome_free(&o);
		ck_assert_int_eq(sqlite3_open(path, &handle), SQLITE_OK);
		const char *change =
			strcmp(kind, "newer") == 0 ? "PRAGMA user_version = 99" : "PRAGMA application_id = 7";
		ck_assert_int_eq(sqlite3_exec(handle, change, NULL, NULL, NULL), SQLITE_OK);
		sqlite3_close(handle);
	}
	return path;
}

static const struct {
	const char *kind, *message;
	int exit_code;         /* of run */
	int reading_exit_code; /* of list and show */
} databases[] = {
	{"short text", "not a database", 2, 2},
	{"long text", "not a database", 2, 2},
	{"folder", "folder", 2, 2},
	{"newer", "newer", 2, 2},
	{"of another program", "another program", 2, 2},
	{"device", "regular file", 2, 2},
	{"link to itself", "symbolic link", 4, 2},
	{"below a file", "Not a directory", 4, 2},
};

START_TEST(bad_databases)
{
	const char *db = bad_database(databases[_i].kind), *message = databases[_i].message;
	EXPECT_FAILURE(
		RUN("run", "--limit", "1", "--suite", "recall", "--db", db), databases[_i].exit_code, db, message);
	EXPECT_FAILURE(RUN("list", "--db", db), databases[_i].reading_exit_code, db, message);
	EXPECT_FAILURE(RUN("show", "1", "--db", db), databases[_i].reading_exit_code, db, message);
	EXPECT_FAILURE(RUN("show", "1", "--json", "--db", db), databases[_i].reading_exit_code, db, message);
	if (strcmp(databases[_i].kind, "short text") == 0) { /* nobody's file is overwritten */
		struct buf text = test_read_file(db);
		ck_assert_str_eq(buf_text(&text), "hello\n");
		buf_free(&text);
	}
}
END_TEST

/* A database that was cut, or has a flipped byte somewhere: an answer or a message, nothing else. */
START_TEST(damaged_database)
{
	const char *db = path_in(scratch_folder(), "a.db");
	struct outcome o = RUN("run", "--limit", "2", "--suite", "recall,arc_easy", "--db", db);
	expect_exit(&o, 0);
	outcome_free(&o);
	struct buf whole = test_read_file(db);
	struct py_random random;
	py_random_seed(&random, 11);
	for (int i = 0; i < 24; i++) {
		size_t at = (size_t)py_random_below(&random, whole.length);
		if (i % 2) {
			whole.data[at] = (char)(whole.data[at] ^ 0x55);
			overwrite(db, whole.data, whole.length);
			whole.data[at] = (char)(whole.data[at] ^ 0x55);
		} else {
			overwrite(db, whole.data, at);
		}
		o = i % 3 ? RUN("show", "1", "--samples", "recall", "--json", "--db", db)
			  : RUN("run", "--limit", "2", "--suite", "recall", "--db", db);
		ck_assert_msg(o.exit_code == 0 || ((o.exit_code == 2 || o.exit_code == 4) && o.err.length > 0),
			"byte %zu: exit %d: %s", at, o.exit_code, buf_text(&o.err));
		outcome_free(&o);
	}
	buf_free(&whole);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *models = test_case(suite, "models", 120);
	tcase_add_loop_test(models, truncated, 0, COUNT(damaged_files));
	tcase_add_loop_test(models, flipped, 0, COUNT(damaged_files));
	tcase_add_loop_test(models, hostile_config, 0, COUNT(configs));
	tcase_add_test(models, missing_files);
	tcase_add_test(models, hostile_index);
	tcase_add_loop_test(models, trial_safetensors, 0, COUNT(trial_files));
	tcase_add_test(models, trial_missing_shard);
	tcase_add_test(models, escapes_in_names);

	TCase *stored = test_case(suite, "stored", 60);
	tcase_add_loop_test(stored, hostile_record, 0, COUNT(records));
	tcase_add_loop_test(stored, bad_databases, 0, COUNT(databases));
	tcase_add_test(stored, damaged_database);
}

/* `assay run --suite divergence` as a user runs it. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/program_store.h"

const char *const test_program_name = "program_divergence";

static void expect_done(struct outcome o)
{
	expect_exit(&o, 0);
	outcome_free(&o);
}

/* A result of the suite as a whole in what --json printed. */
static double result(const struct json *root, int variant, const char *metric)
{
	char path[128];
	snprintf(path, sizeof(path), "variants/%d/suites/divergence", variant);
	const struct json *value = json_get(json_path(root, path), metric);
	return value ? json_double(json_get(value, "value")) : NAN;
}

START_TEST(alone_it_reads_the_first_variants_own_answers)
{
	const char *db = path_in(scratch_folder(), "a.db");
	struct outcome o = RUN("run", "--suite", "divergence", "--limit", "8", "--variant", "bf16/bf16", "--variant",
		"bf16/f32", "--variant", "int4/fp8", "--db", db, "--json");
	expect_exit(&o, 0);
	ck_assert_msg(strstr(buf_text(&o.err), "bf16/bf16's own answers"), "%s", buf_text(&o.err));
	struct json_document *document = parse(buf_str(&o.out));
	const struct json *root = json_root(document);
	ck_assert_int_eq(json_path_int(root, "variants/1/suites/divergence/n"), 8);
	for (int i = 0; i < 3; i++) {
		ck_assert_double_ge(result(root, i, "perplexity,none"), 1);
		ck_assert_double_eq(result(root, i, "tokens,none"), result(root, 0, "tokens,none"));
		ck_assert_int_eq(isnan(result(root, i, "kl,none")), i == 0);
	}
	/* a wider cache differs less than coarser weights and a narrower one */
	ck_assert_double_gt(result(root, 1, "kl,none"), 0);
	ck_assert_double_gt(result(root, 2, "kl,none"), result(root, 1, "kl,none"));
	ck_assert_double_ge(result(root, 2, "kl_max,none"), result(root, 2, "kl_p99,none"));
	ck_assert_double_eq_tol(result(root, 2, "perplexity_ratio,none"),
		result(root, 2, "perplexity,none") / result(root, 0, "perplexity,none"), 1e-9);
	ck_assert_double_eq_tol(
		log(result(root, 2, "perplexity_ratio,none")), -result(root, 2, "delta_logprob,none"), 1e-9);
	json_free(document);
	outcome_free(&o);
	expect_sql(db,
		"SELECT name, suite, task, count(*) FROM sample JOIN variant USING (variant_id) GROUP BY 1, 2, 3 ORDER "
		"BY "
		"variant_id, suite",
		"bf16/bf16|divergence|gsm8k|8\nbf16/bf16|gsm8k|gsm8k|8\nbf16/f32|divergence|gsm8k|8\nint4/"
		"fp8|divergence|gsm8k|"
		"8\n");
	/* what was scored is what was answered, and greedily so */
	expect_sql(db,
		"SELECT count(*), sum(a.tokens = b.tokens), sum(abs(json_extract(a.token_logprobs, '$[0]') - "
		"json_extract(b.token_logprobs, '$[0]')) < 1e-6)"
		" FROM sample a JOIN sample b USING (variant_id, task, doc_id) JOIN variant USING (variant_id)"
		" WHERE a.suite = 'gsm8k' AND b.suite = 'divergence' AND name = 'bf16/bf16'",
		"8|8|8\n");
	expect_sql(db, "SELECT status, for_gating FROM run", "complete|0\n");
}
END_TEST

START_TEST(beside_suites_it_reads_their_answers)
{
	const char *db = path_in(scratch_folder(), "a.db");
	expect_done(RUN("run", "--suite", "recall,arc_easy,divergence,gsm8k", "--limit", "3", "--variant", "bf16/bf16",
		"--variant", "int4/bf16", "--db", db));
	expect_sql(db,
		"SELECT task, count(*) FROM sample WHERE suite = 'divergence' GROUP BY task, variant_id ORDER BY task",
		"gsm8k|3\ngsm8k|3\nrecall|3\nrecall|3\n");
	expect_sql(db,
		"SELECT task, n FROM suite_result JOIN variant USING (variant_id) WHERE suite = 'divergence' AND "
		"metric = "
		"'kl,none' ORDER BY task",
		"divergence|6\ngsm8k|3\nrecall|3\n");
	expect_sql(db,
		"SELECT sum(value) = (SELECT value FROM suite_result WHERE task = 'divergence' AND metric = "
		"'tokens,none' LIMIT 1)"
		" FROM suite_result JOIN variant USING (variant_id) WHERE suite = 'divergence' AND task <> suite AND "
		"metric = "
		"'tokens,none' AND name = 'int4/bf16'",
		"1\n");
	struct outcome o = RUN("db", "check", "--db", db);
	expect_exit(&o, 0);
	outcome_free(&o);
}
END_TEST

static const char *text_file(void)
{
	return POCKET_DATA "/gsm8k/train.jsonl";
}

START_TEST(a_text_is_read_in_full_and_finer_groups_are_nearer)
{
	const char *db = path_in(scratch_folder(), "a.db");
	struct outcome o = RUN("run", "--suite", "divergence", "--text", text_file(), "--limit", "6", "--variant",
		"bf16/bf16", "--variant", "int4/bf16", "--variant", "int4g32/bf16", "--db", db, "--json");
	expect_exit(&o, 0);
	struct json_document *document = parse(buf_str(&o.out));
	const struct json *root = json_root(document);
	/* a window of 512 tokens of which all but the first are scored, and five halves */
	ck_assert_double_eq(result(root, 1, "tokens,none"), 511 + 5 * 256);
	ck_assert_double_lt(result(root, 2, "kl,none"), result(root, 1, "kl,none"));
	json_free(document);
	outcome_free(&o);
	expect_sql(db, "SELECT DISTINCT task FROM sample", "train.jsonl\n");
	expect_sql(db, "SELECT json_extract(provenance, '$.divergence.window') FROM run", "512\n");
}
END_TEST

#define RESUMED(...)                                                                                                  \
	RUN("run", "--suite", "recall,divergence", "--limit", "5", "--variant", "bf16/bf16", "--variant", "int4/fp8", \
		"--db", __VA_ARGS__)

/* Changes a database as a crash would have left it. */
static void change(const char *db, const char *statements)
{
	sqlite3 *handle = NULL;
	char *message = NULL;
	ck_assert_int_eq(sqlite3_open(db, &handle), SQLITE_OK);
	ck_assert_msg(sqlite3_exec(handle, statements, NULL, NULL, &message) == SQLITE_OK, "%s", message);
	sqlite3_close(handle);
}

START_TEST(it_goes_on_where_it_stopped_whatever_the_engine_does)
{
	const char *folder = scratch_folder(), *calm = path_in(folder, "calm.db"), *db = path_in(folder, "a.db");
	expect_done(RESUMED(calm));
	struct buf expected = answers(calm, 1);
	expect_done(RESUMED(db));
	change(db,
		"UPDATE run SET status = 'interrupted';"
		"DELETE FROM suite_result WHERE suite = 'divergence';"
		"DELETE FROM sample WHERE suite = 'divergence' AND (doc_id = 3 OR (doc_id = 1 AND variant_id = 2));"
		"UPDATE sample SET status = 'error', error = 'lost', response = 'null', metrics = '{}' WHERE suite = "
		"'divergence' AND doc_id = 4 AND variant_id = 2;");
	expect_done(RESUMED(db, "--threads", "1", "--chunk", "7", "--max-batch-tokens", "33"));
	expect_sql(db, "SELECT count(*), max(resumptions), max(status) FROM run", "1|1|complete\n");
	struct buf actual = answers(db, 1);
	expect_same(&actual, &expected);
	buf_free(&actual);
	buf_free(&expected);
}
END_TEST

START_TEST(joined_shards_are_the_unsplit_run)
{
	const char *folder = scratch_folder(), *whole = path_in(folder, "whole.db"), *db = path_in(folder, "a.db");
	expect_done(RESUMED(whole));
	expect_done(RESUMED(db, "--shard", "1/2"));
	expect_done(RESUMED(db, "--shard", "2/2"));
	expect_done(RUN("db", "merge", "--db", db));
	static const char results[] =
		"SELECT name, metric, n, value, stderr FROM suite_result JOIN variant USING "
		"(variant_id) WHERE suite = 'divergence' AND suite_result.run_id = (SELECT max(run_id) "
		"FROM run) ORDER BY name, metric";
	struct buf expected = sql(whole, results), actual = sql(db, results);
	expect_same(&actual, &expected);
	buf_free(&expected);
	buf_free(&actual);
}
END_TEST

START_TEST(another_text_is_another_run)
{
	const char *folder = scratch_folder(), *db = path_in(folder, "a.db"), *text = path_in(folder, "t.txt");
	overwrite(text, "Leo has 16 apples.", 18);
	for (int i = 0; i < 2; i++) {
		expect_done(RUN("run", "--suite", "divergence", "--text", text, "--variant", "bf16/bf16", "--variant",
			"bf16/fp8", "--db", db));
		change(db, "UPDATE run SET status = 'interrupted'");
		overwrite(text, "Leo has 17 apples.", 18);
	}
	expect_sql(db, "SELECT count(*), sum(resumptions) FROM run", "2|0\n");
}
END_TEST

START_TEST(what_cannot_be_measured_is_said)
{
	const char *folder = scratch_folder(), *db = path_in(folder, "a.db"), *none = path_in(folder, "none.txt");
	EXPECT_FAILURE(RUN("run", "--suite", "divergence", "--db", db), 2, "divergence", "--variant");
	EXPECT_FAILURE(RUN("run", "--suite", "gsm8k", "--text", text_file(), "--db", db), 2, "--text", "divergence");
	EXPECT_FAILURE(RUN("run", "--suite", "divergence", "--text", none, "--variant", "bf16/bf16", "--variant",
			       "bf16/fp8", "--db", db),
		2, "none.txt");
	EXPECT_FAILURE(RUN("run", "--suite", "divergence", "--data", folder, "--variant", "bf16/bf16", "--variant",
			       "bf16/fp8", "--db", db),
		2, "nothing to read", "--text");
	EXPECT_FAILURE(RUN("run", "--suite", "divergenc", "--db", db), 2, "divergence");
}
END_TEST

START_TEST(windows_that_do_not_fit_are_counted_as_errors)
{
	const char *db = path_in(scratch_folder(), "a.db");
	struct outcome o = RUN("run", "--suite", "divergence", "--text", text_file(), "--limit", "2", "--variant",
		"bf16/bf16", "--variant", "bf16/fp8", "--kv-memory", "64KiB", "--db", db);
	expect_exit(&o, 5);
	ck_assert_msg(strstr(buf_text(&o.err), "no item was answered") && strstr(buf_text(&o.err), "KV pages"), "%s",
		buf_text(&o.err));
	outcome_free(&o);
	expect_sql(db, "SELECT count(*), count(error) FROM sample", "4|4\n");
}
END_TEST

START_TEST(dry_run_tells_what_would_be_read)
{
	struct outcome o = RUN("run", "--suite", "divergence", "--text", text_file(), "--variant", "bf16/bf16",
		"--variant", "bf16/fp8", "--dry-run");
	expect_exit(&o, 0);
	ck_assert_ptr_nonnull(strstr(buf_text(&o.out), "divergence from bf16/bf16"));
	ck_assert_ptr_nonnull(strstr(buf_text(&o.out), "train.jsonl"));
	outcome_free(&o);
}
END_TEST

/* ---- scales of an fp8 cache from a text ---- */

static const char calibration_text[] =
	"Ida has three red stones and two blue ones. How many stones does Ida have? She has five.\n"
	"The box of Tom holds a key, a coin and a rope; the code of Tom is metal horse.\n"
	"12 + 30 = 42, and 7 times 6 is 42 as well.\n";

/* By transformers 5.24.0 in float32: the largest |K| and |V| of each layer of the pocket model over the text but its last
 * token, over 448; the least and the most of them. */
enum { GOLDEN_LEAST = 24070146, GOLDEN_MOST = 41738182 };

static const char *calibration_file(void)
{
	return test_write_file("calibration.txt", calibration_text, strlen(calibration_text));
}

#define CALIBRATE(db, ...)                                                                                             \
	RUN("run", "--suite", "recall", "--limit", "2", "--variant", "bf16/bf16", "--variant", "bf16/fp8", "--db", db, \
		__VA_ARGS__)

START_TEST(scales_are_the_largest_values_of_a_text)
{
	const char *db = path_in(scratch_folder(), "a.db");

	expect_done(CALIBRATE(db, "--quiet"));
	expect_done(CALIBRATE(db, "--quiet", "--kv-scale", "calibrate", "--kv-scale-text", calibration_file()));
	/* another run; only the fp8 cache takes the scales */
	expect_sql(db, "SELECT run_id, name, json_extract(facts, '$.kv_scale_source') FROM variant ORDER BY 1, 2",
		"1|bf16/bf16|one\n1|bf16/fp8|one\n2|bf16/bf16|one\n2|bf16/fp8|given\n");
	int64_t least = sql_int(db,
			"SELECT round(1e9 * json_extract(facts, '$.kv_scale_min')) FROM variant WHERE run_id = 2 AND "
			"name = 'bf16/fp8'"),
		most = sql_int(db,
			"SELECT round(1e9 * json_extract(facts, '$.kv_scale_max')) FROM variant WHERE run_id = 2 AND "
			"name = 'bf16/fp8'");
	ck_assert_msg(llabs(least - GOLDEN_LEAST) < 200 && llabs(most - GOLDEN_MOST) < 200, "%" PRId64 " %" PRId64,
		least, most);
	expect_sql(db,
		"SELECT json_extract(provenance, '$.kv_scale.tokens'), length(json_extract(provenance, "
		"'$.kv_scale.sha256')) FROM run",
		"-|-\n92|64\n");
	ck_assert_int_gt(
		sql_int(db,
			"SELECT json_extract(facts, '$.kv_saturated') FROM variant WHERE run_id = 2 AND name = "
			"'bf16/fp8'"),
		0);
}
END_TEST

START_TEST(a_calibration_needs_a_text_and_an_fp8_cache)
{
	const char *db = path_in(scratch_folder(), "a.db"), *text = calibration_file();

	EXPECT_FAILURE(CALIBRATE(db, "--kv-scale", "calibrate"), 2, "--kv-scale-text FILE");
	EXPECT_FAILURE(CALIBRATE(db, "--kv-scale-text", text), 2, "--kv-scale calibrate, which is missing");
	EXPECT_FAILURE(CALIBRATE(db, "--kv-scale", "checkpoint", "--kv-scale-text", text), 2, "which is missing");
	EXPECT_FAILURE(CALIBRATE(db, "--kv-scale", "max"), 2, "'max'", "calibrate");
	EXPECT_FAILURE(
		CALIBRATE(db, "--kv-scale", "calibrate", "--kv-scale-text", "/no/such/text"), 2, "/no/such/text");
	EXPECT_FAILURE(RUN("run", "--suite", "recall", "--limit", "2", "--db", db, "--kv-scale", "calibrate",
			       "--kv-scale-text", text),
		2, "none of the variants keeps its cache in fp8");
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *all = test_case(suite, "divergence", 120);
	TCase *scales = test_case(suite, "scales", 120);

	tcase_add_test(scales, scales_are_the_largest_values_of_a_text);
	tcase_add_test(scales, a_calibration_needs_a_text_and_an_fp8_cache);
	tcase_add_test(all, alone_it_reads_the_first_variants_own_answers);
	tcase_add_test(all, beside_suites_it_reads_their_answers);
	tcase_add_test(all, a_text_is_read_in_full_and_finer_groups_are_nearer);
	tcase_add_test(all, it_goes_on_where_it_stopped_whatever_the_engine_does);
	tcase_add_test(all, joined_shards_are_the_unsplit_run);
	tcase_add_test(all, another_text_is_another_run);
	tcase_add_test(all, what_cannot_be_measured_is_said);
	tcase_add_test(all, windows_that_do_not_fit_are_counted_as_errors);
	tcase_add_test(all, dry_run_tells_what_would_be_read);
}

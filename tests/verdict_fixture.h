/* Sample files and stores that tests of the verdict compare. */
#ifndef ASSAY_TESTS_VERDICT_FIXTURE_H
#define ASSAY_TESTS_VERDICT_FIXTURE_H

#include "reports/verdict.h"
#include "tests/store_fixture.h"

/* Two files of sample lines that make one paired table: items in the order both right, baseline alone, candidate alone,
 * neither. */
struct table_files {
	const char *baseline, *candidate;
};

static inline void append_value(struct buf *out, const char *task, int64_t i, bool right)
{
	buf_printf(out, "{\"task\": \"%s\", \"doc_id\": %" PRId64 ", \"acc\": %d.0}\n", task, i, right);
}

static inline void append_table(struct buf *baseline, struct buf *candidate, const char *task, struct paired_table t)
{
	for (int64_t i = 0; i < paired_n(t); i++) {
		bool both = i < t.a, lost = !both && i < t.a + t.b, won = !both && !lost && i < t.a + t.b + t.c;
		append_value(baseline, task, i, both || lost);
		append_value(candidate, task, i, both || won);
	}
}

static inline struct table_files write_files(struct buf *baseline, struct buf *candidate)
{
	struct table_files files = {.baseline = test_write_file("base.jsonl", buf_text(baseline), baseline->length)};
	files.candidate = test_write_file("cand.jsonl", buf_text(candidate), candidate->length);
	buf_free(baseline);
	buf_free(candidate);
	return files;
}

static inline struct table_files write_table(struct paired_table t)
{
	struct buf baseline = {0}, candidate = {0};
	append_table(&baseline, &candidate, "samples", t);
	return write_files(&baseline, &candidate);
}

/* A judged pair of addresses. */
struct judged {
	struct policy policy;
	struct pairing pairing;
	struct verdict verdict;
};

static inline int judge(struct judged *j, const char *baseline, const char *candidate)
{
	struct answers a, b = {0};
	int status = answers_load(baseline, NULL, &a, &test_error);
	if (status == 0)
		status = answers_load(candidate, NULL, &b, &test_error);
	if (status < 0) {
		answers_free(&a);
		answers_free(&b);
		return status;
	}
	status = pairing_make(&a, &b, NULL, 0, &j->policy, &j->pairing, &test_error);
	return status < 0 ? status : verdict_make(&j->pairing, &j->policy, &j->verdict, &test_error);
}

static inline void judged_free(struct judged *j)
{
	verdict_free(&j->verdict);
	pairing_free(&j->pairing);
	policy_free(&j->policy);
}

/* With the default policy at a margin in points. */
static inline void judge_files(struct judged *j, struct table_files files, double points)
{
	*j = (struct judged){0};
	policy_init(&j->policy);
	policy_set_margin(&j->policy, points);
	CHECK_OK(judge(j, files.baseline, files.candidate));
}

static inline void judge_table(struct judged *j, struct paired_table t, double points)
{
	judge_files(j, write_table(t), points);
}

#endif

/* Judging two addresses, for tests of the verdict. */
#ifndef ASSAY_TESTS_VERDICT_FIXTURE_H
#define ASSAY_TESTS_VERDICT_FIXTURE_H

#include "reports/verdict.h"
#include "tests/store_fixture.h"
#include "tests/table_files.h"

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

/* What an overhead measurement says: a line of the table and an element of the JSON per arm and concurrency. */
#ifndef ASSAY_EVALS_OVERHEAD_REPORT_H
#define ASSAY_EVALS_OVERHEAD_REPORT_H

#include "evals/console.h"
#include "reports/overhead.h"

enum { OVERHEAD_ARMS = 8 };

struct overhead_report {
	struct buf rows; /* elements of a JSON array, commas between */
	struct table table;
	int blocks_advised; /* for intervals of half a percent either way; 0: they are */
	bool out_of_reach;  /* one of them takes too many */
};

void overhead_report_init(struct overhead_report *r);
void overhead_report_free(struct overhead_report *r);

/* All blocks of one variant at one concurrency. Arm 0 is the baseline, arm 1 the same once more: the A/A null. */
struct overhead_level {
	const char *variant;
	int concurrency, input, output;
	int n_arms, n_blocks;
	const char *arms[OVERHEAD_ARMS];
	struct overhead_sample *samples[OVERHEAD_ARMS]; /* [n_blocks] */
	uint64_t seed;
};

int overhead_report_level(struct overhead_report *r, const struct overhead_level *level, struct error *e);

int overhead_report_text(const struct overhead_report *r, bool color, struct buf *out, struct error *e);
void overhead_report_json(const struct overhead_report *r, int64_t run_id, struct buf *out);

#endif

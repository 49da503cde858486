/* Files of sample lines that make paired tables. */
#ifndef ASSAY_TESTS_TABLE_FILES_H
#define ASSAY_TESTS_TABLE_FILES_H

#include <inttypes.h>

#include "reports/stats.h"
#include "tests/support.h"

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

#endif

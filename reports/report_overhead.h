/* What a report says of interleaved arms: what guards cost, with the measurement's own resolution beside. */
#ifndef ASSAY_REPORTS_REPORT_OVERHEAD_H
#define ASSAY_REPORTS_REPORT_OVERHEAD_H

#include "reports/report_data.h"
#include "reports/stats.h"
#include "reports/table.h"

/* A fraction with its 95% interval; NaN where it was not measured. */
struct overhead_cost {
	double value;
	struct interval interval;
};

/* One arm at one point, against "none" in the same blocks. */
struct report_overhead {
	const struct report_run *run;
	const struct report_measurement *point; /* the first of its blocks */
	bool is_null;                           /* the A/A arm: "none" once more */
	size_t pairs;
	struct overhead_cost throughput; /* that is lost */
	struct interval null;            /* of the throughput that the A/A arm loses at this point; NaN without one */
	struct overhead_cost p95;        /* change of the blocks' 95th percentiles of latency */
	double guard_us, step_us;        /* medians, of a step */
};
#define REPORT_OVERHEAD_BUDGET 0.01
enum { REPORT_OVERHEADS = 200 };
/* Those with two pairs or more, the arms of one point together and the A/A arm first of them. Returns how many there are,
 * at most `most`. */
int report_overheads(const struct report_data *data, struct report_overhead *out, int most);

int report_overhead_table(const struct report_data *data, struct table_list *out, struct error *e);

#endif

/* What a report says of interleaved arms: what guards cost, with the measurement's own resolution beside. */
#ifndef ASSAY_REPORTS_REPORT_OVERHEAD_H
#define ASSAY_REPORTS_REPORT_OVERHEAD_H

#include "reports/overhead.h"
#include "reports/report_data.h"
#include "reports/table.h"

/* One arm at one point, against "none" in the same blocks. */
struct report_overhead {
	const struct report_run *run;
	const struct report_measurement *point; /* the first of its blocks */
	bool is_null;                           /* the A/A arm: "none" once more */
	size_t pairs;
	struct overhead_change throughput; /* what is lost of it */
	double null_low, null_high;        /* the same of the A/A arm at this point; NaN without one */
	struct overhead_change cpu, p95; /* change of processor time and of the tail of latencies; NaN: not measured */
	double guard_us, step_us;        /* medians, of a step */
};
#define REPORT_OVERHEAD_BUDGET 0.01
enum { REPORT_OVERHEADS = 200 };
/* Those with two pairs or more, the arms of one point together and the A/A arm first of them, with the figures that `assay
 * overhead` gives. Returns how many there are, at most `most`; ERR_MEMORY. */
int report_overheads(const struct report_data *data, struct report_overhead *out, int most, struct error *e);

int report_overhead_table(const struct report_data *data, struct table_list *out, struct error *e);

#endif

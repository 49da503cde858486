/* What a report says of fault campaigns. */
#ifndef ASSAY_REPORTS_REPORT_FAULTS_H
#define ASSAY_REPORTS_REPORT_FAULTS_H

#include "reports/report_data.h"
#include "reports/table.h"

bool report_has_faults(const struct report_data *data);

/* By level and site: how trials ended, and the share that was detected with its exact interval. */
int report_fault_outcomes_table(const struct report_data *data, struct table_list *out, struct error *e);
/* Which checks fire on which fault, aborting nothing. */
int report_fault_checks_table(const struct report_run *run, struct table_list *out, struct error *e);

/* Trials of the site that were neither masked nor without effect; level NULL: of the observed run. */
int64_t report_fault_trials(const struct report_run *run, const char *level, const char *site);

#endif

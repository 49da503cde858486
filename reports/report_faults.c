#include "reports/report_faults.h"

#include <inttypes.h>
#include <math.h>

#include "reports/stats.h"

static const char *const ends[] = {"detected", "detected_late", "silent", "leak", "crash", "hang"};
enum { ENDS = sizeof(ends) / sizeof(ends[0]) };

bool report_has_faults(const struct report_data *data)
{
	for (size_t i = 0; i < data->n_runs; i++)
		if (data->runs[i].n_outcomes)
			return true;
	return false;
}

static bool same_level(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static int64_t trials_ended(const struct report_run *run, const char *level, const char *site, const char *end)
{
	int64_t n = 0;
	for (size_t i = 0; i < run->n_outcomes; i++) {
		const struct report_fault *x = &run->outcomes[i];
		if (same_level(x->level, level) && strcmp(x->site, site) == 0 && strcmp(x->key, end) == 0)
			n += x->n;
	}
	return n;
}

int64_t report_fault_trials(const struct report_run *run, const char *level, const char *site)
{
	int64_t n = 0;
	for (int i = 0; i < ENDS; i++)
		n += trials_ended(run, level, site, ends[i]);
	return n;
}

/* Whether an earlier row is of the same level and site. */
static bool is_first(const struct report_run *run, size_t at)
{
	const struct report_fault *x = &run->outcomes[at];
	for (size_t i = 0; i < at; i++)
		if (same_level(run->outcomes[i].level, x->level) && strcmp(run->outcomes[i].site, x->site) == 0)
			return false;
	return true;
}

static void outcome_row(const struct report_run *run, const struct report_fault *x, struct report_table *t)
{
	int64_t n = report_fault_trials(run, x->level, x->site);
	int64_t detected = trials_ended(run, x->level, x->site, "detected");
	struct interval bounds = {NAN, NAN};
	if (n > 0)
		bounds = exact_interval((double)detected, (double)n, 0.95);
	table_textf(t, "%" PRId64, run->run.run_id);
	table_text(t, x->level);
	table_text(t, x->model);
	table_text(t, x->site);
	table_int(t, n);
	for (int i = 0; i < ENDS; i++)
		table_int(t, trials_ended(run, x->level, x->site, ends[i]));
	table_percent(t, n > 0 ? (double)detected / (double)n : NAN, 1);
	table_percent(t, bounds.low, 1);
	table_percent(t, bounds.high, 1);
}

int report_fault_outcomes_table(const struct report_data *data, struct table_list *out, struct error *e)
{
	static const char *const numbers[] = {
		"detected", "late", "silent", "leak", "crash", "hang", "detected, %", "low", "high"};
	struct report_table *t = table_list_add(out, "faults", "Planted faults by guard level and site", e);
	if (!t)
		return ERR_MEMORY;
	table_text_column(t, "run");
	table_text_column(t, "guard");
	table_text_column(t, "model");
	table_text_column(t, "site");
	table_number_column(t, "trials");
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		table_number_column(t, numbers[i]);
	for (size_t r = 0; r < data->n_runs; r++)
		for (size_t i = 0; i < data->runs[r].n_outcomes; i++) {
			const struct report_fault *x = &data->runs[r].outcomes[i];
			if (x->level && x->site[0] && is_first(&data->runs[r], i))
				outcome_row(&data->runs[r], x, t);
		}
	buf_append_text(&t->note,
		"Trials in which the fault acted and changed an answer when nothing stopped it. Detected: no wrong "
		"token "
		"left; late: some had left. Intervals are Clopper and Pearson's, 95%, within a site: trials of one "
		"site "
		"are no independent evidence about others.");
	return 0;
}

static int check_columns(const struct report_run *run, const char *names[TABLE_MAX_COLUMNS], int most)
{
	int n = 0;
	for (size_t i = 0; i < run->n_checks; i++) {
		int k = 0;
		while (k < n && strcmp(names[k], run->checks[i].key) != 0)
			k++;
		if (k == n && n < most)
			names[n++] = run->checks[i].key;
	}
	return n;
}

static int64_t fired(const struct report_run *run, const char *site, const char *check)
{
	for (size_t i = 0; i < run->n_checks; i++)
		if (strcmp(run->checks[i].site, site) == 0 && strcmp(run->checks[i].key, check) == 0)
			return run->checks[i].n;
	return 0;
}

int report_fault_checks_table(const struct report_run *run, struct table_list *out, struct error *e)
{
	const char *names[TABLE_MAX_COLUMNS];
	struct report_table *t = table_list_add(out, "fault_checks", "Which check fires on which fault", e);
	if (!t)
		return ERR_MEMORY;
	int n = check_columns(run, names, TABLE_MAX_COLUMNS - 3);
	table_text_column(t, "model");
	table_text_column(t, "site");
	table_number_column(t, "trials");
	for (int k = 0; k < n; k++)
		table_number_column(t, names[k]);
	for (size_t i = 0; i < run->n_outcomes && n > 0; i++) {
		const struct report_fault *x = &run->outcomes[i];
		if (x->level || !is_first(run, i) || report_fault_trials(run, NULL, x->site) == 0)
			continue;
		table_text(t, x->model);
		table_text(t, x->site);
		table_int(t, report_fault_trials(run, NULL, x->site));
		for (int k = 0; k < n; k++)
			table_int(t, fired(run, x->site, names[k]));
	}
	buf_printf(&t->note,
		"Run %" PRId64
		", all checks observing and none aborting: trials that changed an answer, and in how many of "
		"them each check fired. So a row says what is caught without any one check.",
		run->run.run_id);
	return 0;
}

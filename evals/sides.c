#include "evals/sides.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json_strict.h"
#include "evals/option_values.h"
#include "evals/suite.h"

/* By its name in any case; an exam by its file, too. */
static bool suite_is(const char *suite, const char *typed)
{
	return option_same_name(suite, typed) || str_is(suite_exam_name(typed), suite);
}

/* The stored name of a suite that was typed; NULL where there is none. */
static const char *stored_name(const struct answers *a, const char *typed)
{
	for (size_t i = 0; i < a->n; i++)
		if (suite_is(a->rows[i].suite, typed))
			return a->rows[i].suite;
	return NULL;
}

static int load_sides(const struct options *o, const char *baseline, const char *candidate, struct answers *a,
	struct answers *b, struct error *e)
{
	struct error no_default = {0};
	char *db = db_path(o, &no_default);
	int status = answers_load(baseline, db, a, e);
	if (status == 0)
		status = answers_load(candidate, db, b, e);
	free(db);
	return status;
}

/* The day that a run's prompts were told, "" where they were told none: "2025-02-01". */
static void day_told(const struct answers *a, char out[11])
{
	struct json_document *provenance = NULL;
	struct error ignored;
	out[0] = '\0';
	if (a->run.provenance.length == 0 ||
		json_parse(a->run.provenance, NULL, JSON_LAST_KEY_WINS, &provenance, &ignored) < 0)
		return;
	const struct json *date = json_get(json_get(json_root(provenance), "chat"), "date");
	if (json_is(date, JSON_STRING))
		snprintf(out, 11, "%.10s", date->text.data);
	json_free(provenance);
}

/* Why two runs may have other prompts that look alike. */
static int add_dates(const char *baseline, const char *candidate, struct error *e)
{
	struct error of_pairing = *e;
	if (!baseline[0] || !candidate[0] || strcmp(baseline, candidate) == 0)
		return e->code;
	return error_set(e, of_pairing.code,
		"%.700s; the chat template was told the date, %s and %s: a run with --date %s has the baseline's "
		"prompts",
		of_pairing.message, baseline, candidate, baseline);
}

int sides_pair(const struct options *o, const char *baseline, const char *candidate, const struct policy *policy,
	struct pairing *out, struct error *e)
{
	struct answers a = {0}, b = {0};
	const char *suites[CLI_MAX_LIST];
	char days[2][11];
	*out = (struct pairing){0};
	int status = load_sides(o, baseline, candidate, &a, &b, e);
	for (int i = 0; i < o->n_suites; i++) {
		suites[i] = stored_name(&a, o->suites[i]);
		if (!suites[i])
			suites[i] = stored_name(&b, o->suites[i]);
		if (!suites[i])
			suites[i] = o->suites[i];
	}
	if (status == 0) {
		day_told(&a, days[0]);
		day_told(&b, days[1]);
		status = pairing_make(&a, &b, suites, (size_t)o->n_suites, policy, out, e);
		return status < 0 ? add_dates(days[0], days[1], e) : 0;
	}
	answers_free(&a);
	answers_free(&b);
	return status;
}

/* The compared suites that the baseline holds. Returns their number. */
static size_t suites_of_baseline(const struct verdict *v, const char **suites)
{
	const struct pairing *p = v->pairing;
	size_t n = 0;
	for (size_t i = 0; i < p->n_suites; i++)
		if (p->suites[i].only_candidate < (int64_t)p->suites[i].n)
			suites[n++] = p->suites[i].suite;
	return n;
}

int sides_measure_aa(struct verdict *v, struct error *e)
{
	const struct answers *baseline = &v->pairing->baseline;
	struct answers again = {0}, twin = {0};
	struct pairing aa = {0};
	if (!baseline->variant_id)
		return 0;
	const char **suites = mem_calloc(v->pairing->n_suites, sizeof(*suites), e);
	if (!suites)
		return ERR_MEMORY;
	size_t n_suites = suites_of_baseline(v, suites);
	int status = answers_load_twin(baseline, &twin, e);
	if (status == 0 && twin.n > 0) {
		status = answers_load_again(baseline, &again, e);
		if (status == 0)
			status = pairing_make(&again, &twin, suites, n_suites, v->policy, &aa, e);
		if (status == 0)
			status = verdict_add_aa(v, &aa, e);
	}
	answers_free(&again);
	answers_free(&twin);
	pairing_free(&aa);
	free(suites);
	return status;
}

#include "evals/sides.h"

#include <stdlib.h>

#include "evals/option_values.h"

/* A suite's stored name for one that was typed in any case; the typed one where there is none. */
static const char *stored_name(const struct answers *a, const char *typed)
{
	for (size_t i = 0; i < a->n; i++)
		if (option_same_name(a->rows[i].suite, typed))
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

int sides_pair(const struct options *o, const char *baseline, const char *candidate, const struct policy *policy,
	struct pairing *out, struct error *e)
{
	struct answers a = {0}, b = {0};
	const char *suites[CLI_MAX_LIST];
	*out = (struct pairing){0};
	int status = load_sides(o, baseline, candidate, &a, &b, e);
	for (int i = 0; i < o->n_suites; i++) {
		suites[i] = stored_name(&a, o->suites[i]);
		if (!suites[i])
			suites[i] = stored_name(&b, o->suites[i]);
		if (!suites[i])
			suites[i] = o->suites[i];
	}
	if (status == 0)
		return pairing_make(&a, &b, suites, (size_t)o->n_suites, policy, out, e);
	answers_free(&a);
	answers_free(&b);
	return status;
}

int sides_measure_aa(struct verdict *v, struct error *e)
{
	const struct answers *baseline = &v->pairing->baseline;
	struct answers again = {0}, twin = {0};
	struct pairing aa = {0};
	if (!baseline->variant_id)
		return 0;
	int status = answers_load_twin(baseline, &twin, e);
	if (status == 0 && twin.n > 0) {
		status = answers_load_again(baseline, &again, e);
		if (status == 0)
			status = pairing_make(&again, &twin, NULL, 0, v->policy, &aa, e);
		if (status == 0)
			status = verdict_add_aa(v, &aa, e);
	}
	answers_free(&again);
	answers_free(&twin);
	pairing_free(&aa);
	return status;
}

#include "reports/policy.h"

#include <math.h>
#include <stdlib.h>

#include "engine/base/file.h"
#include "engine/base/json_strict.h"

static const char *const tier_names[] = {"critical", "supporting", "advisory"};

const char *tier_name(enum tier tier)
{
	return tier_names[tier];
}

void policy_init(struct policy *p)
{
	*p = (struct policy){
		.alpha = 0.05,
		.power = 0.8,
		.min_coverage = 0.99,
		.pooled = {0.01, TIER_CRITICAL},
		.delta_logprob = {0.02, TIER_CRITICAL},
		.suite = {0.01, TIER_ADVISORY},
	};
}

void policy_free(struct policy *p)
{
	for (size_t i = 0; i < p->n_suites; i++) {
		free(p->suites[i].suite);
		free(p->suites[i].metric);
	}
	free(p->suites);
	free(p->file);
	*p = (struct policy){0};
}

/* ---- Reading ---- */

/* Where a value stands: "policy.json: suites.gsm8k.margin". */
static int refuse(
	const struct policy *p, const char *where, const struct json *value, const char *expected, struct error *e)
{
	bool spelled = json_is(value, JSON_NUMBER) || json_is(value, JSON_STRING);
	return error_set(e, ERR_INPUT, "%s: %s: %s%s%.*s, expected %s", p->file, where, json_type_name(value),
		spelled ? " " : "", spelled ? (int)(value->text.length > 80 ? 80 : value->text.length) : 0,
		spelled ? value->text.data : "", expected);
}

static int read_number(const struct policy *p, const struct json *value, const char *where, double low, double high,
	double *out, struct error *e)
{
	char expected[80];
	double number = json_is(value, JSON_NUMBER) ? json_double(value) : NAN;
	snprintf(expected, sizeof(expected), "a number above %g and at most %g", low, high);
	if (!(number > low && number <= high))
		return refuse(p, where, value, expected, e);
	*out = number;
	return 0;
}

static int read_tier(
	const struct policy *p, const struct json *value, const char *where, enum tier *out, struct error *e)
{
	for (int i = 0; i < 3; i++)
		if (json_is(value, JSON_STRING) && str_is(value->text, tier_names[i])) {
			*out = (enum tier)i;
			return 0;
		}
	return refuse(p, where, value, "\"critical\", \"supporting\" or \"advisory\"", e);
}

static int read_metric(const struct policy *p, const struct json *value, const char *where, char **out, struct error *e)
{
	if (!json_is(value, JSON_STRING) || value->text.length == 0)
		return refuse(p, where, value, "the name of a metric, such as \"acc,none\"", e);
	*out = strndup(value->text.data, value->text.length);
	return *out ? 0 : error_set(e, ERR_MEMORY, "no memory for a policy");
}

/* unit: what a margin is divided by. metric NULL: the endpoint takes none. */
static int read_endpoint(const struct policy *p, const struct json *object, const char *name, double unit,
	struct policy_endpoint *out, char **metric, struct error *e)
{
	if (!json_is(object, JSON_OBJECT))
		return refuse(p, name, object, "an object with a margin or a tier", e);
	JSON_EACH (member, object) {
		char where[160];
		snprintf(where, sizeof(where), "%s.%.*s", name, STR_ARG(member->key));
		if (str_is(member->key, "margin")) {
			TRY(read_number(p, member, where, 0, 100, &out->margin, e));
			out->margin /= unit;
		} else if (str_is(member->key, "tier")) {
			TRY(read_tier(p, member, where, &out->tier, e));
		} else if (str_is(member->key, "metric") && metric) {
			TRY(read_metric(p, member, where, metric, e));
		} else {
			return error_set(e, ERR_INPUT, "%s: %s: unknown member, expected margin, tier%s", p->file,
				where, metric ? " or metric" : "");
		}
	}
	return 0;
}

static int read_suites(struct policy *p, const struct json *object, struct error *e)
{
	if (!json_is(object, JSON_OBJECT))
		return refuse(p, "suites", object, "an object of suites", e);
	p->suites = mem_calloc(object->count, sizeof(*p->suites), e);
	if (!p->suites)
		return ERR_MEMORY;
	JSON_EACH (member, object) {
		char where[160];
		snprintf(where, sizeof(where), "suites.%.*s", STR_ARG(member->key));
		struct policy_suite *suite = &p->suites[p->n_suites];
		suite->suite = strndup(member->key.data, member->key.length);
		if (!suite->suite)
			return error_set(e, ERR_MEMORY, "no memory for a policy");
		p->n_suites++;
		suite->endpoint = (struct policy_endpoint){NAN, TIER_CRITICAL};
		TRY(read_endpoint(p, member, where, 100, &suite->endpoint, &suite->metric, e));
	}
	return 0;
}

static int read_member(struct policy *p, const struct json *member, struct error *e)
{
	if (str_is(member->key, "alpha"))
		return read_number(p, member, "alpha", 0, 0.49, &p->alpha, e);
	if (str_is(member->key, "power"))
		return read_number(p, member, "power", 0.5, 0.9999, &p->power, e);
	if (str_is(member->key, "min_coverage"))
		return read_number(p, member, "min_coverage", 0, 1, &p->min_coverage, e);
	if (str_is(member->key, "pooled"))
		return read_endpoint(p, member, "pooled", 100, &p->pooled, NULL, e);
	if (str_is(member->key, "delta_logprob")) {
		p->names_delta_logprob = true;
		return read_endpoint(p, member, "delta_logprob", 1, &p->delta_logprob, NULL, e);
	}
	if (str_is(member->key, "suite"))
		return read_endpoint(p, member, "suite", 100, &p->suite, NULL, e);
	if (str_is(member->key, "suites"))
		return read_suites(p, member, e);
	return error_set(e, ERR_INPUT,
		"%s: %.*s: unknown member, expected alpha, power, min_coverage, pooled, delta_logprob, suite or suites",
		p->file, STR_ARG(member->key));
}

int policy_read(struct policy *p, const char *path, struct error *e)
{
	struct buf text = {0};
	struct json_document *document = NULL;
	p->file = strdup(path);
	int status = p->file ? file_read(path, &text, e) : error_set(e, ERR_MEMORY, "no memory for a policy");
	if (status == 0)
		status = json_parse(buf_str(&text), path, JSON_REFUSE_DOUBLED_KEYS, &document, e);
	buf_free(&text);
	TRY(status);
	if (!json_is(json_root(document), JSON_OBJECT))
		status = error_set(e, ERR_INPUT, "%s: is %s, expected an object with the policy", path,
			json_type_name(json_root(document)));
	JSON_EACH (member, json_root(document))
		if (status == 0)
			status = read_member(p, member, e);
	json_free(document);
	return status;
}

void policy_set_margin(struct policy *p, double points)
{
	p->pooled.margin = p->suite.margin = points / 100;
}

const struct policy_suite *policy_find(const struct policy *p, const char *suite)
{
	for (size_t i = 0; i < p->n_suites; i++)
		if (strcmp(p->suites[i].suite, suite) == 0)
			return &p->suites[i];
	return NULL;
}

struct policy_endpoint policy_of_suite(const struct policy *p, const char *suite)
{
	const struct policy_suite *own = policy_find(p, suite);
	struct policy_endpoint endpoint = own ? own->endpoint : p->suite;
	if (isnan(endpoint.margin))
		endpoint.margin = p->suite.margin;
	return endpoint;
}

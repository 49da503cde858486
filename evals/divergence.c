#include "evals/divergence.h"

#include <math.h>
#include <stdlib.h>

#include "engine/base/json_strict.h"
#include "reports/stats.h"

const char divergence_suite[] = "divergence";
const char *const divergence_metrics[] = {"tokens,none", "kl,none", "kl_median,none", "kl_p90,none", "kl_p95,none",
	"kl_p99,none", "kl_p99.9,none", "kl_max,none", "flips,none", "delta_logprob,none", "perplexity_ratio,none",
	"perplexity,none", NULL};
const char divergence_definition[] =
	"how far next tokens are from the first variant's: KL, flips, perplexity; on its answers or --text";

void divergence_of_rows(
	const float *baseline, const float *other, int vocab, int32_t token, struct token_divergence *out)
{
	double p_sum = 0, q_sum = 0, weighted = 0;
	int p_top = 0, q_top = 0;

	for (int v = 0; v < vocab; v++) {
		double p_log = (double)baseline[v], q_log = (double)other[v];
		double p = exp(p_log);
		p_sum += p;
		q_sum += exp(q_log);
		if (p > 0 || isnan(p))
			weighted += p * (p_log - q_log);
		p_top = baseline[v] > baseline[p_top] ? v : p_top;
		q_top = other[v] > other[q_top] ? v : q_top;
	}
	/* sum of (p / P) (ln (p / P) - ln (q / Q)); never below 0 but for the rounding of a double */
	double kl = weighted / p_sum - log(p_sum) + log(q_sum);
	out->kl = kl < 0 ? 0 : kl;
	out->baseline_logprob = (double)baseline[token];
	out->logprob = (double)other[token];
	out->flip = p_top != q_top;
}

/* ---- All tokens of a variant ---- */

struct series {
	double *kl, *delta, *flip; /* [n]; empty for the baseline */
	double *logprob;           /* [n] */
	uint32_t *cluster;         /* [n] document, counted from 0 */
	size_t n, capacity;
	uint32_t documents;
	bool measured; /* against a baseline */
};

struct task_range {
	char *task; /* owned */
	size_t from, to;
};

struct collection {
	struct series all;
	struct task_range *tasks; /* in the store's order: each task's tokens lie together */
	size_t n_tasks;
};

static void collection_free(struct collection *c)
{
	for (size_t i = 0; i < c->n_tasks; i++)
		free(c->tasks[i].task);
	free(c->tasks);
	free(c->all.kl);
	free(c->all.delta);
	free(c->all.flip);
	free(c->all.logprob);
	free(c->all.cluster);
}

static int column_grow(double **column, size_t capacity, struct error *e)
{
	double *grown = reallocarray(*column, capacity, sizeof(*grown));
	if (!grown)
		return error_set(e, ERR_MEMORY, "no memory for %zu tokens", capacity);
	*column = grown;
	return 0;
}

static int series_reserve(struct series *s, size_t more, struct error *e)
{
	size_t capacity = s->capacity ? s->capacity : 1024;
	if (s->n + more <= s->capacity)
		return 0;
	while (capacity < s->n + more)
		capacity *= 2;
	TRY(column_grow(&s->kl, capacity, e));
	TRY(column_grow(&s->delta, capacity, e));
	TRY(column_grow(&s->flip, capacity, e));
	TRY(column_grow(&s->logprob, capacity, e));
	uint32_t *cluster = reallocarray(s->cluster, capacity, sizeof(*cluster));
	if (!cluster)
		return error_set(e, ERR_MEMORY, "no memory for %zu tokens", capacity);
	s->cluster = cluster;
	s->capacity = capacity;
	return 0;
}

static int task_reach(struct collection *c, const char *task, struct error *e)
{
	if (c->n_tasks == 0 || strcmp(c->tasks[c->n_tasks - 1].task, task) != 0) {
		struct task_range *grown = reallocarray(c->tasks, c->n_tasks + 1, sizeof(*grown));
		char *name = strdup(task);
		if (grown)
			c->tasks = grown;
		if (!grown || !name) {
			free(name);
			return error_set(e, ERR_MEMORY, "no memory for task %s", task);
		}
		c->tasks[c->n_tasks++] = (struct task_range){name, c->all.n, c->all.n};
	}
	return 0;
}

/* Values of an array of n numbers; null, which stands for what JSON has no word for, becomes `unknown`. */
static int read_numbers(const struct json *array, size_t n, double unknown, double *out, struct error *e)
{
	size_t i = 0;
	if (!json_is(array, JSON_ARRAY) || array->count != n)
		return error_set(
			e, ERR_STORE, "a stored sample of %s is damaged: expected %zu numbers", divergence_suite, n);
	JSON_EACH (number, array)
		out[i++] = json_is(number, JSON_NUMBER) ? json_double(number) : unknown;
	return 0;
}

/* The series that were measured against the baseline: the members of the response. */
static int read_response(struct series *s, const struct json *response, size_t n, struct error *e)
{
	s->measured = json_get(response, "kl") != NULL;
	if (!s->measured)
		return 0;
	TRY(read_numbers(json_get(response, "kl"), n, INFINITY, s->kl + s->n, e));
	TRY(read_numbers(json_get(response, "delta_logprob"), n, NAN, s->delta + s->n, e));
	for (size_t i = 0; i < n; i++)
		s->flip[s->n + i] = 0;
	JSON_EACH (place, json_get(response, "flips")) {
		int64_t at;
		if (!json_int64(place, &at) || at < 0 || (size_t)at >= n)
			return error_set(e, ERR_STORE, "a stored sample of %s is damaged: a flip at %.*s of %zu tokens",
				divergence_suite, STR_ARG(place->text), n);
		s->flip[s->n + (size_t)at] = 1;
	}
	return 0;
}

static int sample_collect(void *context, const struct store_sample *sample, struct error *e)
{
	struct collection *c = context;
	struct series *s = &c->all;
	struct json_document *logprobs = NULL, *response = NULL;
	int status = 0;

	if (sample->status == SAMPLE_ERROR)
		return 0;
	TRY_CLEANUP(status, json_parse(sample->token_logprobs, "sample.token_logprobs", 0, &logprobs, e));
	TRY_CLEANUP(status, json_parse(sample->response, "sample.response", 0, &response, e));
	size_t n = json_root(logprobs)->count;
	if (n == 0)
		goto cleanup;
	TRY_CLEANUP(status, series_reserve(s, n, e));
	TRY_CLEANUP(status, task_reach(c, sample->task, e));
	TRY_CLEANUP(status, read_numbers(json_root(logprobs), n, NAN, s->logprob + s->n, e));
	TRY_CLEANUP(status, read_response(s, json_root(response), n, e));
	for (size_t i = 0; i < n; i++)
		s->cluster[s->n + i] = s->documents;
	s->documents++;
	s->n += n;
	c->tasks[c->n_tasks - 1].to = s->n;
cleanup:
	json_free(logprobs);
	json_free(response);
	return status;
}

/* ---- Results ---- */

struct putter {
	store_visit_result *visit;
	void *context;
	int64_t variant_id;
	const char *task; /* the suite: the whole */
	size_t n;         /* tokens */
	int64_t documents;
};

static int put(const struct putter *p, const char *metric, double value, double stderr_value, struct error *e)
{
	struct store_result result = {.variant_id = p->variant_id,
		.suite = divergence_suite,
		.task = p->task,
		.metric = metric,
		.n = p->documents,
		.value = value,
		.stderr_value = stderr_value};
	return p->visit(p->context, &result, e);
}

/* Mean over tokens. Tokens of one document are no independent draws: the error is the larger of both. */
static int token_mean(const double *x, const uint32_t *cluster, size_t n, double *mean, double *error, struct error *e)
{
	uint32_t *own = mem_calloc(n, sizeof(*own), e);
	struct clustered c;
	if (!own)
		return ERR_MEMORY;
	for (size_t i = 0; i < n; i++)
		own[i] = cluster[i] - cluster[0];
	int status = clustered_mean(x, own, n, &c, e);
	free(own);
	*mean = c.mean;
	*error = c.naive * sqrt(c.design_effect > 1 ? c.design_effect : 1);
	return status;
}

static int put_mean(
	const struct putter *p, const char *metric, const double *x, const uint32_t *cluster, struct error *e)
{
	double mean, error;
	TRY(token_mean(x, cluster, p->n, &mean, &error, e));
	return put(p, metric, mean, error, e);
}

/* exp of minus the mean: a perplexity, or a ratio of two. */
static int put_exp(
	const struct putter *p, const char *metric, const double *x, const uint32_t *cluster, struct error *e)
{
	double mean, error;
	TRY(token_mean(x, cluster, p->n, &mean, &error, e));
	return put(p, metric, exp(-mean), exp(-mean) * error, e);
}

static int put_quantiles(const struct putter *p, const double *x, struct error *e)
{
	static const struct {
		const char *metric;
		double q;
	} rows[] = {{"kl_median,none", 0.5}, {"kl_p90,none", 0.9}, {"kl_p95,none", 0.95}, {"kl_p99,none", 0.99},
		{"kl_p99.9,none", 0.999}, {"kl_max,none", 1}};
	double *sorted = mem_calloc(p->n, sizeof(*sorted), e);
	int status = 0;
	if (!sorted)
		return ERR_MEMORY;
	memcpy(sorted, x, p->n * sizeof(*sorted));
	sample_sort(sorted, p->n);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && status == 0; i++)
		status = put(p, rows[i].metric, sample_quantile(sorted, p->n, rows[i].q), NAN, e);
	free(sorted);
	return status;
}

static int put_range(struct putter p, const struct series *s, size_t from, size_t to, struct error *e)
{
	const uint32_t *cluster = s->cluster + from;
	p.n = to - from;
	if (p.n == 0)
		return 0;
	p.documents = (int64_t)(s->cluster[to - 1] - s->cluster[from]) + 1;
	TRY(put(&p, "tokens,none", (double)p.n, NAN, e));
	if (s->measured) {
		TRY(put_mean(&p, "kl,none", s->kl + from, cluster, e));
		TRY(put_quantiles(&p, s->kl + from, e));
		TRY(put_mean(&p, "flips,none", s->flip + from, cluster, e));
		TRY(put_mean(&p, "delta_logprob,none", s->delta + from, cluster, e));
		TRY(put_exp(&p, "perplexity_ratio,none", s->delta + from, cluster, e));
	}
	return put_exp(&p, "perplexity,none", s->logprob + from, cluster, e);
}

int divergence_own_results(struct store *s, int64_t run_id, const struct store_result *wanted,
	store_visit_result *visit, void *context, struct error *e)
{
	const int64_t variant_id = wanted->variant_id;
	if (strcmp(wanted->suite, divergence_suite) != 0)
		return 0;
	if (!wanted->task) /* a token has all of them */
		return 1;
	struct collection c = {0};
	struct putter p = {.visit = visit, .context = context, .variant_id = variant_id, .task = divergence_suite};
	int status = store_samples_each(s, run_id, variant_id, divergence_suite, sample_collect, &c, e);

	if (status == 0)
		status = put_range(p, &c.all, 0, c.all.n, e);
	for (size_t i = 0; i < c.n_tasks && c.n_tasks > 1 && status == 0; i++) {
		p.task = c.tasks[i].task;
		status = put_range(p, &c.all, c.tasks[i].from, c.tasks[i].to, e);
	}
	collection_free(&c);
	return status < 0 ? status : 1;
}

static int result_store(void *context, const struct store_result *result, struct error *e)
{
	return store_suite_result_put(context, result, e);
}

int divergence_results_put(struct store *store, int64_t run_id, int64_t variant_id, struct error *e)
{
	const struct store_result all = {.variant_id = variant_id, .suite = divergence_suite, .task = divergence_suite};
	int status = divergence_own_results(store, run_id, &all, result_store, store, e);
	return status < 0 ? status : 0;
}

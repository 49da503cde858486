#include "reports/comparison.h"

#include <math.h>
#include <stdlib.h>

#include "engine/base/json_strict.h"

/* What is summed over the pairs, and the values whose variance is clustered. */
struct gathering {
	struct comparison *c;
	const struct pair *first;      /* clusters are indices from here */
	double *drops, *logprob_drops; /* one per pair in the table, per pair with log-probabilities */
	uint32_t *clusters, *logprob_clusters;
	int64_t missing; /* items without a pair, of suites with a table */
	int64_t baseline_tokens, candidate_tokens;
	double kl_sum;
};

static int gathering_init(struct gathering *g, const struct pairing *p, struct comparison *c, struct error *e)
{
	*c = (struct comparison){.design_effect = 1, .kl = NAN, .length_ratio = NAN, .aa_flips = NAN};
	*g = (struct gathering){.c = c, .first = p->pairs};
	g->drops = mem_calloc(p->n_pairs, sizeof(double), e);
	g->logprob_drops = mem_calloc(p->n_pairs, sizeof(double), e);
	g->clusters = mem_calloc(p->n_pairs, sizeof(uint32_t), e);
	g->logprob_clusters = mem_calloc(p->n_pairs, sizeof(uint32_t), e);
	return g->drops && g->logprob_drops && g->clusters && g->logprob_clusters ? 0 : ERR_MEMORY;
}

static void gathering_free(struct gathering *g)
{
	free(g->drops);
	free(g->logprob_drops);
	free(g->clusters);
	free(g->logprob_clusters);
}

/* ---- One pair ---- */

static void count_table(struct gathering *g, const struct pair *pair)
{
	bool baseline = pair->baseline_value == 1, candidate = pair->candidate_value == 1;
	struct paired_table *t = &g->c->table;
	int64_t *cell = baseline ? (candidate ? &t->a : &t->b) : (candidate ? &t->c : &t->d);
	++*cell;
	g->drops[g->c->n] = pair->baseline_value - pair->candidate_value;
	g->clusters[g->c->n] = pair->cluster;
	g->c->n++;
}

static void count_logprob(struct gathering *g, const struct pair *pair)
{
	if (isnan(pair->baseline_logprob) || isnan(pair->candidate_logprob))
		return;
	g->logprob_drops[g->c->logprob_n] = pair->baseline_logprob - pair->candidate_logprob;
	g->logprob_clusters[g->c->logprob_n] = pair->cluster;
	g->c->logprob_n++;
}

/* The response of a divergence item holds the divergence of each token. */
static int64_t sum_tokens(const struct json *response, double *sum)
{
	int64_t n = 0;
	JSON_EACH (kl, json_get(response, "kl")) {
		*sum += json_is(kl, JSON_NUMBER) ? json_double(kl) : INFINITY; /* null: q was 0 */
		n++;
	}
	return n;
}

static int count_kl(struct gathering *g, const struct answers *side, const struct pair *pair, struct error *e)
{
	struct str response = pair->candidate->response;
	if (response.length == 0 || response.data[0] != '{')
		return 0;
	struct json_document *document = NULL;
	if (json_parse(response, "response", JSON_LAST_KEY_WINS, &document, e) < 0)
		return pairing_name_sample(side, pair->candidate, e);
	g->c->kl_n += sum_tokens(json_root(document), &g->kl_sum);
	json_free(document);
	return 0;
}

static int gather(
	struct gathering *g, const struct answers *candidate, const struct suite_pairs *suite, struct error *e)
{
	struct comparison *c = g->c;
	for (const struct pair *pair = suite->pairs; pair < suite->pairs + suite->n; pair++) {
		if (pair->state != PAIR_COMPLETE)
			continue;
		if (suite->binary)
			count_table(g, pair);
		if (pair->multiple_choice)
			count_logprob(g, pair);
		g->baseline_tokens += pair->baseline->generated_tokens;
		g->candidate_tokens += pair->candidate->generated_tokens;
		TRY(count_kl(g, candidate, pair, e));
	}
	c->has_table = c->has_table || suite->binary;
	c->logprob_items += suite->multiple_choice ? (int64_t)suite->n : 0;
	c->errors += suite->by_state[PAIR_ERROR];
	c->truncated += suite->by_state[PAIR_TRUNCATED];
	c->unmatched += suite->by_state[PAIR_UNMATCHED];
	c->only_baseline += suite->only_baseline;
	c->only_candidate += suite->only_candidate;
	if (suite->binary)
		g->missing += (int64_t)suite->n - suite->by_state[PAIR_COMPLETE];
	return 0;
}

/* ---- The numbers ---- */

/* Clusters by the index of their first pair become 0, 1, 2, … */
static int number_clusters(uint32_t *clusters, size_t n, size_t n_pairs, struct error *e)
{
	uint32_t *numbers = mem_calloc(n_pairs, sizeof(*numbers), e);
	uint32_t next = 0;
	if (!numbers)
		return ERR_MEMORY;
	for (size_t i = 0; i < n; i++) {
		if (!numbers[clusters[i]])
			numbers[clusters[i]] = ++next;
		clusters[i] = numbers[clusters[i]] - 1;
	}
	free(numbers);
	return 0;
}

static int fill_table(struct gathering *g, size_t n_pairs, struct error *e)
{
	struct comparison *c = g->c;
	struct clustered spread;
	double n = (double)c->n, missing = (double)g->missing;
	TRY(number_clusters(g->clusters, (size_t)c->n, n_pairs, e));
	TRY(clustered_mean(g->drops, g->clusters, (size_t)c->n, &spread, e));
	c->clusters = (int64_t)spread.clusters;
	c->design_effect = fmax(1, spread.design_effect);
	c->baseline = (double)(c->table.a + c->table.b) / n;
	c->candidate = (double)(c->table.a + c->table.c) / n;
	c->drop = paired_drop(c->table);
	c->interval = tango_interval(c->table, 0.95, c->design_effect);
	c->mcnemar = mcnemar_test(c->table.b, c->table.c);
	c->flips = (double)(c->table.b + c->table.c) / n;
	c->coverage = n + missing > 0 ? n / (n + missing) : 0;
	c->worst_drop = ((double)(c->table.b - c->table.c) + missing) / (n + missing);
	return 0;
}

static int fill_logprob(struct gathering *g, size_t n_pairs, struct error *e)
{
	struct comparison *c = g->c;
	struct clustered spread;
	size_t n = (size_t)c->logprob_n;
	TRY(number_clusters(g->logprob_clusters, n, n_pairs, e));
	TRY(clustered_mean(g->logprob_drops, g->logprob_clusters, n, &spread, e));
	c->delta_logprob = n ? 0 - spread.mean : NAN; /* 0 - x is never -0 for x = 0 */
	/* clusters never make an answer surer */
	c->logprob_error = spread.clusters > 1 ? fmax(spread.naive, spread.cr1) : NAN;
	c->logprob_df = (double)spread.clusters - 1;
	c->logprob_interval = spread.clusters > 1 ? t_interval(c->delta_logprob, c->logprob_error, c->logprob_df, 0.95)
						  : (struct interval){NAN, NAN};
	return 0;
}

static int finish(struct gathering *g, size_t n_pairs, struct error *e)
{
	struct comparison *c = g->c;
	TRY(fill_table(g, n_pairs, e));
	TRY(fill_logprob(g, n_pairs, e));
	if (c->kl_n)
		c->kl = g->kl_sum / (double)c->kl_n;
	/* an answer has a token at least: none are what another program did not count */
	if (g->baseline_tokens > 0 && g->candidate_tokens > 0) {
		c->length_ratio = (double)g->candidate_tokens / (double)g->baseline_tokens;
		c->length_unusual = c->length_ratio < 0.9 || c->length_ratio > 1.1;
	}
	return 0;
}

int comparison_of_suite(
	const struct pairing *p, const struct suite_pairs *suite, struct comparison *out, struct error *e)
{
	struct gathering g;
	int status = gathering_init(&g, p, out, e);
	out->suite = suite->suite;
	out->metric = suite->metric;
	if (status == 0)
		status = gather(&g, &p->candidate, suite, e);
	if (status == 0)
		status = finish(&g, p->n_pairs, e);
	gathering_free(&g);
	return status;
}

int comparison_pooled(const struct pairing *p, struct comparison *out, struct error *e)
{
	struct gathering g;
	int status = gathering_init(&g, p, out, e);
	for (size_t i = 0; i < p->n_suites && status == 0; i++)
		status = gather(&g, &p->candidate, &p->suites[i], e);
	if (status == 0)
		status = finish(&g, p->n_pairs, e);
	gathering_free(&g);
	return status;
}

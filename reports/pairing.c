#include "reports/pairing.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "engine/base/hash.h"
#include "engine/base/json_strict.h"
#include "reports/tool_answer.h"

enum { MAX_METRICS = 16, MAX_CHOICES = 64 };

/* target_hash of a multiple-choice item is that of the gold index in digits. */
struct gold {
	char hash[MAX_CHOICES][SHA256_HEX_SIZE];
};

static void gold_init(struct gold *g)
{
	for (int i = 0; i < MAX_CHOICES; i++) {
		char digits[8];
		int length = snprintf(digits, sizeof(digits), "%d", i);
		sha256_hex(digits, (size_t)length, g->hash[i]);
	}
}

static int gold_index(const struct gold *g, const char *target_hash)
{
	for (int i = 0; i < MAX_CHOICES; i++)
		if (strcmp(g->hash[i], target_hash) == 0)
			return i;
	return -1;
}

/* ---- Joining ---- */

static const struct store_sample *known_side(const struct pair *pair)
{
	return pair->baseline ? pair->baseline : pair->candidate;
}

static int compare_keys(const struct store_sample *a, const struct store_sample *b)
{
	int order = strcmp(a->suite, b->suite);
	if (order == 0)
		order = strcmp(a->task, b->task);
	return order ? order : (a->doc_id > b->doc_id) - (a->doc_id < b->doc_id);
}

static enum pair_state state_of(const struct store_sample *a, const struct store_sample *b)
{
	if (!a || !b)
		return PAIR_UNMATCHED;
	if (a->status == SAMPLE_ERROR || b->status == SAMPLE_ERROR)
		return PAIR_ERROR;
	if (a->status == SAMPLE_TRUNCATED || b->status == SAMPLE_TRUNCATED)
		return PAIR_TRUNCATED;
	return PAIR_COMPLETE;
}

/* What two different hashes of one item mean. */
static const struct {
	const char *name, *meaning;
	size_t member;
} hashes[] = {
	{"doc_hash", "the data set changed", offsetof(struct store_sample, doc_hash)},
	{"prompt_hash", "the few-shot examples, the template or the prompt's form differ",
		offsetof(struct store_sample, prompt_hash)},
	{"target_hash", "the right answer changed", offsetof(struct store_sample, target_hash)},
};

static const char *hash_of(const struct store_sample *sample, size_t i)
{
	return *(const char *const *)((const char *)sample + hashes[i].member);
}

/* A hash that one side does not know proves nothing. */
static int verify_hashes(struct pairing *p, const struct pair *pair, struct error *e)
{
	bool known = true;
	for (size_t i = 0; i < sizeof(hashes) / sizeof(hashes[0]); i++) {
		const char *a = hash_of(pair->baseline, i), *b = hash_of(pair->candidate, i);
		known = known && *a && *b;
		if (*a && *b && strcmp(a, b) != 0)
			return error_set(e, ERR_INPUT,
				"%s and %s cannot be compared: %s document %" PRId64
				" has %s %.16s in the one and %.16s "
				"in the other, expected the same (%s)",
				p->baseline.label, p->candidate.label, pair->baseline->task, pair->baseline->doc_id,
				hashes[i].name, a, b, hashes[i].meaning);
	}
	p->unverified += !known;
	return 0;
}

static bool is_wanted(const char *suite, const char *const *suites, size_t n_suites)
{
	for (size_t i = 0; i < n_suites; i++)
		if (strcmp(suite, suites[i]) == 0)
			return true;
	return n_suites == 0;
}

static int join(struct pairing *p, const char *const *suites, size_t n_suites, struct error *e)
{
	const struct store_sample *a = p->baseline.rows, *b = p->candidate.rows;
	size_t i = 0, k = 0;
	p->pairs = mem_calloc(p->baseline.n + p->candidate.n, sizeof(*p->pairs), e);
	if (!p->pairs)
		return ERR_MEMORY;
	while (i < p->baseline.n || k < p->candidate.n) {
		int order = i == p->baseline.n ? 1 : k == p->candidate.n ? -1 : compare_keys(&a[i], &b[k]);
		struct pair pair = {.baseline = order <= 0 ? &a[i++] : NULL, .candidate = order >= 0 ? &b[k++] : NULL};
		if (!is_wanted(known_side(&pair)->suite, suites, n_suites))
			continue;
		pair.state = state_of(pair.baseline, pair.candidate);
		pair.baseline_value = pair.candidate_value = NAN;
		pair.baseline_logprob = pair.candidate_logprob = NAN;
		if (pair.state != PAIR_UNMATCHED)
			TRY(verify_hashes(p, &pair, e));
		p->pairs[p->n_pairs++] = pair;
	}
	return 0;
}

/* ---- Suites ---- */

static const char *suite_of(const struct pair *pair)
{
	return known_side(pair)->suite;
}

static int divide_into_suites(struct pairing *p, struct error *e)
{
	p->suites = mem_calloc(p->n_pairs, sizeof(*p->suites), e);
	if (!p->suites)
		return ERR_MEMORY;
	for (size_t i = 0; i < p->n_pairs; i++) {
		const struct pair *pair = &p->pairs[i];
		if (i == 0 || strcmp(suite_of(pair), suite_of(pair - 1)) != 0)
			p->suites[p->n_suites++] = (struct suite_pairs){.suite = suite_of(pair), .pairs = pair};
		struct suite_pairs *suite = &p->suites[p->n_suites - 1];
		suite->n++;
		suite->by_state[pair->state]++;
		suite->only_baseline += !pair->candidate;
		suite->only_candidate += !pair->baseline;
	}
	return 0;
}

static bool holds_suite(const struct answers *a, const char *suite)
{
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->rows[i].suite, suite) == 0)
			return true;
	return false;
}

bool pairing_holds_suite(const struct pairing *p, const char *suite)
{
	return holds_suite(&p->baseline, suite) || holds_suite(&p->candidate, suite);
}

/* The suites of a side, each once: its rows are sorted. */
static void append_suites(const struct answers *a, const struct answers *but_not, struct buf *out)
{
	for (size_t i = 0; i < a->n; i++) {
		bool first = i == 0 || strcmp(a->rows[i].suite, a->rows[i - 1].suite) != 0;
		if (first && !(but_not && holds_suite(but_not, a->rows[i].suite)))
			buf_printf(out, " %s", a->rows[i].suite);
	}
}

int pairing_unknown_suite(const struct pairing *p, const char *suite, struct error *e)
{
	struct buf known = {0};
	append_suites(&p->baseline, NULL, &known);
	append_suites(&p->candidate, &p->baseline, &known);
	error_set(e, ERR_USAGE, "neither %s nor %s holds suite '%.80s'; they have:%s", p->baseline.label,
		p->candidate.label, suite, known.length ? buf_text(&known) : " none");
	buf_free(&known);
	return ERR_USAGE;
}

static int check_names(const struct pairing *p, const char *const *suites, size_t n_suites, struct error *e)
{
	for (size_t i = 0; i < n_suites; i++)
		if (!pairing_holds_suite(p, suites[i]))
			return pairing_unknown_suite(p, suites[i], e);
	return 0;
}

/* ---- Values ---- */

/* Values of a suite's metrics over its complete pairs: NaN where one is missing. */
struct values {
	const char *names[MAX_METRICS];
	size_t n_metrics;
	double *baseline, *candidate; /* [n, n_metrics] */
};

static int parse_text(struct str text, const char *name, struct json_document **out, struct error *e)
{
	*out = NULL;
	return text.length ? json_parse(text, name, JSON_LAST_KEY_WINS, out, e) : 0;
}

static const struct json *root_of(const struct json_document *document)
{
	return document ? json_root(document) : NULL;
}

int pairing_name_sample(const struct answers *side, const struct store_sample *sample, struct error *e)
{
	if (!side->variant_id)
		return error_prefix(e, "%.300s: %.80s document %" PRId64, side->file, sample->task, sample->doc_id);
	return error_prefix(e, "%.300s: run %" PRId64 " %.80s: suite %.80s: %.80s document %" PRId64, side->file,
		side->run.run_id, side->variant, sample->suite, sample->task, sample->doc_id);
}

static int parse_metrics(
	const struct answers *side, const struct store_sample *sample, struct json_document **out, struct error *e)
{
	return parse_text(sample->metrics, "metrics", out, e) < 0 ? pairing_name_sample(side, sample, e) : 0;
}

static int read_values(const struct values *v, const struct answers *side, const struct store_sample *sample,
	double *out, struct error *e)
{
	struct json_document *document;
	TRY(parse_metrics(side, sample, &document, e));
	for (size_t m = 0; m < v->n_metrics; m++) {
		const struct json *value = json_get(root_of(document), v->names[m]);
		out[m] = json_is(value, JSON_NUMBER) ? json_double(value) : NAN;
	}
	json_free(document);
	return 0;
}

/* The names of the first complete pair's metrics, or the one that the policy names. */
static int name_metrics(
	struct pairing *p, const struct suite_pairs *suite, const char *wanted, struct values *v, struct error *e)
{
	const struct pair *pair = suite->pairs;
	while (pair < suite->pairs + suite->n && pair->state != PAIR_COMPLETE)
		pair++;
	if (pair == suite->pairs + suite->n)
		return 0;
	struct json_document *document;
	struct buf known = {0};
	TRY(parse_metrics(&p->baseline, pair->baseline, &document, e));
	int status = 0;
	JSON_EACH (member, root_of(document)) {
		buf_printf(&known, " %.*s", STR_ARG(member->key));
		if (status == 0 && v->n_metrics < MAX_METRICS && (!wanted || str_is(member->key, wanted))) {
			v->names[v->n_metrics] = answers_keep(&p->baseline, member->key, e);
			status = v->names[v->n_metrics] ? 0 : ERR_MEMORY;
			v->n_metrics++;
		}
	}
	if (status == 0 && wanted && v->n_metrics == 0)
		status = error_set(e, ERR_USAGE, "the policy wants metric '%.80s' of suite %s, which has:%s", wanted,
			suite->suite, known.length ? buf_text(&known) : " none");
	buf_free(&known);
	json_free(document);
	return status;
}

static bool is_binary(const struct values *v, size_t metric, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		double a = v->baseline[i * v->n_metrics + metric], b = v->candidate[i * v->n_metrics + metric];
		if ((a != 0 && a != 1 && !isnan(a)) || (b != 0 && b != 1 && !isnan(b)))
			return false;
	}
	return true;
}

/* What is measured of each token (an object) is not right or wrong, also where its numbers happen to be 0 or 1. */
static bool holds_divergence(const struct pair *pairs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct str response = pairs[i].state == PAIR_COMPLETE ? pairs[i].candidate->response : (struct str){0};
		if (response.length && response.data[0] == '{')
			return true;
	}
	return false;
}

/* Picks the suite's metric and puts its values into the pairs. An answer that was not scored counts as an error. */
static void choose_metric(struct suite_pairs *suite, struct pair *pairs, const struct values *v)
{
	size_t chosen = 0;
	while (chosen < v->n_metrics && !is_binary(v, chosen, suite->n))
		chosen++;
	suite->binary = (chosen < v->n_metrics || v->n_metrics == 0) && !holds_divergence(pairs, suite->n);
	if (!suite->binary)
		chosen = 0;
	if (v->n_metrics > 0)
		suite->metric = v->names[chosen];
	for (size_t i = 0; i < suite->n; i++) {
		struct pair *pair = &pairs[i];
		if (pair->state != PAIR_COMPLETE)
			continue;
		if (v->n_metrics > 0) {
			pair->baseline_value = v->baseline[i * v->n_metrics + chosen];
			pair->candidate_value = v->candidate[i * v->n_metrics + chosen];
		}
		pair->scored = !isnan(pair->baseline_value) && !isnan(pair->candidate_value);
		if (!pair->scored) {
			pair->state = PAIR_ERROR;
			suite->by_state[PAIR_COMPLETE]--;
			suite->by_state[PAIR_ERROR]++;
		}
	}
}

static int score_suite(struct pairing *p, struct suite_pairs *suite, const char *wanted, struct error *e)
{
	struct values v = {0};
	struct pair *pairs = p->pairs + (suite->pairs - p->pairs);
	TRY(name_metrics(p, suite, wanted, &v, e));
	size_t count = suite->n * (v.n_metrics ? v.n_metrics : 1);
	v.baseline = mem_calloc(count, sizeof(double), e);
	v.candidate = mem_calloc(count, sizeof(double), e);
	int status = v.baseline && v.candidate ? 0 : ERR_MEMORY;
	for (size_t i = 0; i < count && status == 0; i++)
		v.baseline[i] = v.candidate[i] = NAN;
	for (size_t i = 0; i < suite->n && status == 0; i++) {
		if (pairs[i].state != PAIR_COMPLETE)
			continue;
		status = read_values(&v, &p->baseline, pairs[i].baseline, v.baseline + i * v.n_metrics, e);
		if (status == 0)
			status = read_values(&v, &p->candidate, pairs[i].candidate, v.candidate + i * v.n_metrics, e);
	}
	if (status == 0)
		choose_metric(suite, pairs, &v);
	free(v.baseline);
	free(v.candidate);
	return status;
}

/* ---- Log-probabilities of the gold choice ---- */

static int read_logprob(
	const struct answers *side, const struct store_sample *sample, int choice, double *out, struct error *e)
{
	struct json_document *document;
	if (parse_text(sample->response, "response", &document, e) < 0)
		return pairing_name_sample(side, sample, e);
	const struct json *value = json_at(json_at(root_of(document), (size_t)choice), 0);
	*out = json_is(value, JSON_NUMBER) ? json_double(value) : NAN;
	json_free(document);
	return 0;
}

/* Only a response that is an array holds choices: a text is not parsed. */
static bool has_choices(const struct store_sample *sample)
{
	return sample && sample->response.length > 0 && sample->response.data[0] == '[';
}

/* The gold choice of an item that a side answered with choices; -1: it is not known, or no side did. */
static int gold_of(const struct gold *gold, const struct pair *pair)
{
	int choice = has_choices(pair->baseline) ? gold_index(gold, pair->baseline->target_hash) : -1;
	return choice < 0 && has_choices(pair->candidate) ? gold_index(gold, pair->candidate->target_hash) : choice;
}

/* An item that one side alone answered with choices counts, too: its log-probability is missing. */
static int read_logprobs_of_suite(
	struct pairing *p, struct suite_pairs *suite, const struct gold *gold, struct error *e)
{
	struct pair *pairs = p->pairs + (suite->pairs - p->pairs);
	for (struct pair *pair = pairs; pair < pairs + suite->n; pair++) {
		int choice = gold_of(gold, pair);
		if (choice < 0)
			continue;
		pair->multiple_choice = suite->multiple_choice = true;
		if (pair->state != PAIR_COMPLETE || !has_choices(pair->baseline) || !has_choices(pair->candidate))
			continue;
		TRY(read_logprob(&p->baseline, pair->baseline, choice, &pair->baseline_logprob, e));
		TRY(read_logprob(&p->candidate, pair->candidate, choice, &pair->candidate_logprob, e));
	}
	return 0;
}

static int read_logprobs(struct pairing *p, struct error *e)
{
	struct gold gold;
	gold_init(&gold);
	for (size_t i = 0; i < p->n_suites; i++)
		TRY(read_logprobs_of_suite(p, &p->suites[i], &gold, e));
	return 0;
}

/* ---- Items of two suites ---- */

static int compare_items(const void *left, const void *right)
{
	const struct pair *a = *(const struct pair *const *)left, *b = *(const struct pair *const *)right;
	const struct store_sample *x = known_side(a), *y = known_side(b);
	int order = strcmp(x->task, y->task);
	if (order == 0)
		order = (x->doc_id > y->doc_id) - (x->doc_id < y->doc_id);
	return order ? order : (a > b) - (a < b);
}

/* One item in two suites (a subject of its own and within its group) would be pooled as two. */
static int find_overlap(struct pairing *p, struct error *e)
{
	const struct pair **order = mem_calloc(p->n_pairs, sizeof(*order), e);
	size_t n = 0;
	if (!order)
		return ERR_MEMORY;
	for (size_t i = 0; i < p->n_suites; i++)
		for (size_t k = 0; k < p->suites[i].n && (p->suites[i].binary || p->suites[i].multiple_choice); k++)
			order[n++] = &p->suites[i].pairs[k];
	if (n)
		qsort(order, n, sizeof(*order), compare_items);
	for (size_t i = 1; i < n && !p->overlap[0]; i++) {
		const struct store_sample *x = known_side(order[i - 1]), *y = known_side(order[i]);
		if (x->doc_id == y->doc_id && strcmp(x->task, y->task) == 0) {
			p->overlap[0] = order[i - 1];
			p->overlap[1] = order[i];
		}
	}
	free(order);
	return 0;
}

int pairing_check_overlap(const struct pairing *p, struct error *e)
{
	if (!p->overlap[0])
		return 0;
	const struct store_sample *x = known_side(p->overlap[0]), *y = known_side(p->overlap[1]);
	return error_set(e, ERR_USAGE,
		"suites %.80s and %.80s hold the same items (%.80s document %" PRId64
		" is in both), which would be pooled twice: expected one of the two (--suite)",
		x->suite, y->suite, x->task, x->doc_id);
}

/* ---- Clusters ---- */

static const char *document_of(const struct pair *pair)
{
	return known_side(pair)->doc_hash;
}

static int compare_documents(const void *left, const void *right)
{
	const struct pair *a = *(const struct pair *const *)left, *b = *(const struct pair *const *)right;
	int order = strcmp(suite_of(a), suite_of(b));
	if (order == 0)
		order = strcmp(document_of(a), document_of(b));
	return order ? order : (a > b) - (a < b);
}

static int find_clusters(struct pairing *p, struct error *e)
{
	struct pair **order = mem_calloc(p->n_pairs, sizeof(struct pair *), e);
	if (!order)
		return ERR_MEMORY;
	for (size_t i = 0; i < p->n_pairs; i++)
		order[i] = &p->pairs[i];
	if (p->n_pairs)
		qsort(order, p->n_pairs, sizeof(struct pair *), compare_documents);
	for (size_t i = 0; i < p->n_pairs; i++) {
		bool same = i > 0 && *document_of(order[i]) &&
			strcmp(document_of(order[i]), document_of(order[i - 1])) == 0 &&
			strcmp(suite_of(order[i]), suite_of(order[i - 1])) == 0;
		order[i]->cluster = same ? order[i - 1]->cluster : (uint32_t)(order[i] - p->pairs);
	}
	free(order);
	return 0;
}

/* ---- All of it ---- */

static int pairing_fill(
	struct pairing *p, const char *const *suites, size_t n_suites, const struct policy *policy, struct error *e)
{
	TRY(check_names(p, suites, n_suites, e));
	if (p->baseline.n + p->candidate.n > UINT32_MAX)
		return error_set(e, ERR_INPUT, "%s and %s: more than %u answers", p->baseline.label, p->candidate.label,
			UINT32_MAX);
	TRY(join(p, suites, n_suites, e));
	TRY(divide_into_suites(p, e));
	for (size_t i = 0; i < p->n_suites; i++) {
		const struct policy_suite *own = policy ? policy_find(policy, p->suites[i].suite) : NULL;
		TRY(score_suite(p, &p->suites[i], own ? own->metric : NULL, e));
	}
	TRY(read_logprobs(p, e));
	TRY(find_overlap(p, e));
	return find_clusters(p, e);
}

int pairing_make(struct answers *baseline, struct answers *candidate, const char *const *suites, size_t n_suites,
	const struct policy *policy, struct pairing *out, struct error *e)
{
	*out = (struct pairing){.baseline = *baseline, .candidate = *candidate};
	*baseline = *candidate = (struct answers){0};
	return pairing_fill(out, suites, n_suites, policy, e);
}

void pairing_free(struct pairing *p)
{
	answers_free(&p->baseline);
	answers_free(&p->candidate);
	free(p->pairs);
	free(p->suites);
	*p = (struct pairing){0};
}

/* ---- What an item says ---- */

bool pair_is_flip(const struct pair *p)
{
	return p->scored && p->baseline_value != p->candidate_value;
}

bool pair_is_regression(const struct pair *p)
{
	return pair_is_flip(p) && p->baseline_value > p->candidate_value;
}

void pair_response(const struct store_sample *sample, struct buf *out)
{
	struct json_document *document = NULL;
	bool parsed = parse_text(sample->response, NULL, &document, NULL) == 0;
	if (parsed && json_is(root_of(document), JSON_STRING))
		buf_append_str(out, json_root(document)->text);
	else if (!json_is(root_of(document), JSON_NULL))
		buf_append_str(out, sample->response);
	json_free(document);
}

/* The choice of the largest log-probability, the first of several. */
static void append_choice(const struct json *choices, struct buf *out)
{
	double best = -INFINITY;
	int chosen = -1, i = 0;
	JSON_EACH (choice, choices) {
		const struct json *value = json_at(choice, 0);
		if (json_is(value, JSON_NUMBER) && (chosen < 0 || json_double(value) > best)) {
			best = json_double(value);
			chosen = i;
		}
		i++;
	}
	if (chosen >= 0)
		buf_printf(out, "choice %d", chosen);
}

static void append_calls(const struct store_sample *sample, struct buf *out)
{
	struct tool_answer answer;
	struct error e = {0};
	int status = tool_answer_read(sample, &answer, &e);
	if (status == 1)
		tool_answer_line(&answer, out);
	out->failed |= status < 0;
	tool_answer_free(&answer);
}

void pair_extracted(const struct store_sample *sample, const char *metric, struct buf *out)
{
	struct json_document *document = NULL;
	const char *comma = metric ? strchr(metric, ',') : NULL;
	if (has_choices(sample)) {
		if (parse_text(sample->response, NULL, &document, NULL) == 0)
			append_choice(root_of(document), out);
	} else if (comma && parse_text(sample->filtered, NULL, &document, NULL) == 0) {
		const struct json *text = json_get(root_of(document), comma + 1);
		if (json_is(text, JSON_STRING))
			buf_append_str(out, text->text);
		else
			append_calls(sample, out);
	}
	json_free(document);
}

#include "evals/target.h"

#include <stdlib.h>

#include "evals/postprocess.h"

/* Items in flight for each request that the engine runs at once: enough to refill a batch while answers are scored. */
enum { ITEMS_PER_REQUEST = 2 };

/* One request to the engine. Choices of one token behind the same tokens share one: its row answers them all. */
struct flight_request {
	uint64_t id;
	struct engine_ids ids; /* LOGLIKELIHOOD: what was asked, owned; the last one of a row's is its first choice's */
	float *row;            /* [vocab_size] log-probabilities of the next token; NULL: one choice of its own */
};

/* One item in flight. answer is first: it is what the caller gets. */
struct flight {
	struct target_answer answer;
	struct flight *next;
	int n_choices; /* 1 of a text */
	int n_requests, n_finished;
	struct flight_request *requests; /* [n_choices], of which n_requests are in use */
	int *request_of;                 /* [n_choices] index of the request that answers it */
	int32_t *token_of;               /* [n_choices] its token in that request's row */
	double *logprobs;                /* [n_choices] */
	bool *is_greedy;
	struct engine_result *result; /* GENERATE */
	struct buf text;              /* GENERATE with tools: the text with its special tokens; owned */
};

struct target {
	struct engine *engine;
	struct engine_text *text;
	struct flight *flights;  /* submitted, not finished */
	struct flight *finished; /* failed at submission */
	int n_flights, most;
	double deadline; /* seconds of a request; 0: none */
	struct str think_end;
};

int target_new(struct engine *engine, struct engine_text *text, struct target **out, struct error *e)
{
	struct target *t = mem_calloc(1, sizeof *t, e);
	*out = NULL;
	if (!t) {
		engine_close(engine);
		return ERR_MEMORY;
	}
	t->engine = engine;
	t->text = text;
	t->most = ITEMS_PER_REQUEST * engine_facts(engine)->max_requests;
	*out = t;
	return 0;
}

void target_set_deadline(struct target *t, double seconds)
{
	t->deadline = seconds;
}

void target_set_think_end(struct target *t, struct str end)
{
	t->think_end = end;
}

struct engine *target_engine(struct target *t)
{
	return t->engine;
}

void target_answer_free(struct target_answer *a)
{
	struct flight *f = (struct flight *)a;
	if (!f)
		return;
	for (int i = 0; f->requests && i < f->n_choices; i++) {
		engine_ids_free(&f->requests[i].ids);
		free(f->requests[i].row);
	}
	free(f->requests);
	free(f->request_of);
	free(f->token_of);
	free(f->logprobs);
	free(f->is_greedy);
	engine_result_free(f->result);
	buf_free(&f->text);
	free(f);
}

static void flights_free(struct flight *f)
{
	while (f) {
		struct flight *next = f->next;
		target_answer_free(&f->answer);
		f = next;
	}
}

void target_delete(struct target *t)
{
	if (!t)
		return;
	flights_free(t->flights);
	flights_free(t->finished);
	engine_close(t->engine);
	free(t);
}

bool target_has_room(const struct target *t)
{
	return t->n_flights < t->most;
}

int target_in_flight(const struct target *t)
{
	return t->n_flights;
}

/* ---- submission ---- */

static struct flight *flight_new(const struct suite_item *item, struct error *e)
{
	struct flight *f = mem_calloc(1, sizeof *f, e);

	if (!f)
		return NULL;
	f->answer.item = item;
	f->n_choices = item->kind == REQUEST_LOGLIKELIHOOD ? item->n_choices : 1;
	f->requests = mem_calloc((size_t)f->n_choices, sizeof *f->requests, e);
	f->request_of = mem_calloc((size_t)f->n_choices, sizeof *f->request_of, e);
	f->token_of = mem_calloc((size_t)f->n_choices, sizeof *f->token_of, e);
	f->logprobs = mem_calloc((size_t)f->n_choices, sizeof *f->logprobs, e);
	f->is_greedy = mem_calloc((size_t)f->n_choices, sizeof *f->is_greedy, e);
	if (!f->requests || !f->request_of || !f->token_of || !f->logprobs || !f->is_greedy) {
		target_answer_free(&f->answer);
		return NULL;
	}
	return f;
}

/* Keeps the last `most` of n ids: how many to drop from the front. */
static size_t left_cut(struct flight *f, size_t n, size_t most)
{
	size_t cut = n > most ? n - most : 0;
	if ((int)cut > f->answer.context_cut)
		f->answer.context_cut = (int)cut;
	return cut;
}

static int encode_choice(struct target *t, const struct suite_item *item, int choice, struct engine_ids *ids,
	size_t *n_context, struct error *e)
{
	struct buf continuation = {0};

	buf_append_str(&continuation, item->delimiter);
	buf_append_str(&continuation, item->choices[choice]);
	int status = buf_check(&continuation, e);
	if (status == 0)
		status = engine_text_encode_pair(t->text, item->context, buf_str(&continuation), ids, n_context, e);
	if (status == 0 && *n_context >= ids->count)
		status = error_set(e, ERR_INPUT, "choice %d has no token of its own after the context", choice);
	buf_free(&continuation);
	return status;
}

/* The request whose row answers one more token behind the same ids, or -1. */
static int find_row(const struct flight *f, const struct engine_ids *ids)
{
	for (int i = 0; i < f->n_requests; i++) {
		const struct flight_request *r = &f->requests[i];
		if (r->row && r->ids.count == ids->count &&
			memcmp(r->ids.data, ids->data, (ids->count - 1) * sizeof *ids->data) == 0)
			return i;
	}
	return -1;
}

/* (context + continuation)[-(max_length + 1):]: the last token is scored, not read. */
static int submit_choice(struct target *t, struct flight *f, int choice, struct error *e)
{
	struct flight_request *r = &f->requests[f->n_requests];
	const struct engine_facts *facts = engine_facts(t->engine);
	size_t n_context = 0;

	TRY(encode_choice(t, f->answer.item, choice, &r->ids, &n_context, e));
	bool one_token = n_context + 1 == r->ids.count && n_context > 0;
	int shared = one_token ? find_row(f, &r->ids) : -1;
	f->request_of[choice] = shared >= 0 ? shared : f->n_requests;
	f->token_of[choice] = r->ids.data[r->ids.count - 1];
	if (shared >= 0) {
		engine_ids_free(&r->ids);
		return 0;
	}
	if (one_token && !(r->row = mem_calloc((size_t)facts->vocab_size, sizeof *r->row, e)))
		return ERR_MEMORY;
	size_t cut = left_cut(f, r->ids.count, (size_t)facts->max_positions + 1);
	size_t n = r->ids.count - cut - one_token, from = n_context > cut ? n_context - cut : 1;
	struct engine_request request = {.tokens = r->ids.data + cut,
		.n_tokens = (int)n,
		.logprobs_from = (int)from, /* the first token has nothing before it */
		.rows = r->row,
		.deadline = t->deadline};
	TRY(engine_submit(t->engine, &request, &r->id, e));
	f->n_requests++;
	return 0;
}

/* context[-(max_length - max_gen_toks):] */
static int submit_generate(struct target *t, struct flight *f, struct error *e)
{
	const struct suite_item *item = f->answer.item;
	int most = engine_facts(t->engine)->max_positions - item->max_tokens;
	struct engine_ids ids = {0};

	if (most < 1)
		return error_set(e, ERR_LIMIT, "%s needs %d tokens for its answer, and the model's context is %d",
			item->task, item->max_tokens, engine_facts(t->engine)->max_positions);
	int status = engine_text_encode_prompt(t->text, item->context, &ids, e);
	if (status == 0) {
		size_t cut = left_cut(f, ids.count, (size_t)most);
		struct engine_request r = {.tokens = ids.data + cut,
			.n_tokens = (int)(ids.count - cut),
			.logprobs_from = -1,
			.max_tokens = item->max_tokens,
			.stops = item->until,
			.n_stops = t->think_end.length > 0 ? 0 : item->n_until,
			.deadline = t->deadline};
		status = engine_submit(t->engine, &r, &f->requests[0].id, e);
		f->n_requests = status == 0;
	}
	engine_ids_free(&ids);
	return status;
}

int target_submit(struct target *t, const struct suite_item *item, struct error *e)
{
	struct flight *f = flight_new(item, e);
	if (!f)
		return ERR_MEMORY;
	int status = 0;
	for (int i = 0; i < f->n_choices && status == 0; i++)
		status = item->kind == REQUEST_LOGLIKELIHOOD ? submit_choice(t, f, i, &f->answer.error)
							     : submit_generate(t, f, &f->answer.error);
	for (int i = 0; status < 0 && i < f->n_requests; i++)
		engine_abort(t->engine, f->requests[i].id);
	/* one that failed before its first request waits in a list of its own; its other requests come back as aborted
	 */
	struct flight **list = f->n_requests > 0 ? &t->flights : &t->finished;
	f->next = *list;
	*list = f;
	t->n_flights++;
	return 0;
}

/* ---- answers ---- */

static void take_continuation(struct flight *f, int choice, const struct engine_result *r)
{
	double sum = 0.0;
	bool greedy = true;

	for (int i = 0; i < r->n_prompt_logprobs; i++) {
		sum += (double)r->prompt_logprobs[i];
		greedy &= r->prompt_greedy[i];
	}
	f->logprobs[choice] = sum;
	f->is_greedy[choice] = greedy;
}

/* The lowest id among the most probable ones is the greedy one, as in the engine. */
static int32_t row_argmax(const float *row, int n)
{
	int32_t best = 0;
	for (int32_t i = 1; i < n; i++)
		best = row[i] > row[best] ? i : best;
	return best;
}

static void take_choices(const struct target *t, struct flight *f, int request, const struct engine_result *r)
{
	const float *row = f->requests[request].row;
	int32_t greedy = row ? row_argmax(row, engine_facts(t->engine)->vocab_size) : -1;

	for (int c = 0; c < f->n_choices; c++) {
		if (f->request_of[c] != request)
			continue;
		if (!row) {
			take_continuation(f, c, r);
			continue;
		}
		f->logprobs[c] = (double)row[f->token_of[c]];
		f->is_greedy[c] = f->token_of[c] == greedy;
	}
}

/* Marks of tool calls may be special tokens, so where there are tools they stay; the one that ended the answer does not. */
static struct str text_of(const struct target *t, struct flight *f, const struct engine_result *r)
{
	if (!f->answer.item->tools)
		return r->text;
	size_t count = (size_t)(r->n_generated - (r->ended_by_eos ? 1 : 0));
	engine_text_decode(t->text, r->tokens, count, false, &f->text);
	buf_check(&f->text, &f->answer.error);
	return buf_str(&f->text);
}

/* Whether an answer was still being written when the length limit came: one that a stop string behind the reasoning
 * had ended was not. */
static bool is_truncated(const struct target *t, const struct target_answer *a, bool reasoned)
{
	struct str text = a->answer.text;

	if (a->finish != ENGINE_LENGTH)
		return false;
	return t->think_end.length == 0 || !reasoned || text.data + text.length == a->raw.data + a->raw.length;
}

static void take_text(const struct target *t, struct flight *f, const struct engine_result *r)
{
	struct target_answer *a = &f->answer;

	a->raw = text_of(t, f, r);
	a->finish = r->finish;
	a->tokens = r->tokens;
	a->logprobs = r->logprobs;
	a->n_generated = r->n_generated;
	bool reasoned = answer_postprocess(a->raw, a->item->until, a->item->n_until, t->think_end, &a->answer.text);
	a->answer.truncated = is_truncated(t, a, reasoned);
}

/* Why a result is no answer. */
static void take_error(const struct target *t, const struct engine_result *r, struct error *out)
{
	if (r->finish == ENGINE_FAILED)
		*out = r->error;
	else if (r->finish == ENGINE_DEADLINE)
		error_set(out, ERR_LIMIT, "a request took longer than the %g seconds that --deadline allows",
			t->deadline);
}

/* Finds the flight of a result and gives it over. True when it was the last of its item: *done is that item, out of the
 * list. */
static bool result_take(struct target *t, struct engine_result *r, struct flight **done)
{
	for (struct flight **at = &t->flights; *at; at = &(*at)->next) {
		struct flight *f = *at;
		int i = 0;
		while (i < f->n_requests && f->requests[i].id != r->id)
			i++;
		if (i == f->n_requests)
			continue;
		if (f->answer.error.code == 0)
			take_error(t, r, &f->answer.error);
		f->answer.prompt_tokens += r->prompt_tokens;
		f->answer.cached_tokens += r->cached_tokens;
		f->answer.seconds = r->seconds > f->answer.seconds ? r->seconds : f->answer.seconds;
		if (f->answer.item->kind == REQUEST_LOGLIKELIHOOD) {
			take_choices(t, f, i, r);
			engine_result_free(r);
		} else {
			f->result = r;
			take_text(t, f, r);
		}
		if (++f->n_finished < f->n_requests)
			return false;
		*at = f->next;
		*done = f;
		return true;
	}
	engine_result_free(r);
	return false;
}

int target_take(struct target *t, struct target_answer **out, struct error *e)
{
	struct flight *done = t->finished;

	*out = NULL;
	if (done)
		t->finished = done->next;
	while (!done && t->flights) {
		struct engine_result *r = engine_poll(t->engine);
		bool idle = false;
		if (r)
			result_take(t, r, &done);
		else
			TRY(engine_step(t->engine, &idle, e));
	}
	if (!done)
		return 0;
	t->n_flights--;
	done->answer.answer.logprobs = done->logprobs;
	done->answer.answer.is_greedy = done->is_greedy;
	*out = &done->answer;
	return 0;
}

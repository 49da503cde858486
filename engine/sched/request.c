#include "engine/sched/request.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

/* What the caller frees: the public face first. */
struct result_owner {
	struct engine_result face;
	int32_t *tokens;
	double *token_seconds;
	float *logprobs, *prompt_logprobs, *top_values;
	bool *prompt_greedy;
	int32_t *top_ids;
	struct buf text;
};

double clock_seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int request_prompt_logprobs(const struct request *r)
{
	return r->logprobs_from < 0 ? 0 : r->n_prompt - r->logprobs_from;
}

int request_read_end(const struct request *r)
{
	return r->n_tokens - (r->max_tokens > 0 || r->rows ? 0 : 1);
}

int request_first_row(const struct request *r)
{
	int first = r->logprobs_from - 1 > r->rows_next ? r->logprobs_from - 1 : r->rows_next;
	int last = r->n_prompt - (r->rows ? 1 : 2);

	if (r->logprobs_from >= 0 && first <= last)
		return first;
	return r->n_tokens - r->n_prompt < r->max_tokens ? r->n_tokens - 1 : request_read_end(r);
}

void request_end(struct request *r, enum engine_finish finish)
{
	if (!r->ended)
		r->finish = finish;
	r->ended = true;
}

static int stops_copy(struct request *r, const struct engine_request *from, struct error *e)
{
	size_t total = 0, at = 0;

	for (int i = 0; i < from->n_stops; i++)
		total += from->stops[i].length;
	r->stop_bytes = mem_calloc(total + 1, 1, e);
	r->stops = mem_calloc((size_t)from->n_stops + 1, sizeof *r->stops, e);
	if (!r->stop_bytes || !r->stops)
		return ERR_MEMORY;
	for (int i = 0; i < from->n_stops; i++) {
		size_t length = from->stops[i].length;
		if (length == 0) /* an empty stop string stops nothing, as in lm-evaluation-harness */
			continue;
		memcpy(r->stop_bytes + at, from->stops[i].data, length);
		r->stops[r->n_stops++] = (struct str){r->stop_bytes + at, length};
		r->longest_stop = length > r->longest_stop ? length : r->longest_stop;
		at += length;
	}
	return 0;
}

static int arrays_alloc(struct request *r, struct error *e)
{
	size_t generated = (size_t)r->max_tokens, prompt = (size_t)request_prompt_logprobs(r);
	size_t tops = (generated + prompt) * (size_t)r->top_logprobs;

	r->tokens = mem_calloc((size_t)r->n_prompt + generated, sizeof *r->tokens, e);
	r->logprobs = mem_calloc(generated, sizeof *r->logprobs, e);
	r->prompt_logprobs = mem_calloc(prompt, sizeof *r->prompt_logprobs, e);
	r->prompt_greedy = mem_calloc(prompt, sizeof *r->prompt_greedy, e);
	r->top_ids = mem_calloc(tops, sizeof *r->top_ids, e);
	r->top_values = mem_calloc(tops, sizeof *r->top_values, e);
	r->token_seconds = mem_calloc(generated, sizeof *r->token_seconds, e);
	if (!r->token_seconds || !r->tokens || !r->logprobs || !r->prompt_logprobs || !r->prompt_greedy ||
		!r->top_ids || !r->top_values)
		return ERR_MEMORY;
	return 0;
}

struct request *request_new(const struct engine_request *from, uint64_t id, int vocab, struct error *e)
{
	struct request *r = mem_calloc(1, sizeof *r, e);
	if (!r)
		return NULL;
	r->id = id;
	r->n_prompt = r->n_tokens = from->n_tokens;
	r->max_tokens = from->max_tokens;
	r->logprobs_from = from->logprobs_from;
	r->top_logprobs = from->top_logprobs;
	r->vocab = vocab;
	r->rows = from->rows;
	r->ignore_eos = from->ignore_eos;
	float top_p = from->sampling.top_p <= 0.0f ? 1.0f : from->sampling.top_p;
	r->sampling = (struct sampling){from->sampling.temperature, from->sampling.top_k, top_p, from->sampling.seed};
	r->submitted = clock_seconds();
	r->deadline = from->deadline > 0.0 ? r->submitted + from->deadline : 0.0;
	if (arrays_alloc(r, e) < 0 || stops_copy(r, from, e) < 0) {
		request_delete(r);
		return NULL;
	}
	memcpy(r->tokens, from->tokens, (size_t)from->n_tokens * sizeof *r->tokens);
	return r;
}

void request_delete(struct request *r)
{
	if (!r)
		return;
	free(r->tokens);
	free(r->map.pages);
	free(r->spare_pages);
	free(r->token_seconds);
	free(r->stop_bytes);
	free(r->stops);
	buf_free(&r->bytes);
	free(r->logprobs);
	free(r->prompt_logprobs);
	free(r->prompt_greedy);
	free(r->top_ids);
	free(r->top_values);
	free(r);
}

bool request_wants_row(struct request *r, int position, int token, struct logits_row *row)
{
	int next = position + 1, prompt_logprobs = request_prompt_logprobs(r);
	bool prompt = r->logprobs_from >= 0 && next >= r->logprobs_from && next < r->n_prompt;
	bool sample = next == r->n_tokens && r->n_tokens - r->n_prompt < r->max_tokens;
	bool whole = r->rows && r->logprobs_from >= 0 && next >= r->logprobs_from && next <= r->n_prompt;

	if (position < r->rows_next || (!prompt && !sample && !whole))
		return false;
	*row = (struct logits_row){.token = token,
		.target = prompt ? r->tokens[next] : -1,
		.sample = sample,
		.sampling = r->sampling,
		.position = (uint64_t)next};
	if (whole)
		row->all_logprobs = r->rows + (size_t)(next - r->logprobs_from) * (size_t)r->vocab;
	if (r->top_logprobs > 0 && (prompt || sample)) {
		size_t at = prompt ? (size_t)(next - r->logprobs_from)
				   : (size_t)(prompt_logprobs + r->n_tokens - r->n_prompt);
		row->top_count = r->top_logprobs;
		row->top_ids = r->top_ids + at * (size_t)r->top_logprobs;
		row->top_logprobs = r->top_values + at * (size_t)r->top_logprobs;
	}
	return true;
}

/* Whether the text that the last token added completes a stop string. */
static bool stop_reached(const struct request *r, size_t old_length)
{
	size_t from = old_length >= r->longest_stop ? old_length - r->longest_stop + 1 : 0;
	for (int i = 0; i < r->n_stops; i++)
		if (str_find(buf_str(&r->bytes), r->stops[i], from) != (size_t)-1)
			return true;
	return false;
}

static bool is_eos(int32_t token, const int32_t *eos, int n_eos)
{
	for (int i = 0; i < n_eos; i++)
		if (token == eos[i])
			return true;
	return false;
}

static void take_sample(struct request *r, const struct logits_row *row, const struct tokenizer *tokenizer,
	const int32_t *eos, int n_eos)
{
	size_t old_length = r->bytes.length;
	int at = r->n_tokens - r->n_prompt;

	r->token_seconds[at] = clock_seconds() - r->submitted;
	r->tokens[r->n_tokens++] = row->sampled;
	r->logprobs[at] = row->sampled_logprob;
	r->ended_by_eos = !r->ignore_eos && is_eos(row->sampled, eos, n_eos);
	if (r->ended_by_eos) {
		request_end(r, ENGINE_STOP);
		return;
	}
	if (tokenizer && r->n_stops > 0) {
		tokenizer_decode_id(tokenizer, row->sampled, true, &r->bytes);
		if (stop_reached(r, old_length))
			request_end(r, ENGINE_STOP);
	}
	if (at + 1 == r->max_tokens)
		request_end(r, ENGINE_LENGTH);
}

void request_take_row(struct request *r, int position, const struct logits_row *row, const struct tokenizer *tokenizer,
	const int32_t *eos, int n_eos)
{
	if ((row->target >= 0 && isnan(row->target_logprob)) || (row->sample && isnan(row->sampled_logprob))) {
		error_set(&r->error, ERR_INPUT, "the model's logits after token %d are not numbers", position);
		request_end(r, ENGINE_FAILED);
		return;
	}
	r->rows_next = position + 1;
	if (row->target >= 0) {
		int at = position + 1 - r->logprobs_from;
		r->prompt_logprobs[at] = row->target_logprob;
		r->prompt_greedy[at] = row->argmax == row->target;
	}
	if (row->sample)
		take_sample(r, row, tokenizer, eos, n_eos);
}

static void text_decode(struct result_owner *o, const struct request *r, const struct tokenizer *tokenizer)
{
	struct engine_result *face = &o->face;
	if (!tokenizer)
		return;
	tokenizer_decode(tokenizer, face->tokens, (size_t)face->n_generated, true, &o->text);
	face->text = buf_str(&o->text);
	face->text_cut = face->text.length;
	for (int i = 0; i < r->n_stops; i++) {
		size_t found = str_find(face->text, r->stops[i], 0);
		face->text_cut = found < face->text_cut ? found : face->text_cut;
	}
}

/* Tokens of the prompt that were read, each once. */
static int prompt_read(const struct request *r)
{
	return r->n_seen < r->n_prompt ? r->n_seen : r->n_prompt;
}

struct engine_result *request_finish(struct request *r, const struct tokenizer *tokenizer, struct error *e)
{
	struct result_owner *o = mem_calloc(1, sizeof *o, e);
	struct engine_result *face = &o->face;

	if (!o)
		return NULL;
	o->tokens = r->tokens, o->logprobs = r->logprobs, o->prompt_logprobs = r->prompt_logprobs;
	o->prompt_greedy = r->prompt_greedy, o->top_ids = r->top_ids, o->top_values = r->top_values;
	o->token_seconds = r->token_seconds;
	*face = (struct engine_result){.id = r->id,
		.finish = r->finish,
		.error = r->error,
		.n_generated = r->n_tokens - r->n_prompt,
		.ended_by_eos = r->ended_by_eos,
		.tokens = r->tokens + r->n_prompt,
		.logprobs = r->logprobs,
		.n_prompt_logprobs = request_prompt_logprobs(r),
		.prompt_logprobs = r->prompt_logprobs,
		.prompt_greedy = r->prompt_greedy,
		.top_logprobs = r->top_logprobs,
		.top_ids = r->top_ids,
		.top_values = r->top_values,
		.prompt_tokens = prompt_read(r),
		.cached_tokens = r->cached_tokens,
		.preemptions = r->preemptions,
		.token_seconds = r->token_seconds};
	face->seconds = clock_seconds() - r->submitted;
	face->seconds_queued = r->started > 0.0 ? r->started - r->submitted : face->seconds;
	face->seconds_to_first = face->n_generated > 0 ? r->token_seconds[0] : face->seconds;
	text_decode(o, r, tokenizer);
	r->tokens = NULL, r->logprobs = NULL, r->prompt_logprobs = NULL;
	r->prompt_greedy = NULL, r->top_ids = NULL, r->top_values = NULL, r->token_seconds = NULL;
	request_delete(r);
	return face;
}

void engine_result_free(struct engine_result *result)
{
	struct result_owner *o = (struct result_owner *)result;
	if (!o)
		return;
	free(o->tokens);
	free(o->logprobs);
	free(o->prompt_logprobs);
	free(o->prompt_greedy);
	free(o->top_ids);
	free(o->top_values);
	free(o->token_seconds);
	buf_free(&o->text);
	free(o);
}

/* Rows of logits: the head's product over a tile of tokens, then what is wanted of each row. */
#include <stdlib.h>
#include <string.h>

#include "cuda/internal.h"
#include "cuda/status.h"

enum { TILE_LEAST = 16, TILE_MOST = 256, TOP_LEAST = 32 };
static const size_t TILE_BYTES = (size_t)128 << 20; /* of logits */

/* Tokens of a tile: as many as TILE_BYTES hold. It changes no bit: a row's order of sums does not depend on it. */
static int tile_tokens(int vocab)
{
	int tokens = TILE_MOST;
	while (tokens > TILE_LEAST && (size_t)tokens * (size_t)vocab * sizeof(float) > TILE_BYTES)
		tokens /= 2;
	return tokens;
}

void rows_free(struct cuda_backend *c)
{
	struct cuda_rows *r = &c->rows;
	void *device[] = {r->x, r->logits, r->results, r->top_ids, r->top_logprobs, r->scratch};
	void *pinned[] = {r->host_results, r->host_top_ids, r->host_top_logprobs};

	for (size_t i = 0; i < sizeof device / sizeof *device; i++)
		cudaFree(device[i]);
	for (size_t i = 0; i < sizeof pinned / sizeof *pinned; i++)
		cudaFreeHost(pinned[i]);
	free(r->tokens);
	free(r->requests);
	*r = (struct cuda_rows){0};
}

static int rows_alloc(struct cuda_rows *r, size_t n, size_t hidden, size_t vocab, struct error *e)
{
	const size_t top = n * LOGITS_TOP_MAX;
	const struct {
		void *memory; /* where its address goes */
		size_t bytes;
		bool pinned;
	} plan[] = {
		{&r->x, n * hidden * sizeof(float), false},
		{&r->logits, n * vocab * sizeof(float), false},
		{&r->results, n * sizeof *r->results, false},
		{&r->top_ids, top * sizeof *r->top_ids, false},
		{&r->top_logprobs, top * sizeof *r->top_logprobs, false},
		{&r->scratch, logits_tail_scratch_bytes((int)n, (int)vocab), false},
		{&r->host_results, n * sizeof *r->results, true},
		{&r->host_top_ids, top * sizeof *r->top_ids, true},
		{&r->host_top_logprobs, top * sizeof *r->top_logprobs, true},
	};

	for (size_t i = 0; i < sizeof plan / sizeof *plan; i++) {
		void *memory = NULL;
		TRY(cuda_status(
			plan[i].pinned ? cudaMallocHost(&memory, plan[i].bytes) : cudaMalloc(&memory, plan[i].bytes),
			"rows of logits", e));
		memcpy(plan[i].memory, &memory, sizeof memory);
	}
	r->tokens = mem_calloc(n, sizeof *r->tokens, e);
	r->requests = mem_calloc(n, sizeof *r->requests, e);
	return r->tokens && r->requests ? 0 : ERR_MEMORY;
}

static int room_make(struct cuda_backend *c, const struct logits_args *a, struct error *e)
{
	struct cuda_rows *r = &c->rows;

	int hidden = a->hidden > r->most_hidden ? a->hidden : r->most_hidden;
	int vocab = a->vocab > r->most_vocab ? a->vocab : r->most_vocab;

	if (hidden == r->most_hidden && vocab == r->most_vocab)
		return 0;
	TRY(results_collect(c));
	steps_forget(&c->steps);
	rows_free(c);
	r->room = tile_tokens(vocab);
	TRY(rows_alloc(r, (size_t)r->room, (size_t)hidden, (size_t)vocab, e));
	r->most_hidden = hidden;
	r->most_vocab = vocab;
	return 0;
}

/* ---- what is asked ---- */

/* Asks for the rows, padded to a power of two, so that steps of one padded batch are alike; *n_padded: that. */
static int tile_ask(struct cuda_rows *r, struct logits_row *rows, int n, int *n_padded, struct error *e)
{
	int top = 0, padded = 1;

	while (padded < n)
		padded *= 2;
	memset(r->requests, 0, (size_t)padded * sizeof *r->requests);
	for (int i = 0; i < padded; i++) {
		r->tokens[i] = i < n ? rows[i].token : rows[0].token;
		r->requests[i].target = -1;
		if (i >= n)
			continue;
		r->requests[i].target = rows[i].target;
		r->requests[i].top_count = rows[i].top_count;
		r->requests[i].all = rows[i].all_logprobs != NULL;
		r->requests[i].position = rows[i].position;
		r->requests[i].sample = rows[i].sample;
		if (rows[i].sample)
			r->requests[i].sampling = rows[i].sampling;
		top = rows[i].top_count > top ? rows[i].top_count : top;
	}
	if (top > LOGITS_TOP_MAX)
		return error_set(
			e, ERR_INPUT, "%d most probable tokens of a row: at most %d expected", top, LOGITS_TOP_MAX);
	r->rows = rows;
	r->n = n;
	r->top_stride = top == 0 ? 0 : top <= TOP_LEAST ? TOP_LEAST : LOGITS_TOP_MAX;
	*n_padded = padded;
	return 0;
}

static bool any_all(const struct cuda_rows *r)
{
	for (int i = 0; i < r->n; i++)
		if (r->rows[i].all_logprobs)
			return true;
	return false;
}

/* The product's input is gathered by the embedding's kernel: rows of a table of floats. */
static void product_keep(struct cuda_backend *c, const struct logits_args *a, const int32_t *tokens, int n)
{
	struct cuda_rows *r = &c->rows;
	struct op *op = op_new(c, OP_EMBED);

	if (op) {
		op->embed.table = a->x;
		op->embed.format = WEIGHT_F32;
		op->embed.ids = tokens;
		op->embed.n_tokens = n;
		op->embed.hidden = a->hidden;
		op->embed.out = r->x;
	}
	if ((op = op_new(c, OP_LINEAR))) {
		op->linear.weight = a->head;
		op->linear.x = r->x;
		op->linear.n_tokens = n;
		op->linear.y = r->logits;
	}
}

/* Rows [first, first + n) of the logits that ranks have computed, each a part of the vocabulary. */
static void parts_join(struct cuda_backend *c, const struct logits_args *a, int first)
{
	size_t vocab = (size_t)a->vocab, width = (vocab + (size_t)a->logits_parts - 1) / (size_t)a->logits_parts;

	for (size_t part = 0; part * width < vocab; part++) {
		size_t n = vocab - part * width < width ? vocab - part * width : width;
		struct op *op = op_new(c, OP_ROWS_COPY);
		if (!op)
			return;
		op->rows_copy.to = c->rows.logits + part * width;
		op->rows_copy.to_stride = vocab * sizeof(float);
		op->rows_copy.from = a->logits + (part * (size_t)a->n_rows + (size_t)first) * width;
		op->rows_copy.from_stride = width * sizeof(float);
		op->rows_copy.bytes = n * sizeof(float);
		op->rows_copy.n_rows = (size_t)c->rows.n;
	}
}

/* first: the tile's first row; n: of the padded tile. */
static void tile_keep(struct cuda_backend *c, const struct logits_args *a, int first, int n)
{
	struct cuda_rows *r = &c->rows;
	const int32_t *tokens = r->tokens;
	const struct logits_request *requests = r->requests;
	const struct op_array arrays[] = {{&tokens, (size_t)n * sizeof *tokens, 0, 0, true},
		{&requests, (size_t)n * sizeof *requests, 0, 0, true}};

	if (!op_arrays(c, arrays, 2))
		return;
	if (a->logits)
		parts_join(c, a, first);
	else
		product_keep(c, a, tokens, n);
	struct op *op = op_new(c, OP_LOGITS_TAIL);
	if (!op)
		return;
	op->logits_tail.logits = r->logits;
	op->logits_tail.n_rows = n;
	op->logits_tail.vocab = a->vocab;
	op->logits_tail.requests = requests;
	op->logits_tail.results = r->results;
	op->logits_tail.top_stride = r->top_stride;
	op->logits_tail.top_ids = r->top_ids;
	op->logits_tail.top_logprobs = r->top_logprobs;
	op->logits_tail.any_all = any_all(r);
	op->logits_tail.scratch = r->scratch;
}

void cuda_logits(struct backend *b, const struct logits_args *a)
{
	struct cuda_backend *c = self(b);
	struct error e = {0};

	if (c->failure.code || failure_keep(c, room_make(c, a, &e), &e) < 0)
		return;
	int tile = c->rows.room;
	for (int first = 0; first < a->n_rows && !c->failure.code; first += tile) {
		int n = a->n_rows - first < tile ? a->n_rows - first : tile, padded = 0;
		if (c->rows.n > 0 && results_collect(c) < 0)
			return;
		if (failure_keep(c, tile_ask(&c->rows, a->rows + first, n, &padded, &e), &e) < 0)
			return;
		c->rows.vocab = a->vocab;
		tile_keep(c, a, first, padded);
	}
	verify_again(c);
}

/* ---- what comes back ---- */

static int down(struct cuda_backend *c, void *host, const void *device, size_t bytes, struct error *e)
{
	return cuda_status(
		cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, c->stream), "rows of logits", e);
}

static int fetch(struct cuda_backend *c, struct error *e)
{
	struct cuda_rows *r = &c->rows;
	size_t n = (size_t)r->n, top = n * (size_t)r->top_stride, vocab = (size_t)r->vocab;

	TRY(down(c, r->host_results, r->results, n * sizeof *r->results, e));
	if (top > 0) {
		TRY(down(c, r->host_top_ids, r->top_ids, top * sizeof *r->top_ids, e));
		TRY(down(c, r->host_top_logprobs, r->top_logprobs, top * sizeof *r->top_logprobs, e));
	}
	for (size_t i = 0; i < n; i++)
		if (r->rows[i].all_logprobs)
			TRY(transfer_down(&c->transfer, r->rows[i].all_logprobs, r->logits + i * vocab,
				vocab * sizeof(float), e));
	return 0;
}

int rows_fetch(struct cuda_backend *c)
{
	struct error e = {0};
	return c->rows.n > 0 ? failure_keep(c, fetch(c, &e), &e) : 0;
}

void rows_hand_out(struct cuda_backend *c)
{
	struct cuda_rows *r = &c->rows;

	for (int i = 0; i < r->n; i++) {
		struct logits_row *row = &r->rows[i];
		const struct logits_result *result = &r->host_results[i];
		size_t at = (size_t)i * (size_t)r->top_stride, top = (size_t)row->top_count;
		row->argmax = result->argmax;
		if (row->target >= 0)
			row->target_logprob = result->target_logprob;
		if (row->sample) {
			row->sampled = result->sampled;
			row->sampled_logprob = result->sampled_logprob;
		}
		if (top == 0)
			continue;
		memcpy(row->top_ids, r->host_top_ids + at, top * sizeof *row->top_ids);
		memcpy(row->top_logprobs, r->host_top_logprobs + at, top * sizeof *row->top_logprobs);
	}
	r->n = 0;
}

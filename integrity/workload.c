#include "integrity/workload.h"

#include <string.h>

#include "engine/base/rng.h"

static const char *const variants[] = {"bf16/bf16", "bf16/fp8", "bf16/bf16>bf16/fp8", NULL};

const char *workload_variant(int i)
{
	return variants[i];
}

struct maker {
	struct workload *w;
	struct py_random rng;
	int vocab;
	int32_t family[WORKLOAD_FAMILIES][WORKLOAD_PROMPT];
};

static int below(struct maker *m, int n)
{
	return (int)py_random_below(&m->rng, (uint64_t)n);
}

/* Ids from 3 on: the first few are special in most vocabularies. */
static int32_t token_draw(struct maker *m)
{
	return 3 + below(m, m->vocab - 3);
}

/* The second family goes on as the first one does after another first page. */
static void families_make(struct maker *m)
{
	for (int f = 0; f < WORKLOAD_FAMILIES; f++)
		for (int i = 0; i < WORKLOAD_PROMPT; i++)
			m->family[f][i] = token_draw(m);
	int page_size = m->w->page_size;
	memcpy(m->family[1] + page_size, m->family[0] + page_size,
		(size_t)(WORKLOAD_PROMPT - page_size) * sizeof(int32_t));
}

/* Lengths around page edges, seldom any. */
static int length_draw(struct maker *m, int most)
{
	int page_size = m->w->page_size,
	    n = below(m, 4) == 0 ? 1 + below(m, most) : page_size * (1 + below(m, most / page_size)) - 1 + below(m, 3);

	return n < 1 ? 1 : n > most ? most : n;
}

static void prompt_draw(struct maker *m, int i)
{
	struct workload_request *r = &m->w->requests[i];

	if (i > 0 && below(m, 4) == 0) { /* asked again, or gone on with */
		const struct workload_request *before = &m->w->requests[below(m, i)];
		memcpy(r->tokens, before->tokens, sizeof r->tokens);
		r->n_tokens = before->n_tokens;
	} else {
		int family = below(m, WORKLOAD_FAMILIES), shared = length_draw(m, WORKLOAD_PROMPT - 8);
		memcpy(r->tokens, m->family[family], (size_t)shared * sizeof *r->tokens);
		r->n_tokens = shared;
	}
	for (int more = below(m, 2) ? below(m, 8) : 0; more > 0 && r->n_tokens < WORKLOAD_PROMPT; more--)
		r->tokens[r->n_tokens++] = token_draw(m);
}

/* Most only generate, so that the cache serves their whole prompt. */
static void request_draw(struct maker *m, int i, int step)
{
	struct workload_request *r = &m->w->requests[i];

	prompt_draw(m, i);
	r->max_tokens = below(m, 8) ? 1 + below(m, WORKLOAD_GENERATED) : 0;
	bool scored = r->n_tokens > 1 && (r->max_tokens == 0 || below(m, 4) == 0);
	r->logprobs_from = scored ? r->n_tokens - below(m, r->n_tokens - 1) - 1 : -1;
	if (r->max_tokens == 0 && !scored)
		r->max_tokens = 1;
	r->temperature = below(m, 3) ? 0.0f : 1.0f;
	r->seed = (uint64_t)below(m, 1000);
	r->submit_step = step;
	r->abort_step = below(m, 6) == 0 ? step + 1 + below(m, 8) : -1;
	r->tenant = below(m, 2);
}

static int pages_of(const struct workload *w, const struct workload_request *r)
{
	return (r->n_tokens + r->max_tokens + w->page_size - 1) / w->page_size;
}

/* One pool in three is just large enough for the longest request; the others for a few. */
static void pool_draw(struct maker *m)
{
	struct workload *w = m->w;
	int longest = 1;

	for (int i = 0; i < w->n; i++)
		longest = pages_of(w, &w->requests[i]) > longest ? pages_of(w, &w->requests[i]) : longest;
	w->pages = 1 + longest + (below(m, 3) ? 2 + below(m, 2 * longest) : below(m, 3));
}

void workload_make(struct workload *w, uint64_t seed, int vocab)
{
	struct maker m = {.w = w, .vocab = vocab};

	memset(w, 0, sizeof *w);
	py_random_seed(&m.rng, seed);
	w->seed = seed;
	w->variant = variants[below(&m, 3)];
	w->page_size = below(&m, 2) ? 4 : 8;
	w->max_requests = 3 + below(&m, 4);
	w->max_batch_tokens = 16 + below(&m, 49);
	w->chunk = below(&m, 3) ? 3 + below(&m, 14) : 0;
	w->pad_decode = below(&m, 4) != 0;
	w->n = 8 + below(&m, 7);
	families_make(&m);
	for (int i = 0, step = 0; i < w->n; i++) {
		request_draw(&m, i, step);
		step += below(&m, 4);
	}
	pool_draw(&m);
}

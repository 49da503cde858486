/* What a guard's work costs in a step of decoding, without a model: a pool of the shape of SmolLM2-135M, so many requests
 * that go on by one token in each step, from 384 tokens to 640, and every call that the engine makes of the guard then.
 *
 *     guard_cost [COLD [ROUNDS [each]]]
 *
 * Prints, for each level and number of requests, microseconds of a step: median, mean and 95th percentile over the steps of
 * ROUNDS lives of the guard (default 5). COLD, default 0: MiB that are read between the two checks, outside of the time, as a
 * step reads weights there, so that the guard finds nothing of its own in the caches. With `each` they are read before every
 * call, which is worse than what an engine does: between a step's output and the next step's first check it reads little. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/backend.h"
#include "engine/engine.h"
#include "engine/kv/kv_pool.h"
#include "integrity/guard.h"

enum { LAYERS = 30, KV_HEADS = 3, HEAD_DIM = 64, PAGE = 16, PROMPT = 384, STEPS = 256, MOST_REQUESTS = 32 };
enum { POOL_PAGES = 2048 };

struct bench {
	struct guard guard;
	struct kv_pool pool;
	int requests, rounds, stride;
	/* the batch */
	uint64_t epoch, ids[MOST_REQUESTS], validated[MOST_REQUESTS];
	int32_t cu_seqlens[MOST_REQUESTS + 1], first_position[MOST_REQUESTS], emitted[MOST_REQUESTS];
	uint8_t bad[MOST_REQUESTS];
	int32_t *tables, *tokens, *positions;
	int64_t *slots;
	const int32_t *own[MOST_REQUESTS];
	int mapped; /* logical pages of every request */
	const volatile char *cold;
	size_t cold_bytes;
	bool cold_each; /* before every call, not before the second check alone */
};

static struct error failure;

static void need(int status)
{
	if (status == 0)
		return;
	fprintf(stderr, "guard_cost: %s\n", failure.message);
	exit(1);
}

static void *memory(size_t count, size_t size)
{
	void *m = mem_calloc(count, size, &failure);
	need(m ? 0 : ERR_MEMORY);
	return m;
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void caches_fill(const struct bench *b)
{
	for (size_t i = 0; i < b->cold_bytes; i += 64)
		(void)b->cold[i];
}

/* Pages for so many tokens of every request. */
static void pages_map(struct bench *b, int tokens)
{
	for (; b->mapped * PAGE < tokens; b->mapped++)
		for (int r = 0; r < b->requests; r++) {
			int32_t page = kv_pool_alloc(&b->pool, b->ids[r]);
			need(page ? 0 : error_set(&failure, ERR_LIMIT, "no page is free"));
			b->tables[r * b->stride + b->mapped] = page;
			b->guard.table.page_mapped(b->pool.guard_state, b->ids[r], b->mapped, page);
		}
}

/* The next `count` tokens of every request. */
static void batch_build(struct bench *b, int first, int count)
{
	int t = 0;

	for (int r = 0; r < b->requests; r++) {
		b->cu_seqlens[r] = t;
		b->first_position[r] = first;
		for (int i = first; i < first + count; i++, t++) {
			b->positions[t] = i;
			b->tokens[t] = b->own[r][i];
			b->slots[t] = (int64_t)b->tables[r * b->stride + i / PAGE] * PAGE + i % PAGE;
		}
	}
	b->cu_seqlens[b->requests] = t;
}

/* Microseconds of the check. */
static double verify(struct bench *b, enum kv_guard_phase phase, uint64_t step)
{
	if (phase == KV_GUARD_BEFORE_PUBLISH || b->cold_each)
		caches_fill(b);
	struct kv_guard_batch batch = {.step = step,
		.epoch = ++b->epoch,
		.n_sequences = b->requests,
		.n_tokens = b->cu_seqlens[b->requests],
		.request = b->ids,
		.cu_seqlens = b->cu_seqlens,
		.first_position = b->first_position,
		.block_tables = b->tables,
		.table_stride = b->stride,
		.slots = b->slots,
		.tokens = b->tokens,
		.positions = b->positions,
		.own = b->own,
		.emitted = b->emitted,
		.validated = b->validated};

	struct kv_guard guard = b->guard.table; /* looked up before the clock starts: any guard is, none too */
	void *state = b->pool.guard_state;
	double start = now();
	need(guard.verify(state, phase, &batch, b->bad, &failure));
	return now() - start;
}

static double step(struct bench *b, uint64_t tick, int first, int count)
{
	if (b->cold_each)
		caches_fill(b);
	struct kv_guard guard = b->guard.table;
	void *state = b->pool.guard_state;
	double start = now();
	guard.step_begin(state, tick);
	pages_map(b, first + count);
	double elapsed = now() - start;
	batch_build(b, first, count);
	elapsed += verify(b, KV_GUARD_BEFORE_READ, tick);
	return elapsed + verify(b, KV_GUARD_BEFORE_PUBLISH, tick);
}

static void bench_open(struct bench *b, struct backend *backend, enum guard_level level)
{
	struct model_config config = {.n_layers = LAYERS, .n_kv_heads = KV_HEADS, .head_dim = HEAD_DIM};
	int context = PROMPT + STEPS;
	size_t tokens = (size_t)b->requests * (size_t)context;

	guard_init(&b->guard, &(struct guard_options){.level = level});
	b->stride = context / PAGE + 1;
	need(kv_pool_init(&b->pool, &backend, 1, &config, KV_BF16, PAGE,
		POOL_PAGES * kv_bytes_per_token(&config, KV_BF16) * PAGE, &b->guard.table, &fault_hook_none, &failure));
	need(b->guard.table.reserve(b->pool.guard_state, MOST_REQUESTS, b->stride, &failure));
	b->tables = memory((size_t)b->requests * (size_t)b->stride, sizeof *b->tables);
	b->tokens = memory(tokens, sizeof *b->tokens);
	b->positions = memory(tokens, sizeof *b->positions);
	b->slots = memory(tokens, sizeof *b->slots);
	b->mapped = 0;
	for (int r = 0; r < b->requests; r++) {
		int32_t *own = memory((size_t)context, sizeof *own);
		for (int i = 0; i < context; i++)
			own[i] = r * 31 + i;
		b->own[r] = own;
		b->ids[r] = (uint64_t)r + 1;
		b->bad[r] = 0;
	}
}

static void bench_close(struct bench *b)
{
	kv_pool_free(&b->pool);
	free(b->tables);
	free(b->tokens);
	free(b->positions);
	free(b->slots);
	for (int r = 0; r < b->requests; r++)
		free((void *)b->own[r]);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* One engine's life: the prompts, and STEPS steps after them. */
static void round_run(struct bench *b, struct backend *backend, enum guard_level level, double *micros)
{
	bench_open(b, backend, level);
	pages_map(b, PROMPT);
	for (int r = 0; r < b->requests; r++)
		need(b->guard.table.request_admitted(
			b->pool.guard_state, &(struct kv_guard_admission){.request = b->ids[r]}, &failure));
	step(b, 1, 0, PROMPT);
	for (int i = 0; i < STEPS; i++)
		micros[i] = step(b, (uint64_t)i + 2, PROMPT + i, 1);
	if (b->guard.incidents)
		need(error_set(&failure, ERR_DEVICE, "the guard found something where nothing is wrong"));
	need(guard_proved(&b->guard, &failure));
	bench_close(b);
}

static void level_measure(struct bench *b, struct backend *backend, enum guard_level level)
{
	size_t n = (size_t)b->rounds * STEPS;
	double *micros = memory(n, sizeof *micros), sum = 0;
	double pairs = b->requests * (PROMPT + STEPS / 2) / (double)PAGE;

	for (int round = 0; round < b->rounds; round++)
		round_run(b, backend, level, micros + (size_t)round * STEPS);
	for (size_t i = 0; i < n; i++)
		sum += micros[i];
	qsort(micros, n, sizeof *micros, by_value);
	printf("%-6s %8d %8.2f %8.2f %8.2f %10.2f\n", guard_level_name(level), b->requests, micros[n / 2],
		sum / (double)n, micros[n * 95 / 100], 2.0 + 0.010 * pairs);
	free(micros);
}

static int number(const char *text, int most)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (*end == '\0' && n >= 0 && n <= most)
		return (int)n;
	fprintf(stderr, "guard_cost: '%s': expected a number up to %d\n", text, most);
	exit(2);
}

int main(int argc, char **argv)
{
	static const int requests[] = {1, 8, 32};
	struct bench b = {.rounds = argc > 2 ? number(argv[2], 1000) : 5};
	struct backend *backend;

	b.cold_each = argc > 3 && strcmp(argv[3], "each") == 0;
	b.cold_bytes = argc > 1 ? (size_t)number(argv[1], 1024) << 20 : 0;
	char *cold = memory(b.cold_bytes + 1, 1);
	memset(cold, 1, b.cold_bytes); /* its own memory, not one page of zeros for all of it */
	b.cold = cold;
	need(engine_cpu_backend(1, &backend, &failure));
	printf("guard  requests   median     mean      p95    2 us + 10 ns * requests * pages\n");
	for (int level = GUARD_TAGS; level < GUARD_LEVEL_COUNT; level++)
		for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
			b.requests = requests[i];
			level_measure(&b, backend, (enum guard_level)level);
		}
	free(cold);
	backend->ops->destroy(backend);
	return 0;
}

/* What the fixed order of sums costs: the product's kernels against other orders, on the shapes of SmolLM2-135M, a pass
 * over all layers at a time, interleaved.
 *
 *     order_cost [ROUNDS [THREADS [STEP]]]
 *
 * STEP is the number of one of the four steps; 0, the default: all. Prints, for each op, milliseconds of a pass and the
 * product's time over that of each other order (median of the rounds' ratios, with a 95% interval of order statistics);
 * and for a step of all ops, over the fastest of each, what the product's code takes and what the fastest code in the
 * product's order takes: the cost of the order alone. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "engine/base/rng.h"
#include "engine/base/thread_pool.h"
#include "engine/cpu/cpu_backend.h"
#include "engine/cpu/kernels.h"
#include "tests/bench/order_kernels.h"

enum {
	LAYERS = 30,
	HIDDEN = 576,
	INNER = 1536,
	HEADS = 9,
	KV_HEADS = 3,
	VOCAB = 49152,
	PAGE = 16,
	SLOTS = 4096, /* of the cache, beside page 0 */
	MOST_TOKENS = 512,
	MOST_ORDERS = 12,
	MOST_ROUNDS = 400,
	MOST_OPS = 8,
};

struct matrix {
	struct weight weight;
	uint16_t *stored;
};

struct layer {
	struct matrix qkv, o, gate_up, down;
	struct kv_layer cache;
};

struct bench {
	struct backend *backend;
	struct thread_pool *pool;
	int threads;
	struct layer layers[LAYERS];
	struct matrix head;
	float *x, *y, *expected; /* [MOST_TOKENS, the widest] */
	int32_t *table;
	struct block *blocks; /* [threads] */
	float (*scores)[MOST_GROUP][MOST_POSITIONS];
	struct partial (*partials)[2]; /* [sequences * kv heads] */
};

/* Two clocks: what a user waits, and what all threads worked, in which others on the machine have less part. */
enum { WALL, WORK, CLOCKS };

static double now(int clock)
{
	struct timespec t;
	clock_gettime(clock == WALL ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *need(void *memory)
{
	if (!memory) {
		fputs("order_cost: out of memory\n", stderr);
		exit(1);
	}
	return memory;
}

/* ---- data ---- */

static float *random_floats(size_t n, uint64_t seed)
{
	float *out = need(calloc(n, sizeof *out));
	for (size_t i = 0; i < n; i++)
		out[i] = philox_uniform(seed, i) - 0.5f;
	return out;
}

/* Noise of the size of weights; made fast, there is much of it. */
static struct matrix matrix_new(struct bench *b, int rows, int columns, int heads, bool parts, uint64_t seed)
{
	struct matrix m = {.stored = need(calloc((size_t)rows * (size_t)columns, sizeof(uint16_t)))};
	uint64_t state = seed * 2 + 1;
	struct error e = {0};

	for (size_t i = 0; i < (size_t)rows * (size_t)columns; i++) {
		state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		m.stored[i] = float_to_bf16(((float)(state >> 40) * 0x1p-24f - 0.5f) * 0.1f);
	}
	struct host_matrix host = {.format = WEIGHT_BF16, .rows = rows, .columns = columns, .data = m.stored};
	if (b->backend->ops->weight_pack(
		    b->backend, &host, parts ? linear_parts(columns, heads, 32) : 1, &m.weight, &e) < 0) {
		fprintf(stderr, "order_cost: %s\n", e.message);
		exit(1);
	}
	return m;
}

static void layer_new(struct bench *b, struct layer *l, uint64_t seed)
{
	size_t values = (size_t)(SLOTS + PAGE) * KV_HEADS * HEAD_DIM;
	uint16_t *k = need(calloc(values, sizeof *k)), *v = need(calloc(values, sizeof *v));

	l->qkv = matrix_new(b, (HEADS + 2 * KV_HEADS) * HEAD_DIM, HIDDEN, 0, false, seed);
	l->o = matrix_new(b, HIDDEN, HEADS * HEAD_DIM, KV_HEADS, true, seed + 1);
	l->gate_up = matrix_new(b, 2 * INNER, HIDDEN, 0, false, seed + 2);
	l->down = matrix_new(b, HIDDEN, INNER, 0, true, seed + 3);
	for (size_t i = 0; i < values; i++) {
		k[i] = float_to_bf16(b->x[i % (MOST_TOKENS * HIDDEN)] * 4.0f);
		v[i] = float_to_bf16(b->x[(i * 7) % (MOST_TOKENS * HIDDEN)]);
	}
	l->cache = (struct kv_layer){KV_BF16, k, v, 1.0f, 1.0f};
}

static void bench_new(struct bench *b, int threads)
{
	struct error e = {0};

	if (cpu_backend_new(threads, NULL, &b->backend, &e) < 0 || !(b->pool = thread_pool_new(threads, &e))) {
		fprintf(stderr, "order_cost: %s\n", e.message);
		exit(1);
	}
	b->threads = threads;
	b->x = random_floats((size_t)MOST_TOKENS * 2 * INNER, 1);
	b->y = need(calloc((size_t)MOST_TOKENS * VOCAB, sizeof *b->y));
	b->expected = need(calloc((size_t)MOST_TOKENS * VOCAB, sizeof *b->expected));
	b->blocks = need(calloc((size_t)threads, sizeof *b->blocks));
	b->scores = need(calloc((size_t)threads, sizeof *b->scores));
	b->partials = need(calloc((size_t)MOST_TOKENS * KV_HEADS, sizeof *b->partials));
	b->table = need(calloc(SLOTS / PAGE, sizeof *b->table));
	for (int i = 0; i < SLOTS / PAGE; i++)
		b->table[i] =
			1 + (i * 37) % (SLOTS / PAGE); /* scattered, each once: 37 and 256 have no common divisor */
	for (int l = 0; l < LAYERS; l++)
		layer_new(b, &b->layers[l], (uint64_t)(10 * l + 10));
	b->head = matrix_new(b, VOCAB, HIDDEN, 0, false, 7);
}

/* ---- orders of a product ---- */

typedef void panels_function(const struct product *a, int first, int end);

struct product_task {
	const struct product *a;
	panels_function *panels;
};

static void product_task(void *argument, int i, int thread)
{
	const struct product_task *t = argument;
	(void)thread;
	t->panels(t->a, i * LINEAR_TASK_PANELS, (i + 1) * LINEAR_TASK_PANELS);
}

/* Threads split outputs, as the product does. */
static void run_panels(struct bench *b, const struct product *a, panels_function *panels)
{
	struct product_task task = {a, panels};
	thread_pool_run(b->pool, a->weight->rows / PANEL_ROWS / LINEAR_TASK_PANELS, product_task, &task);
}

struct columns_task {
	struct product *halves; /* [threads] with an output each */
	int columns;
};

static void columns_task(void *argument, int i, int thread)
{
	const struct columns_task *t = argument;
	(void)thread;
	panels_columns(&t->halves[i], i * t->columns, (i + 1) * t->columns);
}

/* Threads split K and their sums are added up. */
static void run_split(struct bench *b, const struct product *a, panels_function *ignored)
{
	struct product halves[2] = {*a, *a};
	struct columns_task task = {halves, a->weight->columns / 2};

	(void)ignored;
	halves[1].y = b->y + (size_t)MOST_TOKENS * VOCAB / 2;
	thread_pool_run(b->pool, 2, columns_task, &task);
	for (int r = 0; r < a->weight->rows; r += PANEL_ROWS)
		v16_store(a->y + r, v16_add(v16_load(a->y + r), v16_load(halves[1].y + r)));
}

static void run_ours(struct bench *b, const struct product *a, panels_function *ignored)
{
	struct linear_args args = {.weight = a->weight, .x = a->x, .n_tokens = a->tokens, .y = a->y};
	(void)ignored;
	b->backend->ops->linear(b->backend, &args);
}

struct product_order {
	const char *name;
	void (*run)(struct bench *b, const struct product *a, panels_function *panels);
	panels_function *panels;
	int tokens; /* divides the batch; 0: one token only */
};

static const struct product_order product_orders[] = {
	{"product: one sum per output", run_ours, NULL, 1},
	{"same order, 4 panels, 1 token", run_panels, panels_4x1_1, 0},
	{"2 sums over K (4 panels, 1 token)", run_panels, panels_4x1_2, 0},
	{"4 sums over K (4 panels, 1 token)", run_panels, panels_4x1_4, 0},
	{"8 sums over K (2 panels, 1 token)", run_panels, panels_2x1_8, 0},
	{"K split over threads, 2 sums each", run_split, NULL, 0},
	{"lanes along K (8 rows, 1 token)", run_panels, rows_8x1, 0},
	{"2 sums over K (1 panel, 8 tokens)", run_panels, panels_1x8_2, 8},
	{"2 sums over K (2 panels, 4 tokens)", run_panels, panels_2x4_2, 8},
	{"4 sums over K (1 panel, 4 tokens)", run_panels, panels_1x4_4, 8},
	{"K in blocks of 192 (2 panels, 8 tokens)", run_panels, panels_blocked, 8},
	{"same order, 1 panel, 8 tokens", run_panels, panels_1x8_1, 8},
	{"same order, 2 panels, 8 tokens", run_panels, panels_2x8_1, 8},
	{"lanes along K (4 rows, 4 tokens)", run_panels, rows_4x4, 8},
};

/* ---- orders of attention ---- */

struct attend_task {
	struct bench *bench;
	const struct attend_args *a;
	int ranges;
};

static void range_task(void *argument, int i, int thread)
{
	const struct attend_task *t = argument;
	int range = i % t->ranges, kv_head = i / t->ranges % KV_HEADS, b = i / t->ranges / KV_HEADS;
	int count = t->a->first_position[b] + 1, half = (count / t->ranges + 63) / 64 * 64;
	int first = range * half, end = range == t->ranges - 1 ? count : first + half;

	attend_range(t->a, b, kv_head, first, end - first, t->bench->scores[thread],
		&t->bench->partials[b * KV_HEADS + kv_head][range]);
}

static void run_ranges(struct bench *b, const struct attend_args *a, int ranges)
{
	struct attend_task task = {b, a, ranges};
	thread_pool_run(b->pool, a->n_sequences * KV_HEADS * ranges, range_task, &task);
	for (int i = 0; i < a->n_sequences * KV_HEADS; i++)
		partials_merge(a, i / KV_HEADS, i % KV_HEADS, b->partials[i], ranges);
}

static void attend_whole(struct bench *b, const struct attend_args *a)
{
	run_ranges(b, a, 1);
}

static void attend_split(struct bench *b, const struct attend_args *a)
{
	run_ranges(b, a, 2);
}

static void transposed_task(void *argument, int i, int thread)
{
	const struct attend_task *t = argument;
	attend_transposed(t->a, i % KV_HEADS, i / KV_HEADS * TILE, &t->bench->blocks[thread]);
}

static void attend_lanes(struct bench *b, const struct attend_args *a)
{
	struct attend_task task = {b, a, 0};
	thread_pool_run(b->pool, a->n_tokens / TILE * KV_HEADS, transposed_task, &task);
}

static void attend_ours(struct bench *b, const struct attend_args *a)
{
	b->backend->ops->attend(b->backend, a);
}

static const struct attend_order {
	const char *name;
	void (*run)(struct bench *b, const struct attend_args *a);
	bool decode, prefill;
} attend_orders[] = {
	{"product: blocks of 64, 8 lanes", attend_ours, true, true},
	{"whole row, 16 lanes", attend_whole, true, false},
	{"whole row, 16 lanes, KV split over threads", attend_split, true, false},
	{"lanes are positions", attend_lanes, false, true},
};

/* ---- a step: its ops in every order that fits ---- */

struct scenario {
	const char *name;
	int sequences, tokens; /* rows of a product */
	int context;           /* positions that the last token of each sequence sees */
	int head_rows;
};

static const struct scenario scenarios[] = {
	{"decode, 1 request, context 512", 1, 1, 512, 1},
	{"decode, 1 request, context 2048", 1, 1, 2048, 1},
	{"decode, 8 requests, context 512", 8, 8, 512, 8},
	{"prefill, 512 tokens", 1, 512, 512, 1},
};
enum { N_SCENARIOS = sizeof scenarios / sizeof *scenarios };

struct op {
	const char *name;
	size_t member; /* of struct layer; SIZE_MAX: the head, once a step */
	bool attention;
};

static const struct op ops[] = {
	{"qkv 960x576", offsetof(struct layer, qkv), false},
	{"attention", 0, true},
	{"o 576x576", offsetof(struct layer, o), false},
	{"gate_up 3072x576", offsetof(struct layer, gate_up), false},
	{"down 576x1536", offsetof(struct layer, down), false},
	{"head 49152x576", SIZE_MAX, false},
};
enum {
	N_OPS = sizeof ops / sizeof *ops,
	N_PRODUCT_ORDERS = sizeof product_orders / sizeof *product_orders,
	N_ATTEND_ORDERS = sizeof attend_orders / sizeof *attend_orders,
};

struct contender {
	int order; /* of product_orders or attend_orders */
	double seconds[CLOCKS][MOST_ROUNDS];
};

struct race {
	const struct op *op;
	int tokens;
	struct contender contenders[MOST_ORDERS];
	int n;
};

static struct attend_args attention_of(struct bench *b, const struct scenario *s, int layer)
{
	static int32_t cu_seqlens[MOST_TOKENS + 1], first[MOST_TOKENS];
	int each = s->tokens / s->sequences;

	for (int i = 0; i <= s->sequences; i++)
		cu_seqlens[i] = i * each;
	for (int i = 0; i < s->sequences; i++)
		first[i] = s->context - each;
	return (struct attend_args){.q = b->x,
		.q_stride = HIDDEN,
		.n_tokens = s->tokens,
		.n_sequences = s->sequences,
		.n_heads = HEADS,
		.scale = 0.125f,
		.geometry = {PAGE, SLOTS / PAGE + 1, KV_HEADS, HEAD_DIM},
		.layer = b->layers[layer].cache,
		.cu_seqlens = cu_seqlens,
		.first_position = first,
		.block_tables = b->table,
		.table_stride = s->sequences == 1 ? 0 : s->context / PAGE,
		.out = b->y};
}

/* One pass: the op of every layer in one order. */
static void pass(struct bench *b, const struct scenario *s, const struct race *race, int order)
{
	const struct op *op = race->op;
	bool once = op->member == SIZE_MAX;

	for (int l = 0; l < (once ? 1 : LAYERS); l++) {
		if (op->attention) {
			struct attend_args a = attention_of(b, s, l);
			attend_orders[order].run(b, &a);
			continue;
		}
		const struct matrix *m = once
			? &b->head
			: (const struct matrix *)(const void *)((const char *)&b->layers[l] + op->member);
		struct product a = {&m->weight, m->stored, b->x, b->y, race->tokens};
		product_orders[order].run(b, &a, product_orders[order].panels);
	}
}

static struct race race_new(const struct scenario *s, const struct op *op)
{
	struct race r = {.op = op, .tokens = op->member == SIZE_MAX ? s->head_rows : s->tokens};

	for (int i = 0; op->attention && i < N_ATTEND_ORDERS; i++)
		if (s->tokens == s->sequences ? attend_orders[i].decode : attend_orders[i].prefill)
			r.contenders[r.n++].order = i;
	for (int i = 0; !op->attention && i < N_PRODUCT_ORDERS; i++) {
		int unit = product_orders[i].tokens;
		if (i == 0 || (unit == 0 ? r.tokens == 1 : r.tokens % unit == 0))
			r.contenders[r.n++].order = i;
	}
	return r;
}

/* A rival that computes something else would prove nothing. */
static void race_check(struct bench *b, const struct scenario *s, const struct race *r)
{
	int width = r->op->attention ? HIDDEN
		: r->op->member == SIZE_MAX
		? VOCAB
		: ((const struct matrix *)(const void *)((const char *)&b->layers[0] + r->op->member))->weight.rows;
	size_t n = (size_t)width * (size_t)r->tokens;

	for (int i = 0; i < r->n; i++) {
		float worst = 0.0f, largest = 0.0f;
		memset(b->y, 0, n * sizeof *b->y);
		pass(b, s, r, r->contenders[i].order);
		if (i == 0)
			memcpy(b->expected, b->y, n * sizeof *b->y);
		for (size_t j = 0; j < n; j++) {
			float off = fabsf(b->y[j] - b->expected[j]), size = fabsf(b->expected[j]);
			worst = off > worst || isnan(off) ? off : worst;
			largest = size > largest ? size : largest;
		}
		if (!(worst <= 1e-4f * largest)) {
			fprintf(stderr, "order_cost: %s, %s: order %d is off by %g of %g\n", s->name, r->op->name, i,
				(double)worst, (double)largest);
			exit(1);
		}
	}
}

/* ---- statistics ---- */

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;
	return (a > b) - (a < b);
}

struct estimate {
	double median, low, high;
};

/* The interval of order statistics that holds the median with 95%: ranks n/2 -+ 0.98 sqrt(n). */
static struct estimate estimate_of(const double *values, int n)
{
	double sorted[MOST_ROUNDS];
	memcpy(sorted, values, (size_t)n * sizeof *sorted);
	qsort(sorted, (size_t)n, sizeof *sorted, compare);
	int low = (int)(n / 2.0 - 0.98 * sqrt(n)), high = n - 1 - (low < 0 ? 0 : low);
	return (struct estimate){(sorted[(n - 1) / 2] + sorted[n / 2]) / 2, sorted[low < 0 ? 0 : low], sorted[high]};
}

static struct estimate ratio_of(const double *ours, const double *theirs, int n)
{
	double ratio[MOST_ROUNDS];
	for (int i = 0; i < n; i++)
		ratio[i] = ours[i] / theirs[i];
	return estimate_of(ratio, n);
}

/* ---- the race ---- */

static const char *order_name(const struct race *r, int i)
{
	int order = r->contenders[i].order;
	return r->op->attention ? attend_orders[order].name : product_orders[order].name;
}

/* Prints an op's orders. */
static void race_print(const struct race *r, int rounds)
{
	for (int i = 0; i < r->n; i++) {
		printf("  %-17s %-43s", i ? "" : r->op->name, order_name(r, i));
		for (int clock = 0; clock < CLOCKS; clock++) {
			double time = estimate_of(r->contenders[i].seconds[clock], rounds).median;
			struct estimate e =
				ratio_of(r->contenders[0].seconds[clock], r->contenders[i].seconds[clock], rounds);
			printf("%s %9.3f ms  %.3f [%.3f, %.3f]", clock ? "  |" : "", time * 1e3, e.median, e.low,
				e.high);
		}
		putchar('\n');
	}
}

/* Whether a contender adds up in the product's order, if not by the product's code. */
static bool in_order(const struct race *r, int i)
{
	return i == 0 || strncmp(order_name(r, i), "same order", strlen("same order")) == 0;
}

static int race_best(const struct race *r, int clock, int rounds, bool any_order)
{
	int best = 0;

	for (int i = 1; i < r->n; i++)
		if ((any_order || in_order(r, i)) &&
			estimate_of(r->contenders[i].seconds[clock], rounds).median <
				estimate_of(r->contenders[best].seconds[clock], rounds).median)
			best = i;
	return best;
}

/* Adds up a step of all its ops: the product's, the fastest in its order, the fastest of all. */
static void step_print(const struct race races[N_OPS], int rounds)
{
	static const char *const names[CLOCKS] = {"wall", "work"};

	for (int clock = 0; clock < CLOCKS; clock++) {
		double step[3][MOST_ROUNDS] = {0};
		for (int o = 0; o < N_OPS; o++) {
			const int chosen[3] = {0, race_best(&races[o], clock, rounds, false),
				race_best(&races[o], clock, rounds, true)};
			for (int way = 0; way < 3; way++)
				for (int i = 0; i < rounds; i++)
					step[way][i] += races[o].contenders[chosen[way]].seconds[clock][i];
		}
		struct estimate product = ratio_of(step[0], step[2], rounds),
				order = ratio_of(step[1], step[2], rounds);
		printf("  step, %s: fastest %.3f ms; the product takes %.3f [%.3f, %.3f] of it, its order alone %.3f "
		       "[%.3f, "
		       "%.3f]\n",
			names[clock], estimate_of(step[2], rounds).median * 1e3, product.median, product.low,
			product.high, order.median, order.low, order.high);
	}
	fflush(stdout);
}

static void race_round(struct bench *b, const struct scenario *s, struct race *r, int round)
{
	for (int i = 0; i < r->n; i++) {
		/* each round begins with another order, so that none always follows the same one */
		struct contender *c = &r->contenders[(i + round) % r->n];
		double wall = now(WALL), work = now(WORK);
		pass(b, s, r, c->order);
		c->seconds[WORK][round] = now(WORK) - work;
		c->seconds[WALL][round] = now(WALL) - wall;
	}
}

static void scenario_run(struct bench *b, const struct scenario *s, int rounds)
{
	static struct race races[N_OPS];

	for (int o = 0; o < N_OPS; o++) {
		races[o] = race_new(s, &ops[o]);
		race_check(b, s, &races[o]);
	}
	for (int round = 0; round < rounds; round++)
		for (int o = 0; o < N_OPS; o++)
			race_round(b, s, &races[o], round);
	printf("\n%s\n", s->name);
	for (int o = 0; o < N_OPS; o++)
		race_print(&races[o], rounds);
	step_print(races, rounds);
}

int main(int argc, char **argv)
{
	static struct bench b;
	long rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 25, threads = argc > 2 ? strtol(argv[2], NULL, 10) : 2;
	long step = argc > 3 ? strtol(argv[3], NULL, 10) : 0;

	if (rounds < 1 || rounds > MOST_ROUNDS || threads < 1 || threads > 64 || step < 0 || step > N_SCENARIOS) {
		fprintf(stderr, "usage: order_cost [ROUNDS 1 to %d [THREADS 1 to 64 [STEP 1 to %d]]]\n", MOST_ROUNDS,
			N_SCENARIOS);
		return 2;
	}
	bench_new(&b, (int)threads);
	printf("%s kernels, %ld threads, %ld rounds; ms of a pass over all layers, product / order: wall | work\n",
		cpu_backend_isa(b.backend), threads, rounds);
	for (int i = 0; i < N_SCENARIOS; i++)
		if (step == 0 || step == i + 1)
			scenario_run(&b, &scenarios[i], (int)rounds);
	return 0;
}

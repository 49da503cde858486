#include "engine/cpu/cpu_backend.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/base/large_memory.h"
#include "engine/base/quant.h"
#include "engine/base/thread_pool.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/ops_latent.h"
#include "engine/cpu/ops_moe.h"
#include "engine/cpu/ops_pages.h"
#include "engine/cpu/pack.h"
#include "engine/cpu/ref.h"
#include "engine/cpu/sample.h"

enum { LOGITS_TILE = 32, ROWS_PER_TASK = 8, MEMORY_HEADER = 64 };

/* Memory that an op needs beside its arguments. It grows to the largest request and stays: after the first steps of a
 * workload the token path allocates nothing. */
struct scratch {
	float *data;
	size_t capacity; /* floats */
};

struct cpu_backend {
	struct backend base; /* first: the handle that callers hold */
	struct thread_pool *pool;
	const struct cpu_kernels *kernels;
	struct slabs weights;
	struct scratch rounded, attend, gathered, logits, order, composed;
	struct error failure; /* the first one, reported by finish */
};

static struct cpu_backend *self(struct backend *b)
{
	return (struct cpu_backend *)b;
}

/* NULL after an allocation failure, which finish reports. */
static float *scratch_get(struct cpu_backend *c, struct scratch *s, size_t floats)
{
	if (s->capacity < floats) {
		free(s->data);
		s->data = mem_aligned(floats * sizeof(float), c->failure.code ? NULL : &c->failure);
		s->capacity = s->data ? floats : 0;
	}
	return s->data;
}

/* ---- memory ---- */

/* Anonymous pages are zero and cost nothing until they are touched, so a large KV budget is only an upper bound. */
static void *cpu_alloc(struct backend *b, size_t bytes, struct error *e)
{
	(void)b;
	if (bytes > SIZE_MAX - MEMORY_HEADER) {
		error_set(e, ERR_MEMORY, "cannot allocate %zu bytes", bytes);
		return NULL;
	}
	size_t total = bytes + MEMORY_HEADER;
	void *memory = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED) {
		error_set(e, ERR_MEMORY, "cannot allocate %zu bytes", bytes);
		return NULL;
	}
	*(size_t *)memory = total;
	return (char *)memory + MEMORY_HEADER;
}

static void cpu_free(struct backend *b, void *memory)
{
	(void)b;
	if (!memory)
		return;
	void *start = (char *)memory - MEMORY_HEADER;
	munmap(start, *(size_t *)start);
}

static void cpu_copy(struct backend *b, void *to, const void *from, size_t bytes)
{
	(void)b;
	memcpy(to, from, bytes);
}

static int cpu_weight_pack(
	struct backend *b, const struct host_matrix *m, int parts, struct weight *out, struct error *e)
{
	return weight_pack_cpu(m, parts, &self(b)->weights, out, e);
}

static void cpu_weight_free(struct backend *b, struct weight *w)
{
	(void)b;
	weight_free_cpu(w);
}

static void cpu_batch_begin(struct backend *b)
{
	(void)b;
}

static int cpu_finish(struct backend *b, struct error *e)
{
	struct cpu_backend *c = self(b);
	if (!c->failure.code)
		return 0;
	*e = c->failure;
	c->failure.code = 0;
	return e->code;
}

static void cpu_destroy(struct backend *b)
{
	struct cpu_backend *c = self(b);
	struct scratch *all[] = {&c->rounded, &c->attend, &c->gathered, &c->logits, &c->order, &c->composed};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		free(all[i]->data);
	slabs_end(&c->weights);
	thread_pool_delete(c->pool);
	free(c);
}

/* ---- ops that are cheap per token: the twin of ref.h on a range of tokens per task ---- */

struct row_task {
	struct cpu_backend *backend;
	const void *args;
	float *buffer, *scales;
	int n_rows;
};

static void run_rows(struct cpu_backend *c, int n_rows, thread_task *task, const void *args)
{
	struct row_task t = {.backend = c, .args = args, .n_rows = n_rows};
	thread_pool_run(c->pool, (n_rows + ROWS_PER_TASK - 1) / ROWS_PER_TASK, task, &t);
}

/* Rows of task i: [*first, returned end). */
static int task_rows(const struct row_task *t, int i, int *first)
{
	*first = i * ROWS_PER_TASK;
	return t->n_rows - *first < ROWS_PER_TASK ? t->n_rows : *first + ROWS_PER_TASK;
}

static void embed_task(void *argument, int i, int thread)
{
	const struct row_task *t = argument;
	struct embed_args a = *(const struct embed_args *)t->args;
	int first, end = task_rows(t, i, &first);

	(void)thread;
	a.ids += first;
	a.out += (size_t)first * (size_t)a.hidden;
	a.n_tokens = end - first;
	embed_ref(&a);
}

static void cpu_embed(struct backend *b, const struct embed_args *a)
{
	run_rows(self(b), a->n_tokens, embed_task, a);
}

static void rmsnorm_task(void *argument, int i, int thread)
{
	const struct row_task *t = argument;
	const struct rmsnorm_args *a = t->args;
	int first, end = task_rows(t, i, &first);

	(void)thread;
	for (int row = first; row < end; row++) {
		size_t at = (size_t)row * (size_t)a->hidden;
		t->backend->kernels->rmsnorm_row(a->x + at, a->weight, a->hidden, a->eps, a->y + at);
	}
}

static void cpu_rmsnorm(struct backend *b, const struct rmsnorm_args *a)
{
	run_rows(self(b), a->n_tokens, rmsnorm_task, a);
}

static void swiglu_task(void *argument, int i, int thread)
{
	const struct row_task *t = argument;
	const struct swiglu_args *a = t->args;
	size_t inner = (size_t)a->inner;
	int first, end = task_rows(t, i, &first);

	(void)thread;
	for (int row = first; row < end; row++) {
		const float *gate = a->gate_up + (size_t)row * 2 * inner;
		t->backend->kernels->swiglu_row(gate, gate + inner, a->inner, a->y + (size_t)row * inner);
	}
}

static void cpu_swiglu(struct backend *b, const struct swiglu_args *a)
{
	run_rows(self(b), a->n_tokens, swiglu_task, a);
}

static void row_amax_task(void *argument, int i, int thread)
{
	const struct row_task *t = argument;
	const struct row_amax_args *a = t->args;
	int first, end = task_rows(t, i, &first);

	(void)thread;
	for (int row = first; row < end; row++)
		a->amax[row] = row_amax(a->x + (size_t)row * (size_t)a->columns, a->columns);
}

static void cpu_row_amax(struct backend *b, const struct row_amax_args *a)
{
	run_rows(self(b), a->n_tokens, row_amax_task, a);
}

static void rope_table_task(void *argument, int i, int thread)
{
	const struct row_task *t = argument;
	struct rope_table_args a = *(const struct rope_table_args *)t->args;
	int first, end = task_rows(t, i, &first);

	(void)thread;
	a.positions += first;
	a.table += (size_t)first * (size_t)a.rotary_dim;
	a.n_tokens = end - first;
	rope_table_ref(&a);
}

static void cpu_rope_table(struct backend *b, const struct rope_table_args *a)
{
	run_rows(self(b), a->n_tokens, rope_table_task, a);
}

static void qkv_finish_task(void *argument, int i, int thread)
{
	const struct row_task *t = argument;
	struct qkv_finish_args a = *(const struct qkv_finish_args *)t->args;
	uint64_t *saturated = a.saturated, own = 0;
	int first, end = task_rows(t, i, &first);
	size_t width = (size_t)(a.n_heads + 2 * a.geometry.n_kv_heads) * (size_t)a.geometry.head_dim;

	(void)thread;
	a.qkv += (size_t)first * width;
	a.rope += (size_t)first * (size_t)a.rotary_dim;
	a.slots += first;
	a.n_tokens = end - first;
	a.saturated = &own;
	qkv_finish_ref(&a);
	if (saturated && own)
		__atomic_fetch_add(saturated, own, __ATOMIC_RELAXED);
}

static void cpu_qkv_finish(struct backend *b, const struct qkv_finish_args *a)
{
	run_rows(self(b), a->n_tokens, qkv_finish_task, a);
}

static void cpu_parts_sum(struct backend *b, const struct parts_sum_args *a)
{
	(void)b;
	parts_sum_ref(a);
}

/* ---- linear ---- */

struct linear_task {
	struct cpu_backend *backend;
	const struct linear_args *args;
	const float *x, *x_scale;
};

static void linear_task(void *argument, int i, int thread)
{
	const struct linear_task *t = argument;
	int first = i * LINEAR_TASK_PANELS, panels = panel_count(t->args->weight->rows);
	int end = panels - first < LINEAR_TASK_PANELS ? panels : first + LINEAR_TASK_PANELS;

	(void)thread;
	t->backend->kernels->linear_panels(t->args, t->x, t->x_scale, first, end);
}

static void round_task(void *argument, int i, int thread)
{
	const struct row_task *t = argument;
	const struct linear_args *a = t->args;
	int columns = a->weight->columns, first, end = task_rows(t, i, &first);

	(void)thread;
	for (int row = first; row < end; row++) {
		size_t at = (size_t)row * (size_t)columns;
		t->scales[row] = e4m3_scale(a->amax[row]);
		t->backend->kernels->round_row(a->x + at, columns, t->scales[row], t->buffer + at);
	}
}

static void cpu_linear(struct backend *b, const struct linear_args *a)
{
	struct cpu_backend *c = self(b);
	struct linear_task task = {.backend = c, .args = a, .x = a->x};

	if (a->weight->quantize_input) {
		size_t values = (size_t)a->n_tokens * (size_t)a->weight->columns;
		float *buffer = scratch_get(c, &c->rounded, values + (size_t)a->n_tokens);
		if (!buffer)
			return;
		struct row_task rows = {
			.backend = c, .args = a, .buffer = buffer, .scales = buffer + values, .n_rows = a->n_tokens};
		thread_pool_run(c->pool, (a->n_tokens + ROWS_PER_TASK - 1) / ROWS_PER_TASK, round_task, &rows);
		task.x = buffer;
		task.x_scale = buffer + values;
	}
	int panels = panel_count(a->weight->rows);
	thread_pool_run(c->pool, (panels + LINEAR_TASK_PANELS - 1) / LINEAR_TASK_PANELS, linear_task, &task);
}

/* ---- attention ---- */

struct attend_task {
	struct cpu_backend *backend;
	const struct attend_args *args;
	float *scratch;
	size_t scratch_floats;
};

/* Task i is (sequence, tile of its tokens, kv head), kv heads fastest. */
static void attend_task(void *argument, int i, int thread)
{
	const struct attend_task *t = argument;
	const struct attend_args *a = t->args;
	int kv_heads = a->geometry.n_kv_heads, kv_head = i % kv_heads, tile = i / kv_heads, b = 0;

	for (;; b++) {
		int tiles = (a->cu_seqlens[b + 1] - a->cu_seqlens[b] + ATTEND_TILE_TOKENS - 1) / ATTEND_TILE_TOKENS;
		if (tile < tiles)
			break;
		tile -= tiles;
	}
	int count = a->cu_seqlens[b + 1] - a->cu_seqlens[b], first = tile * ATTEND_TILE_TOKENS;
	int end = count - first < ATTEND_TILE_TOKENS ? count : first + ATTEND_TILE_TOKENS;
	t->backend->kernels->attend_tile(a, b, kv_head, first, end, t->scratch + (size_t)thread * t->scratch_floats);
}

static void cpu_attend(struct backend *b, const struct attend_args *a)
{
	struct cpu_backend *c = self(b);
	size_t floats = attend_scratch_floats(a->geometry.head_dim, a->n_heads / a->geometry.n_kv_heads);
	struct attend_task t = {.backend = c, .args = a, .scratch_floats = (floats + 15) & ~(size_t)15};
	int tiles = 0;

	t.scratch = scratch_get(c, &c->attend, t.scratch_floats * (size_t)thread_pool_size(c->pool));
	if (!t.scratch)
		return;
	for (int s = 0; s < a->n_sequences; s++)
		tiles += (a->cu_seqlens[s + 1] - a->cu_seqlens[s] + ATTEND_TILE_TOKENS - 1) / ATTEND_TILE_TOKENS;
	thread_pool_run(c->pool, tiles * a->geometry.n_kv_heads, attend_task, &t);
}

/* ---- logits ---- */

struct logits_task {
	struct cpu_backend *backend;
	const struct logits_args *args;
	int first; /* row of the tile's first */
	const float *logits;
	int32_t *order; /* [threads, V] */
};

static void logits_row_finish(const struct logits_args *a, struct logits_row *row, const float *x,
	const struct cpu_kernels *k, int32_t *order)
{
	float max, log_sum;
	int argmax;

	k->row_softmax(x, a->vocab, &max, &argmax, &log_sum);
	row->argmax = argmax;
	if (row->target >= 0)
		row->target_logprob = (x[row->target] - max) - log_sum;
	if (row->sample) {
		row->sampled = sample_token(x, a->vocab, &row->sampling, row->position, order);
		row->sampled_logprob = (x[row->sampled] - max) - log_sum;
	}
	if (row->top_count) {
		top_tokens(x, a->vocab, row->top_count, row->top_ids);
		for (int i = 0; i < row->top_count; i++)
			row->top_logprobs[i] = (x[row->top_ids[i]] - max) - log_sum;
	}
	for (int i = 0; row->all_logprobs && i < a->vocab; i++)
		row->all_logprobs[i] = (x[i] - max) - log_sum;
}

static void logits_task(void *argument, int i, int thread)
{
	const struct logits_task *t = argument;
	size_t vocab = (size_t)t->args->vocab;
	logits_row_finish(t->args, &t->args->rows[t->first + i], t->logits + (size_t)i * vocab, t->backend->kernels,
		t->order + (size_t)thread * vocab);
}

/* Rows [first, first + count) as they are in parts of the vocabulary. */
static void logits_join(const struct logits_args *a, int first, int count, float *logits)
{
	size_t vocab = (size_t)a->vocab, n_parts = (size_t)a->logits_parts, width = (vocab + n_parts - 1) / n_parts;

	for (int i = 0; i < count; i++)
		for (size_t p = 0; p * width < vocab; p++) {
			size_t n = vocab - p * width < width ? vocab - p * width : width;
			memcpy(logits + (size_t)i * vocab + p * width,
				a->logits + (p * (size_t)a->n_rows + (size_t)(first + i)) * width, n * sizeof *logits);
		}
}

/* x: scratch of LOGITS_TILE rows. */
static void logits_compute(
	struct backend *b, const struct logits_args *a, int first, int count, float *x, float *logits)
{
	size_t hidden = (size_t)a->hidden;

	for (int i = 0; i < count; i++)
		memcpy(x + (size_t)i * hidden, a->x + (size_t)a->rows[first + i].token * hidden, hidden * sizeof *x);
	cpu_linear(b, &(struct linear_args){.weight = a->head, .x = x, .n_tokens = count, .y = logits});
}

static void cpu_logits(struct backend *b, const struct logits_args *a)
{
	struct cpu_backend *c = self(b);
	size_t hidden = (size_t)a->hidden, vocab = (size_t)a->vocab;
	float *x = scratch_get(c, &c->gathered, LOGITS_TILE * hidden),
	      *logits = scratch_get(c, &c->logits, LOGITS_TILE * vocab);
	void *order = scratch_get(c, &c->order, vocab * (size_t)thread_pool_size(c->pool));

	if (!x || !logits || !order)
		return;
	for (int first = 0; first < a->n_rows; first += LOGITS_TILE) {
		int count = a->n_rows - first < LOGITS_TILE ? a->n_rows - first : LOGITS_TILE;
		if (a->logits)
			logits_join(a, first, count, logits);
		else
			logits_compute(b, a, first, count, x, logits);
		struct logits_task task = {c, a, first, logits, order};
		thread_pool_run(c->pool, count, logits_task, &task);
	}
}

/* ---- the rest of the table: plain versions ---- */

static void product_linear(void *context, const struct linear_args *a)
{
	cpu_linear(context, a);
}

static void product_swiglu(void *context, const struct swiglu_args *a)
{
	cpu_swiglu(context, a);
}

static struct product_kernels products(struct backend *b)
{
	return (struct product_kernels){b, product_linear, product_swiglu};
}

static void cpu_route(struct backend *b, const struct route_args *a)
{
	(void)b;
	route_cpu(a);
}

static void cpu_experts(struct backend *b, const struct experts_args *a)
{
	struct cpu_backend *c = self(b);
	struct product_kernels kernels = products(b);
	float *scratch = scratch_get(c, &c->composed, experts_scratch_floats(a));
	if (scratch)
		experts_cpu(a, &kernels, scratch);
}

static void cpu_latent_write(struct backend *b, const struct latent_write_args *a)
{
	(void)b;
	latent_write_cpu(a);
}

static void cpu_latent_attend(struct backend *b, const struct latent_attend_args *a)
{
	struct cpu_backend *c = self(b);
	float *scratch = scratch_get(c, &c->attend, latent_attend_scratch_floats(a, thread_pool_size(c->pool)));
	if (scratch)
		latent_attend_cpu(a, c->pool, scratch);
}

static void cpu_head_linear(struct backend *b, const struct head_linear_args *a)
{
	struct cpu_backend *c = self(b);
	struct product_kernels kernels = products(b);
	float *scratch = scratch_get(c, &c->composed, head_linear_scratch_floats(a));
	if (scratch)
		head_linear_cpu(a, &kernels, scratch);
}

static __attribute__((hot)) void cpu_verify_pages(struct backend *b, const struct verify_pages_args *a)
{
	(void)b;
	verify_pages_cpu(a);
}

static void cpu_copy_pages(struct backend *b, const struct copy_pages_args *a)
{
	(void)b;
	copy_pages_cpu(a);
}

static const struct backend_ops cpu_ops = {
	.name = "cpu",
	.numerics = "cpu-f32-1",
	.destroy = cpu_destroy,
	.batch_begin = cpu_batch_begin,
	.finish = cpu_finish,
	.alloc = cpu_alloc,
	.free = cpu_free,
	.upload = cpu_copy,
	.download = cpu_copy,
	.weight_pack = cpu_weight_pack,
	.weight_free = cpu_weight_free,
	.embed = cpu_embed,
	.rmsnorm = cpu_rmsnorm,
	.linear = cpu_linear,
	.parts_sum = cpu_parts_sum,
	.row_amax = cpu_row_amax,
	.rope_table = cpu_rope_table,
	.qkv_finish = cpu_qkv_finish,
	.attend = cpu_attend,
	.latent_write = cpu_latent_write,
	.latent_attend = cpu_latent_attend,
	.head_linear = cpu_head_linear,
	.swiglu = cpu_swiglu,
	.route = cpu_route,
	.experts = cpu_experts,
	.logits = cpu_logits,
	.verify_pages = cpu_verify_pages,
	.copy_pages = cpu_copy_pages,
};

/* ---- choosing the kernels ---- */

static bool machine_has(const struct cpu_kernels *k)
{
#if defined(__x86_64__)
	/* F16C came before AVX2 on every processor; clang cannot be asked for it */
	bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
	if (k == &cpu_kernels_avx512)
		return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
			__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
	if (k == &cpu_kernels_avx2)
		return avx2;
#endif
	return k == &cpu_kernels_scalar;
}

static int kernels_choose(const char *isa, const struct cpu_kernels **out, struct error *e)
{
	static const struct cpu_kernels *const best_first[] = {
#if defined(__x86_64__)
		&cpu_kernels_avx512,
		&cpu_kernels_avx2,
#endif
		&cpu_kernels_scalar,
	};
	if (!isa)
		isa = getenv("ASSAY_ISA");
	if (isa && !*isa)
		isa = NULL;
	for (size_t i = 0; i < sizeof best_first / sizeof *best_first; i++) {
		const struct cpu_kernels *k = best_first[i];
		if (isa && strcmp(isa, k->isa) != 0)
			continue;
		if (machine_has(k)) {
			*out = k;
			return 0;
		}
		if (isa)
			return error_set(e, ERR_USAGE, "ASSAY_ISA=%s: this machine does not have it", isa);
	}
	return error_set(e, ERR_USAGE, "ASSAY_ISA=%s is not known; expected scalar, avx2 or avx512", isa);
}

int cpu_backend_new(int threads, const char *isa, struct backend **out, struct error *e)
{
	const struct cpu_kernels *kernels = NULL;
	TRY(kernels_choose(isa, &kernels, e));
	struct cpu_backend *c = mem_calloc(1, sizeof *c, e);
	if (!c)
		return ERR_MEMORY;
	c->base.ops = &cpu_ops;
	c->kernels = kernels;
	c->pool = thread_pool_new(threads, e);
	if (!c->pool) {
		free(c);
		return e ? e->code : ERR_MEMORY;
	}
	*out = &c->base;
	return 0;
}

const char *cpu_backend_isa(const struct backend *b)
{
	return ((const struct cpu_backend *)b)->kernels->isa;
}

const struct cpu_kernels *cpu_backend_kernels(const struct backend *b)
{
	return ((const struct cpu_backend *)b)->kernels;
}

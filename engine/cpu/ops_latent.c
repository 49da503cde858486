#include "engine/cpu/ops_latent.h"

#include <math.h>
#include <string.h>

#include "engine/cpu/product.h"

void latent_write_cpu(const struct latent_write_args *a)
{
	size_t width = (size_t)a->width;
	uint64_t saturated = 0;

	for (int t = 0; t < a->n_tokens; t++) /* one head: slots follow each other without a gap */
		saturated += kv_store_ref(a->layer.format, a->layer.k, (size_t)a->slots[t] * width,
			a->latent + (size_t)t * width, a->width, a->layer.k_scale);
	if (a->saturated)
		*a->saturated += saturated;
}

/* ---- attention ---- */

/* Query heads of a token that share one widening of the cache rows. */
enum { HEADS_PER_TASK = 16 };

/* The softmax so far of one query head. */
struct running {
	float max, sum;
};

struct latent_job {
	const struct latent_attend_args *args;
	struct kv_geometry geometry;
	float *scratch; /* [threads, ATTENTION_BLOCK, width] */
};

size_t latent_attend_scratch_floats(const struct latent_attend_args *a, int threads)
{
	return (size_t)threads * ATTENTION_BLOCK * (size_t)a->width;
}

/* One head over one block of widened rows. */
static void block_attend(const struct latent_attend_args *a, const float *q, const float *rows, int count,
	struct running *state, float *out)
{
	size_t width = (size_t)a->width;
	float score[ATTENTION_BLOCK], block_max = -INFINITY, lane[8] = {0};

	for (int j = 0; j < count; j++) {
		score[j] = dot_ref(q, rows + (size_t)j * width, a->width) * a->scale;
		block_max = score[j] > block_max ? score[j] : block_max;
	}
	float new_max = block_max > state->max ? block_max : state->max, keep = exp_ref(state->max - new_max);
	for (int j = 0; j < count; j++) {
		score[j] = exp_ref(score[j] - new_max);
		lane[j % 8] += score[j];
	}
	state->sum = fmaf(state->sum, keep, lane_tree(lane));
	state->max = new_max;
	for (int d = 0; d < a->value_width; d++)
		out[d] *= keep;
	for (int j = 0; j < count; j++)
		for (int d = 0; d < a->value_width; d++)
			out[d] = fmaf(score[j], rows[(size_t)j * width + (size_t)d], out[d]);
}

/* n_heads query heads of one token over positions 0..position. */
static void heads_attend(const struct latent_job *job, const float *q, const int32_t *table, int position, int n_heads,
	float *rows, float *out)
{
	const struct latent_attend_args *a = job->args;
	const struct kv_geometry *g = &job->geometry;
	size_t width = (size_t)a->width, value_width = (size_t)a->value_width;
	struct running state[HEADS_PER_TASK];

	for (int h = 0; h < n_heads; h++)
		state[h] = (struct running){.max = -INFINITY, .sum = 0.0f};
	memset(out, 0, (size_t)n_heads * value_width * sizeof *out);
	for (int start = 0; start <= position; start += ATTENTION_BLOCK) {
		int count = position + 1 - start < ATTENTION_BLOCK ? position + 1 - start : ATTENTION_BLOCK;
		for (int j = 0; j < count; j++) {
			int at = start + j;
			kv_read_ref(&a->layer, g, a->layer.k, a->layer.k_scale, table[at / g->page_size], 0,
				at % g->page_size, rows + (size_t)j * width);
		}
		for (int h = 0; h < n_heads; h++)
			block_attend(a, q + (size_t)h * width, rows, count, &state[h], out + (size_t)h * value_width);
	}
	for (int h = 0; h < n_heads; h++)
		for (size_t d = 0; d < value_width; d++)
			out[(size_t)h * value_width + d] /= state[h].sum;
}

static int tasks_per_token(const struct latent_attend_args *a)
{
	return (a->n_heads + HEADS_PER_TASK - 1) / HEADS_PER_TASK;
}

static void latent_task(void *argument, int i, int thread)
{
	const struct latent_job *job = argument;
	const struct latent_attend_args *a = job->args;
	int t = a->cu_seqlens[0] + i / tasks_per_token(a), first_head = i % tasks_per_token(a) * HEADS_PER_TASK, b = 0;
	int n_heads = a->n_heads - first_head < HEADS_PER_TASK ? a->n_heads - first_head : HEADS_PER_TASK;
	size_t row = (size_t)t * (size_t)a->n_heads + (size_t)first_head;

	while (t >= a->cu_seqlens[b + 1])
		b++;
	heads_attend(job, a->q + row * (size_t)a->width, a->block_tables + (size_t)b * (size_t)a->table_stride,
		a->first_position[b] + t - a->cu_seqlens[b], n_heads,
		job->scratch + (size_t)thread * ATTENTION_BLOCK * (size_t)a->width,
		a->out + row * (size_t)a->value_width);
}

void latent_attend_cpu(const struct latent_attend_args *a, struct thread_pool *pool, float *scratch)
{
	struct latent_job job = {.args = a, .geometry = a->geometry, .scratch = scratch};

	job.geometry.n_kv_heads = 1;
	job.geometry.head_dim = a->width;
	int n_tokens = a->cu_seqlens[a->n_sequences] - a->cu_seqlens[0];
	thread_pool_run(pool, n_tokens * tasks_per_token(a), latent_task, &job);
}

/* ---- a matrix per head ---- */

/* Tokens of one product: bounds the scratch, changes no bit. */
enum { HEAD_TILE = 64 };

static size_t round_up_16(size_t count)
{
	return (count + 15) / 16 * 16;
}

size_t head_linear_scratch_floats(const struct head_linear_args *a)
{
	size_t tile = a->n_tokens < HEAD_TILE ? (size_t)a->n_tokens : HEAD_TILE;
	const struct weight *w = &a->weights[0];
	return round_up_16(tile * (size_t)w->columns) + round_up_16(tile * (size_t)w->rows) + tile;
}

static void head_tile(const struct head_linear_args *a, const struct product_kernels *kernels, int head, int first,
	int count, float *scratch)
{
	const struct weight *w = &a->weights[head];
	size_t columns = (size_t)w->columns, rows = (size_t)w->rows;
	float *x = scratch, *y = x + round_up_16((size_t)count * columns),
	      *amax = y + round_up_16((size_t)count * rows);
	const float *in = a->x + (size_t)head * (size_t)a->x_head_stride;
	float *out = a->y + (size_t)head * (size_t)a->y_head_stride;

	for (int t = 0; t < count; t++)
		memcpy(x + (size_t)t * columns, in + (size_t)(first + t) * (size_t)a->x_stride, columns * sizeof *x);
	product_run(kernels, w, x, count, amax, y);
	for (int t = 0; t < count; t++)
		memcpy(out + (size_t)(first + t) * (size_t)a->y_stride, y + (size_t)t * rows, rows * sizeof *y);
}

void head_linear_cpu(const struct head_linear_args *a, const struct product_kernels *kernels, float *scratch)
{
	for (int head = 0; head < a->n_heads; head++)
		for (int first = 0; first < a->n_tokens; first += HEAD_TILE) {
			int left = a->n_tokens - first;
			head_tile(a, kernels, head, first, left < HEAD_TILE ? left : HEAD_TILE, scratch);
		}
}

/* Latent attention against float64 by NumPy (absorbed and naive), against attend_ref, and against itself in other
 * batches. */
#include <math.h>

#include "engine/base/number.h"
#include "engine/cpu/ops_latent.h"
#include "engine/cpu/pack.h"
#include "engine/cpu/product.h"
#include "tests/ops_golden.h"

const char *const test_program_name = "ops_latent";

enum { SEQUENCES_MAX = 3, TABLE_STRIDE = 20, TOKENS_MAX = 200 };

/* A cache with sequences in shuffled pages, and the whole input of each. */
struct world {
	struct kv_geometry geometry;
	struct kv_layer layer;
	int n_heads, width, value_width, n_sequences;
	float scale;
	int length[SEQUENCES_MAX];
	int32_t table[SEQUENCES_MAX][TABLE_STRIDE];
	float *latent[SEQUENCES_MAX]; /* [length, width] */
	float *q[SEQUENCES_MAX];      /* [length, N, width] */
	float *out[SEQUENCES_MAX];    /* [length, N, C] */
	uint64_t saturated;
};

static enum kv_format format_of(const char *name)
{
	return strcmp(name, "f32") == 0 ? KV_F32 : strcmp(name, "bf16") == 0 ? KV_BF16 : KV_E4M3;
}

/* Pages 1..n in an order that the seed shuffles. */
static void pages_shuffle(struct world *w, uint64_t seed)
{
	int n = w->geometry.n_pages - 1, used = 0;
	int32_t page[128];

	ck_assert_int_lt(n, 128);
	for (int i = 0; i < n; i++)
		page[i] = i + 1;
	for (int i = n - 1; i > 0; i--) {
		int j = (int)(hash_at(seed, (uint64_t)i) % (uint64_t)(i + 1));
		int32_t kept = page[i];
		page[i] = page[j];
		page[j] = kept;
	}
	for (int s = 0; s < w->n_sequences; s++)
		for (int i = 0; i * w->geometry.page_size < w->length[s]; i++)
			w->table[s][i] = page[used++];
}

static void world_init(struct world *w, int page_size, uint64_t seed)
{
	int pages = 1;

	for (int s = 0; s < w->n_sequences; s++)
		pages += (w->length[s] + page_size - 1) / page_size;
	w->geometry =
		(struct kv_geometry){.page_size = page_size, .n_pages = pages, .n_kv_heads = 1, .head_dim = w->width};
	size_t bytes = (size_t)(pages * page_size * w->width) * kv_format_size(w->layer.format);
	w->layer.k = mem_aligned(bytes, &test_error);
	ck_assert_ptr_nonnull(w->layer.k);
	memset(w->layer.k, 0xff, bytes); /* NaN: a slot that is read before it is written shows */
	pages_shuffle(w, seed + 9);
	for (int s = 0; s < w->n_sequences; s++) {
		size_t n = (size_t)w->length[s], heads = (size_t)w->n_heads;
		w->latent[s] = hash_values(seed + (uint64_t)s, n * (size_t)w->width);
		w->q[s] = hash_values(seed + 50 + (uint64_t)s, n * heads * (size_t)w->width);
		w->out[s] = hash_values(0, n * heads * (size_t)w->value_width);
		for (size_t i = 0; i < n * heads * (size_t)w->width; i++)
			w->q[s][i] *= 4.0f;
	}
}

static void world_free(struct world *w)
{
	free(w->layer.k);
	for (int s = 0; s < w->n_sequences; s++) {
		free(w->latent[s]);
		free(w->q[s]);
		free(w->out[s]);
	}
}

static void attend_batch(const struct world *w, struct latent_attend_args *args, struct thread_pool *pool)
{
	args->n_heads = w->n_heads;
	args->value_width = w->value_width;
	args->width = w->width;
	args->scale = w->scale;
	args->geometry = w->geometry;
	args->layer = w->layer;
	args->block_tables = w->table[0];
	args->table_stride = TABLE_STRIDE;
	float *scratch = malloc(latent_attend_scratch_floats(args, thread_pool_size(pool)) * sizeof *scratch);
	ck_assert_ptr_nonnull(scratch);
	latent_attend_cpu(args, pool, scratch);
	free(scratch);
}

/* One step of every sequence: its tokens [done, done + count) are written, then attended. */
static void world_step(struct world *w, const int *done, const int *count, struct thread_pool *pool)
{
	static float latent[TOKENS_MAX * 64], q[TOKENS_MAX * 600], out[TOKENS_MAX * 600];
	int64_t slots[TOKENS_MAX];
	int32_t cu_seqlens[SEQUENCES_MAX + 1] = {0}, first_position[SEQUENCES_MAX];
	size_t q_row = (size_t)(w->n_heads * w->width), out_row = (size_t)(w->n_heads * w->value_width);
	int t = 0;

	for (int s = 0; s < w->n_sequences; s++) {
		first_position[s] = done[s];
		for (int i = 0; i < count[s]; i++, t++) {
			int p = done[s] + i;
			memcpy(latent + t * w->width, w->latent[s] + p * w->width, (size_t)w->width * sizeof *latent);
			memcpy(q + (size_t)t * q_row, w->q[s] + (size_t)p * q_row, q_row * sizeof *q);
			slots[t] = (int64_t)w->table[s][p / w->geometry.page_size] * w->geometry.page_size +
				p % w->geometry.page_size;
		}
		cu_seqlens[s + 1] = t;
	}
	latent_write_cpu(&(struct latent_write_args){.latent = latent,
		.n_tokens = t,
		.width = w->width,
		.geometry = w->geometry,
		.layer = w->layer,
		.slots = slots,
		.saturated = &w->saturated});
	struct latent_attend_args args = {.q = q,
		.n_tokens = t,
		.n_sequences = w->n_sequences,
		.cu_seqlens = cu_seqlens,
		.first_position = first_position,
		.out = out};
	attend_batch(w, &args, pool);
	for (int s = 0; s < w->n_sequences; s++)
		memcpy(w->out[s] + (size_t)done[s] * out_row, out + (size_t)cu_seqlens[s] * out_row,
			(size_t)count[s] * out_row * sizeof *out);
}

/* All sequences side by side, at most chunk tokens of each per step. */
static void world_run(struct world *w, int chunk, int threads)
{
	struct thread_pool *pool = thread_pool_new(threads, &test_error);
	int done[SEQUENCES_MAX] = {0}, count[SEQUENCES_MAX], total;

	ck_assert_ptr_nonnull(pool);
	do {
		total = 0;
		for (int s = 0; s < w->n_sequences; s++) {
			int left = w->length[s] - done[s];
			count[s] = left < chunk ? left : chunk;
			total += count[s];
		}
		world_step(w, done, count, pool);
		for (int s = 0; s < w->n_sequences; s++)
			done[s] += count[s];
	} while (total);
	thread_pool_delete(pool);
}

/* ---- against float64 ---- */

static void latent_row(char **field)
{
	int rank = golden_int(field[2]), n_heads = golden_int(field[4]), length = golden_int(field[6]);
	struct world w = {
		.layer = {.format = format_of(field[0]), .k_scale = (float)golden_double(field[1])},
		.n_heads = n_heads,
		.width = rank + golden_int(field[3]),
		.value_width = rank,
		.n_sequences = 1,
		.scale = 0.7f,
		.length = {length},
	};
	double want[64];

	world_init(&w, 16, (uint64_t)golden_int(field[5]));
	world_run(&w, 1000, 2);
	golden_list(field[8], want, n_heads * rank);
	check_close(w.out[0] + (size_t)((length - 1) * n_heads * rank), want, n_heads * rank, 1e-5, field[0]);
	ck_assert_uint_eq(w.saturated, (uint64_t)golden_int(field[7]));
	world_free(&w);
}

START_TEST(latent_golden)
{
	ck_assert_int_eq(golden_each("latent.tsv", 9, latent_row), 25);
}
END_TEST

static void linear_here(void *context, const struct linear_args *a)
{
	++*(int *)context;
	linear_ref(a);
}

static void head_linear_run(const struct head_linear_args *a)
{
	int calls = 0;
	struct product_kernels kernels = {.context = &calls, .linear = linear_here};
	size_t floats = head_linear_scratch_floats(a);
	float *scratch = mem_aligned(floats * sizeof *scratch, &test_error);

	ck_assert_ptr_nonnull(scratch);
	memset(scratch, 0xff, floats * sizeof *scratch);
	head_linear_cpu(a, &kernels, scratch);
	free(scratch);
	ck_assert_int_eq(calls, a->n_heads * ((a->n_tokens + 63) / 64));
}

static void pack_f32(const float *values, int rows, int columns, struct weight *w)
{
	struct host_matrix m = {.format = WEIGHT_F32, .rows = rows, .columns = columns, .data = values};
	CHECK_OK(weight_pack_cpu(&m, 1, NULL, w, &test_error));
}

/* W_UK^T [C, Dn] and W_UV [Dv, C] of each head from kv_b [N, Dn + Dv, C]. */
static void pack_absorbed(
	const float *kv_b, int n_heads, int nope, int value, int rank, struct weight *uk, struct weight *uv)
{
	float transposed[16 * 16];

	for (int n = 0; n < n_heads; n++) {
		const float *head = kv_b + n * (nope + value) * rank;
		for (int c = 0; c < rank; c++)
			for (int d = 0; d < nope; d++)
				transposed[c * nope + d] = head[d * rank + c];
		pack_f32(transposed, rank, nope, &uk[n]);
		pack_f32(head + nope * rank, value, rank, &uv[n]);
	}
}

enum { MLA_T = 9, MLA_N = 3, MLA_NOPE = 8, MLA_ROPE = 4, MLA_RANK = 16, MLA_V = 6, MLA_WIDTH = MLA_RANK + MLA_ROPE };
static float mla_out[MLA_T * MLA_N * MLA_V];

/* The absorbed form by the ops, as a forward pass chains them. */
static void mla_absorbed(uint64_t seed)
{
	enum { Q = MLA_NOPE + MLA_ROPE };
	float *q = hash_values(seed, MLA_T * MLA_N * Q),
	      *kv_b = hash_values(seed + 3, MLA_N * (MLA_NOPE + MLA_V) * MLA_RANK);
	struct weight uk[MLA_N], uv[MLA_N];
	struct world w = {.layer = {.format = KV_F32, .k_scale = 1.0f},
		.n_heads = MLA_N,
		.width = MLA_WIDTH,
		.value_width = MLA_RANK,
		.n_sequences = 1,
		.scale = 1.0f / sqrtf(12.0f),
		.length = {MLA_T}};

	world_init(&w, 8, seed);
	for (int i = 0; i < MLA_T * MLA_N * Q; i++)
		q[i] *= 2.0f;
	pack_absorbed(kv_b, MLA_N, MLA_NOPE, MLA_V, MLA_RANK, uk, uv);
	for (int t = 0; t < MLA_T; t++) {
		for (int i = 0; i < MLA_RANK; i++)
			w.latent[0][t * MLA_WIDTH + i] = hash_value(seed + 1, (uint64_t)(t * MLA_RANK + i));
		for (int i = 0; i < MLA_ROPE; i++)
			w.latent[0][t * MLA_WIDTH + MLA_RANK + i] = hash_value(seed + 2, (uint64_t)(t * MLA_ROPE + i));
		for (int n = 0; n < MLA_N; n++)
			memcpy(w.q[0] + (t * MLA_N + n) * MLA_WIDTH + MLA_RANK, q + (t * MLA_N + n) * Q + MLA_NOPE,
				MLA_ROPE * sizeof *q);
	}
	head_linear_run(&(struct head_linear_args){.weights = uk,
		.x = q,
		.x_stride = MLA_N * Q,
		.x_head_stride = Q,
		.n_tokens = MLA_T,
		.n_heads = MLA_N,
		.y = w.q[0],
		.y_stride = MLA_N * MLA_WIDTH,
		.y_head_stride = MLA_WIDTH});
	world_run(&w, 4, 1);
	head_linear_run(&(struct head_linear_args){.weights = uv,
		.x = w.out[0],
		.x_stride = MLA_N * MLA_RANK,
		.x_head_stride = MLA_RANK,
		.n_tokens = MLA_T,
		.n_heads = MLA_N,
		.y = mla_out,
		.y_stride = MLA_N * MLA_V,
		.y_head_stride = MLA_V});
	for (int n = 0; n < MLA_N; n++) {
		weight_free_cpu(&uk[n]);
		weight_free_cpu(&uv[n]);
	}
	free(q);
	free(kv_b);
	world_free(&w);
}

static void mla_row(char **field)
{
	int t = golden_int(field[7]);
	double want[MLA_N * MLA_V];

	golden_list(field[8], want, MLA_N * MLA_V);
	check_close(mla_out + t * MLA_N * MLA_V, want, MLA_N * MLA_V, 1e-5, "naive");
}

START_TEST(absorbed_is_naive)
{
	mla_absorbed(400);
	ck_assert_int_eq(golden_each("mla.tsv", 9, mla_row), MLA_T);
}
END_TEST

/* ---- in bits ---- */

static const struct {
	enum kv_format format;
	float k_scale;
} formats[] = {{KV_F32, 1.0f}, {KV_BF16, 1.0f}, {KV_E4M3, 0.0031f}};

/* 20 heads: one task of 16, one of 4. */
static struct world three_sequences(int format)
{
	return (struct world){.layer = {.format = formats[format].format, .k_scale = formats[format].k_scale},
		.n_heads = 20,
		.width = 22,
		.value_width = 17,
		.n_sequences = 3,
		.scale = 0.3f,
		.length = {1, 65, 130}};
}

START_TEST(batch_changes_nothing)
{
	static const int page_sizes[] = {8, 16, 32, 64}, chunks[] = {1, 7, 64, 1000};
	struct world alone[SEQUENCES_MAX];

	for (int s = 0; s < SEQUENCES_MAX; s++) {
		alone[s] = three_sequences(_i);
		alone[s].length[0] = alone[s].length[s];
		alone[s].n_sequences = 1;
		world_init(&alone[s], 64, 60 + (uint64_t)s);
		world_run(&alone[s], 1000, 1);
	}
	for (int i = 0; i < 4; i++) {
		struct world w = three_sequences(_i);
		world_init(&w, page_sizes[i], 60);
		world_run(&w, chunks[(i + _i) % 4], i + 1);
		for (int s = 0; s < SEQUENCES_MAX; s++)
			check_same_bits(
				w.out[s], alone[s].out[0], (size_t)(w.length[s] * w.n_heads * w.value_width), "batch");
		world_free(&w);
	}
	for (int s = 0; s < SEQUENCES_MAX; s++)
		world_free(&alone[s]);
}
END_TEST

/* With V = K the plain attention is the latent one on whole rows: the same order of every sum. */
START_TEST(order_is_that_of_attend)
{
	struct world w = three_sequences(_i);
	size_t width = (size_t)w.width, value = (size_t)w.value_width, heads = (size_t)w.n_heads;
	const int32_t cu_seqlens[] = {0, 130}, first_position[] = {0};
	float *want = hash_values(0, 130 * heads * width);

	world_init(&w, 32, 70);
	world_run(&w, 1000, 1);
	w.layer.v = w.layer.k;
	w.layer.v_scale = w.layer.k_scale;
	attend_ref(&(struct attend_args){.q = w.q[2],
		.q_stride = w.n_heads * w.width,
		.n_tokens = 130,
		.n_sequences = 1,
		.n_heads = w.n_heads,
		.scale = w.scale,
		.geometry = w.geometry,
		.layer = w.layer,
		.cu_seqlens = cu_seqlens,
		.first_position = first_position,
		.block_tables = w.table[2],
		.table_stride = TABLE_STRIDE,
		.out = want});
	for (size_t row = 0; row < 130 * heads; row++)
		check_same_bits(w.out[2] + row * value, want + row * width, value, "row");
	free(want);
	world_free(&w);
}
END_TEST

/* Only the named slots change, and every clipped value counts once. */
START_TEST(write_touches_its_slots)
{
	enum { WIDTH = 5, PAGE = 8, PAGES = 3 };
	const float latent[2 * WIDTH] = {1.0f, -2.0f, 448.0f, 449.0f, -1e9f, 0.0f, 0.5f, INFINITY, -448.0f, 3.0f};
	const int64_t slots[] = {17, 9};
	uint8_t cache[PAGES * PAGE * WIDTH];
	uint64_t saturated = 5;
	struct latent_write_args args = {.latent = latent,
		.n_tokens = 2,
		.width = WIDTH,
		.geometry = {.page_size = PAGE, .n_pages = PAGES},
		.layer = {.format = KV_E4M3, .k = cache, .k_scale = 1.0f},
		.slots = slots,
		.saturated = &saturated};

	memset(cache, 0xaa, sizeof cache);
	latent_write_cpu(&args);
	ck_assert_uint_eq(saturated, 5 + 3);
	args.saturated = NULL;
	latent_write_cpu(&args);
	for (int slot = 0; slot < PAGES * PAGE; slot++)
		for (int i = 0; i < WIDTH; i++) {
			uint8_t want = slot == 17 ? float_to_e4m3(latent[i])
				: slot == 9       ? float_to_e4m3(latent[WIDTH + i])
						  : 0xaa;
			ck_assert_uint_eq(cache[slot * WIDTH + i], want);
		}
	args.n_tokens = 0;
	latent_write_cpu(&args);
}
END_TEST

/* Every row as linear_ref makes it alone, at its stride, nothing between; more tokens than one tile; W8A8 too. */
START_TEST(head_linear_is_rows)
{
	enum {
		T = 130,
		N = 3,
		ROWS = 19,
		COLUMNS = 13,
		X_HEAD = COLUMNS + 2,
		X = N * X_HEAD + 1,
		Y_HEAD = ROWS + 3,
		Y = N * Y_HEAD + 2
	};
	float *x = hash_values(80, T * X), *y = hash_values(81, T * Y), *before = hash_values(81, T * Y);
	uint8_t codes[ROWS * COLUMNS];
	float scales[ROWS];
	struct weight w[N];

	for (int n = 0; n < N; n++) {
		for (int i = 0; i < ROWS * COLUMNS; i++)
			codes[i] = float_to_e4m3(hash_value(82 + (uint64_t)n, (uint64_t)i) * 300.0f);
		for (int r = 0; r < ROWS; r++)
			scales[r] = 0.01f + 0.001f * (float)r;
		struct host_matrix m = {
			.format = WEIGHT_E4M3, .rows = ROWS, .columns = COLUMNS, .data = codes, .scales = scales};
		CHECK_OK(weight_pack_cpu(&m, 1, NULL, &w[n], &test_error));
		w[n].quantize_input = _i;
	}
	head_linear_run(&(struct head_linear_args){.weights = w,
		.x = x,
		.x_stride = X,
		.x_head_stride = X_HEAD,
		.n_tokens = T,
		.n_heads = N,
		.y = y,
		.y_stride = Y,
		.y_head_stride = Y_HEAD});
	for (int t = 0; t < T; t++)
		for (int n = 0; n < N; n++) {
			float *row = before + t * Y + n * Y_HEAD, amax;
			const float *in = x + t * X + n * X_HEAD;
			row_amax_ref(
				&(struct row_amax_args){.x = in, .n_tokens = 1, .columns = COLUMNS, .amax = &amax});
			linear_ref(&(struct linear_args){
				.weight = &w[n], .x = in, .n_tokens = 1, .amax = &amax, .y = row});
		}
	check_same_bits(y, before, T * Y, "y");
	head_linear_run(&(struct head_linear_args){.weights = w, .x = x, .n_tokens = 0, .n_heads = N, .y = y});
	check_same_bits(y, before, T * Y, "no token");
	for (int n = 0; n < N; n++)
		weight_free_cpu(&w[n]);
	free(x);
	free(y);
	free(before);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *golden = test_case(suite, "golden", 0);
	tcase_add_test(golden, latent_golden);
	tcase_add_test(golden, absorbed_is_naive);

	TCase *bits = test_case(suite, "bits", 60);
	tcase_add_loop_test(bits, batch_changes_nothing, 0, 3);
	tcase_add_loop_test(bits, order_is_that_of_attend, 0, 3);
	tcase_add_test(bits, write_touches_its_slots);
	tcase_add_loop_test(bits, head_linear_is_rows, 0, 2);
}

/* Mixture of experts: pairs of a token and a chosen expert are sorted by expert, each expert's rows go through its
 * matrices together, and each token adds its experts' rows in ascending order (NUMERICS section 3, rule 4). The sort
 * may place an expert's rows in any order: a row's bits do not depend on the others. */
#include "cuda/kernels.cuh"
#include "cuda/launch.cuh"
#include "cuda/linear.cuh"

enum {
	EXPERTS_TOKENS = 1024, /* that go together: bounds the workspace, changes no bit */
	SORT_THREADS = 1024,
	EXPERTS_MAX = 1024,
	COMBINE_THREADS = 256,
};

struct experts_pieces {
	int32_t *first; /* [E + 1] where each expert's rows begin */
	int32_t *pairs; /* [T * K] t * K + k of each row */
	int32_t *place; /* [T * K] the row of each pair */
	float *amax;    /* [T * K] */
	float *gate_up; /* [T * K, 2 I] */
	float *out;     /* [T * K, H] */
	void *input;    /* [T * K] rows of a product */
};

static unsigned char *piece_take(unsigned char *base, size_t *end, size_t bytes)
{
	const size_t at = *end;
	*end += workspace_piece(bytes);
	return base ? base + at : NULL;
}

/* Cuts the workspace; returns its size. base may be NULL while sizes are counted. */
static size_t pieces_cut(experts_pieces *s, const struct experts_args *a, unsigned char *base)
{
	const int n_tokens = a->n_tokens < EXPERTS_TOKENS ? a->n_tokens : (int)EXPERTS_TOKENS;
	const int n_rows = n_tokens * a->n_chosen;
	const size_t rows = (size_t)n_rows;
	const size_t input = input_rows_bytes(input_format_of(a->gate_up), n_rows, a->hidden);
	const size_t inner = input_rows_bytes(input_format_of(a->down), n_rows, a->inner);
	size_t end = 0;

	s->first = reinterpret_cast<int32_t *>(piece_take(base, &end, ((size_t)a->n_experts + 1) * sizeof(int32_t)));
	s->pairs = reinterpret_cast<int32_t *>(piece_take(base, &end, rows * sizeof(int32_t)));
	s->place = reinterpret_cast<int32_t *>(piece_take(base, &end, rows * sizeof(int32_t)));
	s->amax = reinterpret_cast<float *>(piece_take(base, &end, rows * sizeof(float)));
	s->gate_up = reinterpret_cast<float *>(piece_take(base, &end, rows * 2 * (size_t)a->inner * sizeof(float)));
	s->out = reinterpret_cast<float *>(piece_take(base, &end, rows * (size_t)a->hidden * sizeof(float)));
	s->input = piece_take(base, &end, input > inner ? input : inner);
	return end;
}

size_t experts_workspace(const struct experts_args *a)
{
	experts_pieces s;
	return pieces_cut(&s, a, NULL);
}

/* One block. */
static __global__ void __launch_bounds__(SORT_THREADS) pairs_sort_kernel(
	const int32_t *experts /* [n] */, int n, int n_experts, int32_t *first, int32_t *pairs, int32_t *place)
{
	__shared__ int next[EXPERTS_MAX + 1]; /* counts, then where the next row of each expert goes */
	const int thread = (int)threadIdx.x;

	for (int i = thread; i <= n_experts; i += SORT_THREADS)
		next[i] = 0;
	__syncthreads();
	for (int i = thread; i < n; i += SORT_THREADS)
		atomicAdd(&next[experts[i]], 1);
	__syncthreads();
	if (thread == 0) {
		int start = 0;
		for (int i = 0; i <= n_experts; i++) {
			const int count = next[i];
			first[i] = next[i] = start;
			start += count;
		}
	}
	__syncthreads();
	for (int i = thread; i < n; i += SORT_THREADS) {
		const int row = atomicAdd(&next[experts[i]], 1);
		pairs[row] = i;
		place[i] = row;
	}
}

struct combine_operands {
	const float *out, *weights; /* [T * K, H], [T, K] */
	const int32_t *place;       /* [T, K] */
	int hidden, n_chosen;
	const float *residual; /* [T, H] or NULL; may be y */
	float *y;              /* [T, H] */
};

/* PRECOND: COMBINE_THREADS threads; grid = tokens, pieces of H. */
static __global__ void __launch_bounds__(COMBINE_THREADS) experts_combine_kernel(const combine_operands p)
{
	const int h = (int)(blockIdx.y * COMBINE_THREADS + threadIdx.x);
	const size_t token = blockIdx.x, hidden = (size_t)p.hidden, pair = token * (size_t)p.n_chosen;
	float sum = 0.0f;

	if (h >= p.hidden)
		return;
	for (int k = 0; k < p.n_chosen; k++) {
		const size_t row = (size_t)p.place[pair + (size_t)k];
		sum = fmaf(p.weights[pair + (size_t)k], p.out[row * hidden + (size_t)h], sum);
	}
	const size_t at = token * hidden + (size_t)h;
	p.y[at] = p.residual ? sum + p.residual[at] : sum;
}

/* y = x W^T of each expert over its rows. in: where the rows come from. */
static int experts_product(const struct experts_args *a, const experts_pieces *s, const struct weight *weights,
	struct input_rows *in, float *y, cudaStream_t stream, struct error *e)
{
	in->columns = weights->columns;
	in->rows_per_group = in->n_rows = a->n_tokens * a->n_chosen;
	in->find_amax = weights->quantize_input;
	in->amax = s->amax;
	TRY(input_rows_launch(in, input_format_of(weights), s->input, stream, e));
	for (int first = 0; first < a->n_experts; first += LINEAR_MATRICES) {
		linear_operands p;
		TRY(linear_operands_init(&p, weights + first, a->n_experts - first, a->n_tokens, e));
		p.x = s->input;
		p.amax = s->amax;
		p.row_first = s->first + first;
		p.y = y;
		TRY(linear_operands_launch(&p, weights, false, stream, e));
	}
	return 0;
}

static int tokens_run(const struct experts_args *a, const experts_pieces *s, cudaStream_t stream, struct error *e)
{
	const unsigned pieces = (unsigned)((a->hidden + COMBINE_THREADS - 1) / COMBINE_THREADS);
	struct input_rows in = {};

	LAUNCH(pairs_sort_kernel, 1, SORT_THREADS, 0, stream, a->experts, a->n_tokens * a->n_chosen, a->n_experts,
		s->first, s->pairs, s->place);
	TRY(launch_status(cudaGetLastError(), "sort of the experts' rows", e));
	in.x = a->x;
	in.row_stride = (size_t)a->hidden;
	in.map = s->pairs;
	in.map_divisor = a->n_chosen;
	TRY(experts_product(a, s, a->gate_up, &in, s->gate_up, stream, e));
	in = {};
	in.x = s->gate_up;
	in.row_stride = 2 * (size_t)a->inner;
	in.gated = true;
	TRY(experts_product(a, s, a->down, &in, s->out, stream, e));
	const combine_operands p = {s->out, a->weights, s->place, a->hidden, a->n_chosen, a->residual, a->y};
	LAUNCH(experts_combine_kernel, dim3((unsigned)a->n_tokens, pieces), COMBINE_THREADS, 0, stream, p);
	return launch_status(cudaGetLastError(), "sum of the experts", e);
}

int experts_launch(const struct experts_args *a, void *workspace, cudaStream_t stream, struct error *e)
{
	experts_pieces s;

	if (a->n_experts > EXPERTS_MAX)
		return error_set(
			e, ERR_INPUT, "experts: %d experts: at most %d expected", a->n_experts, (int)EXPERTS_MAX);
	pieces_cut(&s, a, static_cast<unsigned char *>(workspace));
	for (int first = 0; first < a->n_tokens; first += EXPERTS_TOKENS) {
		const size_t rows = (size_t)first * (size_t)a->hidden, pairs = (size_t)first * (size_t)a->n_chosen;
		struct experts_args some = *a;
		some.n_tokens = a->n_tokens - first < EXPERTS_TOKENS ? a->n_tokens - first : (int)EXPERTS_TOKENS;
		some.x += rows;
		some.experts += pairs;
		some.weights += pairs;
		some.residual = a->residual ? a->residual + rows : NULL;
		some.y += rows;
		TRY(tokens_run(&some, &s, stream, e));
	}
	return 0;
}

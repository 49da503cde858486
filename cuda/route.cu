/* The router's choice of experts, a warp per token, with the bits of the CPU's route_cpu: the same order of every sum,
 * ties to the lowest index, NaN above every number. */
#include "cuda/device_math.cuh"
#include "cuda/kernels.cuh"
#include "cuda/launch.cuh"

struct route_operands {
	const float *logits; /* [T, E] */
	const float *bias;   /* [E] or NULL */
	int n_experts, n_chosen, n_group, topk_group;
	bool sigmoid, normalize;
	float scaling;
	int32_t *experts; /* [T, K] */
	float *weights;   /* [T, K] */
};

/* A warp's shared memory. */
struct route_memory {
	float *weight;      /* [E] what an expert weighs if it is chosen */
	float *score;       /* [E] what it is chosen by */
	float *group_score; /* [E] of the groups */
	int32_t *chosen;    /* [E] in the order of choice, then ascending */
};

static __device__ __forceinline__ bool score_above(float a, float b)
{
	return a > b || (a != a && b == b);
}

struct route_best {
	float score;
	int32_t index; /* -1: none yet */
};

/* Of two, the one with the higher score, or the lower index. */
static __device__ __forceinline__ route_best best_of(route_best a, route_best b)
{
	if (a.index < 0 || b.index < 0)
		return a.index < 0 ? b : a;
	if (score_above(a.score, b.score) || score_above(b.score, a.score))
		return score_above(a.score, b.score) ? a : b;
	return a.index < b.index ? a : b;
}

/* The k best of score[n], best first, to chosen[k]. All lanes of the warp; each reads what index % 32 makes its own.
 * PRECOND: k <= n <= ROUTE_EXPERTS_MAX. */
static __device__ void top_choose(const float *score, int n, int k, int32_t *chosen)
{
	const int lane = (int)threadIdx.x;
	uint32_t taken = 0; /* bit j: index lane + 32 j */

	for (int round = 0; round < k; round++) {
		route_best best = {0.0f, -1};
		for (int i = lane; i < n; i += WARP)
			if (!(taken >> i / WARP & 1))
				best = best_of(best, {score[i], i});
		for (int step = WARP / 2; step > 0; step /= 2)
			best = best_of(best,
				{__shfl_xor_sync(WHOLE_WARP, best.score, step),
					__shfl_xor_sync(WHOLE_WARP, best.index, step)});
		if (best.index % WARP == lane)
			taken |= 1u << best.index / WARP;
		if (lane == 0)
			chosen[round] = best.index;
	}
	__syncwarp();
}

/* The sum of the two best of score[n]; of a lone one, itself. */
static __device__ float group_score(const float *score, int n)
{
	route_best first = {0.0f, -1}, second = {0.0f, -1};
	for (int i = 0; i < n; i++) {
		const route_best next = {score[i], i};
		const bool leads = best_of(first, next).index == i;
		second = leads ? first : best_of(second, next);
		first = leads ? next : first;
	}
	return second.index < 0 ? first.score : first.score + second.score;
}

/* Sets the scores outside of the topk_group best groups to minus infinity. */
static __device__ void groups_drop(const route_operands &p, const route_memory &m)
{
	const int size = p.n_experts / p.n_group, lane = (int)threadIdx.x;

	for (int g = lane; g < p.n_group; g += WARP)
		m.group_score[g] = group_score(m.score + g * size, size);
	top_choose(m.group_score, p.n_group, p.topk_group, m.chosen);
	for (int i = lane; i < p.n_experts; i += WARP) {
		bool kept = false;
		for (int k = 0; k < p.topk_group; k++)
			kept = kept || m.chosen[k] == i / size;
		if (!kept)
			m.score[i] = __uint_as_float(0xff800000u);
	}
}

/* Softmax over all experts: eight running sums and their tree. The choice is by the logits, whose order is that of
 * their softmax, without ties made by rounding. A barrier must follow before lanes read each other's weights. */
static __device__ void scores_softmax(const float *logits, int n, const route_memory &m)
{
	const int lane = (int)threadIdx.x;
	float max = logits[0], sum = 0.0f;

	for (int i = lane; i < n; i += WARP)
		max = score_above(logits[i], max) ? logits[i] : max;
	for (int step = WARP / 2; step > 0; step /= 2) {
		const float other = __shfl_xor_sync(WHOLE_WARP, max, step);
		max = score_above(other, max) ? other : max;
	}
	for (int i = lane; i < n; i += WARP) {
		m.weight[i] = exp_device(logits[i] - max);
		m.score[i] = logits[i];
	}
	__syncwarp();
	for (int i = lane % 8; i < n; i += 8)
		sum += m.weight[i];
	for (int step = 4; step > 0; step /= 2) /* all lanes come here, so all have read the weights */
		sum += __shfl_xor_sync(WHOLE_WARP, sum, step);
	for (int i = lane; i < n; i += WARP)
		m.weight[i] /= sum;
}

static __device__ void scores_sigmoid(const float *logits, const float *bias, int n, const route_memory &m)
{
	for (int i = (int)threadIdx.x; i < n; i += WARP) {
		const float weight = 1.0f / (1.0f + exp_device(-logits[i]));
		m.weight[i] = weight;
		m.score[i] = bias ? weight + bias[i] : weight;
	}
	__syncwarp();
}

/* Writes the chosen experts, ascending, and their weights. */
static __device__ void chosen_store(const route_operands &p, const route_memory &m, int32_t *experts, float *weights)
{
	const int lane = (int)threadIdx.x;
	int32_t *const ascending = reinterpret_cast<int32_t *>(m.score); /* no longer needed */
	float sum = 0.0f;

	for (int k = lane; k < p.n_chosen; k += WARP) {
		int rank = 0;
		for (int other = 0; other < p.n_chosen; other++)
			rank += m.chosen[other] < m.chosen[k];
		ascending[rank] = m.chosen[k];
	}
	__syncwarp();
	for (int k = 0; k < p.n_chosen; k++)
		sum += m.weight[ascending[k]];
	if (p.sigmoid)
		sum += 1e-20f; /* all chosen may be 0 */
	for (int k = lane; k < p.n_chosen; k += WARP) {
		const float weight = m.weight[ascending[k]];
		experts[k] = ascending[k];
		weights[k] = (p.normalize ? weight / sum : weight) * p.scaling;
	}
}

/* PRECOND: a warp; grid.x = T; 16 E bytes of dynamic shared memory. */
static __global__ void __launch_bounds__(WARP) route_kernel(const route_operands p)
{
	DYNAMIC_SHARED(shared);
	const size_t n = (size_t)p.n_experts, out = (size_t)blockIdx.x * (size_t)p.n_chosen;
	float *const floats = reinterpret_cast<float *>(shared);
	const route_memory m = {floats, floats + n, floats + 2 * n, reinterpret_cast<int32_t *>(floats + 3 * n)};
	const float *const logits = p.logits + (size_t)blockIdx.x * n;

	if (p.sigmoid)
		scores_sigmoid(logits, p.bias, p.n_experts, m);
	else
		scores_softmax(logits, p.n_experts, m);
	if (p.n_group > 1)
		groups_drop(p, m);
	top_choose(m.score, p.n_experts, p.n_chosen, m.chosen);
	chosen_store(p, m, p.experts + out, p.weights + out);
}

int route_launch(const struct route_args *a, cudaStream_t stream, struct error *e)
{
	if (a->n_experts > ROUTE_EXPERTS_MAX)
		return error_set(
			e, ERR_INPUT, "route: %d experts: at most %d expected", a->n_experts, (int)ROUTE_EXPERTS_MAX);
	if (a->n_tokens == 0)
		return 0;
	const route_operands p = {a->logits, a->bias, a->n_experts, a->n_chosen, a->n_group, a->topk_group, a->sigmoid,
		a->normalize, a->scaling, a->experts, a->weights};
	LAUNCH(route_kernel, (unsigned)a->n_tokens, WARP, (size_t)a->n_experts * 16, stream, p);
	return launch_status(cudaGetLastError(), "route", e);
}

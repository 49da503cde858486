#include "cuda/library.h"

#include <cublasLt.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/kernels.cuh"
#include "cuda/weight_layout.h"
#include "engine/base/thread_pool.h"

enum { LIBRARY_WORKSPACE = 32 << 20, PLANS = 256, TILE_VALUES = WEIGHT_PANEL * WEIGHT_K_TILE };

enum { OLDEST_VERSION = 111100 /* 11.11: the first that is told the type of a bias */ };

/* A product of one shape, and how the library wants to compute it. The library sees columns first: D[m, n] = A[k, m]^T
 * B[k, n], m outputs, n tokens. */
struct plan {
	int m, n, k;
	bool bias, residual;
	cublasLtMatmulAlgo_t algo;
};

struct library {
	void *handle;
	cublasLtHandle_t lt;
	struct plan plans[PLANS];
	int n_plans;
	size_t (*version)(void);
	cublasStatus_t (*create)(cublasLtHandle_t *lt);
	cublasStatus_t (*destroy)(cublasLtHandle_t lt);
	const char *(*status_string)(cublasStatus_t status);
	cublasStatus_t (*desc_create)(cublasLtMatmulDesc_t *d, cublasComputeType_t compute, cudaDataType scale);
	cublasStatus_t (*desc_set)(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t a, const void *v, size_t n);
	cublasStatus_t (*desc_destroy)(cublasLtMatmulDesc_t d);
	cublasStatus_t (*layout_create)(
		cublasLtMatrixLayout_t *l, cudaDataType type, uint64_t rows, uint64_t columns, int64_t ld);
	cublasStatus_t (*layout_destroy)(cublasLtMatrixLayout_t l);
	cublasStatus_t (*preference_create)(cublasLtMatmulPreference_t *p);
	cublasStatus_t (*preference_set)(
		cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t a, const void *v, size_t n);
	cublasStatus_t (*preference_destroy)(cublasLtMatmulPreference_t p);
	cublasStatus_t (*heuristic)(cublasLtHandle_t lt, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a,
		cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t out,
		cublasLtMatmulPreference_t p, int wanted, cublasLtMatmulHeuristicResult_t *results, int *found);
	cublasStatus_t (*matmul)(cublasLtHandle_t lt, cublasLtMatmulDesc_t d, const void *alpha, const void *a,
		cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,
		const void *c, cublasLtMatrixLayout_t c_layout, void *out, cublasLtMatrixLayout_t out_layout,
		const cublasLtMatmulAlgo_t *algo, void *workspace, size_t bytes, cudaStream_t stream);
};

/* ---- the library ---- */

static int symbols_find(struct library *l, const char *name, struct error *e)
{
	const struct {
		const char *symbol;
		void *function; /* where its address goes */
	} table[] = {
		{"cublasLtGetVersion", &l->version},
		{"cublasLtCreate", &l->create},
		{"cublasLtDestroy", &l->destroy},
		{"cublasLtGetStatusString", &l->status_string},
		{"cublasLtMatmulDescCreate", &l->desc_create},
		{"cublasLtMatmulDescSetAttribute", &l->desc_set},
		{"cublasLtMatmulDescDestroy", &l->desc_destroy},
		{"cublasLtMatrixLayoutCreate", &l->layout_create},
		{"cublasLtMatrixLayoutDestroy", &l->layout_destroy},
		{"cublasLtMatmulPreferenceCreate", &l->preference_create},
		{"cublasLtMatmulPreferenceSetAttribute", &l->preference_set},
		{"cublasLtMatmulPreferenceDestroy", &l->preference_destroy},
		{"cublasLtMatmulAlgoGetHeuristic", &l->heuristic},
		{"cublasLtMatmul", &l->matmul},
	};

	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		void *function = dlsym(l->handle, table[i].symbol);
		if (!function)
			return error_set(e, ERR_USAGE, "products by cuBLASLt: %s has no %s", name, table[i].symbol);
		memcpy(table[i].function, &function, sizeof function);
	}
	return 0;
}

static int status_check(const struct library *l, cublasStatus_t status, const char *what, struct error *e)
{
	if (status == CUBLAS_STATUS_SUCCESS)
		return 0;
	return error_set(e, ERR_DEVICE, "%s: cuBLASLt error %d: %s", what, (int)status, l->status_string(status));
}

/* Of this build's version, or of another whose calls and types are the same. name: of the one that is loaded. */
static int handle_find(struct library *l, char *name, size_t size, struct error *e)
{
	static const int majors[] = {CUBLAS_VER_MAJOR, 13, 12, 11};
	char why[256] = "";

	for (size_t i = 0; i < sizeof majors / sizeof *majors && !l->handle; i++) {
		snprintf(name, size, "libcublasLt.so.%d", majors[i]);
		l->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
		if (!l->handle && i == 0)
			snprintf(why, sizeof why, "%s", dlerror());
	}
	return l->handle ? 0
			 : error_set(e, ERR_USAGE, "products by cuBLASLt: %s; nor is version 13, 12 or 11 there", why);
}

/* What is there but will not do is a matter of the machine, like what is not there. */
static int handle_open(struct library *l, struct error *e)
{
	char name[32];

	TRY(handle_find(l, name, sizeof name, e));
	TRY(symbols_find(l, name, e));
	size_t version = l->version();
	if (version < OLDEST_VERSION)
		return error_set(e, ERR_USAGE,
			"products by cuBLASLt: %s is version %zu.%zu, expected %d.%d or newer (CUDA 11.8)", name,
			version / 10000, version / 100 % 100, OLDEST_VERSION / 10000, OLDEST_VERSION / 100 % 100);
	cublasStatus_t status = l->create(&l->lt);
	if (status == CUBLAS_STATUS_SUCCESS)
		return 0;
	l->lt = NULL;
	return error_set(e, ERR_USAGE, "products by cuBLASLt: %s does not start on this machine: error %d: %s", name,
		(int)status, l->status_string(status));
}

int library_open(struct library **out, struct error *e)
{
	*out = mem_calloc(1, sizeof **out, e);
	if (!*out)
		return ERR_MEMORY;
	int status = handle_open(*out, e);
	if (status == 0)
		return 0;
	library_close(*out);
	*out = NULL;
	return status;
}

void library_close(struct library *l)
{
	if (!l)
		return;
	if (l->lt)
		l->destroy(l->lt);
	if (l->handle)
		dlclose(l->handle);
	free(l);
}

struct ordering {
	const uint16_t *in;
	uint16_t *out;
	size_t tiles;
};

static void panel_order(void *argument, int panel, int thread)
{
	const struct ordering *o = argument;
	const uint16_t *in = o->in + (size_t)panel * o->tiles * TILE_VALUES;
	uint16_t *out = o->out + (size_t)panel * o->tiles * TILE_VALUES;

	(void)thread;
	for (size_t row = 0; row < WEIGHT_PANEL; row++)
		for (size_t tile = 0; tile < o->tiles; tile++)
			memcpy(out + (row * o->tiles + tile) * WEIGHT_K_TILE,
				in + tile * TILE_VALUES + row * WEIGHT_K_TILE, WEIGHT_K_TILE * sizeof *out);
}

void library_pack(const struct host_matrix *m, const void *packed, void *out)
{
	struct ordering o = {packed, out, (size_t)weight_tiles(m->columns)};

	thread_pool_run(m->threads, weight_panels(m->rows), panel_order, &o);
}

/* ---- a product ---- */

/* The library's descriptions of one product. */
struct descriptions {
	cublasLtMatmulDesc_t product;
	cublasLtMatrixLayout_t a, b, d;
};

static void descriptions_free(const struct library *l, struct descriptions *x)
{
	if (x->product)
		l->desc_destroy(x->product);
	if (x->a)
		l->layout_destroy(x->a);
	if (x->b)
		l->layout_destroy(x->b);
	if (x->d)
		l->layout_destroy(x->d);
}

static int bias_describe(const struct library *l, cublasLtMatmulDesc_t product, const float *bias, struct error *e)
{
	const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
	const cudaDataType type = CUDA_R_32F;

	TRY(status_check(
		l, l->desc_set(product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue), "bias", e));
	TRY(status_check(l, l->desc_set(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias), "bias", e));
	return status_check(
		l, l->desc_set(product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type), "bias", e);
}

static int describe(
	const struct library *l, const struct plan *p, const float *bias, struct descriptions *x, struct error *e)
{
	const cublasOperation_t transposed = CUBLAS_OP_T;
	const uint64_t m = (uint64_t)p->m, n = (uint64_t)p->n, k = (uint64_t)p->k;

	TRY(status_check(l, l->desc_create(&x->product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "product", e));
	TRY(status_check(
		l, l->desc_set(x->product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed), "product", e));
	if (bias)
		TRY(bias_describe(l, x->product, bias, e));
	TRY(status_check(l, l->layout_create(&x->a, CUDA_R_16BF, k, m, p->k), "weights", e));
	TRY(status_check(l, l->layout_create(&x->b, CUDA_R_16BF, k, n, p->k), "input", e));
	return status_check(l, l->layout_create(&x->d, CUDA_R_32F, m, n, p->m), "output", e);
}

static int algo_find(const struct library *l, const struct descriptions *x, struct plan *p, struct error *e)
{
	const size_t bytes = LIBRARY_WORKSPACE;
	cublasLtMatmulPreference_t preference = NULL;
	cublasLtMatmulHeuristicResult_t result;
	int found = 0;

	TRY(status_check(l, l->preference_create(&preference), "algorithm", e));
	int status = status_check(l,
		l->preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes),
		"algorithm", e);
	if (status == 0)
		status = status_check(l,
			l->heuristic(l->lt, x->product, x->a, x->b, x->d, x->d, preference, 1, &result, &found),
			"algorithm", e);
	l->preference_destroy(preference);
	if (status == 0 && found == 0)
		status = error_set(e, ERR_DEVICE, "cuBLASLt knows no way to multiply %d x %d by %d", p->m, p->k, p->n);
	if (status == 0)
		p->algo = result.algo;
	return status;
}

/* The plan of that shape: a known one, or a new one over the oldest. */
static int plan_find(
	struct library *l, const struct plan *wanted, const struct descriptions *x, struct plan **out, struct error *e)
{
	for (int i = 0; i < l->n_plans && i < PLANS; i++) {
		struct plan *p = &l->plans[i];
		*out = p;
		if (p->m == wanted->m && p->n == wanted->n && p->k == wanted->k && p->bias == wanted->bias &&
			p->residual == wanted->residual)
			return 0;
	}
	struct plan made = *wanted;
	TRY(algo_find(l, x, &made, e));
	*out = &l->plans[l->n_plans % PLANS];
	**out = made;
	l->n_plans = l->n_plans + 1 < 2 * PLANS ? l->n_plans + 1 : PLANS;
	return 0;
}

/* Inputs of a row with the zeros behind them. */
static int stride_of(const struct weight *w)
{
	return weight_tiles(w->columns) * WEIGHT_K_TILE;
}

static size_t input_bytes(const struct linear_args *a)
{
	size_t bytes = (size_t)a->n_tokens * (size_t)stride_of(a->weight) * sizeof(uint16_t);
	return (bytes + 255) / 256 * 256;
}

size_t library_workspace(const struct linear_args *a)
{
	return input_bytes(a) + LIBRARY_WORKSPACE;
}

static int multiply(struct library *l, const struct linear_args *a, const struct plan *wanted, char *workspace,
	struct descriptions *x, cudaStream_t stream, struct error *e)
{
	const float one = 1.0f, beta = wanted->residual ? 1.0f : 0.0f;
	struct plan *p = NULL;

	TRY(describe(l, wanted, a->bias, x, e));
	TRY(plan_find(l, wanted, x, &p, e));
	return status_check(l,
		l->matmul(l->lt, x->product, &one, a->weight->data, x->a, workspace, x->b, &beta,
			wanted->residual ? a->residual : a->y, x->d, a->y, x->d, &p->algo, workspace + input_bytes(a),
			LIBRARY_WORKSPACE, stream),
		"product", e);
}

int library_linear(
	struct library *l, const struct linear_args *a, void *workspace, cudaStream_t stream, struct error *e)
{
	const struct plan wanted = {.m = a->weight->rows,
		.n = a->n_tokens,
		.k = stride_of(a->weight),
		.bias = a->bias != NULL,
		.residual = a->residual != NULL};
	struct descriptions x = {0};

	if (a->part_count > 0)
		return error_set(e, ERR_USAGE, "ranks need products in fixed parts: expected --gemm own");
	if (a->n_tokens == 0)
		return 0;
	TRY(input_bf16_launch(a->x, a->n_tokens, a->weight->columns, workspace, stream, e));
	int status = multiply(l, a, &wanted, workspace, &x, stream, e);
	descriptions_free(l, &x);
	return status;
}

/* Stands in for libcublasLt: D = alpha A^T B + beta C + bias, of bf16 columns to f32, in the stream. VERSION is what it
 * says of itself. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda_on_cpu/cublasLt.h"
#include "tests/cuda_on_cpu/cuda_on_cpu.h"

struct cublaslt_handle {
	int open;
};

struct cublaslt_product {
	cublasOperation_t transposed;
	cublasLtEpilogue_t epilogue;
	const float *bias;
	cudaDataType bias_type;
};

struct cublaslt_layout {
	cudaDataType type;
	uint64_t rows, columns;
	int64_t ld;
};

struct cublaslt_preference {
	size_t workspace;
};

struct job {
	struct cublaslt_product product;
	uint64_t m, n, k;
	int64_t lda, ldb, ldc, ldd;
	const uint16_t *a, *b;
	const float *c;
	float alpha, beta, *d;
	char *workspace;
};

static const uint64_t algorithm = 0x5eed;

size_t cublasLtGetVersion(void)
{
	return VERSION;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
	return status == CUBLAS_STATUS_SUCCESS          ? "success"
		: status == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported"
							: "invalid value";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
	*handle = calloc(1, sizeof **handle);
	return *handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
	free(handle);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *product, cublasComputeType_t compute, cudaDataType scale)
{
	if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F)
		return CUBLAS_STATUS_INVALID_VALUE;
	*product = calloc(1, sizeof **product);
	if (!*product)
		return CUBLAS_STATUS_ALLOC_FAILED;
	**product = (struct cublaslt_product){CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, NULL, CUDA_R_16BF};
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(
	cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t which, const void *value, size_t size)
{
	void *place = &product->bias;

	if (size != (which == CUBLASLT_MATMUL_DESC_BIAS_POINTER ? sizeof product->bias : sizeof(int32_t)))
		return CUBLAS_STATUS_INVALID_VALUE;
	if (which == CUBLASLT_MATMUL_DESC_TRANSA)
		place = &product->transposed;
	else if (which == CUBLASLT_MATMUL_DESC_EPILOGUE)
		place = &product->epilogue;
	else if (which == CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE)
		place = &product->bias_type;
	memcpy(place, value, size);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product)
{
	free(product);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(
	cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows, uint64_t columns, int64_t ld)
{
	*layout = calloc(1, sizeof **layout);
	if (!*layout)
		return CUBLAS_STATUS_ALLOC_FAILED;
	**layout = (struct cublaslt_layout){type, rows, columns, ld};
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
	free(layout);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
	*preference = calloc(1, sizeof **preference);
	return *preference ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
	cublasLtMatmulPreferenceAttributes_t which, const void *value, size_t size)
{
	if (which != CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES || size != sizeof preference->workspace)
		return CUBLAS_STATUS_INVALID_VALUE;
	memcpy(&preference->workspace, value, size);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
	free(preference);
	return CUBLAS_STATUS_SUCCESS;
}

/* The one product that is known: bf16 columns that lie one behind the other, and a bias in f32. */
static bool is_known(const struct cublaslt_product *p, const struct cublaslt_layout *a, const struct cublaslt_layout *b,
	const struct cublaslt_layout *c, const struct cublaslt_layout *d)
{
	if (p->transposed != CUBLAS_OP_T || a->type != CUDA_R_16BF || b->type != CUDA_R_16BF || c->type != CUDA_R_32F ||
		d->type != CUDA_R_32F)
		return false;
	if (a->rows != b->rows || d->rows != a->columns || d->columns != b->columns || c->rows != d->rows ||
		c->columns != d->columns)
		return false;
	if (a->ld < (int64_t)a->rows || b->ld < (int64_t)b->rows || d->ld < (int64_t)d->rows)
		return false;
	return p->epilogue != CUBLASLT_EPILOGUE_BIAS || (p->bias && p->bias_type == CUDA_R_32F);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
	cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
	cublasLtMatmulPreference_t preference, int wanted, cublasLtMatmulHeuristicResult_t *results, int *found)
{
	*found = handle && wanted > 0 && is_known(product, a, b, c, d);
	if (*found)
		results[0] = (cublasLtMatmulHeuristicResult_t){
			.algo = {{algorithm, d->rows, d->columns, a->rows}}, .workspaceSize = preference->workspace};
	return CUBLAS_STATUS_SUCCESS;
}

static float widened(uint16_t code)
{
	uint32_t bits = (uint32_t)code << 16;
	float value;
	memcpy(&value, &bits, sizeof value);
	return value;
}

/* Sums from the end, which is another order than our products have. */
static void job_do(const void *argument)
{
	const struct job *j = argument;

	memset(j->workspace, 0xff, 64);
	for (int64_t column = 0; column < (int64_t)j->n; column++)
		for (int64_t row = 0; row < (int64_t)j->m; row++) {
			float sum = 0.0f;
			for (int64_t k = (int64_t)j->k - 1; k >= 0; k--)
				sum += widened(j->a[row * j->lda + k]) * widened(j->b[column * j->ldb + k]);
			sum *= j->alpha;
			if (j->product.epilogue == CUBLASLT_EPILOGUE_BIAS)
				sum += j->product.bias[row];
			if (j->beta != 0.0f)
				sum += j->beta * j->c[column * j->ldc + row];
			j->d[column * j->ldd + row] = sum;
		}
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product, const void *alpha, const void *a,
	cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,
	const void *c, cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
	const cublasLtMatmulAlgo_t *algo, void *workspace, size_t bytes, cudaStream_t stream)
{
	if (!handle || !is_known(product, a_layout, b_layout, c_layout, d_layout) || algo->data[0] != algorithm ||
		algo->data[1] != d_layout->rows || algo->data[2] != d_layout->columns ||
		algo->data[3] != a_layout->rows || bytes < 64)
		return CUBLAS_STATUS_NOT_SUPPORTED;
	struct job j = {*product, d_layout->rows, d_layout->columns, a_layout->rows, a_layout->ld, b_layout->ld,
		c_layout->ld, d_layout->ld, a, b, c, *(const float *)alpha, *(const float *)beta, d, workspace};
	cuda_on_cpu_stream_do(stream, job_do, &j, sizeof j);
	return CUBLAS_STATUS_SUCCESS;
}

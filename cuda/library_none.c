/* In place of cuBLASLt in a build without its header. */
#include "cuda/library.h"

static int not_built(struct error *e)
{
	return error_set(e, ERR_USAGE, "products by cuBLASLt: cublasLt.h was not found when this build was configured");
}

int library_open(struct library **out, struct error *e)
{
	*out = NULL;
	return not_built(e);
}

void library_close(struct library *l)
{
	(void)l;
}

void library_pack(const struct host_matrix *m, const void *packed, void *out)
{
	(void)m;
	(void)packed;
	(void)out;
}

size_t library_workspace(const struct linear_args *a)
{
	(void)a;
	return 0;
}

int library_linear(
	struct library *l, const struct linear_args *a, void *workspace, cudaStream_t stream, struct error *e)
{
	(void)l;
	(void)a;
	(void)workspace;
	(void)stream;
	return not_built(e);
}

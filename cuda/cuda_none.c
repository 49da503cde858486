/* In place of the backend in a build without CUDA. */
#include "cuda/cuda_backend.h"

static int not_built(struct error *e)
{
	return error_set(e, ERR_USAGE,
		"this build has no CUDA backend: it was configured with -Dcuda=disabled, or nvcc or the static CUDA "
		"runtime was not found");
}

int cuda_backend_new(const struct cuda_options *o, struct backend **out, struct error *e)
{
	(void)o;
	*out = NULL;
	return not_built(e);
}

int cuda_ranks_new(
	const struct cuda_options *o, int size, struct backend **backends, struct comm **comms, struct error *e)
{
	(void)o;
	for (int r = 0; r < size; r++) {
		backends[r] = NULL;
		comms[r] = NULL;
	}
	return not_built(e);
}

int cuda_machine_measure(int device, struct cuda_machine *out, struct error *e)
{
	(void)device;
	*out = (struct cuda_machine){0};
	return not_built(e);
}

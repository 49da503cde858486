#include <string.h>

#include "cuda/cuda_backend.h"
#include "cuda/nccl_comm.h"

static int backends_new(const struct cuda_options *o, int size, struct backend **backends, struct error *e)
{
	for (int r = 0; r < size; r++) {
		struct cuda_options own = *o;
		own.device += r;
		if (cuda_backend_new(&own, &backends[r], e) < 0)
			return error_prefix(e, "rank %d of %d", r, size);
	}
	return 0;
}

int cuda_ranks_new(
	const struct cuda_options *o, int size, struct backend **backends, struct comm **comms, struct error *e)
{
	memset(backends, 0, (size_t)size * sizeof(struct backend *));
	int status = backends_new(o, size, backends, e);
	if (status == 0)
		status = nccl_comms_new(backends, size, comms, e);
	for (int r = 0; r < size && status < 0; r++) {
		if (backends[r])
			backends[r]->ops->destroy(backends[r]);
		backends[r] = NULL;
	}
	return status;
}

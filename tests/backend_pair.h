/* The CPU backend, or the CUDA one on what stands in for a GPU. */
#ifndef ASSAY_TESTS_BACKEND_PAIR_H
#define ASSAY_TESTS_BACKEND_PAIR_H

#include "cuda/cuda_backend.h"
#include "engine/engine.h"
#include "tests/support.h"

static inline struct backend *backend_new(bool cuda)
{
	struct backend *b;

	if (cuda)
		CHECK_OK(cuda_backend_new(&(struct cuda_options){0}, &b, &test_error));
	else
		CHECK_OK(engine_cpu_backend(1, &b, &test_error));
	return b;
}

#endif

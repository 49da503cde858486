/* Cases of the CUDA kernels against the CPU's reference kernels: the same source for the GPU and for the CPU that
 * stands in for it. A case launches through cuda/kernels.cuh and knows of no test framework. */
#ifndef ASSAY_TESTS_CUDA_CASES_H
#define ASSAY_TESTS_CUDA_CASES_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "engine/base/error.h"

struct cuda_case_group {
	const char *op;
	int count;
	const char *(*name)(int i);
	/* 0, or a negative code and what differed. exact: where the order of sums is the reference's, its bits are
	 * expected (the CPU's mma step adds in order; a tensor core does not say how it adds). */
	int (*run)(int i, bool exact, struct error *e);
};

extern const struct cuda_case_group rmsnorm_cases, attend_cases;
extern const struct cuda_case_group input_cases, linear_cases, head_linear_cases, experts_cases;
extern const struct cuda_case_group rows_cases, route_cases, logits_cases;
extern const struct cuda_case_group qkv_cases, page_cases, latent_cases;

#ifdef __cplusplus
}
#endif

#endif

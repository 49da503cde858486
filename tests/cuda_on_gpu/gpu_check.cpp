/* The cases of the CUDA kernels on a GPU, or how fast the kernels are. Exit code: 0, 1 where a case fails, 77 without a
 * GPU. */
#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>

#include "tests/cuda_cases/cuda_cases.h"
#include "tests/cuda_on_gpu/gpu_support.h"

enum { EXIT_NO_GPU = 77, SMALL = 2 /* cases of each op for tools that are slow */ };

static const struct cuda_case_group *const groups[] = {&rmsnorm_cases, &rows_cases, &input_cases, &linear_cases,
	&head_linear_cases, &experts_cases, &qkv_cases, &attend_cases, &latent_cases, &page_cases, &route_cases,
	&logits_cases};

/* Returns how many cases failed. */
static int run_group(const struct cuda_case_group *group, int count)
{
	int failed = 0;
	for (int i = 0; i < count; i++) {
		struct error e = {};
		if (group->run(i, false, &e) == 0)
			continue;
		printf("FAILED  %s, %s: %s\n", group->op, group->name(i), e.message);
		failed++;
	}
	return failed;
}

static int run_cases(bool small)
{
	int count = 0, failed = 0;
	for (const struct cuda_case_group *group : groups) {
		const int n = small && group->count > SMALL ? SMALL : group->count;
		failed += run_group(group, n);
		count += n;
	}
	printf("%d cases, %d failed\n", count, failed);
	return failed > 0;
}

int main(int argc, char **argv)
{
	const bool small = argc == 2 && strcmp(argv[1], "--small") == 0,
		   measure = argc == 2 && strcmp(argv[1], "--measure") == 0;
	if (argc > 1 && !small && !measure) {
		fprintf(stderr, "usage: %s [--small | --measure]\n", argv[0]);
		return 2;
	}
	int n_devices = 0;
	if (cudaGetDeviceCount(&n_devices) != cudaSuccess || n_devices == 0) {
		printf("no GPU: built only\n");
		return EXIT_NO_GPU;
	}
	if (!measure)
		return run_cases(small);
	struct error e = {};
	if (gpu_measure(&e) == 0)
		return 0;
	fprintf(stderr, "%s\n", e.message);
	return 1;
}

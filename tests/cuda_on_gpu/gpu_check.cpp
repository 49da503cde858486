/* The cases of the CUDA kernels on a GPU, then how fast the kernels are. Exit code: 0, 1 where a case fails, 77
 * without a GPU. */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda_cases/cuda_cases.h"
#include "tests/cuda_on_gpu/gpu_support.h"

enum { EXIT_NO_GPU = 77 };

/* Returns how many cases failed. */
static int run_group(const struct cuda_case_group *group)
{
	int failed = 0;
	for (int i = 0; i < group->count; i++) {
		struct error e = {};
		const int status = group->run(i, false, &e);
		printf("%s  %s, %s%s%s\n", status < 0 ? "FAILED" : "ok    ", group->op, group->name(i),
			status < 0 ? ": " : "", e.message);
		failed += status < 0;
	}
	return failed;
}

static bool read_options(int argc, char **argv, struct gpu_peaks *peaks)
{
	for (int i = 1; i < argc; i += 2) {
		char *end = NULL;
		const double value = i + 1 < argc ? strtod(argv[i + 1], &end) : 0.0;
		if (value <= 0.0 || *end)
			return false;
		if (strcmp(argv[i], "--bandwidth") == 0)
			peaks->bytes_per_s = value * 1e9;
		else if (strcmp(argv[i], "--tensor") == 0)
			peaks->tensor_flops_per_s = value * 1e12;
		else if (strcmp(argv[i], "--fma") == 0)
			peaks->fma_flops_per_s = value * 1e12;
		else
			return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	struct gpu_peaks peaks = {};
	if (!read_options(argc, argv, &peaks)) {
		fprintf(stderr, "usage: %s [--bandwidth GB/s] [--tensor TFLOP/s] [--fma TFLOP/s]: the device's peaks\n",
			argv[0]);
		return 2;
	}
	int n_devices = 0;
	if (cudaGetDeviceCount(&n_devices) != cudaSuccess || n_devices == 0) {
		printf("no GPU: built only\n");
		return EXIT_NO_GPU;
	}
	cudaDeviceProp device;
	if (cudaGetDeviceProperties(&device, 0) != cudaSuccess) {
		fprintf(stderr, "device 0: cannot be asked for its properties\n");
		return 1;
	}
	printf("%s, compute capability %d.%d, %d multiprocessors\n", device.name, device.major, device.minor,
		device.multiProcessorCount);

	const int failed = run_group(&rmsnorm_cases) + run_group(&linear_cases) + run_group(&attend_cases);
	printf("%d cases, %d failed\n", rmsnorm_cases.count + linear_cases.count + attend_cases.count, failed);
	struct error e = {};
	if (failed == 0 && gpu_measure(&peaks, &e) < 0)
		fprintf(stderr, "%s\n", e.message);
	return failed > 0 || e.code != 0;
}

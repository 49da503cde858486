/* A burst of tensor core work, to measure what the device can do at most. */
#include "cuda/device_math.cuh"
#include "cuda/launch.cuh"
#include "cuda/machine.cuh"

enum { TILES = 4 }; /* independent sums of a warp, so that one waits for no other */

/* PRECOND: MACHINE_THREADS threads. sink: [grid * MACHINE_THREADS]. */
static __global__ void __launch_bounds__(MACHINE_THREADS) burst_kernel(int rounds, float *sink)
{
	float sum[TILES][4] = {};
	const uint32_t one = bf16_pair(1.0f, (float)threadIdx.x);
	uint32_t a[4] = {one, one, one, one}, b[2] = {one, one};

	for (int round = 0; round < rounds; round++) {
#pragma unroll
		for (int tile = 0; tile < TILES; tile++)
			mma_bf16(sum[tile], a, b);
	}
	float all = 0.0f;
#pragma unroll
	for (int tile = 0; tile < TILES; tile++)
		all += sum[tile][0] + sum[tile][1] + sum[tile][2] + sum[tile][3];
	sink[blockIdx.x * MACHINE_THREADS + threadIdx.x] = all;
}

double machine_burst_flops(int blocks, int rounds)
{
	return 2.0 * 16 * 8 * 16 * TILES * (MACHINE_THREADS / WARP) * (double)blocks * (double)rounds;
}

int machine_burst_launch(int blocks, int rounds, float *sink, cudaStream_t stream, struct error *e)
{
	LAUNCH(burst_kernel, (unsigned)blocks, MACHINE_THREADS, 0, stream, rounds, sink);
	return launch_status(cudaGetLastError(), "burst of products", e);
}

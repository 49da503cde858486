/* The stand-in for a GPU: CUDA threads are fibers of one CPU thread, blocks run one after another. How fibers take
 * turns, in which order blocks run and when an asynchronous copy arrives follow from a seed, so that a missing
 * barrier or wait shows as a difference between seeds, as NaN (shared memory starts as NaN), or as an error of the
 * launch. */
#ifndef ASSAY_TESTS_CUDA_ON_CPU_H
#define ASSAY_TESTS_CUDA_ON_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "engine/base/error.h"

/* Seed 0: threads in ascending order, copies as late as possible. Seed 1: descending, copies at once. Others: by
 * chance. */
void cuda_on_cpu_seed(uint64_t seed);

/* How many devices there are (1; -1: no driver), and how much memory may be allocated (all). */
void cuda_on_cpu_device(int devices, size_t memory);

/* Work of a stream, or of the graph that is captured from it, with a copy of what it is about. */
struct cuda_on_cpu_stream;
void cuda_on_cpu_stream_do(
	struct cuda_on_cpu_stream *stream, void (*work)(const void *about), const void *about, size_t bytes);

/* Work of a stream that may have to wait for another stream's: tried, under the stand-in's lock, until it says that it is
 * done. Before that it may note that it was tried. */
void cuda_on_cpu_stream_await(struct cuda_on_cpu_stream *stream, bool (*try_it)(void *argument), void *argument);
/* What such work waits for has changed. */
void cuda_on_cpu_streams_wake(void);

/* So far: graphs launched, kernels launched by themselves or into a graph, times that the host waited for a stream. */
int cuda_on_cpu_graph_launches(void);
int cuda_on_cpu_kernel_launches(void);
int cuda_on_cpu_waits(void);

/* Planted races: while barriers are watched, the places of the source with one (__syncthreads, __syncwarp) are numbered
 * as kernels come to them, and the one of that number lets its threads pass; -1: none. */
void cuda_on_cpu_watch_barriers(int passed);
int cuda_on_cpu_barrier_count(void);
const char *cuda_on_cpu_barrier_file(int i);
int cuda_on_cpu_barrier_line(int i);

/* Kernels with one known fault each, and sound ones: is the fault noticed? */
struct shim_case {
	const char *name;
	/* Part of the launch's error message; "" where some seed must give another result; NULL: sound. */
	const char *error;
	/* Runs a kernel over out[n]. Returns the launch's error message, or NULL. */
	const char *(*run)(float *out, int n);
	float (*expected)(int i);
};

enum { SHIM_CASE_VALUES = 128 };

extern const struct shim_case shim_cases[];
extern const int shim_case_count;

/* The matrix products with one fault each, and sound: the bits must be those of the product as it is where nothing is
 * wrong, and others under some seed where something is. */
struct planted_faults {
	int count;
	const char *(*name)(int i);
	bool (*wrong)(int i);
	int (*run)(int i, struct error *e); /* 0: the same bits */
};

extern const struct planted_faults planted_faults;

#ifdef __cplusplus
}
#endif

#endif

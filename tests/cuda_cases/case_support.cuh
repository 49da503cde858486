/* What the cases share: memory of the device, random values, comparisons. C++. */
#ifndef ASSAY_TESTS_CUDA_CASES_CASE_SUPPORT_CUH
#define ASSAY_TESTS_CUDA_CASES_CASE_SUPPORT_CUH

#include <cuda_runtime.h>
#include <random>
#include <stdint.h>
#include <vector>

extern "C" {
#include "engine/backend.h"
}
#include "tests/cuda_cases/cuda_cases.h"

/* Ends the program when a call of the runtime fails: no case goes on without memory. */
void device_require(cudaError_t status, const char *what);

/* Device memory that lives as long as the object; filled with 0xff bytes (NaN in every format), or a copy. */
template <class T> struct device_array {
	T *data;
	size_t count;

	explicit device_array(size_t n) : data(NULL), count(n)
	{
		allocate();
		device_require(cudaMemset(data, 0xff, n * sizeof(T)), "memset");
	}
	explicit device_array(const std::vector<T> &values) : data(NULL), count(values.size())
	{
		allocate();
		device_require(cudaMemcpy(data, values.data(), count * sizeof(T), cudaMemcpyHostToDevice), "upload");
	}
	device_array(const device_array &) = delete;
	device_array &operator=(const device_array &) = delete;
	~device_array()
	{
		cudaFree(data);
	}
	std::vector<T> download() const
	{
		std::vector<T> values(count);
		device_require(cudaMemcpy(values.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost), "download");
		return values;
	}

      private:
	void allocate()
	{
		void *memory = NULL;
		device_require(cudaMalloc(&memory, count * sizeof(T)), "allocation");
		data = static_cast<T *>(memory);
	}
};

/* Waits for the device: 0, or ERR_DEVICE. */
int device_finish(const char *what, struct error *e);

typedef std::mt19937 generator;

/* n values in [-1, 1). */
std::vector<float> random_values(generator &g, size_t n);

/* Both return 0, or ERR_INPUT with the place and the values of the first difference. row: values per row, for the
 * message. */
int compare_bits(const char *what, const float *values, const float *expected, size_t n, size_t row, struct error *e);
/* n values of a cache: the same codes, but that every NaN is as good as another. */
int compare_stored(
	const char *what, enum kv_format format, const void *values, const void *expected, size_t n, struct error *e);
/* Normalised mean squared error; values that are not finite never pass. */
int compare_nmse(const char *what, const float *values, const float *expected, size_t n, double most, struct error *e);

#endif

/* Matrices of every format for the cases of the matrix products: their values, packed on the device and for the CPU. */
#ifndef ASSAY_TESTS_CUDA_CASES_MATRIX_DATA_CUH
#define ASSAY_TESTS_CUDA_CASES_MATRIX_DATA_CUH

#include "tests/cuda_cases/case_support.cuh"

extern "C" {
#include "engine/backend.h"
}

struct matrix_shape {
	enum weight_format format;
	int group; /* INT4 */
	bool quantize_input;
	int rows, columns, parts;
};

struct matrix_data {
	matrix_shape shape;
	std::vector<uint8_t> bytes;         /* of struct host_matrix */
	std::vector<float> scales;          /* E4M3 [rows] */
	std::vector<uint16_t> group_scales; /* INT4 [rows, groups] */
	struct weight weight;               /* on the device */

	matrix_data(const matrix_shape &s, generator &g);
	matrix_data(const matrix_data &) = delete;
	matrix_data &operator=(const matrix_data &) = delete;
	~matrix_data();
	struct host_matrix host() const;
	/* The CPU's packing, for weight_free_cpu. */
	struct weight pack_cpu() const;
	/* The stored value times its scale. */
	double value(size_t row, size_t column) const;

      private:
	device_array<uint8_t> *data, *device_scales;
};

/* x as the product sees it: rounded to bf16, or to E4M3 with the scale of its row, or as it is. x: [n_tokens, columns].
 */
std::vector<float> operand_values(const matrix_shape &s, const std::vector<float> &x);

/* linear_ref over such operands. PRECOND: a->weight is a packing of the CPU's. */
void reference_product(const struct linear_args *a);

/* A result of reference_product's kind against its expected values: bits where the order of sums is the same. */
int compare_products(const char *what, const std::vector<float> &y, const std::vector<float> &expected, size_t row,
	bool exact, struct error *e);

#endif

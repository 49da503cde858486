/* Matrices of a checkpoint in host memory, ready for a backend to pack: as they are stored, or quantised by whole rows.
 * Threads share the rows; each row is computed by itself, so their number changes no bit. */
#ifndef ASSAY_ENGINE_MODEL_WEIGHT_READ_H
#define ASSAY_ENGINE_MODEL_WEIGHT_READ_H

#include "engine/model/weights.h"

enum { MAX_FUSED = 3 };

/* Matrices of the checkpoint that become one, row blocks in order. */
struct fused {
	const struct tensor *tensors[MAX_FUSED];
	int count;
	int rows, columns;
};

/* BF16 when every part is, else widened to f32 (exact for F16 and F32). */
enum weight_format fused_format(const struct fused *f);

struct weight_matrix {
	struct host_matrix m; /* borrows what follows */
	uint8_t *data;
	float *scales;
	uint16_t *group_scales;
};

/* The matrix in the scheme's format. ERR_INPUT names the tensor, and the first row that cannot be quantised. What was read
 * of the file leaves memory again. To be freed on failure too. */
int weight_read(const struct fused *f, const struct weight_scheme *scheme, struct thread_pool *threads,
	struct weight_matrix *out, struct error *e);
void weight_matrix_free(struct weight_matrix *w);

/* Rows [first, first + n) as they are stored, in fused_format. out: [n, columns]. After the last of them: fused_release. */
int weight_read_rows(const struct fused *f, int first, int n, struct thread_pool *threads, void *out, struct error *e);

/* What is left of the tensors' files in memory leaves it: a thread that reads its rows also brings in again what lies around
 * them, and another had done with. */
void fused_release(const struct fused *f);

#endif

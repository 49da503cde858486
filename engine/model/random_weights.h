/* Weights that nobody trained: BF16 tensors of whatever name and shape a model asks for, drawn by a seed. Enough to
 * measure speed and memory of a model that is not there. */
#ifndef ASSAY_ENGINE_MODEL_RANDOM_WEIGHTS_H
#define ASSAY_ENGINE_MODEL_RANDOM_WEIGHTS_H

#include "engine/base/error.h"
#include "engine/model/tensor.h"

struct random_weights;
struct thread_pool;

struct random_weights *random_weights_new(uint64_t seed, struct error *e);
void random_weights_delete(struct random_weights *r);

/* A new tensor, [rows] when columns is 0. Matrices are uniform with variance 1 / columns, so that activations keep
 * their size; norms are 1; biases are uniform in ±0.02. It depends on the seed, its number and its shape alone, not on
 * the threads that draw it (NULL: the caller's).
 * ERR_MEMORY when it does not fit. */
int random_weights_draw(struct random_weights *r, struct thread_pool *threads, const char *name, int64_t rows,
	int64_t columns, const struct tensor **out, struct error *e);

/* In the order in which they were drawn. */
size_t random_weights_count(const struct random_weights *r);
const struct tensor *random_weights_at(const struct random_weights *r, size_t i);

#endif

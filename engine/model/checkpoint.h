/* A checkpoint: a Hugging Face folder with its safetensors file or shards, or a GGUF file, under the same names of tensors. */
#ifndef ASSAY_ENGINE_MODEL_CHECKPOINT_H
#define ASSAY_ENGINE_MODEL_CHECKPOINT_H

#include <stdint.h>

#include "engine/base/error.h"
#include "engine/base/hash.h"
#include "engine/model/model_config.h"
#include "engine/model/tensor.h"

struct checkpoint;
struct thread_pool;

/* Opens a GGUF file (gguf_model.h), or a folder: config.json, generation_config.json where there is one, and
 * model.safetensors, or else the shards that model.safetensors.index.json names. Only files that the index names are
 * read, and of them only the tensors that it puts there; a missing shard is refused by its name before anything is
 * loaded, as is a tensor that the index puts in a shard that lacks it. */
int checkpoint_open(const char *path, struct checkpoint **out, struct error *e);
void checkpoint_close(struct checkpoint *c);

/* A checkpoint that is not there: the model that a config.json describes, with weights drawn by the seed as they are
 * required (random_weights.h). It has no tensor that a model may have. */
int checkpoint_random(const char *config_path, uint64_t seed, struct checkpoint **out, struct error *e);

/* Random weights are drawn by these threads from here on; NULL: by the caller's alone, as at first. They change no bit. */
void checkpoint_use_threads(struct checkpoint *c, struct thread_pool *threads);

const struct model_config *checkpoint_config(const struct checkpoint *c);

/* NULL: not there. */
const struct tensor *checkpoint_find(const struct checkpoint *c, const char *name);
/* The same, and marks it as used: for tensors that a model may have. */
const struct tensor *checkpoint_use(struct checkpoint *c, const char *name);

/* A tensor that must be there with that shape (rank 1 when columns is 0), else ERR_INPUT that names file, tensor, both
 * shapes. Marks the tensor as used. */
int checkpoint_require(struct checkpoint *c, const char *name, int64_t rows, int64_t columns, const struct tensor **out,
	struct error *e);

/* sha256 over (name, type, shape, bytes) of the tensors marked as used, in order of name: the model's fingerprint, the
 * same whatever safetensors files they lie in. Of a GGUF file also over the keys that describe the model, of random weights as they were drawn. Reads them all,
 * and leaves none of the file in memory. */
int checkpoint_fingerprint(const struct checkpoint *c, char out[SHA256_HEX_SIZE], struct error *e);

#endif

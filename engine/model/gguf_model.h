/* What a GGUF file says of its model: the description, and the tensors under the names that Hugging Face checkpoints
 * have. */
#ifndef ASSAY_ENGINE_MODEL_GGUF_MODEL_H
#define ASSAY_ENGINE_MODEL_GGUF_MODEL_H

#include "engine/model/gguf.h"
#include "engine/model/model_config.h"

enum { GGUF_MODEL_NAME_SIZE = 96 };

struct gguf_model {
	struct model_config config; /* borrows from the file */
	struct tensor *tensors;     /* [count], owned; the data are the file's */
	size_t count;
	char *names; /* of the tensors, owned */
};

/* Architectures are those of the family table. The tensors carry how their rows become the model's: in a file that
 * holds any block type all matrices are rounded to BF16, and Llama's rows of q and k are put back from pairs to
 * halves. Tensors of other names are left out, besides rope_freqs.weight, which keeps its name. Refused by name:
 * other architectures, rope types and mixtures of experts, files that are parts of a split one, keys out of range.
 * *out starts zeroed; free it also after a failure. */
int gguf_model_read(const struct gguf *g, struct gguf_model *out, struct error *e);
void gguf_model_free(struct gguf_model *m);

/* How the file spells the name of a model's tensor, for errors; a name that has no other spelling as it is. */
void gguf_model_name_in_file(const char *name, char out[GGUF_MODEL_NAME_SIZE]);

/* The key is of the description: it begins with the architecture's name and a dot. */
bool gguf_model_is_described_by(const struct gguf_model *m, const struct gguf_key *key);

#endif

/* Where a model lies: what --model means. */
#ifndef ASSAY_EVALS_MODEL_PATH_H
#define ASSAY_EVALS_MODEL_PATH_H

#include "engine/base/error.h"
#include "evals/cli.h"

/* A folder or a .gguf file as it is; "org/name" that is neither: its newest snapshot in the hub cache (HF_HUB_CACHE,
 * else $HF_HOME/hub, else ~/.cache/huggingface/hub); NULL: the bundled pocket model. The caller frees the path.
 * ERR_MISSING says where it was looked for. */
int model_path(const struct options *o, char **out, struct error *e);

/* --data, or the data of the bundled pocket set. The caller frees the path. */
int data_path(const struct options *o, char **out, struct error *e);

#endif

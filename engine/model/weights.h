/* A model's weights in one variant's formats, packed once at load. The checkpoint's matrices that read the same
 * input are fused by rows (q, k, v; gate, up), which changes no bit: every output row has its own sum and its own
 * scales. */
#ifndef ASSAY_ENGINE_MODEL_WEIGHTS_H
#define ASSAY_ENGINE_MODEL_WEIGHTS_H

#include "engine/backend.h"
#include "engine/comm.h"
#include "engine/model/checkpoint.h"

/* How a variant stores the matrices of the layers. Embeddings, head, norms and biases keep their checkpoint format. */
struct weight_scheme {
	const char *name;
	bool quantized;            /* false: as the checkpoint stores them */
	enum weight_format format; /* of the quantised */
	int group;                 /* INT4 */
	bool quantize_input;       /* W8A8 */
};

/* "bf16", "fp8", "fp8w", "int4", "int4g32", "int4g64"; NULL: not known. */
const struct weight_scheme *weight_scheme_find(const char *name);
/* "bf16 fp8 fp8w ..." for messages. */
const char *weight_scheme_names(void);

typedef void load_progress(void *context, int layer, int n_layers);

/* Of a rank its own share: query and kv heads, inner size and vocabulary are divided by the number of ranks, the last
 * rounded up and filled with zero rows. Norms, embedding, and the biases of o and down are whole on every rank. */
struct layer_weights {
	float *attention_norm, *ffn_norm; /* [device] [H] */
	float *q_norm, *k_norm;           /* [device] [D] or NULL */
	float *qkv_bias, *o_bias;         /* [device] [(N + 2G) D], [H], or NULL */
	float *gate_up_bias, *down_bias;  /* [device] [2I], [H], or NULL */
	struct weight qkv;                /* [(N + 2G) D, H] */
	struct weight o;                  /* [H, N D] in parts: those of the rank */
	struct weight gate_up;            /* [2I, H] */
	struct weight down;               /* [H, I] likewise */
	float k_scale, v_scale;           /* of an fp8 cache: from the checkpoint, else 1 */
};

struct model_weights {
	struct backend *backend;
	int n_layers;
	struct layer_weights *layers;
	void *embedding; /* [device] [V, H] */
	enum weight_format embedding_format;
	float *final_norm;  /* [device] [H] */
	struct weight head; /* [V, H] */
	/* of the whole model, on rank 0 alone: */
	uint64_t parameters; /* tied ones once */
	uint64_t bytes;      /* in their formats, without the packing's padding, tied ones once */
	bool has_kv_scales;  /* and so are the layers' k_scale and v_scale */
	bool head_untied;    /* the configuration ties the head, but the checkpoint has another one: that one is used */
};

/* Whether n ranks can share a model: they must divide the parts of o and of down, or a rank's sums would not be
 * those of one. ERR_USAGE says what they do not divide. */
int model_ranks_check(
	const struct model_config *config, const struct weight_scheme *scheme, int n_ranks, struct error *e);

/* What to load weights for: the ranks of one model, each with its backend. PRECOND: model_ranks_check. */
struct weights_ranks {
	struct model_weights *weights[COMM_MAX_RANKS];
	struct backend *backends[COMM_MAX_RANKS];
	int n;
	struct thread_pool *threads; /* that read, quantise and pack; NULL: the caller's alone */
};

/* Reads everything, quantises whole rows, and packs for each rank its share. progress (may be NULL) is called with
 * context after each layer. */
int model_weights_load(const struct weights_ranks *ranks, struct checkpoint *checkpoint,
	const struct weight_scheme *scheme, load_progress *progress, void *context, struct error *e);
void model_weights_free(struct model_weights *w); /* zeroes *w */

#endif

/* The model description: what config.json says, in one struct that every family fills. A new family adds a row to the
 * family table (model_config.c) and sets fields; the forward pass branches on fields, never on names.
 * Letters: H hidden, L layers, N query heads, G kv heads, D head size, I inner size, E experts, V vocabulary. */
#ifndef ASSAY_ENGINE_MODEL_MODEL_CONFIG_H
#define ASSAY_ENGINE_MODEL_MODEL_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/error.h"
#include "engine/base/json_strict.h"
#include "engine/model/rope.h"

/* Bounds far beyond any known model; N * D fits 32 bits, and the bytes of any matrix fit 64. */
enum {
	MODEL_MAX_EOS = 16,
	MODEL_MAX_LAYERS = 512,
	MODEL_MAX_HIDDEN = 1 << 16,
	MODEL_MAX_HEADS = 1 << 12,
	MODEL_MAX_HEAD_DIM = 1 << 12,
	MODEL_MAX_INNER = 1 << 20,
	MODEL_MAX_VOCAB = 1 << 24,
	MODEL_MAX_POSITIONS = 1 << 24,
};

enum attention_kind { ATTENTION_GQA, ATTENTION_MLA };
enum router_kind { ROUTER_NONE, ROUTER_SOFTMAX_TOPK, ROUTER_SIGMOID_NOAUX };

struct mla_config {                          /* section 4 of MODELS.md; used when attention is ATTENTION_MLA */
	int q_lora_rank;                     /* 0: a single q_proj */
	int kv_lora_rank;                    /* C */
	int qk_nope_dim, qk_rope_dim, v_dim; /* Dn, Dr, Dv */
};

struct moe_config { /* sections 3 and 5; used when router is not ROUTER_NONE */
	enum router_kind router;
	int n_experts, n_experts_per_token; /* E, K */
	int n_group, topk_group;            /* 1, 1 without groups */
	int inner_size;                     /* of one expert */
	int n_shared;                       /* shared experts: inner size n_shared * inner_size */
	bool normalize_topk;
	double scaling_factor;
	int first_dense; /* layers before it are dense */
	int sparse_step; /* layer l is sparse if (l + 1) % sparse_step == 0 */
};

struct model_config {
	char family[32]; /* model_type: "llama", ... */
	int hidden_size; /* H */
	int n_layers;    /* L */
	int n_heads;     /* N */
	int n_kv_heads;  /* G, divides N */
	int head_dim;    /* D; N * D need not be H */
	int inner_size;  /* I, of a dense layer */
	int vocab_size;  /* V: rows of the embedding */
	int max_positions;
	float norm_eps;
	bool tied_embeddings;
	bool qkv_bias, o_bias, mlp_bias;
	bool qk_norm; /* per head RMSNorm of q and k after projection, before RoPE */
	enum attention_kind attention;
	struct rope_config rope;
	struct mla_config mla;
	struct moe_config moe;
	int32_t bos_token; /* -1: none */
	int32_t eos_tokens[MODEL_MAX_EOS];
	int n_eos_tokens;
};

/* Fills *config from config.json's root (name stands in errors) and, unless NULL, generation_config.json's root, whose
 * eos_token_id wins where it has one. Old and new forms are read (MODELS.md section 0): rope_theta + rope_scaling or
 * rope_parameters, `type` or `rope_type`, head_dim absent or null (H / N, rounded down), text_config nesting. Values
 * out of range, a family or a feature (hidden_act, rope type, quantisation) that is not built are refused by name. */
int model_config_parse(const struct json *config_json, const char *name, const struct json *generation_json,
	struct model_config *config, struct error *e);

/* What the code of a family fixes; NULL: not built. name is config.json's model_type, and general.architecture of a GGUF file. */
struct model_family {
	const char *name;
	bool qkv_bias;        /* always, and o never; else the checkpoint says, of all four */
	bool mlp_bias_choice; /* the checkpoint says; else never */
	bool qk_norm;
	int head_dim;      /* where config.json has none; 0: H / N, rounded down */
	int max_positions; /* where config.json has none */
};
const struct model_family *model_family_find(struct str name);
/* "llama, ..." for messages. */
const char *model_family_names(void);

/* Reads FOLDER/config.json and FOLDER/generation_config.json. */
int model_config_read(const char *folder, struct model_config *config, struct error *e);

#endif

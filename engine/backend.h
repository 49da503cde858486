/* The op table that a backend fills. Ops have the grain of a fused kernel and work on ragged batches: T tokens of B
 * sequences, rows of one token contiguous. The CPU backend is the oracle of every other one.
 *
 * Every op obeys NUMERICS section 3: an output element depends on its own inputs alone, in one order of sums, whatever
 * T, B and the number of threads are. Pointers marked [device] come from the backend's alloc; all others are host
 * memory. Shapes are row-major. Ops return nothing: a device error is kept and reported by finish(). What an op leaves
 * in host memory is there after finish() (verify_pages: when it returns, unless it is deferred; without success every
 * sequence is bad). Arguments are checked by the caller (programmer errors).
 *
 * Letters: T tokens, B sequences, H hidden, N query heads, G kv heads, D head size, I inner size, E experts, P pages, V
 * vocabulary. */
#ifndef ASSAY_ENGINE_BACKEND_H
#define ASSAY_ENGINE_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/error.h"

/* ---- formats ---- */

enum weight_format {
	WEIGHT_F32,
	WEIGHT_BF16,
	WEIGHT_E4M3, /* one f32 scale per output row: y = scale * (sum of codes * x) */
	WEIGHT_INT4, /* bf16 scale per group of inputs: y = sum over groups of s_g * (sum of q * x) */
};

enum kv_format { KV_F32, KV_BF16, KV_E4M3 };

const char *weight_format_name(enum weight_format format); /* "f32", "bf16", "e4m3", "int4" */
const char *kv_format_name(enum kv_format format);         /* "f32", "bf16", "fp8" */
size_t kv_format_size(enum kv_format format);              /* bytes per value: 4, 2, 1 */

/* A matrix in host memory, [rows, columns] row-major, not necessarily aligned. */
struct host_matrix {
	enum weight_format format;
	int rows, columns;
	int group;                    /* INT4: inputs per scale; the last group of a row may be shorter */
	const void *data;             /* f32, bf16, E4M3 codes, or INT4: one byte per value holding q + 8 */
	const float *scales;          /* E4M3: [rows] */
	const uint16_t *group_scales; /* INT4: [rows, ceil(columns / group)] bf16 */
	struct thread_pool *threads;  /* that pack it; NULL: the caller's alone. They change no bit. */
};

/* ERR_INPUT names the first code that is no weight: the NaN among E4M3, above 15 in INT4. */
int host_matrix_check(const struct host_matrix *m, struct error *e);

/* A matrix in the backend's own packing. [rows] = outputs, [columns] = inputs (K). */
struct weight {
	enum weight_format format;
	int rows, columns, group;
	int parts;           /* the sum over K is cut in this many equal parts (linear_parts) */
	bool quantize_input; /* E4M3: W8A8, the input is rounded to E4M3 with a scale per token */
	void *data;          /* [device] owned, packed */
	void *scales;        /* [device] owned, or NULL */
	size_t bytes;        /* of data and scales */
};

/* Number of parts of a row-parallel product: the largest of 8, 4, 2, 1 that divides heads (pass 0 where heads do not
 * matter) and cuts columns at multiples of unit (the quantisation group, 32 without one). NUMERICS section 3, rule 1.
 */
int linear_parts(int columns, int heads, int unit);

/* ---- KV cache ---- */

struct kv_geometry {
	int page_size; /* token slots of a page; divides 64 */
	int n_pages;   /* P, page 0 reserved */
	int n_kv_heads, head_dim;
};

/* One layer's cache: k and v are [P, G, page_size, D] in their format; stored value = value / scale. */
struct kv_layer {
	enum kv_format format;
	void *k, *v; /* [device] */
	float k_scale, v_scale;
};

enum { ATTENTION_BLOCK = 64 }; /* positions per step of the running softmax, counted from 0 */

/* ---- op arguments ---- */

struct embed_args {
	const void *table; /* [device] [V, H], f32 or bf16 */
	enum weight_format format;
	const int32_t *ids; /* [T] */
	int n_tokens, hidden;
	float *out; /* [device] [T, H] */
};

struct rmsnorm_args {            /* y = w * (x / sqrt(mean(x^2) + eps)) */
	const float *x, *weight; /* [device] [T, H], [H] */
	int n_tokens, hidden;
	float eps;
	float *y; /* [device] [T, H]; may be x */
};

struct linear_args { /* y = x W^T (+ bias) (+ residual) */
	const struct weight *weight;
	const float *x; /* [device] [T, columns] */
	int n_tokens;
	const float *amax;     /* [device] [T] largest |x| per token: PRECOND of quantize_input, else NULL */
	const float *bias;     /* [device] [rows] or NULL */
	const float *residual; /* [device] [T, rows] or NULL; may be y */
	float *y;              /* [device] [T, rows] */
	/* Ranks: only parts [part_first, part_first + part_count) of the weight's, each to parts_out [T, rows] apart, no
	 * bias, no residual. part_count 0: the whole product. */
	int part_first, part_count;
	float *parts_out; /* [device] [part_count, T, rows] */
};

struct parts_sum_args {     /* y = tree sum of the parts (+ bias) (+ residual): what linear does inside */
	const float *parts; /* [device] [n_parts, T, rows] */
	int n_parts, n_tokens, rows;
	const float *bias, *residual;
	float *y;
};

struct row_amax_args {  /* amax[t] = max |x[t]| */
	const float *x; /* [device] [T, columns] */
	int n_tokens, columns;
	float *amax; /* [device] [T] */
};

struct rope_table_args {                  /* cos and sin of position * f_i, as transformers: the product in float */
	const int32_t *positions;         /* [T] */
	const float *inverse_frequencies; /* [R / 2] */
	int n_tokens, rotary_dim;
	float *table; /* [device] [T, R]: R/2 cosines, then R/2 sines */
};

struct qkv_finish_args {              /* bias, q/k norm, RoPE in place; then K and V of each token to its slot */
	float *qkv;                   /* [device] [T, (N + 2G) * D]: q heads, k heads, v heads */
	const float *bias;            /* [device] [(N + 2G) * D] or NULL */
	const float *q_norm, *k_norm; /* [device] [D] or NULL */
	float norm_eps;
	const float *rope; /* [device] rope table [T, R] */
	int rotary_dim;
	bool rope_interleaved;
	int n_tokens, n_heads;
	struct kv_geometry geometry;
	struct kv_layer layer;
	const int64_t *slots; /* [T] physical slot: page * page_size + offset */
	uint64_t *saturated;  /* host: += values of K, V that were clipped to the format's largest; NULL: not counted */
};

struct attend_args {    /* causal attention over the cache, for prefill, chunk and decode alike */
	const float *q; /* [device] row t at q + t * q_stride: N heads of D */
	int q_stride;
	int n_tokens, n_sequences, n_heads;
	float scale; /* of q.k */
	struct kv_geometry geometry;
	struct kv_layer layer;
	const int32_t *cu_seqlens;     /* [B + 1] first token row of each sequence */
	const int32_t *first_position; /* [B] position of that token: it sees positions 0..own */
	const int32_t *block_tables;   /* [B, table_stride] physical page of each logical page */
	int table_stride;
	float *out; /* [device] [T, N * D] */
};

struct latent_write_args { /* MLA: cache row [c (C) | kpe (Dr)] of each token to its slot; layer.k is [P, page_size, C +
			      Dr], v NULL */
	const float *latent; /* [device] [T, C + Dr] */
	int n_tokens, width; /* C + Dr */
	struct kv_geometry geometry;
	struct kv_layer layer;
	const int64_t *slots;
	uint64_t *saturated;
};

struct latent_attend_args { /* MLA absorbed: score = q . row * scale, out = sum p * c */
	const float *q;     /* [device] [T, N, C + Dr] */
	int n_tokens, n_sequences, n_heads;
	int value_width, width; /* C, C + Dr */
	float scale;
	struct kv_geometry geometry;
	struct kv_layer layer;
	const int32_t *cu_seqlens, *first_position, *block_tables;
	int table_stride;
	float *out; /* [device] [T, N, C] */
};

struct head_linear_args {             /* a matrix per head: y[t, n] = W_n x[t, n] (MLA's absorbed products) */
	const struct weight *weights; /* [N] each [out, in] */
	const float *x;               /* [device] head n of token t at x + t * x_stride + n * x_head_stride */
	int x_stride, x_head_stride;
	int n_tokens, n_heads;
	float *y; /* [device] likewise */
	int y_stride, y_head_stride;
};

struct swiglu_args {          /* y = silu(gate) * up, silu(z) = z / (1 + exp(-z)) */
	const float *gate_up; /* [device] [T, 2 I]: gate, then up */
	int n_tokens, inner;
	float *y; /* [device] [T, I] */
};

struct route_args {                        /* scores of the router to experts and weights; MODELS sections 3 and 5 */
	const float *logits;               /* [device] [T, E] */
	const float *bias;                 /* [device] [E] chooses only (sigmoid router), or NULL */
	int n_tokens, n_experts, n_chosen; /* T, E, K */
	bool sigmoid;                      /* else softmax over all E */
	int n_group, topk_group;           /* 1, 1 without groups */
	bool normalize;
	float scaling;
	int32_t *experts; /* [device] [T, K] ascending expert index */
	float *weights;   /* [device] [T, K] */
};

struct experts_args {   /* y = sum over chosen experts, ascending, of w * down(swiglu(gate_up x)) (+ residual) */
	const float *x; /* [device] [T, H] */
	int n_tokens, hidden, inner, n_chosen, n_experts;
	const int32_t *experts;       /* [device] [T, K] */
	const float *weights;         /* [device] [T, K] */
	const struct weight *gate_up; /* [E] each [2 I, H] */
	const struct weight *down;    /* [E] each [H, I] */
	const float *residual;        /* [device] [T, H] or NULL */
	float *y;                     /* [device] [T, H] */
};

struct sampling {
	float temperature; /* 0: greedy */
	int top_k;         /* 0: all */
	float top_p;       /* 1: all */
	uint64_t seed;     /* the draw is philox_uniform(seed, position) */
};

/* What is wanted of one row of logits; results are host memory. log p = logit - max - log sum exp, in float over the
 * vocabulary. */
struct logits_row {
	int token;      /* row of x that feeds it: index in [0, T) */
	int32_t target; /* -1: none */
	bool sample;    /* draw sampled by *sampling */
	struct sampling sampling;
	uint64_t position; /* of the token that is drawn */
	int top_count;     /* top_ids, top_logprobs hold so many; 0: none */
	int32_t *top_ids;  /* descending log-probability, lowest id among equals */
	float *top_logprobs;
	float *all_logprobs; /* [V] or NULL */
	/* out */
	float target_logprob;
	int32_t argmax; /* lowest id among equals */
	int32_t sampled;
	float sampled_logprob; /* by the plain distribution, whatever the temperature */
};

struct logits_args {
	const float *x;            /* [device] [T, H] after the final norm */
	const struct weight *head; /* [V, H] */
	int hidden, vocab;
	/* Ranks: the logits are there already, and x and head are not read. [device] [logits_parts, n_rows, ceil(V /
	 * logits_parts)]: row i of a part is rows[i], the last part is filled up with what is not read. NULL: not so. */
	const float *logits;
	int logits_parts;
	struct logits_row *rows;
	int n_rows;
};

/* A caller of verify_pages that can wait for finish() names the batch that is about to be computed. A backend that defers
 * the answer parks every bad sequence itself: until that finish() its ops, where they name these arrays, take the
 * sequence as one that begins on page 0 (its entries and first position 0, its slots from 0 on within page 0), so no
 * page that it names is read or written. Host memory stays as it is. The arrays are checked as they are when the first
 * op names one of them (at finish(), where none does), and stay in place; first_bad is written by a finish() that
 * succeeds, and by nothing else. */
struct verify_deferral {
	const int32_t *cu_seqlens;     /* [B + 1] first token of each sequence */
	const int32_t *first_position; /* [B] */
	const int64_t *slots;          /* [T] */
	int page_size;
	bool deferred; /* out, false before: the answer is still to come */
};

struct verify_pages_args {           /* tables against expected tags; bounds come before any read of a tag */
	const int32_t *block_tables; /* the tables that attend will read: [B, table_stride] */
	int table_stride, n_sequences;
	const int32_t *n_used;     /* [B] logical pages in use */
	const int32_t *rows;       /* [B] row of the sequence in what is expected; NULL: the sequence's own number */
	int expected_stride;       /* logical pages of such a row; 0: table_stride */
	const uint64_t *expected;  /* [rows, expected_stride] tag of each logical page */
	const int32_t *pages;      /* [rows, expected_stride] physical page of each, or NULL: any that has the tag */
	const uint64_t *page_tags; /* [P] */
	int n_pages;
	int32_t *
		first_bad; /* [B] host: first logical page that is out of bounds, another, or has another tag; -1: none */
	struct verify_deferral *deferral; /* NULL: the answer is wanted at once */
};

struct copy_pages_args { /* hand-over and copy on write: page source[i] of `from` to page target[i] of `to`, with
			    conversion */
	struct kv_geometry from_geometry, to_geometry; /* same page size, heads and head size */
	struct kv_layer from, to;
	const int32_t *source, *target; /* [n] */
	int n;
	int n_tokens; /* token slots of each page to copy, from its start */
	uint64_t *saturated;
};

/* ---- the table ---- */

struct backend;

struct backend_ops {
	const char *name;     /* "cpu", "cuda" */
	const char *numerics; /* numerics id: only runs of one id may claim an exact match */

	void (*destroy)(struct backend *b);
	/* From here to finish the host arrays that ops name do not change: a backend may take each over once. */
	void (*batch_begin)(struct backend *b);
	int (*finish)(struct backend *b, struct error *e); /* waits for all ops; reports a kept device error */

	/* memory; alloc zeroes, and may reserve lazily; NULL and *e when it fails */
	void *(*alloc)(struct backend *b, size_t bytes, struct error *e);
	void (*free)(struct backend *b, void *memory);
	void (*upload)(struct backend *b, void *device, const void *host, size_t bytes);
	void (*download)(struct backend *b, void *host, const void *device, size_t bytes);
	int (*weight_pack)(
		struct backend *b, const struct host_matrix *m, int parts, struct weight *out, struct error *e);
	void (*weight_free)(struct backend *b, struct weight *w);

	void (*embed)(struct backend *b, const struct embed_args *a);
	void (*rmsnorm)(struct backend *b, const struct rmsnorm_args *a);
	void (*linear)(struct backend *b, const struct linear_args *a);
	void (*parts_sum)(struct backend *b, const struct parts_sum_args *a);
	void (*row_amax)(struct backend *b, const struct row_amax_args *a);
	void (*rope_table)(struct backend *b, const struct rope_table_args *a);
	void (*qkv_finish)(struct backend *b, const struct qkv_finish_args *a);
	void (*attend)(struct backend *b, const struct attend_args *a);
	void (*latent_write)(struct backend *b, const struct latent_write_args *a);
	void (*latent_attend)(struct backend *b, const struct latent_attend_args *a);
	void (*head_linear)(struct backend *b, const struct head_linear_args *a);
	void (*swiglu)(struct backend *b, const struct swiglu_args *a);
	void (*route)(struct backend *b, const struct route_args *a);
	void (*experts)(struct backend *b, const struct experts_args *a);
	void (*logits)(struct backend *b, const struct logits_args *a);
	void (*verify_pages)(struct backend *b, const struct verify_pages_args *a);
	void (*copy_pages)(struct backend *b, const struct copy_pages_args *a);
};

/* Every backend's object starts with this. */
struct backend {
	const struct backend_ops *ops;
};

#endif

/* The engine's public face: token ids in, tokens and log-probabilities out. No tensor leaves the engine, no suite, SQL
 * or HTTP enters.
 *
 * One thread owns an engine: it alone calls engine_step and engine_poll. Other threads may call engine_submit and
 * engine_abort; they cross by a queue. Results are deterministic: the same request gives the same bits whatever else is
 * in the batch, however its prompt is chunked and however many threads and ranks work (NUMERICS section 3). */
#ifndef ASSAY_ENGINE_ENGINE_H
#define ASSAY_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "engine/base/buf.h"
#include "engine/base/error.h"
#include "engine/base/json_strict.h"
#include "engine/base/str.h"
#include "engine/text/tool_call.h"

struct backend;
struct comm;
struct kv_guard;
struct fault_hook;

/* ---- variants ---- */

enum { VARIANT_NAME_SIZE = 64 };

/* Weight and KV formats of one phase, as written on the command line: "int4/fp8". */
struct variant_phase {
	char weights[16]; /* bf16 fp8 fp8w int4 int4g32 int4g64 */
	char kv[16];      /* f32 bf16 fp8 */
};

struct variant {
	char name[VARIANT_NAME_SIZE]; /* canonical spelling */
	struct variant_phase prefill, decode;
	bool split; /* "W/K>W/K": prefill in one instance, decode in another */
};

/* "W/K" or "W/K>W/K"; ERR_USAGE names the part that is wrong and what exists. */
int variant_parse(const char *text, struct variant *out, struct error *e);

/* ---- the engine ---- */

struct engine;

struct engine_config {
	const char *model;   /* Hugging Face folder or GGUF file; with random_weights: a config.json */
	bool random_weights; /* the model that config.json describes, with weights drawn by weights_seed; no tokenizer */
	uint64_t weights_seed;
	struct variant variant;
	int threads;                  /* 0: all processors */
	int page_size;                /* tokens; divides 64. 0: 16 */
	uint64_t kv_memory;           /* bytes of KV pages of each instance, all ranks. 0: 1 GiB; touched as used */
	int max_batch_tokens;         /* tokens of one step. 0: 512 */
	int chunk;                    /* longest piece of a prefill. 0: max_batch_tokens */
	int max_requests;             /* requests that run at a time. 0: 32 */
	bool no_prefix_cache;         /* every prompt is computed whole */
	const float *kv_scales;       /* [n_layers, 2] of K and V in an fp8 cache. NULL: the checkpoint's, else 1 */
	bool pad_decode;              /* decode batches are filled up to powers of two with rows on page 0 */
	struct backend *backend;      /* NULL: CPU. engine_open takes it, also when it fails. */
	const struct kv_guard *guard; /* NULL: none; as faults, read until engine_close, or engine_renew returns */
	void (*progress)(void *context, int layer, int n_layers); /* NULL, or called as each layer is loaded */
	void *progress_context;
	const struct fault_hook *faults; /* NULL: none */
	/* Tensor parallelism: the same bits for every number of ranks that divides heads and parts. 0: 1. Backends and
	 * ends of a group are [ranks]; engine_open takes them, also when it fails. */
	int ranks;
	struct backend *const *rank_backends; /* in place of `backend`. NULL: CPU, which share the threads */
	struct comm *const *rank_comms;       /* NULL: threads of this process */
};

/* Whether the model can be shared by config's ranks under its variant: what engine_open would refuse, found without
 * loading weights. */
int engine_ranks_check(const struct engine_config *config, struct error *e);

/* Opens a model under one variant. On failure *e says which file or value, and *out is NULL. */
int engine_open(const struct engine_config *config, struct engine **out, struct error *e);
void engine_close(struct engine *engine);

/* Begins anew with the loaded model: page pools, prefix caches and counters as engine_open makes them, under config's guard
 * and faults. Requests and results that are left are dropped. PRECOND: config is, but for these two, what the engine was
 * opened with. After a failure the engine can only be closed. */
int engine_renew(struct engine *engine, const struct engine_config *config, struct error *e);

struct engine_facts {         /* what does not change while the engine is open */
	const char *family;   /* "llama" */
	const char *backend;  /* "cpu" */
	const char *numerics; /* numerics id */
	const char *isa;      /* instruction set of the CPU kernels, "" elsewhere */
	int vocab_size, max_positions, n_layers;
	int threads, ranks, page_size, n_pages, max_batch_tokens, chunk, max_requests; /* as in use */
	uint64_t parameters;         /* weights counted once, tied ones too */
	uint64_t weights_bytes;      /* in the variant's formats with their scales, tied weights once */
	uint64_t layer_parameters;   /* of the layers' matrices: each takes a multiply-add per token */
	uint64_t head_parameters;    /* of the head: per token whose logits are wanted */
	uint64_t bytes_per_step;     /* of packed layers and head: what one decode step reads of the weights */
	uint64_t kv_bytes_per_token; /* K and V of all layers; of a split variant: where it decodes */
	uint64_t kv_tokens;          /* usable token slots: page 0 is reserved */
	uint64_t prefill_kv_bytes_per_token, prefill_kv_tokens; /* the same where prompts are computed */
	double load_seconds;
	float kv_scale_min, kv_scale_max; /* of the fp8 cache's scales: 1 unless the checkpoint has them */
	bool head_untied; /* config.json ties the head to the embedding, but the checkpoint holds another: that one is used */
	const char *kv_scale_source; /* "given", "checkpoint" or "one" */
};
const struct engine_facts *engine_facts(const struct engine *engine);

/* sha256 of the tensors read: the model's fingerprint (reads the whole checkpoint). 65 bytes with NUL. */
int engine_fingerprint(const struct engine *engine, char out[65], struct error *e);

struct engine_stats {           /* what grows */
	uint64_t prompt_tokens; /* computed in prefill, each once */
	uint64_t cached_tokens; /* of prompts, not computed because their pages were there */
	uint64_t generated_tokens;
	uint64_t steps;
	uint64_t kv_saturated;      /* K and V values that were clipped to the cache format's largest */
	uint64_t preemptions;       /* requests that gave their pages to older ones */
	uint64_t replayed_tokens;   /* computed again after that */
	uint64_t pages_evicted;     /* from the prefix cache, to make room */
	uint64_t pages_copied;      /* on write: a cached page that matched in part */
	uint64_t pages_transferred; /* handed over from the prefill to the decode instance */
	int waiting, running;
	int pages_used; /* by running requests, over all instances; a shared page counts once */
	int pages_used_peak;
	int pages_cached; /* kept for later prompts alone: given up when pages are needed */
};
void engine_stats(const struct engine *engine, struct engine_stats *out);

struct engine_machine {  /* ceilings of this machine, measured */
	char cpu[64];    /* as the system names it */
	const char *isa; /* widest vectors of the CPU kernels in use */
	int threads;
	double read_one, read_all;   /* bytes per second read from memory, by one thread and by all */
	double flops_one, flops_all; /* floating-point operations per second of fused multiply-adds in registers */
};

/* Takes about two seconds. threads 0: all processors. */
int engine_machine(int threads, struct engine_machine *out, struct error *e);

/* ---- requests ---- */

struct engine_sampling {
	float temperature; /* 0: greedy */
	int top_k;         /* 0: all */
	float top_p;       /* 1: all; 0 is taken as 1 */
	uint64_t seed;
};

struct engine_request {        /* copied by engine_submit */
	const int32_t *tokens; /* prompt: at least one id below vocab_size */
	int n_tokens;
	int max_tokens;    /* to generate; 0: prompt log-probabilities only */
	int logprobs_from; /* log-probabilities of prompt tokens [logprobs_from, n_tokens), at least 1; -1: none */
	int top_logprobs;  /* most probable tokens beside each log-probability: 0..20 */
	float *rows;       /* caller's buffer for the whole log-probability rows that predict tokens
			    * [logprobs_from, n_tokens]: [n_tokens - logprobs_from + 1, vocab_size]; NULL: none. Must live
			    * until the result. */
	struct engine_sampling sampling;
	const struct str *stops; /* generation ends when its text holds one of these; needs a tokenizer */
	int n_stops;
	bool ignore_eos;
	double deadline; /* seconds from submission after which it ends as it is: ENGINE_DEADLINE; 0: none */
};

/* Queues a request. *id names it from then on. ERR_LIMIT: it can never fit (context length, KV pages). */
int engine_submit(struct engine *engine, const struct engine_request *request, uint64_t *id, struct error *e);

/* Withdraws a request; its result comes with finish_reason ENGINE_ABORTED. An unknown or finished id is ignored. */
void engine_abort(struct engine *engine, uint64_t id);

/* One step: admits what fits, runs each instance's model once over its batch, samples. *idle is set when there was
 * nothing to do. */
int engine_step(struct engine *engine, bool *idle, struct error *e);

enum engine_finish { ENGINE_STOP, ENGINE_LENGTH, ENGINE_ABORTED, ENGINE_FAILED, ENGINE_DEADLINE };
const char *engine_finish_name(enum engine_finish finish); /* "stop", "length", "abort", "error", "timeout" */

struct engine_result {
	uint64_t id;
	enum engine_finish finish;
	struct error error; /* ENGINE_FAILED: why */
	int n_generated;
	bool ended_by_eos;     /* the last token generated is an end-of-sequence token */
	const int32_t *tokens; /* [n_generated] */
	const float *logprobs; /* [n_generated] of the chosen tokens */
	int n_prompt_logprobs;
	const float *prompt_logprobs; /* [n_tokens - logprobs_from] */
	const bool *prompt_greedy;    /* each token is the most probable one (lowest id among equals) */
	int top_logprobs;
	const int32_t *top_ids; /* [n_prompt_logprobs + n_generated, top_logprobs] */
	const float *top_values;
	struct str text;                  /* generated bytes without special tokens, not cut; invalid UTF-8 replaced */
	size_t text_cut;                  /* length of the text before the earliest stop string */
	int prompt_tokens;                /* of the prompt that were read: computed, or cached */
	int cached_tokens;                /* of them, not computed */
	int preemptions;                  /* times it gave its pages up */
	const double *token_seconds;      /* [n_generated] from submission to each token */
	double seconds_queued;            /* from submission until it first ran */
	double seconds_to_first, seconds; /* from submission: to the first token, to the end */
};

/* Largest |K| and |V| of each layer that the pages hold: [n_layers, 2]. Over a calibration text, amax / 448 are the scales
 * of an fp8 cache. ERR_USAGE unless the cache is f32. */
int engine_kv_amax(struct engine *engine, float *amax, struct error *e);

/* The CPU backend by itself, for those who watch what it is given: to be handed in as engine_config.backend. threads as
 * there. */
int engine_cpu_backend(int threads, struct backend **out, struct error *e);

/* Empties the prefix cache, of what no running request maps. */
void engine_cache_clear(struct engine *engine);

/* Holds every book of the pages against the others: free lists, reference counts, block tables, prefix caches. ERR_DEVICE
 * names the first page or request that does not fit. Between steps, by the thread that owns the engine. */
int engine_audit(const struct engine *engine, struct error *e);

/* The next finished result, or NULL. It belongs to the caller: engine_result_free. */
struct engine_result *engine_poll(struct engine *engine);
void engine_result_free(struct engine_result *result);

/* Most positions of a model's context, read without its weights. */
int engine_context_length(const char *model, int *positions, struct error *e);

/* ---- text: also without weights ---- */

struct engine_text;

/* Opens the tokenizer of a model: tokenizer.json of a folder, or what a GGUF file carries. */
int engine_text_open(const char *model, struct engine_text **out, struct error *e);
/* The same where token ids will do: without a tokenizer, or with one in a GGUF file that is not built, *out is NULL and
 * *why names it. */
int engine_text_open_if_any(const char *model, struct engine_text **out, struct error *why, struct error *e);
void engine_text_close(struct engine_text *text);

/* The tokenizer that the engine opened for itself, alive as long as it is; NULL: *why names what is missing. */
const struct engine_text *engine_own_text(const struct engine *engine, struct error *why);

struct engine_ids {
	int32_t *data; /* owned: engine_ids_free */
	size_t count;
};
void engine_ids_free(struct engine_ids *ids);

/* Ids of a text, with the special tokens (BOS) that the tokenizer adds by itself when `specials`. */
int engine_text_encode(
	const struct engine_text *text, struct str input, bool specials, struct engine_ids *out, struct error *e);

/* Ids of a prompt to go on with: with those special tokens, unless the prompt begins with BOS already, as
 * lm-evaluation-harness does. */
int engine_text_encode_prompt(
	const struct engine_text *text, struct str prompt, struct engine_ids *out, struct error *e);

/* lm-evaluation-harness's pair: white space moves from the context's end to the continuation, both are encoded together
 * and cut at the context's length. *n_context ids come first. */
int engine_text_encode_pair(const struct engine_text *text, struct str context, struct str continuation,
	struct engine_ids *out, size_t *n_context, struct error *e);

void engine_text_decode(
	const struct engine_text *text, const int32_t *ids, size_t count, bool skip_special, struct buf *out);

/* The vocabulary's spelling of one id; empty for an unknown one. Borrowed. */
struct str engine_text_piece(const struct engine_text *text, int32_t id);
int32_t engine_text_bos(const struct engine_text *text); /* -1: none */
int32_t engine_text_eos(const struct engine_text *text);
const char *engine_text_fingerprint(const struct engine_text *text);
/* sha256 of the model's chat template, "" without one. */
const char *engine_text_template_hash(const struct engine_text *text);

/* ---- chat templates: also without weights and tokenizer ---- */

struct engine_template;

/* The chat templates of a model. which: NULL for its default one (and the one for tools, where it has such), a name
 * among those it has, or the path of a file. model NULL: a file alone, without special tokens. A model without a
 * template and a name that it does not have are ERR_INPUT; what cannot be parsed is ERR_INPUT with file and line. */
int engine_template_open(const char *model, const char *which, struct engine_template **out, struct error *e);
void engine_template_close(struct engine_template *t);

struct engine_chat {
	const struct json *messages;  /* an array of objects; NULL: None */
	const struct json *tools;     /* an array of objects; NULL: None */
	const struct json *variables; /* an object whose other members are variables; or NULL */
	bool add_generation_prompt;   /* unless a variable of that name says otherwise */
	const struct tm *now;         /* what strftime_now tells */
};

/* Appends the conversation as transformers' apply_chat_template writes it. *asked_for_date: whether the template wanted to
 * know the time; may be NULL. Errors: "FILE:LINE: cause". */
int engine_template_render(const struct engine_template *t, const struct engine_chat *chat, bool *asked_for_date,
	struct buf *out, struct error *e);

/* The text of the template in use (for tools), and its sha256. Borrowed. */
struct str engine_template_source(const struct engine_template *t, bool tools);
const char *engine_template_hash(const struct engine_template *t, bool tools);

#endif

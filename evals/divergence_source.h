/* What divergence reads: the baseline's own stored answers to suites, each behind its prompt, or a text in windows. */
#ifndef ASSAY_EVALS_DIVERGENCE_SOURCE_H
#define ASSAY_EVALS_DIVERGENCE_SOURCE_H

#include "engine/engine.h"
#include "evals/suite.h"
#include "reports/store.h"

/* A text file as tokens. */
struct reading {
	char *path, *name; /* owned; name: without its folders */
	char file_hash[SHA256_HEX_SIZE];
	int32_t *tokens; /* [count] without special tokens; owned */
	size_t count;
};

/* ERR_MISSING, ERR_INPUT (not UTF-8), ERR_EMPTY where it holds fewer than two tokens. Zeroed on failure. */
int reading_open(struct reading *r, const char *path, const struct engine_text *text, struct error *e);
void reading_close(struct reading *r);

struct divergence_source;

/* The text in windows of at most READING_WINDOW tokens (and at most the model's context), begun each half a window
 * further; the second half is scored, of the first window all but the first token: so each token once, behind at least
 * half a window once there is as much. A window begins with BOS where the tokenizer puts it before a text. limit as
 * limit_apply takes it. */
enum { READING_WINDOW = 512 };
int divergence_source_text(const struct reading *r, const struct engine_text *text, int max_positions, double limit,
	struct divergence_source **out, struct error *e);

/* The answers that the run's variant gave to those suites that generate; each behind its prompt as it was asked, a
 * prompt too long for the model cut as it was then. Samples that are errors are left out. */
int divergence_source_answers(struct store *store, int64_t run_id, int64_t variant_id, struct suite *const *suites,
	int n_suites, const struct engine_text *text, int max_positions, struct divergence_source **out,
	struct error *e);
void divergence_source_free(struct divergence_source *s);

int divergence_source_count(const struct divergence_source *s);

struct divergence_document {
	const char *task; /* the suite's task, or the text's name */
	int64_t doc_id;   /* of the suite, or the window's number */
	char doc_hash[SHA256_HEX_SIZE], prompt_hash[SHA256_HEX_SIZE], target_hash[SHA256_HEX_SIZE];
	int32_t *tokens; /* [n_tokens], those from `from` on are scored; owned */
	int n_tokens, from;
};

int divergence_document_make(
	const struct divergence_source *s, int i, struct divergence_document *out, struct error *e);
void divergence_document_free(struct divergence_document *d);

#endif

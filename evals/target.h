/* What answers the items of a suite: the engine. Items go in, answers come out in the order in which they are finished.
 */
#ifndef ASSAY_EVALS_TARGET_H
#define ASSAY_EVALS_TARGET_H

#include "engine/engine.h"
#include "evals/suite.h"

struct target;

/* Takes over the engine, also when it fails. Several items are in flight at a time, so that batches are full. */
int target_new(struct engine *engine, struct engine_text *text, struct target **out, struct error *e);
void target_delete(struct target *t);

/* Seconds from its submission after which a request ends: then its item has no answer. 0, as at first: none. */
void target_set_deadline(struct target *t, double seconds);
/* A generated answer is what follows the last end, which outlives the target; stop strings count only there, so such a
 * text ends by the model's own end or its limit. Empty: no reasoning is expected. */
void target_set_think_end(struct target *t, struct str end);

/* Whether another item may be submitted before one is taken. */
bool target_has_room(const struct target *t);
int target_in_flight(const struct target *t);

/* Encodes the item as the harness does (a context that is too long loses its beginning) and queues its requests. An
 * item that cannot be answered at all comes back from target_take with its error; a negative status means that the
 * target itself failed. */
int target_submit(struct target *t, const struct suite_item *item, struct error *e);

struct target_answer {
	const struct suite_item *item;
	struct answer answer;      /* what is scored; borrowed from this object */
	struct error error;        /* code 0: answered */
	enum engine_finish finish; /* GENERATE */
	int context_cut;           /* tokens that the context lost at its beginning: it was longer than the model's */
	struct str raw;            /* GENERATE: the text as generated, stop string included */
	const int32_t *tokens;     /* GENERATE: [n_generated] */
	const float *logprobs;
	int n_generated;
	int prompt_tokens; /* that the model reads, in all requests: a choice's last token is scored, not read */
	int cached_tokens; /* of these, not computed because their pages were there */
	double seconds;    /* from submission to the last of its requests */
};

/* Runs the engine until an item is finished. *out is NULL when nothing is in flight. */
int target_take(struct target *t, struct target_answer **out, struct error *e);
void target_answer_free(struct target_answer *a);

struct engine *target_engine(struct target *t);

#endif

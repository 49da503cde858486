/* A model for the small tools: an engine, its text side where it has a tokenizer, and answers in the order of the
 * questions. */
#ifndef ASSAY_EVALS_SESSION_H
#define ASSAY_EVALS_SESSION_H

#include "engine/engine.h"
#include "evals/run_guard.h"

struct session {
	struct engine *engine;
	struct run_guard guard;
	const struct engine_text *text; /* the engine's own; NULL: no_text says why */
	struct error no_text;
	uint64_t *ids;                  /* [count] request of each question */
	struct engine_result **results; /* [count] by question, NULL until finished */
	size_t count, capacity, taken;
};

/* Opens --model under --variant (one at most) with --guard. The session must not move afterwards. */
int session_open(struct session *s, const struct options *o, struct error *e);
void session_close(struct session *s);

/* Queues one question. */
int session_ask(struct session *s, const struct engine_request *r, struct error *e);

/* The result of the next question in the order of asking; it stays the session's. *out is NULL after the last.
 * A request that failed is an error. */
int session_next(struct session *s, const struct engine_result **out, struct error *e);

#endif

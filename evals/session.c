#include "evals/session.h"

#include <stdlib.h>

#include "evals/engine_options.h"
#include "evals/model_path.h"

int session_open(struct session *s, const struct options *o, struct error *e)
{
	struct engine_config config;
	char *model;

	*s = (struct session){0};
	if (o->n_variants > 1)
		return error_set(
			e, ERR_USAGE, "--variant: '%s' takes one variant, %d are given", o->command, o->n_variants);
	TRY(run_guard_init(&s->guard, o, e));
	TRY(model_path(o, &model, e));
	int status = engine_options(o, model, o->n_variants ? o->variants[0] : NULL, &config, e);
	config.guard = &s->guard.guard.table;
	s->guard.variant = config.variant.name;
	if (status == 0)
		status = engine_options_open(o, &config, &s->engine, e);
	if (status == 0)
		s->text = engine_own_text(s->engine, &s->no_text);
	free(model);
	return status;
}

void session_close(struct session *s)
{
	for (size_t i = 0; i < s->count; i++)
		engine_result_free(s->results[i]);
	free(s->ids);
	free(s->results);
	engine_close(s->engine);
	*s = (struct session){0};
}

static int session_grow(struct session *s, struct error *e)
{
	size_t capacity = s->capacity ? 2 * s->capacity : 64;
	uint64_t *ids = realloc(s->ids, capacity * sizeof *ids);
	if (ids)
		s->ids = ids;
	struct engine_result **results = realloc(s->results, capacity * sizeof(struct engine_result *));
	if (results)
		s->results = results;
	if (!ids || !results)
		return error_set(e, ERR_MEMORY, "out of memory for %zu requests", capacity);
	s->capacity = capacity;
	return 0;
}

int session_ask(struct session *s, const struct engine_request *r, struct error *e)
{
	if (s->count == s->capacity)
		TRY(session_grow(s, e));
	s->results[s->count] = NULL;
	TRY(engine_submit(s->engine, r, &s->ids[s->count], e));
	s->count++;
	return 0;
}

/* Ids ascend in the order of asking. */
static void result_place(struct session *s, struct engine_result *r)
{
	size_t low = 0, high = s->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (s->ids[middle] < r->id)
			low = middle + 1;
		else
			high = middle;
	}
	s->results[low] = r;
}

int session_next(struct session *s, const struct engine_result **out, struct error *e)
{
	*out = NULL;
	if (s->taken == s->count)
		return 0;
	while (!s->results[s->taken]) {
		struct engine_result *r = engine_poll(s->engine);
		bool idle = false;
		if (r)
			result_place(s, r);
		else
			TRY(engine_step(s->engine, &idle, e));
	}
	*out = s->results[s->taken++];
	if ((*out)->finish != ENGINE_FAILED)
		return 0;
	*e = (*out)->error;
	return e->code;
}

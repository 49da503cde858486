#include "evals/cli.h"
#include "evals/lines.h"
#include "evals/session.h"

/* One side of a pair: a text, or ids. */
static int side_check(
	const struct lines *l, const struct json *line, const char *key, const struct json **out, struct error *e)
{
	*out = json_get(line, key);
	if (!json_is(*out, JSON_STRING) && !json_is(*out, JSON_ARRAY))
		return lines_error(
			l, e, "\"%s\" is %s: expected a string or an array of token ids", key, json_type_name(*out));
	return 0;
}

/* Two arrays of ids, one after the other. */
static int pair_of_ids(const struct lines *l, const struct json *context, const struct json *continuation,
	struct engine_ids *out, size_t *n_context, struct error *e)
{
	struct engine_ids first = {0}, second = {0};

	TRY(lines_ids(l, context, "context", &first, e));
	int status = lines_ids(l, continuation, "continuation", &second, e);
	*n_context = first.count;
	*out = (struct engine_ids){0};
	if (status == 0)
		out->data = mem_calloc(first.count + second.count + 1, sizeof *out->data, e);
	if (out->data) {
		memcpy(out->data, first.data, first.count * sizeof *out->data);
		memcpy(out->data + first.count, second.data, second.count * sizeof *out->data);
		out->count = first.count + second.count;
	} else if (status == 0) {
		status = ERR_MEMORY;
	}
	engine_ids_free(&first);
	engine_ids_free(&second);
	return status;
}

static int pair_encode(struct session *s, const struct lines *l, const struct json *line, struct engine_ids *ids,
	size_t *n_context, struct error *e)
{
	const struct json *context, *continuation;

	TRY(side_check(l, line, "context", &context, e));
	TRY(side_check(l, line, "continuation", &continuation, e));
	if (context->type != continuation->type)
		return lines_error(
			l, e, "\"context\" and \"continuation\" must both be strings, or both arrays of token ids");
	if (context->type == JSON_ARRAY) {
		TRY(pair_of_ids(l, context, continuation, ids, n_context, e));
	} else {
		if (!s->text)
			return lines_error(l, e, "text needs a tokenizer (%s); give token ids", s->no_text.message);
		TRY(engine_text_encode_pair(s->text, context->text, continuation->text, ids, n_context, e));
	}
	if (*n_context == ids->count) {
		engine_ids_free(ids);
		return lines_error(l, e, "the continuation has no token of its own: there is nothing to score");
	}
	if (*n_context == 0 || *n_context > ids->count) {
		engine_ids_free(ids);
		return lines_error(
			l, e, "the context has no token: the first token of a continuation needs one before it");
	}
	return 0;
}

static int ask_line(struct session *s, const struct lines *l, const struct json *line, struct error *e)
{
	struct engine_ids ids;
	size_t n_context;

	TRY(pair_encode(s, l, line, &ids, &n_context, e));
	struct engine_request r = {.tokens = ids.data, .n_tokens = (int)ids.count, .logprobs_from = (int)n_context};
	int status = session_ask(s, &r, e);
	engine_ids_free(&ids);
	return status < 0 ? error_prefix(e, "%s:%d", l->name, l->number) : 0;
}

static int ask_all(struct session *s, struct lines *l, struct error *e)
{
	for (;;) {
		struct json_document *document;
		TRY(lines_next_json(l, &document, e));
		if (!document)
			return 0;
		int status = ask_line(s, l, json_root(document), e);
		json_free(document);
		TRY(status);
	}
}

static void append_result(const struct engine_result *r, struct buf *out)
{
	double sum = 0.0;
	bool greedy = true;

	for (int i = 0; i < r->n_prompt_logprobs; i++) {
		sum += (double)r->prompt_logprobs[i];
		greedy &= r->prompt_greedy[i];
	}
	buf_append_text(out, "{\"logprob\": ");
	json_write_double_or_null(sum, out);
	buf_printf(out, ", \"is_greedy\": %s, \"tokens\": %d, \"token_logprobs\": [", greedy ? "true" : "false",
		r->n_prompt_logprobs);
	for (int i = 0; i < r->n_prompt_logprobs; i++) {
		buf_append_text(out, i ? ", " : "");
		json_write_float_or_null(r->prompt_logprobs[i], out);
	}
	buf_append_text(out, "]}\n");
}

static int answer_all(struct session *s, struct error *e)
{
	for (;;) {
		const struct engine_result *r;
		struct buf line = {0};
		TRY(session_next(s, &r, e));
		if (!r)
			return 0;
		append_result(r, &line);
		int status = buf_check(&line, e);
		if (status == 0)
			fwrite(buf_text(&line), 1, line.length, stdout);
		buf_free(&line);
		TRY(status);
	}
}

int cmd_logprobs(const struct options *o, struct error *e)
{
	struct session s = {0};
	struct lines l;
	int status = lines_open(&l, o->n_arguments ? o->arguments[0] : NULL, e);

	if (status == 0)
		status = session_open(&s, o, e);
	if (status == 0)
		status = ask_all(&s, &l, e);
	if (status == 0)
		status = answer_all(&s, e);
	session_close(&s);
	lines_close(&l);
	return error_exit_code(status);
}

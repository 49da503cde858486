#include "evals/cli.h"
#include "evals/generate_chat.h"
#include "evals/lines.h"
#include "evals/session.h"

enum { DEFAULT_MAX_TOKENS = 128 };

/* What one prompt asks for: the command line's, unless its line says otherwise. */
struct question {
	struct str prompt;
	const struct json *line; /* that it was read from; NULL: the command line */
	struct str stops[CLI_MAX_LIST];
	int n_stops, max_tokens;
};

static struct question question_default(const struct options *o)
{
	struct question q = {.n_stops = o->n_stops, .max_tokens = o->max_tokens ? o->max_tokens : DEFAULT_MAX_TOKENS};
	for (int i = 0; i < o->n_stops; i++)
		q.stops[i] = str_of(o->stops[i]);
	return q;
}

/* A line {"prompt", "max_tokens"?, "stop"?}, in a chat also {"messages", ...}; the middle two win over the command line's. */
static int question_read(const struct lines *l, const struct json *line, bool chat, struct question *q, struct error *e)
{
	const struct json *most = json_get(line, "max_tokens"), *stop = json_get(line, "stop");
	int64_t n;

	q->line = line;
	if (json_get(line, "messages") && !chat)
		return lines_error(l, e, "\"messages\" go through the model's chat template: expected --chat");
	if (json_get(line, "messages") && json_get(line, "prompt"))
		return lines_error(l, e, "a \"prompt\" and \"messages\": expected one of them");
	if (!json_get(line, "messages"))
		TRY(lines_member_text(l, line, "prompt", &q->prompt, e));
	if (most) {
		if (!json_is(most, JSON_NUMBER) || !json_int64(most, &n) || n < 1 || n > INT32_MAX)
			return lines_error(l, e, "\"max_tokens\" is not an integer from 1 up");
		q->max_tokens = (int)n;
	}
	if (!stop)
		return 0;
	q->n_stops = 0;
	if (json_is(stop, JSON_STRING)) {
		q->stops[q->n_stops++] = stop->text;
		return 0;
	}
	if (!json_is(stop, JSON_ARRAY) || stop->count > CLI_MAX_LIST)
		return lines_error(l, e, "\"stop\" is %s: expected a string or at most %d of them",
			json_type_name(stop), CLI_MAX_LIST);
	JSON_EACH (item, stop) {
		if (!json_is(item, JSON_STRING))
			return lines_error(l, e, "\"stop\" holds %s: expected strings", json_type_name(item));
		q->stops[q->n_stops++] = item->text;
	}
	return 0;
}

/* A template writes all special tokens itself, so the tokenizer adds none to a conversation. */
static int question_encode(struct session *s, const struct generate_chat *chat, const struct question *q,
	struct engine_ids *ids, struct error *e)
{
	struct buf text = {0};

	if (!chat->template)
		return engine_text_encode_prompt(s->text, q->prompt, ids, e);
	int status = generate_chat_render(chat, q->line, q->prompt, &text, e);
	if (status == 0)
		status = engine_text_encode(s->text, buf_str(&text), false, ids, e);
	buf_free(&text);
	return status;
}

static int question_ask(struct session *s, const struct options *o, struct generate_chat *chat,
	const struct question *q, struct error *e)
{
	struct engine_ids ids;

	TRY(question_encode(s, chat, q, &ids, e));
	if (generate_chat_offer(chat, q->line, e) < 0) {
		engine_ids_free(&ids);
		return e->code;
	}
	struct engine_request r = {.tokens = ids.data,
		.n_tokens = (int)ids.count,
		.max_tokens = q->max_tokens,
		.logprobs_from = -1,
		.sampling = {(float)o->temperature, o->top_k, (float)o->top_p, o->has_seed ? o->seed : 0},
		.stops = q->stops,
		.n_stops = q->n_stops,
		.deadline = o->deadline};
	int status = ids.count == 0 ? error_set(e, ERR_INPUT, "the prompt has no token") : session_ask(s, &r, e);
	engine_ids_free(&ids);
	return status;
}

static int ask_lines(struct session *s, const struct options *o, struct generate_chat *chat, struct error *e)
{
	struct lines l;
	int status = lines_open(&l, o->prompts, e);

	while (status == 0) {
		struct json_document *document;
		struct question q = question_default(o);
		status = lines_next_json(&l, &document, e);
		if (status < 0 || !document)
			break;
		status = question_read(&l, json_root(document), o->chat, &q, e);
		if (status == 0 && (status = question_ask(s, o, chat, &q, e)) < 0)
			error_prefix(e, "%s:%d", l.name, l.number);
		json_free(document);
	}
	lines_close(&l);
	return status;
}

/* Without the end-of-sequence token, which is no part of the answer. */
static int answer_tokens(const struct engine_result *r)
{
	return r->n_generated - (r->ended_by_eos ? 1 : 0);
}

/* The calls in answer i; their marks may be special tokens. */
static int append_calls(const struct session *s, const struct generate_chat *chat, size_t i,
	const struct engine_result *r, struct buf *out, struct error *e)
{
	struct buf text = {0};
	engine_text_decode(s->text, r->tokens, (size_t)answer_tokens(r), false, &text);
	int status = buf_check(&text, e);
	if (status == 0)
		status = generate_chat_calls(chat, i, buf_str(&text), out, e);
	buf_free(&text);
	return status;
}

static int append_json(const struct session *s, const struct generate_chat *chat, size_t i,
	const struct engine_result *r, struct buf *out, struct error *e)
{
	buf_append_text(out, "{\"text\": ");
	json_write_string((struct str){r->text.data, r->text_cut}, false, out);
	buf_append_text(out, ", \"tokens\": [");
	for (int t = 0; t < answer_tokens(r); t++)
		buf_printf(out, "%s%d", t ? ", " : "", r->tokens[t]);
	buf_printf(out, "], \"finish_reason\": \"%s\", \"logprobs\": [", engine_finish_name(r->finish));
	for (int t = 0; t < answer_tokens(r); t++) {
		buf_append_text(out, t ? ", " : "");
		json_write_float_or_null(r->logprobs[t], out);
	}
	buf_append_char(out, ']');
	TRY(append_calls(s, chat, i, r, out, e));
	buf_append_text(out, "}\n");
	return 0;
}

static int answer_all(struct session *s, const struct options *o, const struct generate_chat *chat, struct error *e)
{
	size_t late = 0;

	for (size_t i = 0;; i++) {
		const struct engine_result *r;
		struct buf line = {0};
		TRY(session_next(s, &r, e));
		if (!r)
			return late == 0 ? 0
					 : error_set(e, ERR_LIMIT, "%zu of %zu prompts ran into the deadline of %g s",
						   late, i, o->deadline);
		late += r->finish == ENGINE_DEADLINE;
		int status = 0;
		if (o->json) {
			status = append_json(s, chat, i, r, &line, e);
		} else {
			buf_append(&line, r->text.data, r->text_cut);
			buf_append_char(&line, '\n');
		}
		if (status == 0)
			status = buf_check(&line, e);
		if (status == 0)
			fwrite(buf_text(&line), 1, line.length, stdout);
		buf_free(&line);
		TRY(status);
	}
}

static int generate(struct session *s, struct generate_chat *chat, const struct options *o, struct error *e)
{
	if (!o->prompt == !o->prompts)
		return error_set(e, ERR_USAGE, "generate needs either --prompt TEXT or --prompts FILE");
	TRY(generate_chat_open(chat, o, e));
	TRY(session_open(s, o, e));
	if (!s->text)
		return error_set(e, ERR_INPUT, "generate needs a tokenizer: %s", s->no_text.message);
	if (o->prompts) {
		TRY(ask_lines(s, o, chat, e));
	} else {
		struct question q = question_default(o);
		q.prompt = str_of(o->prompt);
		TRY(question_ask(s, o, chat, &q, e));
	}
	return answer_all(s, o, chat, e);
}

int cmd_generate(const struct options *o, struct error *e)
{
	struct session s = {0};
	struct generate_chat chat = {0};
	int status = generate(&s, &chat, o, e);
	session_close(&s);
	generate_chat_close(&chat);
	return error_exit_code(status);
}

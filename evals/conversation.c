/* Questions that are conversations, written by the model's chat template. */
#include "engine/base/utf8.h"
#include "evals/fewshot.h"
#include "evals/suite_type.h"

static int check_template(const struct suite_options *o, bool has_tools, struct error *e)
{
	if (!o->conversations)
		return error_set(e, ERR_USAGE, "a conversation needs the model's chat template: %s",
			o->no_conversations && o->no_conversations->code ? o->no_conversations->message
									 : "no model is named");
	if (has_tools && o->tool_format == TOOL_FORMAT_NONE)
		return error_set(e, ERR_USAGE,
			"the model's chat template shows no known format of tool calls: expected --tool-format hermes, "
			"llama3, glm, kimi or json");
	return 0;
}

static int append_rendered(
	struct conversation *c, const struct json *messages, bool generation_prompt, struct buf *out, struct error *e)
{
	const struct suite_options *o = c->options;
	TRY(check_template(o, c->tools != NULL, e));
	const struct engine_chat chat = {.messages = messages,
		.tools = c->tools ? json_root(c->tools) : NULL,
		.add_generation_prompt = generation_prompt,
		.now = o->now};
	bool asked = false;
	int status = engine_template_render(o->conversations, &chat, &asked, out, e);
	c->chat->asked_for_date |= asked;
	return status;
}

/* The instruction and what else the system message says, with a blank line between unless white space is there already. */
static void append_system(const struct conversation *c, struct str rest, struct buf *out)
{
	struct str instruction = str_of(c->options->system_instruction);
	struct str end = utf8_rstrip(instruction), start = utf8_strip(rest);
	bool space = end.length < instruction.length || start.length == 0 || start.data > rest.data;
	buf_append_str(out, instruction);
	if (instruction.length && rest.length && !space)
		buf_append_text(out, "\n\n");
	buf_append_str(out, rest);
}

static void append_message(const char *role, struct str content, struct buf *out)
{
	buf_printf(out, "%s{\"role\": \"%s\", \"content\": ", out->length > 1 ? ", " : "", role);
	json_write_string(content, false, out);
	buf_append_char(out, '}');
}

/* ---- Conversations of the suite's own ---- */

/* The content of a first message that is a system's, and a text. */
static const struct json *own_system(const struct json *messages)
{
	const struct json *first = json_at(messages, 0), *role = json_get(first, "role");
	const struct json *content = json_get(first, "content");
	return json_is(role, JSON_STRING) && str_is(role->text, "system") && json_is(content, JSON_STRING) ? content
													   : NULL;
}

/* The messages with the instruction before them: in their own system message, where they begin with one. */
static int instruct(
	const struct conversation *c, const struct json *messages, struct json_document **out, struct error *e)
{
	struct buf text = {0}, system = {0};
	const struct json *own = own_system(messages);
	append_system(c, own ? own->text : (struct str){0}, &system);
	buf_append_char(&text, '[');
	append_message("system", buf_str(&system), &text);
	for (const struct json *message = own ? messages->child->next : messages->child; message;
		message = message->next) {
		buf_append_text(&text, ", ");
		json_dump_python(message, -1, false, &text);
	}
	buf_append_char(&text, ']');
	int status = buf_check(&system, e);
	if (status == 0)
		status = buf_check(&text, e);
	if (status == 0)
		status = json_parse(buf_str(&text), "messages", JSON_LAST_KEY_WINS, out, e);
	buf_free(&system);
	buf_free(&text);
	return status;
}

int conversation_append(struct conversation *c, const struct json *messages, struct error *e)
{
	struct json_document *instructed = NULL;
	struct error second;
	if (!c->options->system_instruction || !json_is(messages, JSON_ARRAY) || messages->count == 0)
		return append_rendered(c, messages, true, c->out, e);
	TRY(instruct(c, messages, &instructed, e));
	size_t before = c->out->length;
	int status = append_rendered(c, json_root(instructed), true, c->out, e);
	json_free(instructed);
	if (status != ERR_INPUT || own_system(messages))
		return status;
	/* as with a plain question: a template that refuses the message gets the question without it */
	c->out->length = before;
	if (append_rendered(c, messages, true, c->out, &second) < 0)
		return status;
	*e = (struct error){0};
	c->chat->systems_dropped++;
	return 0;
}

/* ---- Plain questions ---- */

/* Stands behind the beginning of an answer, to find where a template ends that message; transformers' own way, the
 * blank included: a template that trims the message leaves it out. */
static const char open_end[] = "CONTINUE_FINAL_MESSAGE_TAG ";

/* A conversation whose last message goes on: what the template writes behind it is cut off. */
static int append_open(struct conversation *c, const struct json *messages, struct error *e)
{
	struct str mark = str_of(open_end), bare = {open_end, sizeof open_end - 2};
	struct buf text = {0};
	size_t found = SIZE_MAX;
	int status = append_rendered(c, messages, false, &text, e);
	for (size_t at = 0; status == 0 && (at = str_find(buf_str(&text), bare, at)) != SIZE_MAX; at++)
		found = at;
	if (status == 0 && found == SIZE_MAX)
		status = error_set(e, ERR_INPUT, "the chat template leaves out the beginning of the answer");
	if (status == 0) {
		struct str kept = {text.data, found}, rest = {text.data + found, text.length - found};
		buf_append_str(c->out, str_starts_with(rest, mark) ? kept : utf8_rstrip(kept));
		status = buf_check(c->out, e);
	}
	buf_free(&text);
	return status;
}

static void append_answer_begin(const char *begin, struct buf *out)
{
	struct buf text = {0};
	buf_append_text(&text, begin);
	buf_append_text(&text, open_end);
	append_message("assistant", buf_str(&text), out);
	buf_free(&text);
}

/* The messages as JSON: shots as turns of their own, or together with the question in one. */
static int write_messages(const struct conversation *c, const struct suite_type *type, const struct fewshot *shots,
	const struct json *doc, bool with_system, struct buf *out, struct error *e)
{
	struct buf system = {0}, question = {0};
	append_system(c, str_of(c->task->description), &system);
	buf_append_char(out, '[');
	if (with_system && system.length)
		append_message("system", buf_str(&system), out);
	for (uint32_t i = 0; i < shots->k && c->options->multiturn; i++) {
		append_message("user", fewshot_question(shots, i), out);
		append_message("assistant", fewshot_answer(shots, i), out);
	}
	if (!c->options->multiturn)
		fewshot_append(shots, &question);
	int status = type->append_question(doc, &question, e);
	if (status == 0)
		status = buf_check(&question, e);
	if (status == 0)
		status = buf_check(&system, e);
	append_message("user", buf_str(&question), out);
	if (type->answer_begin)
		append_answer_begin(type->answer_begin, out);
	buf_append_char(out, ']');
	buf_free(&system);
	buf_free(&question);
	return status < 0 ? status : buf_check(out, e);
}

static int append_conversation(struct conversation *c, const struct suite_type *type, const struct fewshot *shots,
	const struct json *doc, bool with_system, struct error *e)
{
	struct json_document *messages = NULL;
	struct buf text = {0};
	size_t before = c->out->length;
	int status = write_messages(c, type, shots, doc, with_system, &text, e);
	if (status == 0)
		status = json_parse(buf_str(&text), "messages", JSON_LAST_KEY_WINS, &messages, e);
	if (status == 0)
		status = type->answer_begin ? append_open(c, json_root(messages), e)
					    : append_rendered(c, json_root(messages), true, c->out, e);
	if (status < 0)
		c->out->length = before;
	json_free(messages);
	buf_free(&text);
	return status;
}

int conversation_append_plain(struct conversation *c, const struct suite_type *type, const struct fewshot *shots,
	const struct json *doc, struct error *e)
{
	if (!c->options->apply_chat_template) {
		append_system(c, str_of(c->task->description), c->out);
		fewshot_append(shots, c->out);
		TRY(type->append_question(doc, c->out, e));
		if (type->answer_begin)
			buf_printf(c->out, " %s", type->answer_begin);
		return buf_check(c->out, e);
	}
	int status = append_conversation(c, type, shots, doc, true, e);
	bool has_system = c->options->system_instruction || c->task->description;
	if (status != ERR_INPUT || !has_system)
		return status;
	/* lm-evaluation-harness's rule for a template that refuses a system message; the first refusal is told */
	struct error second;
	if (append_conversation(c, type, shots, doc, false, &second) < 0)
		return status;
	*e = (struct error){0};
	c->chat->systems_dropped++;
	return 0;
}

#include <stdlib.h>

#include "evals/chat_date.h"
#include "evals/cli.h"
#include "evals/lines.h"
#include "evals/model_path.h"

/* One line of input to one of output: the text, or why there is none. broken: why there is no template. */
static int line_render(const struct engine_template *t, const struct error *broken, const struct json *line,
	const struct tm *now, struct buf *out, struct error *e)
{
	struct engine_chat chat = {.messages = json_get(line, "messages"),
		.tools = json_get(line, "tools"),
		.variables = line,
		.now = now};
	struct buf text = {0};
	struct error why = *broken;
	int status = t ? engine_template_render(t, &chat, NULL, &text, &why) : why.code;
	if (status == 0) {
		buf_append_text(out, "{\"text\": ");
		json_write_string(buf_str(&text), false, out);
	} else {
		buf_append_text(out, "{\"error\": ");
		json_write_string(str_of(why.message), false, out);
	}
	buf_append_text(out, "}\n");
	buf_free(&text);
	return buf_check(out, e);
}

static int lines_render(const struct engine_template *t, const struct error *broken, struct lines *l,
	const struct tm *now, struct buf *out, struct error *e)
{
	for (;;) {
		struct json_document *document;
		TRY(lines_next_json(l, &document, e));
		if (!document)
			return 0;
		const struct json *root = json_root(document);
		int status = json_is(root, JSON_OBJECT)
			? line_render(t, broken, root, now, out, e)
			: lines_error(l, e, "expected an object with \"messages\", found %s", json_type_name(root));
		json_free(document);
		TRY(status);
	}
}

/* --template FILE alone needs no model. */
static int template_open(const struct options *o, struct engine_template **out, struct error *e)
{
	char *model = NULL;
	if (o->model || !o->template)
		TRY(model_path(o, &model, e));
	int status = engine_template_open(model, o->template, out, e);
	free(model);
	return status;
}

int cmd_template(const struct options *o, struct error *e)
{
	struct engine_template *template = NULL;
	struct error broken = {0};
	struct lines l = {0};
	struct buf out = {0};
	struct tm now;
	int status = chat_date_parse(o->date, &now, e);

	if (status == 0)
		status = template_open(o, &template, &broken);
	/* a template that cannot be parsed is the error of each line, and of the command */
	if (status == 0 || status == ERR_INPUT)
		status = lines_open(&l, o->n_arguments ? o->arguments[0] : NULL, e);
	else if (broken.code)
		*e = broken;
	if (status == 0)
		status = lines_render(template, &broken, &l, &now, &out, e);
	/* all or nothing: input that is no JSON leaves standard output empty */
	if (status == 0)
		fwrite(buf_text(&out), 1, out.length, stdout);
	if (status == 0 && broken.code) {
		*e = broken;
		status = broken.code;
	}
	buf_free(&out);
	lines_close(&l);
	engine_template_close(template);
	return error_exit_code(status);
}

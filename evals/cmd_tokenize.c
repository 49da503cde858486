#include <stdlib.h>

#include "evals/cli.h"
#include "evals/lines.h"
#include "evals/model_path.h"

static int line_append(
	const struct options *o, const struct engine_text *text, struct str line, struct buf *out, struct error *e)
{
	struct engine_ids ids;

	TRY(engine_text_encode(text, line, true, &ids, e));
	for (size_t i = 0; i < ids.count; i++) {
		if (i)
			buf_append_char(out, ' ');
		if (o->ids)
			buf_printf(out, "%d", ids.data[i]);
		else
			buf_append_str(out, engine_text_piece(text, ids.data[i]));
	}
	buf_append_char(out, '\n');
	engine_ids_free(&ids);
	return buf_check(out, e);
}

static int json_lines_append(
	const struct options *o, const struct engine_text *text, struct lines *l, struct buf *out, struct error *e)
{
	for (;;) {
		struct json_document *document;
		TRY(lines_next_json(l, &document, e));
		if (!document)
			return 0;
		const struct json *root = json_root(document);
		int status = json_is(root, JSON_STRING)
			? line_append(o, text, root->text, out, e)
			: lines_error(l, e, "expected a JSON string, found %s", json_type_name(root));
		json_free(document);
		TRY(status);
	}
}

static int lines_append(
	const struct options *o, const struct engine_text *text, struct lines *l, struct buf *out, struct error *e)
{
	struct str line;
	while (lines_next(l, &line)) {
		int status = line_append(o, text, line, out, e);
		if (status < 0)
			return error_prefix(e, "%s:%d", l->name, l->number);
	}
	return 0;
}

int cmd_tokenize(const struct options *o, struct error *e)
{
	struct engine_text *text = NULL;
	struct lines l = {0};
	struct buf out = {0};
	char *model = NULL;
	int status = model_path(o, &model, e);

	if (status == 0)
		status = engine_text_open(model, &text, e);
	if (status == 0)
		status = lines_open(&l, o->n_arguments ? o->arguments[0] : NULL, e);
	if (status == 0)
		status = o->json_lines ? json_lines_append(o, text, &l, &out, e) : lines_append(o, text, &l, &out, e);
	/* all or nothing: a line that is refused leaves standard output empty */
	if (status == 0)
		fwrite(buf_text(&out), 1, out.length, stdout);
	buf_free(&out);
	lines_close(&l);
	engine_text_close(text);
	free(model);
	return error_exit_code(status);
}

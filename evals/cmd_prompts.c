/* `assay prompts`: the prompts of suites, as hashes or whole, without a model's weights. */
#include <stdlib.h>

#include "engine/base/file.h"
#include "engine/engine.h"
#include "evals/chat_setup.h"
#include "evals/cli.h"
#include "evals/model_path.h"
#include "evals/suite.h"

enum { HASH_PREFIX = 16, HARNESS_SEED = 1234 };

static void write_hashes(const struct suite_item *item, struct buf *out)
{
	buf_printf(out, "%s\t%d\t%.*s\t%.*s\t%.*s\n", item->task, item->doc_id, HASH_PREFIX, item->doc_hash,
		HASH_PREFIX, item->prompt_hash, HASH_PREFIX, item->target_hash);
}

static void write_texts(const char *key, const struct str *texts, int n, struct buf *out)
{
	buf_printf(out, ", \"%s\": [", key);
	for (int i = 0; i < n; i++) {
		buf_append_text(out, i ? ", " : "");
		json_write_string(texts[i], false, out);
	}
	buf_append_char(out, ']');
}

static void write_sample(const struct suite_item *item, struct buf *out)
{
	buf_printf(out, "{\"task\": \"%s\", \"doc_id\": %d, \"prompt\": ", item->task, item->doc_id);
	json_write_string(item->context, false, out);
	if (item->kind == REQUEST_LOGLIKELIHOOD)
		write_texts("choices", item->choices, item->n_choices, out);
	else
		write_texts("until", item->until, item->n_until, out);
	buf_append_text(out, ", \"target\": ");
	json_write_string(item->target, false, out);
	buf_append_text(out, "}\n");
}

static int write_suite(
	const char *name, const struct suite_options *options, bool hashes, struct buf *out, struct error *e)
{
	struct suite *suite;
	TRY(suite_open(name, options, &suite, e));
	for (int i = 0; i < suite_count(suite); i++) {
		if (hashes)
			write_hashes(suite_item(suite, i), out);
		else
			write_sample(suite_item(suite, i), out);
	}
	suite_close(suite);
	return buf_check(out, e);
}

/* What a suite that counts tokens or holds conversations needs of --model. */
static int open_text(const struct options *o, struct suite_options *options, struct engine_text **text,
	struct chat_setup *chat, struct error *e)
{
	bool needed = o->apply_chat_template;
	for (int i = 0; i < o->n_suites; i++)
		needed = needed || suite_needs_model(o->suites[i]);
	char *model = NULL;
	if (!needed)
		return 0;
	TRY(model_path(o, &model, e));
	int status = engine_text_open(model, text, e);
	if (status == 0)
		status = engine_context_length(model, &options->max_positions, e);
	if (status == 0)
		status = chat_setup_open(chat, o, model, e);
	options->text = *text;
	options->conversations = chat->conversations;
	options->no_conversations = &chat->why;
	options->tool_format = chat->tool_format;
	options->now = &chat->now;
	free(model);
	return status;
}

/* All or nothing: a suite that fails leaves standard output empty. */
static int write_suites(const struct options *o, const char *data_folder, struct error *e)
{
	struct suite_options options = {
		.data_folder = data_folder,
		.fewshot = o->fewshot,
		.limit = o->limit,
		.sample = o->sample,
		.seed = o->has_seed ? o->seed : HARNESS_SEED,
		.apply_chat_template = o->apply_chat_template,
		.multiturn = chat_is_multiturn(o),
		.system_instruction = o->system_instruction,
	};
	struct buf out = {0};
	struct engine_text *text = NULL;
	struct chat_setup chat = {0};
	int status = 0;
	TRY_CLEANUP(status, open_text(o, &options, &text, &chat, e));
	if (o->hashes)
		buf_append_text(&out, "task\tdoc_id\tdoc_hash16\tprompt_hash16\ttarget_hash16\n");
	for (int i = 0; i < o->n_suites; i++)
		TRY_CLEANUP(status, write_suite(o->suites[i], &options, o->hashes, &out, e));
	fwrite(buf_text(&out), 1, out.length, stdout);
cleanup:
	engine_text_close(text);
	chat_setup_close(&chat);
	buf_free(&out);
	return status;
}

/* The bundled data sets, in a path that the caller frees. */
static char *bundled_data(struct error *e)
{
	char *folder = pocket_folder(e);
	char *path = folder ? path_join(folder, "data", e) : NULL;
	free(folder);
	return path;
}

int cmd_prompts(const struct options *o, struct error *e)
{
	if (o->n_suites == 0)
		return error_exit_code(error_set(e, ERR_USAGE, "prompts: expected --suite with one or more suites"));
	if (o->hashes == o->samples)
		return error_exit_code(error_set(e, ERR_USAGE, "prompts: expected either --hashes or --samples"));
	if (chat_options_check(o, e) < 0)
		return error_exit_code(e->code);
	if (o->n_arguments > 0)
		return error_exit_code(error_set(e, ERR_USAGE, "prompts: unexpected argument \"%s\"", o->arguments[0]));
	char *bundled = o->data ? NULL : bundled_data(e);
	if (!o->data && !bundled)
		return error_exit_code(e->code);
	int status = write_suites(o, o->data ? o->data : bundled, e);
	free(bundled);
	return error_exit_code(status);
}

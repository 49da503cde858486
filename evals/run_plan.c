#include "evals/run_plan.h"

#include <stdlib.h>

#include "engine/base/file.h"
#include "evals/chat_date.h"
#include "evals/divergence.h"
#include "evals/engine_options.h"
#include "evals/model_path.h"
#include "evals/suite_task.h"
#include "evals/suite_type.h"

/* What the bundled model can do of the suites that the bundled data has, in the order in which people read them. */
static const char *const pocket_suites[] = {"gsm8k", "arc_easy", "recall"};
enum { POCKET_SUITES = 3 };

static struct suite_options suite_options_of(const struct run_plan *p)
{
	const struct options *o = p->options;
	return (struct suite_options){.data_folder = p->data,
		.fewshot = o->fewshot,
		.limit = o->limit,
		.sample = o->sample,
		.seed = o->has_seed ? o->seed : 1234,
		.text = p->text,
		.conversations = p->chat.conversations,
		.no_conversations = &p->chat.why,
		.tool_format = p->chat.tool_format,
		.now = &p->chat.now,
		.apply_chat_template = o->apply_chat_template,
		.multiturn = chat_is_multiturn(o),
		.system_instruction = o->system_instruction};
}

static int suites_open(struct run_plan *p, struct error *e)
{
	const struct options *o = p->options;
	struct suite_options so = suite_options_of(p);
	int n = o->n_suites ? o->n_suites : POCKET_SUITES;

	if (o->n_suites == 0 && o->data)
		return error_set(e, ERR_USAGE,
			"--suite is missing: name the suites to run on %s ('assay list --suites' lists them)", o->data);
	TRY(engine_context_length(p->model, &so.max_positions, e));
	for (int i = 0; i < n; i++) {
		const char *name = o->n_suites ? o->suites[i] : pocket_suites[i];
		if (strcmp(name, divergence_suite) == 0) {
			p->divergence.wanted = true;
			continue;
		}
		if (!suite_type_find(name))
			return suite_unknown(name, divergence_suite, e);
		TRY(suite_open(name, &so, &p->suites[p->n_suites], e));
		for (int j = 0; j < p->n_suites; j++)
			if (strcmp(suite_name(p->suites[j]), suite_name(p->suites[p->n_suites])) == 0) {
				suite_close(p->suites[p->n_suites]);
				return error_set(e, ERR_USAGE, "--suite names %s twice", suite_name(p->suites[j]));
			}
		p->n_suites++;
	}
	return 0;
}

static int variants_parse(struct run_plan *p, struct error *e)
{
	const struct options *o = p->options;
	int n = o->n_variants ? o->n_variants : 1;

	for (int i = 0; i < n; i++) {
		TRY(engine_options(o, p->model, o->n_variants ? o->variants[i] : NULL, &p->engines[i], e));
		for (int j = 0; j < i; j++)
			if (strcmp(p->engines[j].variant.name, p->engines[i].variant.name) == 0)
				return error_set(
					e, ERR_USAGE, "--variant %s is given twice", p->engines[i].variant.name);
		TRY(engine_ranks_check(&p->engines[i], e));
		p->n_variants++;
	}
	return 0;
}

static const char *const model_file_names[] = {"config.json", "generation_config.json"};
enum { MODEL_FILES = 2 };

/* What a model is besides its tensors and its tokenizer: RoPE's base, the norm's epsilon, the tokens that end an answer. */
static int model_files_hash(struct run_plan *p, struct error *e)
{
	for (int i = 0; i < MODEL_FILES; i++) {
		char *path = path_join(p->model, model_file_names[i], e);
		if (!path)
			return ERR_MEMORY;
		int status = file_exists(path) ? sha256_file(path, p->model_files[i], e) : 0;
		free(path);
		TRY(status);
	}
	return 0;
}

int run_plan_make(struct run_plan *p, const struct options *o, struct error *e)
{
	*p = (struct run_plan){.options = o};
	TRY(shard_parse(o->shard, &p->shard, e));
	TRY(chat_options_check(o, e));
	TRY(model_path(o, &p->model, e));
	TRY(variants_parse(p, e));
	TRY(data_path(o, &p->data, e));
	TRY(engine_text_open(p->model, &p->text, e));
	TRY(calibration_make(&p->calibration, o, p->engines, p->n_variants, p->text, e));
	TRY(chat_setup_open(&p->chat, o, p->model, e));
	TRY(suites_open(p, e));
	/* a shard without items is a part of the whole like any other */
	if (run_plan_items(p) == 0 && !p->divergence.wanted && p->shard.count == 0)
		return error_set(e, ERR_EMPTY, "nothing to evaluate: the suites have no items in %s", p->data);
	TRY(model_files_hash(p, e));
	struct suite_options so = suite_options_of(p);
	TRY(divergence_plan_make(
		&p->divergence, o, p->divergence.wanted, p->n_variants, p->suites, p->n_suites, &so, p->text, e));
	p->db = db_path(o, e);
	return p->db ? 0 : e->code;
}

void run_plan_free(struct run_plan *p)
{
	for (int i = 0; i < p->n_suites; i++)
		suite_close(p->suites[i]);
	divergence_plan_free(&p->divergence);
	calibration_free(&p->calibration);
	engine_text_close(p->text);
	chat_setup_close(&p->chat);
	free(p->model);
	free(p->data);
	free(p->db);
	*p = (struct run_plan){0};
}

int run_plan_items(const struct run_plan *p)
{
	int items = 0;
	for (int s = 0; s < p->n_suites; s++)
		for (int i = 0; i < suite_count(p->suites[s]); i++)
			items += shard_holds(p->shard, suite_item(p->suites[s], i)->doc_id);
	return items;
}

bool run_plan_for_gating(const struct run_plan *p)
{
	return p->options->limit <= 0 && p->shard.count == 0;
}

int run_plan_hash_whole(const struct run_plan *p, const char *fingerprint, const char *numerics,
	char out[SHA256_HEX_SIZE], struct error *e)
{
	struct sha256 *hash = sha256_new(e);
	struct buf line = {0};

	if (!hash)
		return ERR_MEMORY;
	buf_printf(&line, "assay %s\n%s\n%s\n%s\n", ASSAY_VERSION, fingerprint, engine_text_fingerprint(p->text),
		numerics);
	for (int i = 0; i < MODEL_FILES; i++)
		buf_printf(&line, "%s %s\n", model_file_names[i], p->model_files[i]);
	buf_printf(&line, "tool_format %s\nchat %d\n", tool_format_name(p->chat.tool_format),
		p->options->apply_chat_template);
	for (int i = 0; i < p->n_variants; i++)
		buf_printf(&line, "variant %s\n", p->engines[i].variant.name);
	calibration_identity(&p->calibration, &line);
	if (p->options->deadline > 0) {
		buf_append_text(&line, "deadline ");
		json_write_double(p->options->deadline, &line);
		buf_append_char(&line, '\n');
	}
	if (p->options->think_end)
		buf_printf(&line, "think_end %s\n", p->options->think_end);
	for (int s = 0; s < p->n_suites; s++) {
		buf_printf(&line, "suite %s\n", suite_name(p->suites[s]));
		for (int i = 0; i < suite_count(p->suites[s]); i++) {
			const struct suite_item *item = suite_item(p->suites[s], i);
			buf_printf(&line, "%s %d %s %s %s %d\n", item->task, item->doc_id, item->doc_hash,
				item->prompt_hash, item->target_hash, item->max_tokens);
		}
	}
	divergence_plan_identity(&p->divergence, p->options->limit, &line);
	int status = buf_check(&line, e);
	sha256_update(hash, buf_text(&line), line.length);
	sha256_finish(hash, out);
	sha256_delete(hash);
	buf_free(&line);
	return status;
}

int run_plan_hash(const struct run_plan *p, const char *fingerprint, const char *numerics, char out[SHA256_HEX_SIZE],
	struct error *e)
{
	TRY(run_plan_hash_whole(p, fingerprint, numerics, out, e));
	if (p->shard.count == 0)
		return 0;
	struct buf line = {0};
	buf_printf(&line, "shard %d/%d of %s\n", p->shard.index, p->shard.count, out);
	int status = buf_check(&line, e);
	sha256_hex(buf_text(&line), line.length, out);
	buf_free(&line);
	return status;
}

static void append_files(const struct suite *s, struct buf *out)
{
	buf_append_text(out, "\"files\": [");
	for (int i = 0; i < suite_file_count(s); i++) {
		buf_append_text(out, i ? ", {\"path\": " : "{\"path\": ");
		json_write_string(str_of(suite_file_path(s, i)), false, out);
		buf_printf(out, ", \"sha256\": \"%s\"}", suite_file_hash(s, i));
	}
	buf_append_char(out, ']');
}

/* How prompts became conversations: what decides their bytes besides the suites. The date is null where no template
 * asked for it. */
static void append_chat(const struct run_plan *p, struct buf *out)
{
	const struct options *o = p->options;
	char date[CHAT_DATE_SIZE];
	bool asked = false;
	chat_date_print(&p->chat.now, date);
	for (int i = 0; i < p->n_suites; i++)
		asked |= suite_chat(p->suites[i])->asked_for_date;
	buf_printf(out, "{\"applied\": %s, \"template\": ", o->apply_chat_template ? "true" : "false");
	json_write_string(str_of(o->template ? o->template : "default"), false, out);
	buf_printf(out, ", \"template_hash\": \"%s\", \"fewshot_as_multiturn\": %s, \"system_instruction\": ",
		p->chat.conversations ? engine_template_hash(p->chat.conversations, false) : "",
		chat_is_multiturn(o) ? "true" : "false");
	if (o->system_instruction)
		json_write_string(str_of(o->system_instruction), false, out);
	else
		buf_append_text(out, "null");
	buf_append_text(out, ", \"think_end\": ");
	if (o->think_end)
		json_write_string(str_of(o->think_end), false, out);
	else
		buf_append_text(out, "null");
	buf_printf(out, asked ? ", \"date\": \"%s\"}" : ", \"date\": null}", date);
}

/* Which tasks a suite of several has, and which groups they are pooled in: what its results were made of. */
static void append_tasks(const struct suite *s, struct buf *out)
{
	if (suite_task_count(s) < 2)
		return;
	buf_append_text(out, ", \"tasks\": [");
	for (int i = 0; i < suite_task_count(s); i++) {
		const struct suite_task *task = suite_task(s, i);
		buf_append_text(out, i ? ", {\"name\": " : "{\"name\": ");
		json_write_string(str_of(task->name), false, out);
		buf_append_text(out, ", \"group\": ");
		if (task->group)
			json_write_string(str_of(task->group), false, out);
		else
			buf_append_text(out, "null");
		buf_append_char(out, '}');
	}
	buf_append_char(out, ']');
}

void run_plan_provenance(
	const struct run_plan *p, const struct engine_facts *f, const char *whole_hash, struct buf *out)
{
	const struct options *o = p->options;

	buf_append_text(out, "{\"engine\": ");
	engine_options_json(o, f, out);
	buf_printf(out, ", \"fewshot_seed\": %llu, \"limit\": ", (unsigned long long)(o->has_seed ? o->seed : 1234));
	if (o->limit > 0)
		json_write_double(o->limit, out);
	else
		buf_append_text(out, "null");
	if (o->sample > 0)
		buf_printf(out, ", \"sample\": %d", o->sample);
	else
		buf_append_text(out, ", \"sample\": null");
	if (p->shard.count)
		buf_printf(out,
			", \"shard\": {\"index\": %d, \"count\": %d, \"whole\": \"%s\", \"whole_for_gating\": %s}",
			p->shard.index, p->shard.count, whole_hash, o->limit <= 0 ? "true" : "false");
	buf_printf(out, ", \"tool_format\": \"%s\", \"chat\": ", tool_format_name(p->chat.tool_format));
	append_chat(p, out);
	buf_append_text(out, ", \"data\": ");
	json_write_string(str_of(p->data), false, out);
	divergence_plan_provenance(&p->divergence, out);
	calibration_provenance(&p->calibration, out);
	buf_append_text(out, ", \"model_files\": {");
	for (int i = 0; i < MODEL_FILES; i++)
		buf_printf(out, "%s\"%s\": \"%s\"", i ? ", " : "", model_file_names[i], p->model_files[i]);
	buf_append_text(out, "}, \"suites\": [");
	for (int i = 0; i < p->n_suites; i++) {
		const struct suite *s = p->suites[i];
		buf_printf(out, "%s{\"name\": ", i ? ", " : "");
		json_write_string(str_of(suite_name(s)), false, out);
		buf_printf(out, ", \"fewshot\": %d, \"items\": %d, \"of\": %d, ", suite_fewshot(s), suite_count(s),
			suite_total(s));
		buf_printf(out, "\"systems_dropped\": %d, ", suite_chat(s)->systems_dropped);
		append_files(s, out);
		append_tasks(s, out);
		buf_append_char(out, '}');
	}
	buf_append_text(out, "]}");
}

void run_plan_print(const struct run_plan *p, struct buf *out)
{
	buf_printf(out, "model     %s\ndatabase  %s\nvariants ", p->model, p->db);
	for (int i = 0; i < p->n_variants; i++)
		buf_printf(out, " %s", p->engines[i].variant.name);
	buf_append_char(out, '\n');
	engine_options_print(p->options, out);
	for (int i = 0; i < p->n_suites; i++)
		buf_printf(out, "suite     %s: %d of %d items, %d-shot\n", suite_name(p->suites[i]),
			suite_count(p->suites[i]), suite_total(p->suites[i]), suite_fewshot(p->suites[i]));
	divergence_plan_print(&p->divergence, p->engines[0].variant.name, out);
	if (p->shard.count)
		buf_printf(out, "shard     %d of %d: the documents whose id modulo %d is %d\n", p->shard.index,
			p->shard.count, p->shard.count, p->shard.index - 1);
	buf_printf(out, "answers   %d\n", run_plan_items(p) * p->n_variants);
}

void run_plan_json(const struct run_plan *p, struct buf *out)
{
	buf_append_text(out, "{\"schema_version\": 1, \"model\": ");
	json_write_string(str_of(p->model), false, out);
	buf_append_text(out, ", \"database\": ");
	json_write_string(str_of(p->db), false, out);
	buf_append_text(out, ", \"variants\": [");
	for (int i = 0; i < p->n_variants; i++)
		buf_printf(out, "%s\"%s\"", i ? ", " : "", p->engines[i].variant.name);
	buf_append_char(out, ']');
	engine_options_members(p->options, out);
	buf_append_text(out, ", \"suites\": {");
	for (int i = 0; i < p->n_suites; i++) {
		buf_append_text(out, i ? ", " : "");
		json_write_string(str_of(suite_name(p->suites[i])), false, out);
		buf_printf(out, ": {\"items\": %d, \"of\": %d, \"fewshot\": %d}", suite_count(p->suites[i]),
			suite_total(p->suites[i]), suite_fewshot(p->suites[i]));
	}
	buf_append_char(out, '}');
	if (p->shard.count)
		buf_printf(out, ", \"shard\": \"%d/%d\"", p->shard.index, p->shard.count);
	buf_printf(out, ", \"answers\": %d}\n", run_plan_items(p) * p->n_variants);
}

#include "evals/report_items.h"

#include <stdlib.h>

#include "evals/model_path.h"
#include "evals/suite_type.h"

int report_items_init(struct report_items *items, const struct options *o, struct error *e)
{
	*items = (struct report_items){0};
	return data_path(o, &items->data, e);
}

void report_items_free(struct report_items *items)
{
	for (int i = 0; i < items->n_open; i++) {
		suite_close(items->open[i].suite);
		free(items->open[i].name);
	}
	chat_setup_close(&items->chat);
	json_free(items->provenance);
	free(items->model);
	free(items->data);
	*items = (struct report_items){0};
}

/* Shots and seed of a suite as its run had them; false where the run does not say. */
static bool read_shots(struct str provenance, const char *suite, int *fewshot, uint64_t *seed)
{
	struct json_document *document = NULL;
	int64_t number = 0, shots = -1;
	if (json_parse(provenance, NULL, JSON_LAST_KEY_WINS, &document, NULL) < 0)
		return false;
	bool known = json_int64(json_get(json_root(document), "fewshot_seed"), &number);
	JSON_EACH (entry, json_get(json_root(document), "suites")) {
		const struct json *name = json_get(entry, "name");
		if (json_is(name, JSON_STRING) && str_is(name->text, suite))
			known = json_int64(json_get(entry, "fewshot"), &shots) && known;
	}
	json_free(document);
	known = known && shots >= 0 && shots <= 1000;
	*fewshot = known ? (int)shots : 0;
	*seed = (uint64_t)number;
	return known;
}

static const char *text_of(const struct json *chat, const char *key)
{
	const struct json *value = json_get(chat, key);
	return json_is(value, JSON_STRING) ? value->text.data : NULL;
}

/* The chat template of the first side's model, as its run was given it. Without one its conversations have no prompts:
 * items->chat.why says so. */
static void open_chat(struct report_items *items, const struct answers *side)
{
	struct options given = {0};
	if (items->model || !side->run.model)
		return;
	items->model = strdup(side->run.model);
	if (!items->model || json_parse(side->run.provenance, NULL, JSON_LAST_KEY_WINS, &items->provenance, NULL) < 0)
		return;
	const struct json *chat = json_get(json_root(items->provenance), "chat");
	const char *template = text_of(chat, "template");
	given.date = text_of(chat, "date");
	given.template = template && strcmp(template, "default") != 0 ? template : NULL;
	struct error e = {0};
	if (chat_setup_open(&items->chat, &given, items->model, &e) < 0)
		items->chat.why = e;
}

/* How prompts are made with the model. How it writes calls changes none of them. */
static void set_chat(const struct report_items *items, const struct answers *side, struct suite_options *options)
{
	const struct json *chat = items->provenance ? json_get(json_root(items->provenance), "chat") : NULL;
	if (!items->model || !side->run.model || strcmp(items->model, side->run.model) != 0)
		return;
	options->conversations = items->chat.conversations;
	options->no_conversations = &items->chat.why;
	options->tool_format = items->chat.tool_format != TOOL_FORMAT_NONE ? items->chat.tool_format : TOOL_FORMAT_JSON;
	options->now = &items->chat.now;
	options->apply_chat_template = json_bool(json_get(chat, "applied"), false);
	options->multiturn = json_bool(json_get(chat, "fewshot_as_multiturn"), false);
	options->system_instruction = text_of(chat, "system_instruction");
}

/* The file that an exam was read from, as its run names it; NULL for another suite, or where the run does not say. */
static char *exam_file(struct str provenance, const char *suite)
{
	struct json_document *document = NULL;
	char *path = NULL;
	if (suite_type_find(suite) || json_parse(provenance, NULL, JSON_LAST_KEY_WINS, &document, NULL) < 0)
		return NULL;
	JSON_EACH (entry, json_get(json_root(document), "suites")) {
		const struct json *name = json_get(entry, "name"), *files = json_get(entry, "files");
		const struct json *file = json_is(files, JSON_ARRAY) ? files->child : NULL;
		if (!path && json_is(name, JSON_STRING) && str_is(name->text, suite) && text_of(file, "path"))
			path = strdup(text_of(file, "path"));
	}
	json_free(document);
	return path;
}

/* The suite with those shots, opened once; NULL where it cannot be. */
static const struct suite *find_suite(
	struct report_items *items, const struct answers *side, const char *name, int fewshot, uint64_t seed)
{
	for (int i = 0; i < items->n_open; i++)
		if (strcmp(items->open[i].name, name) == 0 && items->open[i].fewshot == fewshot &&
			items->open[i].seed == seed)
			return items->open[i].suite;
	char *kept = items->n_open < CLI_MAX_LIST ? strdup(name) : NULL;
	if (!kept)
		return NULL;
	struct suite_options options = {.data_folder = items->data, .fewshot = fewshot, .seed = seed};
	open_chat(items, side);
	set_chat(items, side, &options);
	struct suite *suite = NULL;
	struct error e = {0};
	char *file = exam_file(side->run.provenance, name);
	if (suite_open(file ? file : name, &options, &suite, &e) < 0) {
		suite = NULL;
		if (!items->first_error.code)
			items->first_error = e;
	}
	free(file);
	items->open[items->n_open].name = kept;
	items->open[items->n_open].fewshot = fewshot;
	items->open[items->n_open].seed = seed;
	items->open[items->n_open++].suite = suite;
	return suite;
}

bool report_items_find(
	void *context, const struct answers *side, const struct store_sample *sample, struct report_item *out)
{
	int fewshot = -1;
	uint64_t seed = 0;
	if (!read_shots(side->run.provenance, sample->suite, &fewshot, &seed))
		return false;
	const struct suite *suite = find_suite(context, side, sample->suite, fewshot, seed);
	for (int i = 0; suite && i < suite_count(suite); i++) {
		const struct suite_item *item = suite_item(suite, i);
		if (item->doc_id != sample->doc_id || strcmp(item->task, sample->task) != 0)
			continue;
		if (strcmp(item->prompt_hash, sample->prompt_hash) != 0)
			return false;
		bool choice = item->kind == REQUEST_LOGLIKELIHOOD && item->gold >= 0 && item->gold < item->n_choices;
		out->prompt = item->context;
		out->gold = choice ? item->choices[item->gold] : item->target;
		return true;
	}
	return false;
}

#include "evals/report_items.h"

#include <stdlib.h>

#include "evals/model_path.h"

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

/* The suite with those shots, opened once; NULL where it cannot be. */
static const struct suite *find_suite(struct report_items *items, const char *name, int fewshot, uint64_t seed)
{
	for (int i = 0; i < items->n_open; i++)
		if (strcmp(items->open[i].name, name) == 0 && items->open[i].fewshot == fewshot &&
			items->open[i].seed == seed)
			return items->open[i].suite;
	char *kept = items->n_open < CLI_MAX_LIST ? strdup(name) : NULL;
	if (!kept)
		return NULL;
	const struct suite_options options = {.data_folder = items->data, .fewshot = fewshot, .seed = seed};
	struct suite *suite = NULL;
	struct error e = {0};
	if (suite_open(name, &options, &suite, &e) < 0) {
		suite = NULL;
		if (!items->first_error.code)
			items->first_error = e;
	}
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
	const struct suite *suite = find_suite(context, sample->suite, fewshot, seed);
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

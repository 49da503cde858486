/* The questions behind stored answers, from the data that they were made of. */
#ifndef ASSAY_EVALS_REPORT_ITEMS_H
#define ASSAY_EVALS_REPORT_ITEMS_H

#include "evals/chat_setup.h"
#include "evals/cli.h"
#include "evals/suite.h"
#include "reports/report_verdict.h"

struct report_items {
	char *data; /* owned; NULL: no data */
	struct {
		char *name; /* owned */
		int fewshot;
		uint64_t seed;
		struct suite *suite; /* NULL: it cannot be opened */
	} open[CLI_MAX_LIST];
	int n_open;
	char *model; /* of the first side that was asked for, whose conversations can be written again; owned */
	struct json_document *provenance; /* of that side's run: how they were written; owned */
	struct chat_setup chat;
	struct error first_error; /* why a suite could not be opened; code 0: all could */
};

/* --data, or the bundled pocket set. */
int report_items_init(struct report_items *items, const struct options *o, struct error *e);
void report_items_free(struct report_items *items);

/* As report_find_item: context is a struct report_items. A question is found where its hashes are the stored ones. */
report_find_item report_items_find;

#endif

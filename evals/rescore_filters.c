/* `assay rescore --suite filters`: filters and metrics one text at a time. */
#include <stdlib.h>

#include "datasets/records.h"
#include "engine/base/file.h"
#include "evals/filters.h"
#include "evals/metrics.h"
#include "evals/suite.h"

enum { MAX_COMPILED = 64 }; /* more than there are rows */

/* The filters and metrics met so far: compiled once. */
struct compiled {
	struct filter *filters[MAX_COMPILED];
	struct exact_match *metrics[MAX_COMPILED];
	int n_filters, n_metrics;
};

static void compiled_free(struct compiled *c)
{
	for (int i = 0; i < c->n_filters; i++)
		filter_delete(c->filters[i]);
	for (int i = 0; i < c->n_metrics; i++)
		exact_match_delete(c->metrics[i]);
}

static int get_filter(struct compiled *c, struct str name, struct filter **out, struct error *e)
{
	for (int i = 0; i < c->n_filters; i++) {
		if (str_is(name, filter_name(c->filters[i]))) {
			*out = c->filters[i];
			return 0;
		}
	}
	TRY(filter_new(name, &c->filters[c->n_filters], e));
	*out = c->filters[c->n_filters++];
	return 0;
}

static int get_metric(struct compiled *c, struct str name, struct exact_match **out, struct error *e)
{
	for (int i = 0; i < c->n_metrics; i++) {
		if (str_is(name, exact_match_name(c->metrics[i]))) {
			*out = c->metrics[i];
			return 0;
		}
	}
	TRY(exact_match_new(name, &c->metrics[c->n_metrics], e));
	*out = c->metrics[c->n_metrics++];
	return 0;
}

static int filter_line(struct compiled *c, const struct json *line, struct buf *out, struct error *e)
{
	struct str name, input;
	struct filter *filter;
	TRY(column_string(line, "filter", &name, e));
	TRY(column_string(line, "input", &input, e));
	TRY(get_filter(c, name, &filter, e));
	struct buf output = {0};
	int status = filter_apply(filter, input, &output, e);
	if (status == 0) {
		buf_append_text(out, "{\"output\": ");
		json_write_string(buf_str(&output), false, out);
		buf_append_text(out, "}\n");
	}
	buf_free(&output);
	return status;
}

static int metric_line(struct compiled *c, const struct json *line, struct buf *out, struct error *e)
{
	struct str name, prediction, reference;
	struct exact_match *metric;
	double value;
	TRY(column_string(line, "metric", &name, e));
	TRY(column_string(line, "pred", &prediction, e));
	TRY(column_string(line, "ref", &reference, e));
	TRY(get_metric(c, name, &metric, e));
	TRY(exact_match_score(metric, prediction, reference, &value, e));
	buf_append_text(out, "{\"exact_match\": ");
	json_write_double(value, out);
	buf_append_text(out, "}\n");
	return 0;
}

static int any_line(struct compiled *c, struct str text, struct buf *out, struct error *e)
{
	struct json_document *document;
	TRY(json_parse(text, NULL, JSON_LINE | JSON_LAST_KEY_WINS, &document, e));
	const struct json *line = json_root(document);
	int status;
	if (json_get(line, "filter"))
		status = filter_line(c, line, out, e);
	else if (json_get(line, "metric"))
		status = metric_line(c, line, out, e);
	else
		status = error_set(e, ERR_INPUT,
			"expected an object with \"filter\" and \"input\", or \"metric\", \"pred\" and \"ref\"");
	json_free(document);
	return status;
}

int suite_rescore_filters(const char *path, struct buf *out, struct error *e)
{
	struct compiled compiled = {0};
	struct buf text = {0};
	struct str line;
	int status = 0;
	TRY_CLEANUP(status, file_read(path, &text, e));
	struct line_cursor cursor = {.text = buf_str(&text)};
	while (line_next(&cursor, &line))
		if (any_line(&compiled, line, out, e) < 0)
			TRY_CLEANUP(status, error_prefix(e, "%s:%zu", input_name(path), cursor.line));
	TRY_CLEANUP(status, buf_check(out, e));
cleanup:
	compiled_free(&compiled);
	buf_free(&text);
	return status;
}

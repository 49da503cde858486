#include <inttypes.h>
#include <stdlib.h>

#include "engine/base/json_strict.h"
#include "evals/cli.h"
#include "evals/console.h"
#include "evals/option_values.h"
#include "evals/run_report.h"
#include "evals/suite.h"
#include "reports/store.h"

enum { RESPONSE_COLUMNS = 60 };

struct show {
	struct store *store;
	int64_t run_id;
	struct buf suite;  /* whose samples are shown, as it is stored */
	struct buf suites; /* that have samples */
	struct buf line;
	struct table table;
	bool first;

	int64_t variant_id; /* whose name is in variant */
	struct buf variant;
};

static void show_free(struct show *s)
{
	store_close(s->store);
	buf_free(&s->suite);
	buf_free(&s->suites);
	buf_free(&s->line);
	buf_free(&s->variant);
	table_free(&s->table);
}

/* ---- Samples ---- */

static int see_suite(void *context, const struct store_count *count, struct error *e)
{
	struct show *s = context;
	char quoted[128];
	snprintf(quoted, sizeof(quoted), " %s", count->suite);
	if (str_find(buf_str(&s->suites), str_of(quoted), 0) == SIZE_MAX)
		buf_append_text(&s->suites, quoted);
	return buf_check(&s->suites, e);
}

struct suite_search {
	const char *wanted;
	struct buf *found;
};

static int match_suite(void *context, const struct store_count *count, struct error *e)
{
	struct suite_search *search = context;
	bool same =
		option_same_name(count->suite, search->wanted) || str_is(suite_exam_name(search->wanted), count->suite);
	if (search->found->length == 0 && same)
		buf_append_text(search->found, count->suite);
	return buf_check(search->found, e);
}

static int find_suite(struct show *s, const char *wanted, struct error *e)
{
	struct suite_search search = {wanted, &s->suite};
	TRY(store_counts_each(s->store, s->run_id, match_suite, &search, e));
	if (s->suite.length)
		return 0;
	TRY(store_counts_each(s->store, s->run_id, see_suite, s, e));
	return error_set(e, ERR_USAGE, "run %" PRId64 " holds no answers of suite '%.80s'; it has:%s", s->run_id,
		wanted, s->suites.length ? buf_text(&s->suites) : " none");
}

static int take_variant(void *context, const struct store_variant *variant, struct error *e)
{
	struct show *s = context;
	if (variant->variant_id == s->variant_id) {
		buf_clear(&s->variant);
		buf_append_text(&s->variant, variant->name);
	}
	return buf_check(&s->variant, e);
}

/* Samples come sorted by variant: its name is looked up when it changes. */
static int name_variant(struct show *s, int64_t variant_id, struct error *e)
{
	if (s->variant_id == variant_id)
		return 0;
	s->variant_id = variant_id;
	return store_variants_each(s->store, s->run_id, take_variant, s, e);
}

/* "strict-match 1, flexible-extract 0": a metric goes by its filter's name where it has one. */
static int append_scores(struct str metrics, struct buf *out, struct error *e)
{
	struct json_document *document = NULL;
	TRY(json_parse(metrics, "metrics", JSON_LAST_KEY_WINS, &document, e));
	const char *between = "";
	JSON_EACH (metric, json_root(document)) {
		size_t comma = str_find(metric->key, str_of(","), 0);
		struct str name = metric->key;
		if (comma != SIZE_MAX) {
			struct str filter = {name.data + comma + 1, name.length - comma - 1};
			name = str_is(filter, "none") ? (struct str){name.data, comma} : filter;
		}
		buf_printf(out, "%s%.*s %g", between, STR_ARG(name), json_double(metric));
		between = ", ";
	}
	json_free(document);
	return buf_check(out, e);
}

/* A response that is a text without its JSON escapes, another (log-probabilities) as it stands. */
static int append_response(struct str response, struct buf *out, struct error *e)
{
	struct json_document *document = NULL;
	TRY(json_parse(response, "response", JSON_LAST_KEY_WINS, &document, e));
	const struct json *root = json_root(document);
	struct buf whole = {0};
	text_append_printable(&whole, json_is(root, JSON_STRING) ? root->text : response);
	text_append_clipped(out, buf_str(&whole), RESPONSE_COLUMNS);
	buf_free(&whole);
	json_free(document);
	return buf_check(out, e);
}

static int add_sample_row(void *context, const struct store_sample *sample, struct error *e)
{
	struct show *s = context;
	TRY(name_variant(s, sample->variant_id, e));
	table_add(&s->table, buf_str(&s->variant));
	table_add(&s->table, str_of(sample->task));
	table_printf(&s->table, "%" PRId64, sample->doc_id);
	table_add(&s->table, str_of(sample_status_name(sample->status)));
	buf_clear(&s->line);
	TRY(append_scores(sample->metrics, &s->line, e));
	table_add(&s->table, buf_str(&s->line));
	buf_clear(&s->line);
	TRY(append_response(sample->response, &s->line, e));
	table_add(&s->table, sample->error ? str_of(sample->error) : buf_str(&s->line));
	return 0;
}

static int print_sample_table(struct show *s, bool color, struct error *e)
{
	static const char *const headers[] = {"variant", "task", "doc", "status", "scores", "response"};
	table_init(&s->table, "llrlll");
	for (int i = 0; i < s->table.columns; i++)
		table_add(&s->table, str_of(headers[i]));
	TRY(store_samples_each(s->store, s->run_id, 0, buf_text(&s->suite), add_sample_row, s, e));
	buf_clear(&s->line);
	buf_append_char(&s->line, '\n');
	TRY(table_write(&s->table, color, &s->line, e));
	fwrite(buf_text(&s->line), 1, s->line.length, stdout);
	return 0;
}

static void append_json_text(struct buf *out, const char *name, struct str json)
{
	buf_printf(out, ", \"%s\": ", name);
	buf_append_str(out, json.length ? json : str_of("null"));
}

static int print_sample_json(void *context, const struct store_sample *sample, struct error *e)
{
	struct show *s = context;
	struct buf *line = &s->line;
	TRY(name_variant(s, sample->variant_id, e));
	const struct {
		const char *name, *text;
	} texts[] = {{"variant", buf_text(&s->variant)}, {"suite", sample->suite}, {"task", sample->task},
		{"doc_hash", sample->doc_hash}, {"prompt_hash", sample->prompt_hash},
		{"target_hash", sample->target_hash}, {"status", sample_status_name(sample->status)},
		{"finish_reason", sample->finish_reason}, {"error", sample->error}};
	buf_clear(line);
	buf_append_text(line, s->first ? "\n{" : ",\n{");
	s->first = false;
	json_member_int(line, "doc_id", sample->doc_id);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		buf_append_text(line, ", ");
		json_member_text(line, texts[i].name, texts[i].text);
	}
	append_json_text(line, "response", sample->response);
	append_json_text(line, "filtered", sample->filtered);
	append_json_text(line, "metrics", sample->metrics);
	append_json_text(line, "token_ids", sample->tokens);
	append_json_text(line, "token_logprobs", sample->token_logprobs);
	buf_append_text(line, ", \"tokens\": {");
	json_member_int(line, "prompt", sample->prompt_tokens);
	buf_append_text(line, ", ");
	json_member_int(line, "cached", sample->cached_tokens);
	buf_append_text(line, ", ");
	json_member_int(line, "generated", sample->generated_tokens);
	buf_append_text(line, "}, ");
	json_member_double(line, "seconds", sample->seconds);
	buf_append_char(line, '}');
	TRY(buf_check(line, e));
	fwrite(buf_text(line), 1, line->length, stdout);
	return 0;
}

/* ---- The run ---- */

static int print_json(struct show *s, struct error *e)
{
	buf_append_char(&s->line, '{');
	TRY(run_report_json(s->store, s->run_id, &s->line, e));
	fwrite(buf_text(&s->line), 1, s->line.length, stdout);
	if (s->suite.length) {
		fputs(", \"samples\": [", stdout);
		s->first = true;
		TRY(store_samples_each(s->store, s->run_id, 0, buf_text(&s->suite), print_sample_json, s, e));
		fputc(']', stdout);
	}
	fputs("}\n", stdout);
	return 0;
}

static int append_description(void *context, const struct store_run *run, struct error *e)
{
	struct buf *out = context;
	buf_printf(out, "run %" PRId64 " (%s), %s, started ", run->run_id, run->uid, run_status_name(run->status));
	append_local_time(out, run->started);
	buf_printf(out, ", %.1f s at work%s\n", run->seconds, run->for_gating ? "" : ", limited: not for gating");
	buf_append_text(out, "model ");
	text_append_printable(out, str_of(run->model));
	if (run->model_fingerprint)
		buf_printf(out, " (%.12s)", run->model_fingerprint);
	buf_append_text(out, "\n\n");
	return buf_check(out, e);
}

static int print_text(struct show *s, bool color, struct error *e)
{
	TRY(store_runs_each(s->store, s->run_id, append_description, &s->line, e));
	TRY(run_report_tables(s->store, s->run_id, NULL, color, &s->line, e));
	fwrite(buf_text(&s->line), 1, s->line.length, stdout);
	return s->suite.length ? print_sample_table(s, color, e) : 0;
}

static int show_run(struct show *s, const struct options *o, bool color, struct error *e)
{
	char *path = db_path(o, e);
	if (!path)
		return e->code;
	int status = store_open_reading(path, &s->store, e);
	free(path);
	TRY(status);
	TRY(store_run_find(s->store, o->arguments[0], &s->run_id, e));
	if (o->show_samples)
		TRY(find_suite(s, o->show_samples, e));
	return o->json ? print_json(s, e) : print_text(s, color, e);
}

int cmd_show(const struct options *o, struct error *e)
{
	struct console c;
	struct show s = {0};
	console_init(&c, o, stdout, stderr);
	int status = show_run(&s, o, c.color_output, e);
	show_free(&s);
	return error_exit_code(status);
}

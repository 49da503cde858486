#include <inttypes.h>

#include "engine/base/json_strict.h"
#include "evals/cli.h"
#include "evals/console.h"
#include "evals/option_values.h"
#include "evals/sides.h"
#include "reports/tool_answer.h"
#include "reports/word_diff.h"

/* ---- Which item ---- */

struct wanted {
	struct str task; /* length 0: any */
	int64_t doc_id;
};

static int parse_item(const char *text, struct wanted *out, struct error *e)
{
	const char *slash = strrchr(text, '/');
	uint64_t number = 0;
	if (!option_parse_uint(slash ? slash + 1 : text, &number) || number > INT64_MAX)
		return error_set(e, ERR_USAGE, "--item: '%.80s', expected a document's number, or TASK/NUMBER", text);
	*out = (struct wanted){{text, slash ? (size_t)(slash - text) : 0}, (int64_t)number};
	return 0;
}

static bool is_wanted(const struct pair *pair, const struct wanted *w)
{
	const struct store_sample *known = pair->baseline ? pair->baseline : pair->candidate;
	return known->doc_id == w->doc_id && (w->task.length == 0 || str_is(w->task, known->task));
}

static int find_pair(const struct pairing *p, const char *text, const struct pair **out, struct error *e)
{
	struct wanted wanted = {0};
	const struct pair *found = NULL;
	TRY(parse_item(text, &wanted, e));
	for (size_t i = 0; i < p->n_pairs; i++) {
		const struct pair *pair = &p->pairs[i];
		if (!is_wanted(pair, &wanted))
			continue;
		const struct store_sample *a = found ? (found->baseline ? found->baseline : found->candidate) : NULL;
		const struct store_sample *b = pair->baseline ? pair->baseline : pair->candidate;
		if (a)
			return error_set(e, ERR_USAGE,
				"--item %.80s is ambiguous: there is %s/%" PRId64 " of %s and %s/%" PRId64 " of %s "
				"(expected TASK/NUMBER, or --suite)",
				text, a->task, a->doc_id, a->suite, b->task, b->doc_id, b->suite);
		found = pair;
	}
	if (!found)
		return error_set(e, ERR_USAGE, "--item: no document %.80s in %s or %s", text, p->baseline.label,
			p->candidate.label);
	if (!found->baseline || !found->candidate)
		return error_set(e, ERR_USAGE, "--item: document %.80s is in %s alone", text,
			found->baseline ? p->baseline.label : p->candidate.label);
	*out = found;
	return 0;
}

/* ---- What is said of it ---- */

static const char *metric_of(const struct pairing *p, const struct pair *pair)
{
	for (size_t i = 0; i < p->n_suites; i++)
		if (pair >= p->suites[i].pairs && pair < p->suites[i].pairs + p->suites[i].n)
			return p->suites[i].metric;
	return NULL;
}

/* with_answer: what was extracted of it is told. */
static void append_side(const char *name, const struct answers *a, const struct store_sample *sample, double value,
	const char *metric, bool with_answer, struct buf *out)
{
	struct buf extracted = {0};
	if (with_answer)
		pair_extracted(sample, metric, &extracted);
	buf_printf(out, "%s  ", name);
	text_append_printable(out, str_of(a->label));
	buf_printf(out, ": %s", sample_status_name(sample->status));
	if (metric)
		buf_printf(out, ", %s %g", metric, value);
	if (sample->finish_reason)
		buf_printf(out, ", %s after %" PRId64 " tokens", sample->finish_reason, sample->generated_tokens);
	if (extracted.length) {
		buf_append_text(out, ", answer ");
		text_append_printable(out, buf_str(&extracted));
	}
	buf_append_char(out, '\n');
	buf_free(&extracted);
}

enum { CELL_COLUMNS = 60 };

static void add_clipped(struct table *t, struct str text)
{
	struct buf whole = {0}, clipped = {0};
	text_append_printable(&whole, text);
	text_append_clipped(&clipped, buf_str(&whole), CELL_COLUMNS);
	table_add(t, buf_str(&clipped));
	t->failed |= whole.failed || clipped.failed;
	buf_free(&whole);
	buf_free(&clipped);
}

/* Lines stay lines; all else that a terminal would act on is spelled. */
static void append_lines(struct buf *out, struct str text)
{
	for (size_t at = 0, end; at < text.length; at = end + 1) {
		end = str_find(text, str_of("\n"), at);
		bool last = end == SIZE_MAX;
		end = last ? text.length : end;
		text_append_printable(out, (struct str){text.data + at, end - at});
		buf_append_text(out, last ? "" : "\n");
	}
}

static void append_runs(const struct word_diff *d, bool color, struct buf *out)
{
	static const char *const begin[] = {"", "[-", "{+"}, *const end[] = {"", "-]", "+}"};
	static const char *const begin_color[] = {"", "\x1b[31m", "\x1b[32m"};
	for (size_t i = 0; i < d->n; i++) {
		enum word_change change = d->runs[i].change;
		buf_printf(out, "%s%s", color ? begin_color[change] : "", begin[change]);
		append_lines(out, d->runs[i].text);
		buf_printf(out, "%s%s", end[change], color && change != WORD_SAME ? "\x1b[0m" : "");
	}
	buf_append_char(out, '\n');
}

/* Both answers' calls; none where one of the two has none. */
struct both {
	struct tool_answer baseline, candidate;
	bool there;
};

static int both_read(const struct pair *pair, struct both *out, struct error *e)
{
	*out = (struct both){0};
	int status = tool_answer_read(pair->baseline, &out->baseline, e);
	if (status == 1)
		status = tool_answer_read(pair->candidate, &out->candidate, e);
	out->there = status == 1;
	return status < 0 ? status : 0;
}

static void both_free(struct both *b)
{
	tool_answer_free(&b->baseline);
	tool_answer_free(&b->candidate);
}

/* The calls beside each other. */
static int append_calls(const struct both *calls, bool color, struct buf *out, struct error *e)
{
	struct table_list list = {0};
	struct table t;
	int status = tool_answers_table(&calls->baseline, &calls->candidate, &list, e);
	if (status == 0) {
		const struct report_table *from = list.tables[0];
		table_init(&t, "llll");
		for (int i = 0; i < from->n_columns; i++)
			table_add(&t, table_cell_text(from, &from->columns[i]));
		for (size_t i = 0; i < from->n_cells; i++)
			add_clipped(&t, table_cell_text(from, &from->cells[i]));
		status = table_write(&t, color, out, e);
		table_free(&t);
		if (from->note.length)
			buf_printf(out, "%s\n", buf_text(&from->note));
		buf_append_char(out, '\n');
	}
	table_list_free(&list);
	return status;
}

static void append_json_side(
	const char *name, double value, const struct both *calls, const struct tool_answer *a, struct buf *out)
{
	buf_printf(out, ", \"%s\": ", name);
	json_write_double_or_null(value, out);
	if (!calls->there)
		return;
	buf_printf(out, ", \"%s_calls\": {", name);
	tool_answer_json(a, out);
	buf_append_char(out, '}');
}

static void append_json(const struct pair *pair, const struct both *calls, const struct word_diff *d, struct buf *out)
{
	static const char *const names[] = {"same", "removed", "added"};
	buf_append_text(out, "{\"schema_version\": 1, \"suite\": ");
	json_write_string(str_of(pair->baseline->suite), false, out);
	buf_append_text(out, ", \"task\": ");
	json_write_string(str_of(pair->baseline->task), false, out);
	buf_printf(out, ", \"doc_id\": %" PRId64, pair->baseline->doc_id);
	append_json_side("baseline", pair->baseline_value, calls, &calls->baseline, out);
	append_json_side("candidate", pair->candidate_value, calls, &calls->candidate, out);
	buf_append_text(out, ", \"words\": [");
	for (size_t i = 0; i < d->n; i++) {
		buf_printf(out, "%s[\"%s\", ", i ? ", " : "", names[d->runs[i].change]);
		json_write_string(d->runs[i].text, false, out);
		buf_append_char(out, ']');
	}
	buf_append_text(out, "]}\n");
}

static int print_pair(
	const struct options *o, bool color, const struct pairing *p, const struct pair *pair, struct error *e)
{
	struct buf old_text = {0}, new_text = {0}, out = {0};
	struct word_diff d = {0};
	struct both calls;
	const char *metric = metric_of(p, pair);
	pair_response(pair->baseline, &old_text);
	pair_response(pair->candidate, &new_text);
	int status = both_read(pair, &calls, e);
	if (status == 0)
		status = word_diff_make(buf_str(&old_text), buf_str(&new_text), &d, e);
	if (status == 0 && o->json) {
		append_json(pair, &calls, &d, &out);
	} else if (status == 0) {
		buf_printf(&out, "%s, document %s/%" PRId64 "\n", pair->baseline->suite, pair->baseline->task,
			pair->baseline->doc_id);
		append_side(
			"baseline ", &p->baseline, pair->baseline, pair->baseline_value, metric, !calls.there, &out);
		append_side(
			"candidate", &p->candidate, pair->candidate, pair->candidate_value, metric, !calls.there, &out);
		buf_append_char(&out, '\n');
		if (calls.there)
			status = append_calls(&calls, color, &out, e);
		append_runs(&d, color, &out);
	}
	if (status == 0)
		status = buf_check(&out, e);
	if (status == 0)
		fwrite(buf_text(&out), 1, out.length, stdout);
	word_diff_free(&d);
	both_free(&calls);
	buf_free(&old_text);
	buf_free(&new_text);
	buf_free(&out);
	return status;
}

int cmd_diff(const struct options *o, struct error *e)
{
	struct console c;
	struct pairing pairing = {0};
	const struct pair *pair = NULL;
	console_init(&c, o, stdout, stderr);
	if (!o->item)
		return error_exit_code(error_set(e, ERR_USAGE,
			"--item is missing, expected a document's number ('assay compare --flips' lists some)"));
	int status = sides_pair(o, o->arguments[0], o->arguments[1], NULL, &pairing, e);
	if (status == 0)
		status = find_pair(&pairing, o->item, &pair, e);
	if (status == 0)
		status = print_pair(o, c.color_output, &pairing, pair, e);
	pairing_free(&pairing);
	return error_exit_code(status);
}

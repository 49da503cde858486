#include "evals/run_report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "engine/base/json_strict.h"
#include "evals/console.h"

/* ---- Pieces ---- */

void json_member_text(struct buf *out, const char *name, const char *text)
{
	buf_printf(out, "\"%s\": ", name);
	if (text)
		json_write_string(str_of(text), false, out);
	else
		buf_append_text(out, "null");
}

void json_member_double(struct buf *out, const char *name, double value)
{
	buf_printf(out, "\"%s\": ", name);
	json_write_double_or_null(value, out);
}

void json_member_int(struct buf *out, const char *name, int64_t value)
{
	buf_printf(out, "\"%s\": %" PRId64, name, value);
}

/* Whole seconds, rounded down also before 1970. */
static time_t seconds_of(int64_t ns)
{
	return (time_t)(ns / 1000000000 - (ns % 1000000000 < 0));
}

static void append_time(struct buf *out, const struct tm *t, char between)
{
	buf_printf(out, "%04d-%02d-%02d%c%02d:%02d", t->tm_year + 1900, t->tm_mon + 1, t->tm_mday, between, t->tm_hour,
		t->tm_min);
}

void append_local_time(struct buf *out, int64_t ns)
{
	time_t seconds = seconds_of(ns);
	struct tm t;
	if (localtime_r(&seconds, &t))
		append_time(out, &t, ' ');
}

void append_utc_time(struct buf *out, int64_t ns)
{
	time_t seconds = seconds_of(ns);
	struct tm t;
	if (!gmtime_r(&seconds, &t))
		return;
	append_time(out, &t, 'T');
	buf_printf(out, ":%02d.%03dZ", t.tm_sec, (int)((ns - (int64_t)seconds * 1000000000) / 1000000));
}

static void append_time_member(struct buf *out, const char *name, int64_t ns)
{
	buf_printf(out, "\"%s\": ", name);
	if (ns) {
		buf_append_char(out, '"');
		append_utc_time(out, ns);
		buf_append_char(out, '"');
	} else {
		buf_append_text(out, "null");
	}
}

/* ---- What the store holds of a run, in memory ---- */

struct variant {
	int64_t id;
	char *name, *facts;
	int64_t weights_bytes, kv_bytes_per_token, kv_tokens;
};

struct result {
	int64_t variant_id;
	char *suite, *task, *metric;
	int64_t n;
	double value, stderr_value;
};

struct count {
	int64_t variant_id;
	char *suite;
	int64_t n;
	int64_t by_status[SAMPLE_STATUS_COUNT];
	int64_t contexts_cut;
};

struct report {
	struct variant *variants;
	struct result *results; /* in the store's order: by suite, task and metric, then by variant */
	struct count *counts;
	size_t n_variants, n_results, n_counts;
	int64_t prompt_tokens, cached_tokens, generated_tokens;
	struct buf head; /* JSON members that describe the run */
};

/* Makes room for one more element of that size behind n. */
static int grow(void *array, size_t n, size_t size, struct error *e)
{
	void **elements = array;
	void *grown = reallocarray(*elements, n + 1, size);
	if (!grown)
		return error_set(e, ERR_MEMORY, "no memory for the rows of a run");
	*elements = grown;
	return 0;
}

static int copy(const char *text, char **out, struct error *e)
{
	*out = strdup(text);
	return *out ? 0 : error_set(e, ERR_MEMORY, "no memory for the rows of a run");
}

static int keep_variant(void *context, const struct store_variant *v, struct error *e)
{
	struct report *r = context;
	TRY(grow(&r->variants, r->n_variants, sizeof(*r->variants), e));
	struct variant *kept = &r->variants[r->n_variants++];
	*kept = (struct variant){.id = v->variant_id,
		.weights_bytes = v->weights_bytes,
		.kv_bytes_per_token = v->kv_bytes_per_token,
		.kv_tokens = v->kv_tokens};
	TRY(copy(v->name, &kept->name, e));
	return copy(v->facts.data, &kept->facts, e);
}

static int keep_result(void *context, const struct store_result *x, struct error *e)
{
	struct report *r = context;
	TRY(grow(&r->results, r->n_results, sizeof(*r->results), e));
	struct result *kept = &r->results[r->n_results++];
	*kept = (struct result){
		.variant_id = x->variant_id, .n = x->n, .value = x->value, .stderr_value = x->stderr_value};
	TRY(copy(x->suite, &kept->suite, e));
	TRY(copy(x->task, &kept->task, e));
	return copy(x->metric, &kept->metric, e);
}

static int keep_count(void *context, const struct store_count *x, struct error *e)
{
	struct report *r = context;
	TRY(grow(&r->counts, r->n_counts, sizeof(*r->counts), e));
	struct count *kept = &r->counts[r->n_counts++];
	*kept = (struct count){.variant_id = x->variant_id, .n = x->n, .contexts_cut = x->contexts_cut};
	memcpy(kept->by_status, x->by_status, sizeof(kept->by_status));
	r->prompt_tokens += x->prompt_tokens;
	r->cached_tokens += x->cached_tokens;
	r->generated_tokens += x->generated_tokens;
	return copy(x->suite, &kept->suite, e);
}

static int keep_head(void *context, const struct store_run *run, struct error *e)
{
	struct report *r = context;
	run_report_json_head(run, &r->head);
	return buf_check(&r->head, e);
}

static void report_free(struct report *r)
{
	for (size_t i = 0; i < r->n_variants; i++) {
		free(r->variants[i].name);
		free(r->variants[i].facts);
	}
	for (size_t i = 0; i < r->n_results; i++) {
		free(r->results[i].suite);
		free(r->results[i].task);
		free(r->results[i].metric);
	}
	for (size_t i = 0; i < r->n_counts; i++)
		free(r->counts[i].suite);
	free(r->variants);
	free(r->results);
	free(r->counts);
	buf_free(&r->head);
}

/* *r is to be freed on failure, too. */
static int report_load(struct report *r, struct store *s, int64_t run_id, struct error *e)
{
	*r = (struct report){0};
	TRY(store_runs_each(s, run_id, keep_head, r, e));
	TRY(store_variants_each(s, run_id, keep_variant, r, e));
	TRY(store_results_each(s, run_id, keep_result, r, e));
	return store_counts_each(s, run_id, keep_count, r, e);
}

static const char *variant_name(const struct report *r, int64_t id)
{
	for (size_t i = 0; i < r->n_variants; i++)
		if (r->variants[i].id == id)
			return r->variants[i].name;
	return "?";
}

/* ---- Tables ---- */

static const struct count *find_count(const struct report *r, int64_t variant_id, const char *suite)
{
	for (size_t i = 0; i < r->n_counts; i++)
		if (r->counts[i].variant_id == variant_id && strcmp(r->counts[i].suite, suite) == 0)
			return &r->counts[i];
	return NULL;
}

static bool has_result(const struct report *r, const struct count *count)
{
	for (size_t i = 0; i < r->n_results; i++)
		if (r->results[i].variant_id == count->variant_id && strcmp(r->results[i].suite, count->suite) == 0)
			return true;
	return false;
}

static bool all_ok(const struct report *r)
{
	for (size_t i = 0; i < r->n_counts; i++)
		if (r->counts[i].by_status[SAMPLE_OK] != r->counts[i].n || r->counts[i].contexts_cut)
			return false;
	return true;
}

/* "3 truncated, 1 error, 40 contexts cut" */
static void add_not_ok(struct table *t, const struct count *count)
{
	struct buf text = {0};
	for (int i = SAMPLE_OK + 1; count && i < SAMPLE_STATUS_COUNT; i++)
		if (count->by_status[i])
			buf_printf(&text, "%s%" PRId64 " %s", text.length ? ", " : "", count->by_status[i],
				sample_status_name((enum sample_status)i));
	if (count && count->contexts_cut)
		buf_printf(&text, "%s%" PRId64 " context%s cut", text.length ? ", " : "", count->contexts_cut,
			count->contexts_cut == 1 ? "" : "s");
	table_add(t, buf_str(&text));
	buf_free(&text);
}

/* An exam: how many passed. */
static bool is_passed(const struct result *x)
{
	return strncmp(x->metric, "passed,", 7) == 0;
}

/* Items without an answer did not pass. */
static void passed_of(const struct report *r, const struct result *x, int64_t *passed, int64_t *total)
{
	const struct count *count = find_count(r, x->variant_id, x->suite);
	*passed = (int64_t)(x->value * (double)x->n + 0.5);
	*total = count ? x->n + count->by_status[SAMPLE_ERROR] : x->n;
}

static void append_value(const struct report *r, const struct result *x, struct buf *out)
{
	int64_t passed, total;
	if (!is_passed(x)) {
		text_append_estimate(out, x->value, x->stderr_value);
		return;
	}
	passed_of(r, x, &passed, &total);
	buf_printf(out, "%" PRId64 " / %" PRId64, passed, total);
}

static void add_result(struct table *t, const struct report *r, const struct result *x, bool not_ok)
{
	struct buf estimate = {0};
	append_value(r, x, &estimate);
	if (strchr(x->task, '=')) /* "filler=24" says nothing alone */
		table_printf(t, "%s %s", x->suite, x->task);
	else
		table_add(t, str_of(x->task));
	table_add(t, str_of(x->metric));
	table_add(t, str_of(variant_name(r, x->variant_id)));
	table_printf(t, "%" PRId64, x->n);
	table_add(t, buf_str(&estimate));
	if (not_ok) /* it is counted for the suite as a whole */
		add_not_ok(t, strcmp(x->task, x->suite) == 0 ? find_count(r, x->variant_id, x->suite) : NULL);
	buf_free(&estimate);
}

/* A suite that has answers and no result: the run has not come to its end, or no answer could be scored. */
static void add_unfinished(struct table *t, const struct report *r, const struct count *count, bool not_ok)
{
	table_add(t, str_of(count->suite));
	table_add(t, str_of("no result"));
	table_add(t, str_of(variant_name(r, count->variant_id)));
	table_printf(t, "%" PRId64, count->n);
	table_add(t, str_of(""));
	if (not_ok)
		add_not_ok(t, count);
}

static void add_headers(struct table *t, const char *const *headers)
{
	for (int i = 0; i < t->columns; i++)
		table_add(t, str_of(headers[i]));
}

static bool is_shown(const struct report_filter *filter, const struct result *x)
{
	return !filter || strcmp(x->suite, x->task) == 0 || filter->shows(filter->context, x->suite, x->task);
}

static int append_results(
	const struct report *r, const struct report_filter *filter, bool color, struct buf *out, struct error *e)
{
	static const char *const headers[] = {"suite", "metric", "variant", "n", "value ± stderr", "not ok"};
	bool not_ok = !all_ok(r);
	struct table t;
	table_init(&t, not_ok ? "lllrrl" : "lllrr");
	add_headers(&t, headers);
	for (size_t i = 0; i < r->n_results; i++)
		if (is_shown(filter, &r->results[i]))
			add_result(&t, r, &r->results[i], not_ok);
	for (size_t i = 0; i < r->n_counts; i++)
		if (!has_result(r, &r->counts[i]))
			add_unfinished(&t, r, &r->counts[i], not_ok);
	int status = table_write(&t, color, out, e);
	table_free(&t);
	return status;
}

static int append_variants(const struct report *r, bool color, struct buf *out, struct error *e)
{
	static const char *const headers[] = {"variant", "weights", "KV bytes/token", "KV tokens"};
	struct table t;
	table_init(&t, "lrrr");
	add_headers(&t, headers);
	for (size_t i = 0; i < r->n_variants; i++) {
		struct buf bytes = {0};
		text_append_bytes(&bytes, r->variants[i].weights_bytes);
		table_add(&t, str_of(r->variants[i].name));
		table_add(&t, buf_str(&bytes));
		table_printf(&t, "%" PRId64, r->variants[i].kv_bytes_per_token);
		table_printf(&t, "%" PRId64, r->variants[i].kv_tokens);
		buf_free(&bytes);
	}
	int status = table_write(&t, color, out, e);
	table_free(&t);
	return status;
}

/* 1234567 as "1,234,567" */
static void append_thousands(struct buf *out, int64_t n)
{
	char digits[24];
	int length = snprintf(digits, sizeof(digits), "%" PRId64, n);
	for (int i = 0; i < length; i++) {
		if (i > 0 && (length - i) % 3 == 0)
			buf_append_char(out, ',');
		buf_append_char(out, digits[i]);
	}
}

/* "1,234 of 5,678 prompt tokens were cached (22%)" */
static void append_cached(const struct report *r, struct buf *out)
{
	if (r->prompt_tokens == 0)
		return;
	buf_append_char(out, '\n');
	append_thousands(out, r->cached_tokens);
	buf_append_text(out, " of ");
	append_thousands(out, r->prompt_tokens);
	buf_printf(out, " prompt tokens were cached (%.0f%%)\n",
		100.0 * (double)r->cached_tokens / (double)r->prompt_tokens);
}

/* Incidents of one check at one moment. */
struct incident_count {
	char *variant, *check, *phase;
	int64_t n;
};

struct incident_counts {
	struct incident_count *rows;
	size_t n;
};

static int keep_incident(void *context, const struct store_incident *i, struct error *e)
{
	struct incident_counts *c = context;
	for (size_t k = 0; k < c->n; k++) {
		struct incident_count *row = &c->rows[k];
		if (strcmp(row->variant, i->variant) == 0 && strcmp(row->check, i->check) == 0 &&
			strcmp(row->phase, i->phase) == 0) {
			row->n++;
			return 0;
		}
	}
	TRY(grow(&c->rows, c->n, sizeof(*c->rows), e));
	struct incident_count *row = &c->rows[c->n++];
	*row = (struct incident_count){.n = 1};
	TRY(copy(i->variant, &row->variant, e));
	TRY(copy(i->check, &row->check, e));
	return copy(i->phase, &row->phase, e);
}

/* A table of what the guards found; nothing when they found nothing. */
static int append_incidents(struct store *s, int64_t run_id, bool color, struct buf *out, struct error *e)
{
	static const char *const headers[] = {"variant", "check", "phase", "incidents", NULL};
	struct incident_counts c = {0};
	struct table t;
	int status = store_incidents_each(s, run_id, keep_incident, &c, e);

	table_init(&t, "lllr");
	add_headers(&t, headers);
	for (size_t i = 0; i < c.n; i++) {
		table_add(&t, str_of(c.rows[i].variant));
		table_add(&t, str_of(c.rows[i].check));
		table_add(&t, str_of(c.rows[i].phase));
		table_printf(&t, "%" PRId64, c.rows[i].n);
	}
	if (status == 0 && c.n > 0) {
		buf_append_char(out, '\n');
		status = table_write(&t, color, out, e);
	}
	table_free(&t);
	for (size_t i = 0; i < c.n; i++) {
		free(c.rows[i].variant);
		free(c.rows[i].check);
		free(c.rows[i].phase);
	}
	free(c.rows);
	return status;
}

int run_report_tables(struct store *s, int64_t run_id, const struct report_filter *filter, bool color, struct buf *out,
	struct error *e)
{
	struct report r;
	int status = report_load(&r, s, run_id, e);
	if (status == 0 && r.n_results + r.n_counts > 0) {
		status = append_results(&r, filter, color, out, e);
		buf_append_char(out, '\n');
	}
	if (status == 0)
		status = append_variants(&r, color, out, e);
	if (status == 0)
		append_cached(&r, out);
	if (status == 0)
		status = append_incidents(s, run_id, color, out, e);
	report_free(&r);
	return status;
}

/* ---- JSON ---- */

void run_report_json_head(const struct store_run *run, struct buf *out)
{
	const struct {
		const char *name, *text;
	} members[] = {{"uid", run->uid}, {"kind", run->kind}, {"status", run_status_name(run->status)},
		{"host", run->host}, {"version", run->version}, {"command", run->command},
		{"config_hash", run->config_hash}, {"model", run->model}, {"model_fingerprint", run->model_fingerprint},
		{"tokenizer_hash", run->tokenizer_hash}, {"template_hash", run->template_hash},
		{"numerics_id", run->numerics_id}};
	json_member_int(out, "run", run->run_id);
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		buf_append_text(out, ", ");
		json_member_text(out, members[i].name, members[i].text);
	}
	buf_append_text(out, ", ");
	append_time_member(out, "started", run->started);
	buf_append_text(out, ", ");
	append_time_member(out, "finished", run->finished);
	buf_append_text(out, ", ");
	json_member_double(out, "seconds", run->seconds);
	buf_append_text(out, ", ");
	json_member_int(out, "resumptions", run->resumptions);
	buf_printf(out, ", \"for_gating\": %s, \"provenance\": ", run->for_gating ? "true" : "false");
	buf_append_str(out, run->provenance);
}

static void append_passed(const struct report *r, const struct result *x, struct buf *out)
{
	int64_t passed, total;
	if (!is_passed(x))
		return;
	passed_of(r, x, &passed, &total);
	buf_append_text(out, ", ");
	json_member_int(out, "passed", passed);
	buf_append_text(out, ", ");
	json_member_int(out, "total", total);
}

/* The metrics of one task under one variant, behind "n". */
static void append_metrics(const struct report *r, const struct result *first, struct buf *out)
{
	json_member_int(out, "n", first->n);
	for (const struct result *x = first; x < r->results + r->n_results; x++) {
		if (x->variant_id != first->variant_id || strcmp(x->suite, first->suite) != 0 ||
			strcmp(x->task, first->task) != 0)
			continue;
		buf_append_text(out, ", ");
		json_write_string(str_of(x->metric), false, out);
		buf_append_text(out, ": {");
		json_member_double(out, "value", x->value);
		buf_append_text(out, ", ");
		json_member_double(out, "stderr", x->stderr_value);
		append_passed(r, x, out);
		buf_append_char(out, '}');
	}
}

static void append_states(const struct report *r, const struct result *whole, struct buf *out)
{
	const struct count *count = find_count(r, whole->variant_id, whole->suite);
	if (!count)
		return;
	buf_append_text(out, ", \"states\": {");
	for (int i = 0; i < SAMPLE_STATUS_COUNT; i++) {
		json_member_int(out, sample_status_name((enum sample_status)i), count->by_status[i]);
		buf_append_text(out, ", ");
	}
	json_member_int(out, "context_cut", count->contexts_cut);
	buf_append_char(out, '}');
}

/* Whether x is the first result of its task under its variant. */
static bool begins_task(const struct report *r, const struct result *x)
{
	for (const struct result *y = r->results; y < x; y++)
		if (y->variant_id == x->variant_id && strcmp(y->suite, x->suite) == 0 && strcmp(y->task, x->task) == 0)
			return false;
	return true;
}

static void append_tasks(const struct report *r, const struct result *whole, struct buf *out)
{
	bool any = false;
	for (const struct result *x = r->results; x < r->results + r->n_results; x++) {
		bool belongs = x->variant_id == whole->variant_id && strcmp(x->suite, whole->suite) == 0 &&
			strcmp(x->task, x->suite) != 0;
		if (!belongs || !begins_task(r, x))
			continue;
		buf_append_text(out, any ? ", " : ", \"tasks\": {");
		json_write_string(str_of(x->task), false, out);
		buf_append_text(out, ": {");
		append_metrics(r, x, out);
		buf_append_char(out, '}');
		any = true;
	}
	buf_append_text(out, any ? "}" : "");
}

static void append_suites(const struct report *r, int64_t variant_id, struct buf *out)
{
	const char *between = "";
	for (const struct result *x = r->results; x < r->results + r->n_results; x++) {
		if (x->variant_id != variant_id || strcmp(x->task, x->suite) != 0 || !begins_task(r, x))
			continue;
		buf_append_text(out, between);
		json_write_string(str_of(x->suite), false, out);
		buf_append_text(out, ": {");
		append_metrics(r, x, out);
		append_states(r, x, out);
		append_tasks(r, x, out);
		buf_append_char(out, '}');
		between = ", ";
	}
}

/* The engine's counters, which lie in the variant's facts. */
static int append_kv(const struct variant *v, struct buf *out, struct error *e)
{
	struct json_document *facts = NULL;
	TRY(json_parse(str_of(v->facts), "variant.facts", JSON_LAST_KEY_WINS, &facts, e));
	const struct json *kv = json_get(json_root(facts), "kv");
	buf_append_text(out, ", \"kv\": ");
	if (kv)
		json_dump_python(kv, -1, false, out);
	else
		buf_append_text(out, "null");
	json_free(facts);
	return 0;
}

static int append_variant(const struct report *r, const struct variant *v, struct buf *out, struct error *e)
{
	buf_append_char(out, '{');
	json_member_text(out, "name", v->name);
	buf_append_text(out, ", ");
	json_member_int(out, "weights_bytes", v->weights_bytes);
	buf_append_text(out, ", ");
	json_member_int(out, "kv_bytes_per_token", v->kv_bytes_per_token);
	buf_append_text(out, ", ");
	json_member_int(out, "kv_tokens", v->kv_tokens);
	TRY(append_kv(v, out, e));
	buf_printf(out, ", \"facts\": %s, \"suites\": {", v->facts);
	append_suites(r, v->id, out);
	buf_append_text(out, "}}");
	return 0;
}

int run_report_json(struct store *s, int64_t run_id, struct buf *out, struct error *e)
{
	struct report r;
	int status = report_load(&r, s, run_id, e);
	if (status == 0) {
		buf_append_text(out, "\"schema_version\": 1, ");
		buf_append_str(out, buf_str(&r.head));
		buf_append_text(out, ", \"variants\": [");
		for (size_t i = 0; i < r.n_variants && status == 0; i++) {
			buf_append_text(out, i ? ", " : "");
			status = append_variant(&r, &r.variants[i], out, e);
		}
		buf_append_text(out, "], \"tokens\": {");
		json_member_int(out, "prompt", r.prompt_tokens);
		buf_append_text(out, ", ");
		json_member_int(out, "cached", r.cached_tokens);
		buf_append_text(out, ", ");
		json_member_int(out, "generated", r.generated_tokens);
		buf_append_char(out, '}');
	}
	if (status == 0)
		status = buf_check(out, e);
	report_free(&r);
	return status;
}

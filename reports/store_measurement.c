#include "reports/store_internal.h"

#include <assert.h>

static int check_texts(struct store *s, const struct store_measurement *m, struct error *e)
{
	const struct {
		const char *name;
		struct str text;
	} latencies[] = {
		{"ttft_ms", m->ttft_ms}, {"itl_ms", m->itl_ms}, {"tpot_ms", m->tpot_ms}, {"e2e_ms", m->e2e_ms}};
	for (size_t i = 0; i < sizeof(latencies) / sizeof(latencies[0]); i++)
		if (latencies[i].text.length)
			TRY(store_check_json(s, latencies[i].text, latencies[i].name, "store a measurement", e));
	return store_check_json(s, m->detail, "detail", "store a measurement", e);
}

int store_measurement_put(struct store *s, const struct store_measurement *m, struct error *e)
{
	assert(s->run_id);
	TRY(check_texts(s, m, e));
	struct store_binder b = {0};
	/* Only its key may clash: REPLACE takes away the earlier measurement of the same point. */
	TRY(store_prepare(s,
		"INSERT OR REPLACE INTO measurement (run_id, variant_id, arm, block, phase, concurrency, input_tokens,"
		" output_tokens, started, seconds, tokens_per_s, ttft_ms, itl_ms, tpot_ms, e2e_ms, share_of_floor,"
		" guard_us_per_step, step_us, detail)"
		" VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)",
		&b.statement, e));
	bind_int(&b, s->run_id);
	bind_int(&b, m->variant_id);
	bind_text(&b, m->arm);
	bind_int(&b, m->block);
	bind_text(&b, m->phase);
	bind_int(&b, m->concurrency);
	bind_int(&b, m->input_tokens);
	bind_int(&b, m->output_tokens);
	bind_int(&b, m->started);
	bind_double(&b, m->seconds);
	bind_double(&b, m->tokens_per_s);
	bind_str(&b, m->ttft_ms);
	bind_str(&b, m->itl_ms);
	bind_str(&b, m->tpot_ms);
	bind_str(&b, m->e2e_ms);
	bind_double(&b, m->share_of_floor);
	bind_double(&b, m->guard_us_per_step);
	bind_double(&b, m->step_us);
	bind_str(&b, m->detail);
	TRY(store_run_statement(s, &b, "store a measurement", e));
	return store_run_beat(s, e);
}

int store_measurements_each(
	struct store *s, int64_t run_id, store_visit_measurement *visit, void *context, struct error *e)
{
	struct store_binder b = {0};
	TRY(store_prepare(s,
		"SELECT variant_id, arm, block, phase, concurrency, input_tokens, output_tokens, started, seconds,"
		" tokens_per_s, ttft_ms, itl_ms, tpot_ms, e2e_ms, share_of_floor, guard_us_per_step, step_us, detail"
		" FROM measurement WHERE run_id = ?1"
		" ORDER BY variant_id, arm, phase, input_tokens, output_tokens, concurrency, block",
		&b.statement, e));
	bind_int(&b, run_id);
	int status;
	while ((status = store_step(s, b.statement, &b, "read the measurements", e)) == 1) {
		struct store_measurement m = {
			.variant_id = sqlite3_column_int64(b.statement, 0),
			.arm = column_text(b.statement, 1),
			.block = sqlite3_column_int64(b.statement, 2),
			.phase = column_text(b.statement, 3),
			.concurrency = sqlite3_column_int64(b.statement, 4),
			.input_tokens = sqlite3_column_int64(b.statement, 5),
			.output_tokens = sqlite3_column_int64(b.statement, 6),
			.started = sqlite3_column_int64(b.statement, 7),
			.seconds = sqlite3_column_double(b.statement, 8),
			.tokens_per_s = column_double(b.statement, 9),
			.ttft_ms = column_str(b.statement, 10),
			.itl_ms = column_str(b.statement, 11),
			.tpot_ms = column_str(b.statement, 12),
			.e2e_ms = column_str(b.statement, 13),
			.share_of_floor = column_double(b.statement, 14),
			.guard_us_per_step = column_double(b.statement, 15),
			.step_us = column_double(b.statement, 16),
			.detail = column_str(b.statement, 17),
		};
		TRY_CLEANUP(status, visit(context, &m, e));
	}
cleanup:
	sqlite3_finalize(b.statement);
	return status;
}

#include "evals/run_guard.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/json_strict.h"
#include "evals/run_report.h"

static void number_or_null(struct buf *out, const char *name, int64_t value)
{
	if (value < 0)
		buf_printf(out, ", \"%s\": null", name);
	else
		buf_printf(out, ", \"%s\": %" PRId64, name, value);
}

void incident_json(const struct guard_incident *i, const char *variant, struct buf *out)
{
	buf_append_text(out, "{\"event\": \"incident\", \"time\": \"");
	append_utc_time(out, i->time);
	buf_append_text(out, "\", \"variant\": ");
	json_write_string(str_of(variant), false, out);
	buf_printf(out, ", \"check\": \"%s\", \"phase\": \"%s\", \"pool\": %d, \"request\": %" PRIu64,
		guard_check_name(i->check), guard_moment_name(i->moment), i->pool, i->request);
	number_or_null(out, "page", i->page);
	number_or_null(out, "logical_position", i->logical);
	/* as text: programs that read numbers as doubles would lose bits */
	buf_printf(out,
		", \"expected\": \"%" PRIu64 "\", \"actual\": \"%" PRIu64 "\", \"step\": %" PRIu64
		", \"tokens_emitted\": %d, \"detail\": ",
		i->expected, i->actual, i->step, i->emitted);
	json_write_string(str_of(i->what), false, out);
	buf_append_char(out, '}');
}

static void incident_store(struct run_guard *g, const struct guard_incident *i)
{
	struct buf detail = {0};
	struct error e = {0};

	buf_printf(&detail, "{\"pool\": %d, \"level\": \"%s\", \"mode\": \"%s\", \"what\": \"%s\"}", i->pool,
		guard_level_name(g->guard.options.level), g->guard.options.observe ? "observe" : "enforce", i->what);
	int status = buf_check(&detail, &e);
	if (status == 0)
		status = store_incident_insert(g->store,
			&(struct store_incident){.variant = g->variant,
				.time = i->time,
				.check = guard_check_name(i->check),
				.phase = guard_moment_name(i->moment),
				.request = i->request,
				.page = i->page,
				.logical = i->logical,
				.expected = i->expected,
				.actual = i->actual,
				.step = i->step,
				.tokens_emitted = i->emitted,
				.detail = buf_str(&detail)},
			&e);
	if (status < 0 && g->failed.code == 0)
		g->failed = e;
	buf_free(&detail);
}

static void incident_tell(const struct run_guard *g, const struct guard_incident *i)
{
	struct buf line = {0};

	if (g->log_json) {
		incident_json(i, g->variant, &line);
	} else {
		buf_printf(&line, "assay: the %s guard: %s (%s, %s", guard_level_name(g->guard.options.level), i->what,
			guard_check_name(i->check), guard_moment_name(i->moment));
		if (i->request)
			buf_printf(&line, ", request %" PRIu64, i->request);
		if (i->page >= 0)
			buf_printf(&line, ", page %d", i->page);
		buf_append_char(&line, ')');
	}
	buf_append_char(&line, '\n');
	fwrite(buf_text(&line), 1, line.length, stderr);
	buf_free(&line);
}

static void incident_take(void *context, const struct guard_incident *i)
{
	struct run_guard *g = context;

	if (g->log_json || !g->quiet)
		incident_tell(g, i);
	if (g->store)
		incident_store(g, i);
}

int run_guard_init(struct run_guard *g, const struct options *o, struct error *e)
{
	struct guard_options options = {.audit_every = o->audit_every,
		.observe = o->guard_mode && strcmp(o->guard_mode, "observe") == 0,
		.sink = incident_take,
		.sink_context = g};

	*g = (struct run_guard){.log_json = o->log_json, .quiet = o->quiet, .variant = ""};
	TRY(guard_level_parse(o->guard ? o->guard : "none", &options.level, e));
	if (options.level == GUARD_NONE && (o->guard_mode || o->audit_every))
		return error_set(e, ERR_USAGE, "--%s needs a guard: --guard tags, pages, chain or digest",
			o->guard_mode ? "guard-mode" : "audit-every");
	guard_init(&g->guard, &options);
	return 0;
}

int run_guard_check(const struct run_guard *g, struct error *e)
{
	if (g->failed.code < 0) {
		*e = g->failed;
		return e->code;
	}
	return guard_proved(&g->guard, e);
}

void run_guard_print(const struct run_guard *g, struct buf *out)
{
	const struct guard *guard = &g->guard;
	uint64_t checks = 0;

	if (guard->options.level == GUARD_NONE)
		return;
	for (int i = 0; i < GUARD_CHECK_COUNT; i++)
		checks += guard->ran[i];
	buf_printf(out, "guard %s%s: %" PRIu64 " steps, %" PRIu64 " checks, %" PRIu64 " incidents",
		guard_level_name(guard->options.level), guard->options.observe ? " (observing)" : "",
		guard->verified_steps, checks, guard->incidents);
	for (int i = 0; i < GUARD_CHECK_COUNT; i++)
		if (guard->fired[i] > 0)
			buf_printf(out, ", %" PRIu64 " of %s", guard->fired[i], guard_check_name((enum guard_check)i));
	buf_append_char(out, '\n');
}

#include "evals/divergence_plan.h"

#include "evals/divergence.h"

static bool any_generates(struct suite *const *suites, int n_suites)
{
	for (int i = 0; i < n_suites; i++)
		if (suite_count(suites[i]) > 0 && suite_item(suites[i], 0)->kind == REQUEST_GENERATE)
			return true;
	return false;
}

static int open_answered(struct divergence_plan *d, const struct suite_options *options, struct error *e)
{
	static const char *const names[] = {"gsm8k", "recall"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		int status = suite_open(names[i], options, &d->answered, e);
		if (status != ERR_MISSING)
			return status;
	}
	return error_set(e, ERR_USAGE,
		"--suite divergence has nothing to read: %s holds neither gsm8k nor recall; name a suite that "
		"generates "
		"answers, or a text with --text FILE",
		options->data_folder);
}

int divergence_plan_make(struct divergence_plan *d, const struct options *o, bool wanted, int n_variants,
	struct suite *const *suites, int n_suites, const struct suite_options *suite_options,
	const struct engine_text *text, struct error *e)
{
	*d = (struct divergence_plan){.wanted = wanted};
	if (!wanted)
		return o->text
			? error_set(e, ERR_USAGE, "--text %s is read by --suite divergence, which is missing", o->text)
			: 0;
	if (n_variants < 2)
		return error_set(e, ERR_USAGE,
			"--suite divergence measures variants against the first one: expected two --variant or more");
	if (o->text)
		return reading_open(&d->reading, o->text, text, e);
	return any_generates(suites, n_suites) ? 0 : open_answered(d, suite_options, e);
}

void divergence_plan_free(struct divergence_plan *d)
{
	reading_close(&d->reading);
	suite_close(d->answered);
	*d = (struct divergence_plan){0};
}

void divergence_plan_identity(const struct divergence_plan *d, double limit, struct buf *out)
{
	if (!d->wanted)
		return;
	buf_printf(out, "suite %s\n", divergence_suite);
	if (d->reading.count) {
		buf_printf(out, "text %s %s %d ", d->reading.name, d->reading.file_hash, READING_WINDOW);
		json_write_double(limit, out);
		buf_append_char(out, '\n');
	}
	for (int i = 0; d->answered && i < suite_count(d->answered); i++) {
		const struct suite_item *item = suite_item(d->answered, i);
		buf_printf(out, "answered %s %d %s %s %s %d\n", item->task, item->doc_id, item->doc_hash,
			item->prompt_hash, item->target_hash, item->max_tokens);
	}
}

void divergence_plan_provenance(const struct divergence_plan *d, struct buf *out)
{
	if (!d->wanted)
		return;
	buf_append_text(out, ", \"divergence\": {\"reads\": ");
	if (!d->reading.count) {
		json_write_string(str_of(d->answered ? suite_name(d->answered) : "answers"), false, out);
	} else {
		json_write_string(str_of(d->reading.path), false, out);
		buf_printf(out, ", \"sha256\": \"%s\", \"tokens\": %zu, \"window\": %d", d->reading.file_hash,
			d->reading.count, READING_WINDOW);
	}
	buf_append_char(out, '}');
}

void divergence_plan_print(const struct divergence_plan *d, const char *baseline, struct buf *out)
{
	if (!d->wanted)
		return;
	buf_printf(out, "suite     %s from %s: ", divergence_suite, baseline);
	if (d->reading.count)
		buf_printf(out, "%s, %zu tokens\n", d->reading.path, d->reading.count);
	else if (d->answered)
		buf_printf(out, "its answers to %s, %d items\n", suite_name(d->answered), suite_count(d->answered));
	else
		buf_append_text(out, "its answers to these suites\n");
}

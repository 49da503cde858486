#include "evals/metrics.h"

#include <math.h>
#include <stdlib.h>

#include "engine/base/buf.h"
#include "engine/base/utf8.h"
#include "engine/base/python_text.h"
#include "evals/regex.h"
#include "evals/suite.h"

enum { MAX_IGNORED = 4 };

struct exact_match_rule {
	const char *name;
	const char *const *ignored; /* [up to MAX_IGNORED] regexes_to_ignore, in order; NULL-terminated */
	bool ignore_case, ignore_punctuation;
};

/* Commas, dollar signs, all up to the last "#### " and one final dot: what a number of GSM8K may wear. */
static const char *const number_dress[] = {",", "\\$", "(?s).*#### ", "\\.$", NULL};
static const char *const nothing[] = {NULL};

static const struct exact_match_rule rules[] = {
	{.name = "gsm8k", .ignored = number_dress, .ignore_case = true},
	{.name = "gsm8k_cot", .ignored = number_dress, .ignore_case = true},
	{.name = "mmlu_pro", .ignored = nothing, .ignore_case = true, .ignore_punctuation = true},
	{.name = "arc_challenge_chat", .ignored = nothing, .ignore_case = true, .ignore_punctuation = true},
	{.name = "recall", .ignored = nothing},
};

enum { RULE_COUNT = sizeof(rules) / sizeof(rules[0]) };

struct exact_match {
	const struct exact_match_rule *rule;
	struct regex *ignored[MAX_IGNORED];
};

static int unknown_rule(struct str name, struct error *e)
{
	struct buf known = {0};
	for (int i = 0; i < RULE_COUNT; i++)
		buf_printf(&known, "%s%s", i ? ", " : "", rules[i].name);
	int status = error_set(e, ERR_INPUT, "unknown metric \"%.*s\" (known: %s)", STR_ARG(name), buf_text(&known));
	buf_free(&known);
	return status;
}

int exact_match_new(struct str name, struct exact_match **out, struct error *e)
{
	const struct exact_match_rule *rule = NULL;
	for (int i = 0; i < RULE_COUNT && !rule; i++)
		if (str_is(name, rules[i].name))
			rule = &rules[i];
	if (!rule)
		return unknown_rule(name, e);
	struct exact_match *m = mem_calloc(1, sizeof(*m), e);
	if (!m)
		return ERR_MEMORY;
	m->rule = rule;
	for (int i = 0; i < MAX_IGNORED && rule->ignored[i]; i++) {
		int status = regex_new(rule->ignored[i], &m->ignored[i], e);
		if (status < 0) {
			exact_match_delete(m);
			return status;
		}
	}
	*out = m;
	return 0;
}

void exact_match_delete(struct exact_match *m)
{
	if (!m)
		return;
	for (int i = 0; i < MAX_IGNORED; i++)
		regex_delete(m->ignored[i]);
	free(m);
}

const char *exact_match_name(const struct exact_match *m)
{
	return m->rule->name;
}

/* The harness keeps the texts in numpy arrays after each step, and those drop NULs at the end. */
static void drop_final_nuls(struct buf *text)
{
	while (text->length > 0 && text->data[text->length - 1] == '\0')
		text->length--;
}

/* numpy.char.lower keeps the width of its input: a text that grows (U+0130 becomes two code points) is cut at its end.
 * */
static void lower_in_width(const struct buf *text, struct buf *out)
{
	size_t width = utf8_count(buf_str(text));
	python_lower(buf_str(text), out);
	size_t end = 0;
	for (size_t i = 0; i < width && end < out->length; i++)
		utf8_next(buf_str(out), &end);
	if (end < out->length)
		out->data[out->length = end] = '\0';
}

static bool is_ascii_punctuation(char c)
{
	return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

/* Leaves the normalised text in *text; *spare is overwritten. */
static int normalize(const struct exact_match *m, struct buf *text, struct buf *spare, struct error *e)
{
	for (int i = 0; i < MAX_IGNORED && m->ignored[i]; i++) {
		buf_clear(spare);
		TRY(regex_remove(m->ignored[i], buf_str(text), spare, e));
		struct buf swap = *text;
		*text = *spare;
		*spare = swap;
		drop_final_nuls(text);
	}
	drop_final_nuls(text);
	if (m->rule->ignore_case) {
		buf_clear(spare);
		lower_in_width(text, spare);
		struct buf swap = *text;
		*text = *spare;
		*spare = swap;
	}
	if (m->rule->ignore_punctuation) {
		size_t kept = 0;
		for (size_t i = 0; i < text->length; i++)
			if (!is_ascii_punctuation(text->data[i]))
				text->data[kept++] = text->data[i];
		text->length = kept;
	}
	drop_final_nuls(text);
	return buf_check(text, e);
}

int exact_match_score(
	const struct exact_match *m, struct str prediction, struct str reference, double *value, struct error *e)
{
	struct buf predicted = {0}, expected = {0}, spare = {0};
	int status = 0;
	buf_append_str(&predicted, prediction);
	buf_append_str(&expected, reference);
	TRY_CLEANUP(status, normalize(m, &predicted, &spare, e));
	TRY_CLEANUP(status, normalize(m, &expected, &spare, e));
	*value = str_equal(buf_str(&predicted), buf_str(&expected)) ? 1.0 : 0.0;
cleanup:
	buf_free(&predicted);
	buf_free(&expected);
	buf_free(&spare);
	return status;
}

int argmax(const double *values, int n)
{
	int best = 0;
	for (int i = 0; i < n; i++) {
		if (isnan(values[i]))
			return i;
		if (values[i] > values[best])
			best = i;
	}
	return best;
}

int argmax_norm(const double *logprobs, const struct str *choices, int n)
{
	int best = 0;
	double best_value = 0;
	for (int i = 0; i < n; i++) {
		double value = logprobs[i] / (double)utf8_count(choices[i]);
		if (isnan(value))
			return i;
		if (i == 0 || value > best_value) {
			best = i;
			best_value = value;
		}
	}
	return best;
}

void metric_mean(const char *name, const double *values, int n, struct metric_summary *out)
{
	*out = (struct metric_summary){.name = name, .n = n, .value = NAN, .stderr_value = NAN};
	if (n < 1)
		return;
	double sum = 0;
	for (int i = 0; i < n; i++)
		sum += values[i];
	out->value = sum / n;
	if (n < 2)
		return;
	double squares = 0;
	for (int i = 0; i < n; i++)
		squares += (values[i] - out->value) * (values[i] - out->value);
	out->stderr_value = sqrt(squares / (n - 1)) / sqrt(n);
}

void metric_pool(const char *name, const struct metric_summary *tasks, int n_tasks, struct metric_summary *out)
{
	double values = 0, squares = 0, n = 0;
	for (int t = 0; t < n_tasks; t++) {
		double size = tasks[t].n;
		values += tasks[t].value * size;
		squares += (size - 1) * tasks[t].stderr_value * tasks[t].stderr_value * size;
		n += size;
	}
	*out = (struct metric_summary){.name = name, .n = (int)n, .value = values / n, .stderr_value = NAN};
	if (n > n_tasks)
		out->stderr_value = sqrt(squares / (n - n_tasks) / n);
}

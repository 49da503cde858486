#include "reports/tool_results.h"

#include <math.h>
#include <stdlib.h>

#include "reports/tool_answer.h"

double tool_validity_share(struct tool_validity v)
{
	return v.called ? (double)v.valid / (double)v.called : (double)NAN;
}

static const char *category_name(const char *task)
{
	static const char prefix[] = "toolcall_";
	return strncmp(task, prefix, sizeof(prefix) - 1) == 0 ? task + sizeof(prefix) - 1 : task;
}

/* ---- Errors ---- */

/* There are few types: the list is short. */
static int find_error(struct tool_category *c, struct str type, struct tool_error **out, struct error *e)
{
	for (size_t i = 0; i < c->n_errors; i++)
		if (str_is(type, c->errors[i].type)) {
			*out = &c->errors[i];
			return 0;
		}
	struct tool_error *grown = reallocarray(c->errors, c->n_errors + 1, sizeof(*grown));
	if (!grown)
		return error_set(e, ERR_MEMORY, "no memory for the errors of tool calls");
	c->errors = grown;
	grown[c->n_errors] = (struct tool_error){.type = strndup(type.data, type.length)};
	if (!grown[c->n_errors].type)
		return error_set(e, ERR_MEMORY, "no memory for the errors of tool calls");
	*out = &grown[c->n_errors++];
	return 0;
}

static int count_errors(
	struct tool_category *c, const struct tool_answer *a, const struct tool_answer *b, struct error *e)
{
	struct tool_error *error = NULL;
	bool same = str_equal(a->type, b->type);
	if (a->type.length) {
		TRY(find_error(c, a->type, &error, e));
		error->baseline++;
		error->vanished += !same;
	}
	if (b->type.length) {
		TRY(find_error(c, b->type, &error, e));
		error->candidate++;
		error->appeared += !same;
	}
	return 0;
}

static int by_frequency(const void *left, const void *right)
{
	const struct tool_error *a = left, *b = right;
	int order = (a->candidate < b->candidate) - (a->candidate > b->candidate);
	if (order == 0)
		order = (a->baseline < b->baseline) - (a->baseline > b->baseline);
	return order ? order : strcmp(a->type, b->type);
}

/* ---- Categories ---- */

static void count_calls(struct tool_validity *v, const struct tool_answer *a)
{
	bool called = a->calls->count > 0;
	v->called += called;
	v->valid += called && a->invalid.length == 0;
}

static int count(struct tool_category *c, const struct pair *pair, const struct tool_answer *a,
	const struct tool_answer *b, struct error *e)
{
	bool right = pair->baseline_value == 1, still = pair->candidate_value == 1;
	int64_t *cell = right ? (still ? &c->table.a : &c->table.b) : (still ? &c->table.c : &c->table.d);
	++*cell;
	c->n++;
	count_calls(&c->baseline_calls, a);
	count_calls(&c->candidate_calls, b);
	c->both_call += a->calls->count > 0 && b->calls->count > 0;
	return count_errors(c, a, b, e);
}

static void finish(struct tool_category *c)
{
	double n = (double)c->n;
	int64_t either = c->baseline_calls.called + c->candidate_calls.called;
	c->baseline = (double)(c->table.a + c->table.b) / n;
	c->candidate = (double)(c->table.a + c->table.c) / n;
	c->drop = paired_drop(c->table);
	c->interval = tango_interval(c->table, 0.95, 1);
	c->trigger_f1 = either ? 2 * (double)c->both_call / (double)either : (double)NAN;
	if (c->n_errors)
		qsort(c->errors, c->n_errors, sizeof(*c->errors), by_frequency);
}

/* Pairs come by task: it is the last category, or a new one. */
static int find_category(struct tool_suite *s, const char *task, struct tool_category **out, struct error *e)
{
	const char *name = category_name(task);
	if (s->n == 0 || strcmp(s->categories[s->n - 1].name, name) != 0) {
		struct tool_category *grown = reallocarray(s->categories, s->n + 1, sizeof(*grown));
		if (!grown)
			return error_set(e, ERR_MEMORY, "no memory for the categories of tool calls");
		s->categories = grown;
		grown[s->n++] = (struct tool_category){.name = name};
	}
	*out = &s->categories[s->n - 1];
	return 0;
}

static int add_pair(struct tool_suite *s, const struct pair *pair, struct error *e)
{
	struct tool_answer a = {0}, b = {0};
	struct tool_category *category = NULL;
	int status = tool_answer_read(pair->baseline, &a, e);
	if (status == 1)
		status = tool_answer_read(pair->candidate, &b, e);
	if (status == 1) {
		status = find_category(s, pair->baseline->task, &category, e);
		if (status == 0)
			status = count(category, pair, &a, &b, e);
		if (status == 0)
			status = count(&s->whole, pair, &a, &b, e);
	}
	tool_answer_free(&a);
	tool_answer_free(&b);
	return status < 0 ? status : 0;
}

int tool_suite_make(const struct suite_pairs *suite, struct tool_suite *out, struct error *e)
{
	*out = (struct tool_suite){0};
	for (size_t i = 0; i < suite->n && suite->binary; i++)
		if (suite->pairs[i].state == PAIR_COMPLETE)
			TRY(add_pair(out, &suite->pairs[i], e));
	for (size_t i = 0; i < out->n; i++)
		finish(&out->categories[i]);
	if (out->n)
		finish(&out->whole);
	return 0;
}

static void category_free(struct tool_category *c)
{
	for (size_t i = 0; i < c->n_errors; i++)
		free(c->errors[i].type);
	free(c->errors);
}

void tool_suite_free(struct tool_suite *s)
{
	for (size_t i = 0; i < s->n; i++)
		category_free(&s->categories[i]);
	category_free(&s->whole);
	free(s->categories);
	*s = (struct tool_suite){0};
}

#include "evals/fewshot.h"

#include <stdlib.h>

static const char between[] = " ", behind[] = "\n\n";

/* answer: where the shot's begins. */
static void end_shot(struct fewshot *f, size_t answer)
{
	f->answer[f->n_pool] = answer;
	buf_append_text(&f->text, behind);
	f->start[++f->n_pool] = f->text.length;
}

static int add_document(struct fewshot *f, const struct suite_type *type, const struct json *doc, struct error *e)
{
	TRY(type->append_question(doc, &f->text, e));
	buf_append_text(&f->text, between);
	size_t answer = f->text.length;
	TRY(type->append_answer(doc, &f->text, e));
	end_shot(f, answer);
	return 0;
}

static int add_pool(struct fewshot *f, const struct suite_type *type, const struct suite_task *task,
	const struct records *pool, struct error *e)
{
	for (size_t i = 0; i < pool->count; i++) {
		const struct json *doc = pool->items[i].doc;
		if (type->is_shot && !type->is_shot(task, doc))
			continue;
		if (add_document(f, type, doc, e) < 0)
			return error_prefix(e, "%s:%zu", pool->path, pool->items[i].line);
	}
	return 0;
}

static void add_fixed(struct fewshot *f, const struct suite_type *type)
{
	for (int i = 0; i < type->n_fixed_shots; i++) {
		struct str shot = str_of(type->fixed_shots[i]);
		size_t question = str_find(shot, str_of(type->question_end), 0) + strlen(type->question_end);
		size_t answer = f->text.length + question + strlen(between);
		buf_append_str(&f->text, shot);
		end_shot(f, answer);
	}
}

int fewshot_init(struct fewshot *f, const struct suite_type *type, const struct suite_task *task,
	const struct records *pool, int k, uint64_t seed, struct error *e)
{
	size_t most = pool ? pool->count : (size_t)type->n_fixed_shots;
	int status = 0;

	*f = (struct fewshot){.k = (uint32_t)k, .drawn = type->shots == SHOTS_DRAWN};
	if (most > UINT32_MAX)
		return error_set(
			e, ERR_INPUT, "%s: %zu records, at most %u can be drawn from", pool->path, most, UINT32_MAX);
	f->start = mem_calloc(most + 1, sizeof(*f->start), e);
	f->answer = mem_calloc(most + 1, sizeof(*f->answer), e);
	f->chosen = mem_calloc(f->k, sizeof(*f->chosen), e);
	if (!f->start || !f->answer || !f->chosen)
		TRY_CLEANUP(status, ERR_MEMORY);
	if (pool)
		TRY_CLEANUP(status, add_pool(f, type, task, pool, e));
	else
		add_fixed(f, type);
	TRY_CLEANUP(status, buf_check(&f->text, e));
	if (f->k > f->n_pool)
		TRY_CLEANUP(status,
			error_set(e, ERR_USAGE, "--fewshot %d: %s holds only %u records%s%s", k,
				pool ? pool->path : task->name, f->n_pool, type->is_shot ? " for " : "",
				type->is_shot ? task->topic : ""));
	for (uint32_t i = 0; i < f->k; i++)
		f->chosen[i] = i;
	py_random_seed(&f->random, seed);
cleanup:
	if (status < 0)
		fewshot_free(f);
	return status;
}

void fewshot_free(struct fewshot *f)
{
	buf_free(&f->text);
	free(f->start);
	free(f->answer);
	free(f->chosen);
	*f = (struct fewshot){0};
}

int fewshot_next(struct fewshot *f, struct error *e)
{
	if (f->drawn && py_random_sample(&f->random, f->n_pool, f->k, f->chosen) < 0)
		return error_set(e, ERR_MEMORY, "out of memory for drawing %u shots", f->k);
	return 0;
}

void fewshot_append(const struct fewshot *f, struct buf *prompt)
{
	for (uint32_t i = 0; i < f->k; i++) {
		size_t start = f->start[f->chosen[i]];
		buf_append(prompt, f->text.data + start, f->start[f->chosen[i] + 1] - start);
	}
}

struct str fewshot_question(const struct fewshot *f, uint32_t i)
{
	size_t start = f->start[f->chosen[i]];
	return (struct str){f->text.data + start, f->answer[f->chosen[i]] - strlen(between) - start};
}

struct str fewshot_answer(const struct fewshot *f, uint32_t i)
{
	size_t start = f->answer[f->chosen[i]];
	return (struct str){f->text.data + start, f->start[f->chosen[i] + 1] - strlen(behind) - start};
}

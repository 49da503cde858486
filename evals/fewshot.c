#include "evals/fewshot.h"

#include <stdlib.h>

static int append_shot(const struct suite_type *type, const struct json *doc, struct buf *out, struct error *e)
{
	struct doc_content content = {0};
	int status = 0;
	TRY_CLEANUP(status, type->append_question(doc, out, e));
	TRY_CLEANUP(status, type->read_content(doc, &content, e));
	buf_append_char(out, ' ');
	buf_append_str(out, content.answer);
	buf_append_text(out, "\n\n");
cleanup:
	doc_content_free(&content);
	return status;
}

int fewshot_init(struct fewshot *f, const struct suite_type *type, const struct records *pool, int k, uint64_t seed,
	struct error *e)
{
	*f = (struct fewshot){.k = (uint32_t)k};
	if ((size_t)k > pool->count)
		return error_set(e, ERR_USAGE, "--fewshot %d: %s holds only %zu records", k, pool->path, pool->count);
	if (pool->count > UINT32_MAX)
		return error_set(e, ERR_INPUT, "%s: %zu records, at most %u can be drawn from", pool->path, pool->count,
			UINT32_MAX);
	int status = 0;
	f->n_pool = (uint32_t)pool->count;
	f->start = mem_calloc(pool->count + 1, sizeof(*f->start), e);
	f->drawn = mem_calloc(f->k, sizeof(*f->drawn), e);
	if (!f->start || !f->drawn)
		TRY_CLEANUP(status, ERR_MEMORY);
	for (uint32_t i = 0; i < f->n_pool; i++) {
		f->start[i] = f->text.length;
		if (append_shot(type, pool->items[i].doc, &f->text, e) < 0)
			TRY_CLEANUP(status, error_prefix(e, "%s:%zu", pool->path, pool->items[i].line));
	}
	f->start[f->n_pool] = f->text.length;
	TRY_CLEANUP(status, buf_check(&f->text, e));
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
	free(f->drawn);
	*f = (struct fewshot){0};
}

int fewshot_append(struct fewshot *f, struct buf *prompt, struct error *e)
{
	if (py_random_sample(&f->random, f->n_pool, f->k, f->drawn) < 0)
		return error_set(e, ERR_MEMORY, "out of memory for drawing %u shots", f->k);
	for (uint32_t i = 0; i < f->k; i++) {
		size_t start = f->start[f->drawn[i]];
		buf_append(prompt, f->text.data + start, f->start[f->drawn[i] + 1] - start);
	}
	return buf_check(prompt, e);
}

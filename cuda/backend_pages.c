/* The check of the tables that kernels read. */
#include <string.h>

#include "cuda/internal.h"
#include "cuda/status.h"

static int room_make(struct cuda_backend *c, int n, struct error *e)
{
	struct cuda_verify *v = &c->verify;
	int room = v->room ? v->room : 64;

	if (n <= v->room)
		return 0;
	while (room < n)
		room *= 2;
	TRY(results_collect(c));
	verify_free(c);
	steps_forget(&c->steps);
	size_t bytes = (size_t)room * sizeof *v->first_bad;
	TRY(cuda_status(cudaMalloc((void **)&v->first_bad, bytes), "check of pages", e));
	TRY(cuda_status(cudaMallocHost((void **)&v->host_first_bad, bytes), "check of pages", e));
	v->room = room;
	return 0;
}

void verify_free(struct cuda_backend *c)
{
	cudaFree(c->verify.first_bad);
	cudaFreeHost(c->verify.host_first_bad);
	c->verify = (struct cuda_verify){0};
}

/* Rows of what is expected that are named, and the largest number of pages in use that both tables hold. */
static void extent_find(const struct verify_pages_args *a, int expected_stride, int *rows, int *used)
{
	int room = a->table_stride < expected_stride ? a->table_stride : expected_stride, most = 1;

	*rows = a->rows ? 1 : a->n_sequences;
	for (int b = 0; b < a->n_sequences; b++) {
		most = a->n_used[b] > most ? a->n_used[b] : most;
		if (a->rows && a->rows[b] >= *rows)
			*rows = a->rows[b] + 1;
	}
	*used = most < room ? most : room;
}

/* The arguments with device copies of all arrays, and the versions of those. */
static bool arguments_bring(struct cuda_backend *c, const struct verify_pages_args *a, struct verify_pages_args *d,
	uint64_t versions[VERIFY_ARRAYS])
{
	int expected_stride = a->expected_stride ? a->expected_stride : a->table_stride, rows, used;
	size_t n = (size_t)a->n_sequences, sequences = n * sizeof(int32_t), stride = (size_t)expected_stride;

	extent_find(a, expected_stride, &rows, &used);
	memset(d, 0, sizeof *d);
	d->table_stride = a->table_stride;
	d->n_sequences = a->n_sequences;
	d->expected_stride = expected_stride;
	d->n_pages = a->n_pages;
	d->first_bad = c->verify.first_bad;
	d->block_tables = a->block_tables;
	d->n_used = a->n_used;
	d->rows = a->rows;
	d->expected = a->expected;
	d->pages = a->pages;
	d->page_tags = a->page_tags;
	const struct op_array arrays[VERIFY_ARRAYS] = {
		{&d->block_tables, (size_t)used * sizeof(int32_t), a->n_sequences,
			(size_t)a->table_stride * sizeof(int32_t), false},
		{&d->n_used, sequences, 0, 0, false},
		{&d->rows, sequences, 0, 0, false},
		{&d->expected, (size_t)used * sizeof(uint64_t), rows, stride * sizeof(uint64_t), false},
		{&d->pages, (size_t)used * sizeof(int32_t), rows, stride * sizeof(int32_t), false},
		{&d->page_tags, (size_t)a->n_pages * sizeof(uint64_t), 0, 0, false},
	};
	if (!op_arrays(c, arrays, VERIFY_ARRAYS))
		return false;
	for (int i = 0; i < VERIFY_ARRAYS; i++) {
		const void *device;
		memcpy(&device, arrays[i].pointer, sizeof device);
		versions[i] = device ? staging_version(&c->staging, device) : 0;
	}
	return true;
}

/* Whether the device still holds what the last check read. */
static bool arguments_stand(const struct cuda_backend *c)
{
	const struct verify_pages_args *a = &c->verify.args;
	const void *const arrays[VERIFY_ARRAYS] = {
		a->block_tables, a->n_used, a->rows, a->expected, a->pages, a->page_tags};

	for (int i = 0; i < VERIFY_ARRAYS; i++)
		if (arrays[i] && staging_version(&c->staging, arrays[i]) != c->verify.versions[i])
			return false;
	return true;
}

static void check_keep(struct cuda_backend *c)
{
	struct op *op = op_new(c, OP_VERIFY_PAGES);
	if (op)
		memcpy(&op->verify_pages, &c->verify.args, sizeof c->verify.args);
}

/* Another check of the same, behind the reads: where nothing of it has changed since, not even between the step and
 * the caller's second call, its answer is that call's. */
void verify_again(struct cuda_backend *c)
{
	struct cuda_verify *v = &c->verify;

	v->in_step = v->asked && arguments_stand(c);
	v->asked = v->answered = false;
	if (v->in_step)
		check_keep(c);
}

int verify_fetch(struct cuda_backend *c)
{
	const struct cuda_verify *v = &c->verify;
	struct error e = {0};

	if (!v->in_step)
		return 0;
	return failure_keep(c,
		cuda_status(
			cudaMemcpyAsync(v->host_first_bad, v->first_bad,
				(size_t)v->args.n_sequences * sizeof *v->first_bad, cudaMemcpyDeviceToHost, c->stream),
			"check of pages", &e),
		&e);
}

void verify_hand_out(struct cuda_backend *c)
{
	c->verify.answered |= c->verify.in_step;
	c->verify.in_step = false;
}

/* Where a check could not be made every sequence counts as bad from its first page on. */
void cuda_verify_pages(struct backend *b, const struct verify_pages_args *a)
{
	struct cuda_backend *c = self(b);
	struct cuda_verify *v = &c->verify;
	struct verify_pages_args d;
	uint64_t versions[VERIFY_ARRAYS];
	struct error e = {0};
	size_t bytes = (size_t)a->n_sequences * sizeof *a->first_bad;

	if (a->n_sequences == 0)
		return;
	memset(a->first_bad, 0, bytes);
	if (c->failure.code || failure_keep(c, room_make(c, a->n_sequences, &e), &e) < 0 ||
		!arguments_bring(c, a, &d, versions))
		return;
	bool known = v->answered && memcmp(&d, &v->args, sizeof d) == 0 &&
		memcmp(versions, v->versions, sizeof versions) == 0;
	memcpy(&v->args, &d, sizeof d);
	memcpy(v->versions, versions, sizeof versions);
	v->answered = false;
	if (!known) {
		v->in_step = true;
		check_keep(c);
		if (results_collect(c) < 0)
			return;
		v->answered = false;
	}
	v->asked = true;
	memcpy(a->first_bad, v->host_first_bad, bytes);
}

/* The check of the tables that kernels read, before the reads and behind them. */
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

void gate_free(struct cuda_backend *c)
{
	cudaFree(c->gate.memory);
	cudaFreeHost(c->gate.host_first_bad);
	c->gate = (struct cuda_gate){0};
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

/* The arguments with device copies of all arrays, and the versions of the check's. batch: NULL where there is no gate. */
static bool arguments_bring(struct cuda_backend *c, const struct verify_pages_args *a,
	const struct verify_deferral *batch, struct page_gate_args *d, uint64_t versions[VERIFY_ARRAYS])
{
	int expected_stride = a->expected_stride ? a->expected_stride : a->table_stride, rows, used;
	size_t n = (size_t)a->n_sequences, sequences = n * sizeof(int32_t), stride = (size_t)expected_stride;
	struct verify_pages_args *check = &d->check;

	extent_find(a, expected_stride, &rows, &used);
	int read = batch ? batch_pages(batch->first_position, batch->cu_seqlens, a->n_sequences, batch->page_size,
				   a->table_stride)
			 : 0;
	memset(d, 0, sizeof *d);
	check->table_stride = a->table_stride;
	check->n_sequences = a->n_sequences;
	check->expected_stride = expected_stride;
	check->n_pages = a->n_pages;
	check->first_bad = c->verify.first_bad;
	check->block_tables = a->block_tables;
	check->n_used = a->n_used;
	check->rows = a->rows;
	check->expected = a->expected;
	check->pages = a->pages;
	check->page_tags = a->page_tags;
	d->cu_seqlens = batch ? batch->cu_seqlens : NULL;
	d->first_position = batch ? batch->first_position : NULL;
	d->slots = batch ? batch->slots : NULL;
	const struct op_array arrays[VERIFY_ARRAYS + GATE_ARRAYS] = {
		{&check->block_tables, (size_t)(used > read ? used : read) * sizeof(int32_t), a->n_sequences,
			(size_t)a->table_stride * sizeof(int32_t), false},
		{&check->n_used, sequences, 0, 0, false},
		{&check->rows, sequences, 0, 0, false},
		{&check->expected, (size_t)used * sizeof(uint64_t), rows, stride * sizeof(uint64_t), false},
		{&check->pages, (size_t)used * sizeof(int32_t), rows, stride * sizeof(int32_t), false},
		{&check->page_tags, (size_t)a->n_pages * sizeof(uint64_t), 0, 0, false},
		{&d->cu_seqlens, sequences + sizeof(int32_t), 0, 0, false},
		{&d->first_position, sequences, 0, 0, false},
		{&d->slots, batch ? (size_t)batch->cu_seqlens[n] * sizeof(int64_t) : 0, 0, 0, false},
	};
	if (!arrays_bring(c, arrays, VERIFY_ARRAYS + GATE_ARRAYS))
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

/* ---- the gate ---- */

bool gate_waits_for(const struct cuda_gate *g, const void *host)
{
	return g->state == GATE_ASKED && host &&
		(host == g->asked.block_tables || host == g->batch.first_position || host == g->batch.slots);
}

const void *gate_copy(const struct cuda_gate *g, const void *host)
{
	if (g->state != GATE_KEPT)
		return NULL;
	if (host == g->asked.block_tables)
		return g->block_tables;
	if (host == g->batch.first_position)
		return g->first_position;
	return host == g->batch.slots ? g->slots : NULL;
}

static int gate_grow(struct cuda_backend *c, size_t bytes, int n, struct error *e)
{
	struct cuda_gate *g = &c->gate;

	TRY(results_collect(c));
	gate_free(c);
	steps_forget(&c->steps);
	TRY(cuda_status(cudaMalloc((void **)&g->memory, bytes), "check of pages", e));
	g->bytes = bytes;
	TRY(cuda_status(
		cudaMallocHost((void **)&g->host_first_bad, (size_t)n * sizeof *g->first_bad), "check of pages", e));
	g->room = n;
	return 0;
}

/* Places for what is let through and for the answer; those of one shape of batch stay where they are. */
static int gate_room(struct cuda_backend *c, const struct verify_pages_args *a, struct error *e)
{
	struct cuda_gate *g = &c->gate;
	size_t n = (size_t)a->n_sequences, slots = (size_t)a->deferral->cu_seqlens[n] * sizeof *g->slots;
	size_t sequences = n * sizeof(int32_t), tables = sequences * (size_t)a->table_stride;
	size_t bytes = slots + tables + 2 * sequences;

	if (bytes > g->bytes || a->n_sequences > g->room)
		TRY(gate_grow(c, 2 * bytes, 2 * a->n_sequences, e));
	g->slots = (int64_t *)(void *)g->memory;
	g->block_tables = (int32_t *)(void *)(g->memory + slots);
	g->first_position = (int32_t *)(void *)(g->memory + slots + tables);
	g->first_bad = g->first_position + n;
	return 0;
}

/* Defers the answer, where the caller can wait and no other one is waited for. */
static bool gate_ask(struct cuda_backend *c, const struct verify_pages_args *a)
{
	struct cuda_gate *g = &c->gate;
	struct error e = {0};

	if (!a->deferral || g->state != GATE_NONE || failure_keep(c, gate_room(c, a, &e), &e) < 0)
		return false;
	g->asked = *a;
	g->batch = *a->deferral;
	g->state = GATE_ASKED;
	a->deferral->deferred = true;
	return true;
}

bool gate_keep(struct cuda_backend *c)
{
	struct cuda_gate *g = &c->gate;
	struct cuda_verify *v = &c->verify;
	struct page_gate_args d;

	if (c->failure.code || !arguments_bring(c, &g->asked, &g->batch, &d, v->versions))
		return false;
	memcpy(&v->args, &d.check, sizeof d.check);
	d.check.first_bad = g->first_bad;
	d.page_size = g->batch.page_size;
	d.block_tables_out = g->block_tables;
	d.first_position_out = g->first_position;
	d.slots_out = g->slots;
	struct op *op = op_new(c, OP_PAGE_GATE);
	if (!op)
		return false;
	memcpy(&op->page_gate, &d, sizeof d);
	g->state = GATE_KEPT;
	v->tables_read = g->block_tables;
	v->asked = true;
	v->answered = false;
	return true;
}

/* Where a sequence was parked, the check behind the step was of other tables than the caller's next one. */
void gate_end(struct cuda_backend *c)
{
	struct cuda_gate *g = &c->gate;
	struct cuda_verify *v = &c->verify;

	for (int b = 0; g->state == GATE_KEPT && !c->failure.code && b < g->asked.n_sequences; b++) {
		g->asked.first_bad[b] = g->host_first_bad[b];
		v->answered &= g->asked.first_bad[b] == -1;
	}
	g->state = GATE_NONE;
}

/* ---- answers ---- */

static void check_keep(struct cuda_backend *c)
{
	struct op *op = op_new(c, OP_VERIFY_PAGES);

	if (!op)
		return;
	memcpy(&op->verify_pages, &c->verify.args, sizeof c->verify.args);
	op->verify_pages.block_tables = c->verify.tables_read;
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

static int answer_fetch(struct cuda_backend *c, int32_t *host, const int32_t *device, int n)
{
	struct error e = {0};
	size_t bytes = (size_t)n * sizeof *host;

	return failure_keep(c,
		cuda_status(
			cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, c->stream), "check of pages", &e),
		&e);
}

int verify_fetch(struct cuda_backend *c)
{
	const struct cuda_verify *v = &c->verify;
	const struct cuda_gate *g = &c->gate;
	int status = 0;

	if (g->state == GATE_KEPT)
		status = answer_fetch(c, g->host_first_bad, g->first_bad, g->asked.n_sequences);
	if (status == 0 && v->in_step)
		status = answer_fetch(c, v->host_first_bad, v->first_bad, v->args.n_sequences);
	return status;
}

void verify_hand_out(struct cuda_backend *c)
{
	c->verify.answered |= c->verify.in_step;
	c->verify.in_step = false;
}

/* At once. Where a check could not be made every sequence counts as bad from its first page on. */
static void check_answer(struct cuda_backend *c, const struct verify_pages_args *a)
{
	struct cuda_verify *v = &c->verify;
	struct page_gate_args d;
	uint64_t versions[VERIFY_ARRAYS];
	size_t bytes = (size_t)a->n_sequences * sizeof *a->first_bad;

	memset(a->first_bad, 0, bytes);
	if (c->failure.code || !arguments_bring(c, a, NULL, &d, versions))
		return;
	bool known = v->answered && memcmp(&d.check, &v->args, sizeof d.check) == 0 &&
		memcmp(versions, v->versions, sizeof versions) == 0;
	memcpy(&v->args, &d.check, sizeof d.check);
	memcpy(v->versions, versions, sizeof versions);
	v->tables_read = v->args.block_tables;
	v->in_step = !known;
	if (!known)
		check_keep(c);
	if ((known ? ops_flush(c) : results_collect(c)) < 0) /* what was put is not awaited after */
		return;
	v->answered = false;
	v->asked = true;
	memcpy(a->first_bad, v->host_first_bad, bytes);
}

void cuda_verify_pages(struct backend *b, const struct verify_pages_args *a)
{
	struct cuda_backend *c = self(b);
	struct error e = {0};

	if (a->n_sequences == 0)
		return;
	if (!c->failure.code)
		failure_keep(c, room_make(c, a->n_sequences, &e), &e);
	if (c->failure.code || !gate_ask(c, a))
		check_answer(c, a);
}

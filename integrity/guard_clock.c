#include "integrity/guard_clock.h"

#include <stdlib.h>
#include <time.h>

/* What the engine holds as the state of a pool. */
struct timed {
	struct guard_clock *clock;
	void *state; /* the inner guard's */
};

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static uint64_t elapsed_add(struct guard_clock *clock, uint64_t start)
{
	uint64_t elapsed = now() - start;
	clock->nanoseconds += elapsed;
	clock->calls++;
	return elapsed;
}

static int timed_open(void *context, const struct kv_guard_layout *layout, void **state, struct error *e)
{
	struct guard_clock *clock = context;
	struct timed *t = mem_calloc(1, sizeof *t, e);

	if (!t)
		return ERR_MEMORY;
	t->clock = clock;
	int status = clock->inner->open(clock->inner->context, layout, &t->state, e);
	if (status < 0)
		free(t);
	else
		*state = t;
	return status;
}

static void timed_close(void *state)
{
	struct timed *t = state;
	t->clock->inner->close(t->state);
	free(t);
}

static int timed_verify(
	void *state, enum kv_guard_phase phase, const struct kv_guard_batch *batch, uint8_t *bad, struct error *e)
{
	struct timed *t = state;
	uint64_t start = now();
	int status = t->clock->inner->verify(t->state, phase, batch, bad, e);
	t->clock->verify_nanoseconds += elapsed_add(t->clock, start);
	return status;
}

static struct kv_guard_transfer inner_transfer(const struct kv_guard_transfer *transfer)
{
	struct kv_guard_transfer inner = *transfer;
	if (inner.from)
		inner.from = ((const struct timed *)inner.from)->state;
	return inner;
}

static void timed_transfer_sent(void *state, const struct kv_guard_transfer *transfer)
{
	struct timed *t = state;
	struct kv_guard_transfer inner = inner_transfer(transfer);
	uint64_t start = now();
	t->clock->inner->transfer_sent(t->state, &inner);
	elapsed_add(t->clock, start);
}

static int timed_transfer_received(void *state, const struct kv_guard_transfer *transfer, struct error *e)
{
	struct timed *t = state;
	struct kv_guard_transfer inner = inner_transfer(transfer);
	uint64_t start = now();
	int status = t->clock->inner->transfer_received(t->state, &inner, e);
	elapsed_add(t->clock, start);
	return status;
}

static int timed_reserve(void *state, int max_requests, int table_stride, struct error *e)
{
	struct timed *t = state;
	uint64_t start = now();
	int result = t->clock->inner->reserve(t->state, max_requests, table_stride, e);
	elapsed_add(t->clock, start);
	return result;
}

static void timed_step_begin(void *state, uint64_t tick)
{
	struct timed *t = state;
	uint64_t start = now();
	t->clock->inner->step_begin(t->state, tick);
	elapsed_add(t->clock, start);
}

static void timed_scales_set(void *state, int layer, float k_scale, float v_scale)
{
	struct timed *t = state;
	uint64_t start = now();
	t->clock->inner->scales_set(t->state, layer, k_scale, v_scale);
	elapsed_add(t->clock, start);
}

static void timed_page_allocated(void *state, int32_t page, uint64_t request)
{
	struct timed *t = state;
	uint64_t start = now();
	t->clock->inner->page_allocated(t->state, page, request);
	elapsed_add(t->clock, start);
}

static void timed_page_freed(void *state, int32_t page, uint64_t request)
{
	struct timed *t = state;
	uint64_t start = now();
	t->clock->inner->page_freed(t->state, page, request);
	elapsed_add(t->clock, start);
}

static void timed_page_mapped(void *state, uint64_t request, int logical, int32_t page)
{
	struct timed *t = state;
	uint64_t start = now();
	t->clock->inner->page_mapped(t->state, request, logical, page);
	elapsed_add(t->clock, start);
}

static void timed_page_indexed(void *state, const struct kv_guard_key *key)
{
	struct timed *t = state;
	uint64_t start = now();
	t->clock->inner->page_indexed(t->state, key);
	elapsed_add(t->clock, start);
}

static void timed_page_unindexed(void *state, int32_t page)
{
	struct timed *t = state;
	uint64_t start = now();
	t->clock->inner->page_unindexed(t->state, page);
	elapsed_add(t->clock, start);
}

static int timed_copy_begin(void *state, const struct kv_guard_copy *copy, struct error *e)
{
	struct timed *t = state;
	uint64_t start = now();
	int result = t->clock->inner->copy_begin(t->state, copy, e);
	elapsed_add(t->clock, start);
	return result;
}

static void timed_copy_end(void *state, const struct kv_guard_copy *copy)
{
	struct timed *t = state;
	uint64_t start = now();
	t->clock->inner->copy_end(t->state, copy);
	elapsed_add(t->clock, start);
}

static int timed_request_admitted(void *state, const struct kv_guard_admission *admission, struct error *e)
{
	struct timed *t = state;
	uint64_t start = now();
	int result = t->clock->inner->request_admitted(t->state, admission, e);
	elapsed_add(t->clock, start);
	return result;
}

static int timed_page_standing(void *state, uint64_t request, int logical, int32_t page)
{
	struct timed *t = state;
	uint64_t start = now();
	int result = t->clock->inner->page_standing(t->state, request, logical, page);
	elapsed_add(t->clock, start);
	return result;
}

static void timed_request_released(void *state, uint64_t request)
{
	struct timed *t = state;
	uint64_t start = now();
	t->clock->inner->request_released(t->state, request);
	elapsed_add(t->clock, start);
}

static void timed_not_validated(void *state, enum kv_guard_phase phase, const struct kv_guard_batch *batch, int b)
{
	struct timed *t = state;
	uint64_t start = now();
	t->clock->inner->not_validated(t->state, phase, batch, b);
	elapsed_add(t->clock, start);
}

static int timed_transfer_read(
	void *state, enum kv_guard_phase phase, uint64_t request, const int32_t *pages, int n_tokens, struct error *e)
{
	struct timed *t = state;
	uint64_t start = now();
	int result = t->clock->inner->transfer_read(t->state, phase, request, pages, n_tokens, e);
	elapsed_add(t->clock, start);
	return result;
}

static void timed_audit(void *state)
{
	struct timed *t = state;
	uint64_t start = now();
	t->clock->inner->audit(t->state);
	elapsed_add(t->clock, start);
}

void guard_clock_init(struct guard_clock *clock, const struct kv_guard *inner)
{
	*clock = (struct guard_clock){.inner = inner};
	clock->table = (struct kv_guard){.level = inner->level,
		.enforces = inner->enforces,
		.context = clock,
		.open = timed_open,
		.close = timed_close,
		.verify = timed_verify,
		.transfer_sent = timed_transfer_sent,
		.transfer_received = timed_transfer_received,
		.reserve = timed_reserve,
		.step_begin = timed_step_begin,
		.scales_set = timed_scales_set,
		.page_allocated = timed_page_allocated,
		.page_freed = timed_page_freed,
		.page_mapped = timed_page_mapped,
		.page_indexed = timed_page_indexed,
		.page_unindexed = timed_page_unindexed,
		.copy_begin = timed_copy_begin,
		.copy_end = timed_copy_end,
		.request_admitted = timed_request_admitted,
		.page_standing = timed_page_standing,
		.request_released = timed_request_released,
		.not_validated = timed_not_validated,
		.transfer_read = timed_transfer_read,
		.audit = timed_audit};
}

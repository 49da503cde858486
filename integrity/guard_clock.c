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

/* A call that is handed on. Where it goes is looked up before the clock starts: an engine without a clock looks a guard's
 * functions up too, those of none as those of another, and what comes on top of that is the clock's. */
struct call {
	struct guard_clock *clock;
	struct kv_guard inner;
	void *state;
	uint64_t start;
};

static struct call call_begin(const struct timed *t)
{
	struct call call = {.clock = t->clock, .inner = *t->clock->inner, .state = t->state};
	call.start = now();
	return call;
}

static void call_end(const struct call *call)
{
	call->clock->nanoseconds += now() - call->start;
	call->clock->calls++;
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
	struct call c = call_begin(state);
	int status = c.inner.verify(c.state, phase, batch, bad, e);
	call_end(&c);
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
	struct kv_guard_transfer inner = inner_transfer(transfer);
	struct call c = call_begin(state);
	c.inner.transfer_sent(c.state, &inner);
	call_end(&c);
}

static int timed_transfer_received(void *state, const struct kv_guard_transfer *transfer, struct error *e)
{
	struct kv_guard_transfer inner = inner_transfer(transfer);
	struct call c = call_begin(state);
	int status = c.inner.transfer_received(c.state, &inner, e);
	call_end(&c);
	return status;
}

static int timed_reserve(void *state, int max_requests, int table_stride, struct error *e)
{
	struct call c = call_begin(state);
	int result = c.inner.reserve(c.state, max_requests, table_stride, e);
	call_end(&c);
	return result;
}

static void timed_step_begin(void *state, uint64_t tick)
{
	struct call c = call_begin(state);
	c.inner.step_begin(c.state, tick);
	call_end(&c);
}

static void timed_scales_set(void *state, int layer, float k_scale, float v_scale)
{
	struct call c = call_begin(state);
	c.inner.scales_set(c.state, layer, k_scale, v_scale);
	call_end(&c);
}

static void timed_page_allocated(void *state, int32_t page, uint64_t request)
{
	struct call c = call_begin(state);
	c.inner.page_allocated(c.state, page, request);
	call_end(&c);
}

static void timed_page_freed(void *state, int32_t page, uint64_t request)
{
	struct call c = call_begin(state);
	c.inner.page_freed(c.state, page, request);
	call_end(&c);
}

static void timed_page_mapped(void *state, uint64_t request, int logical, int32_t page)
{
	struct call c = call_begin(state);
	c.inner.page_mapped(c.state, request, logical, page);
	call_end(&c);
}

static void timed_page_indexed(void *state, const struct kv_guard_key *key)
{
	struct call c = call_begin(state);
	c.inner.page_indexed(c.state, key);
	call_end(&c);
}

static void timed_page_unindexed(void *state, int32_t page)
{
	struct call c = call_begin(state);
	c.inner.page_unindexed(c.state, page);
	call_end(&c);
}

static int timed_copy_begin(void *state, const struct kv_guard_copy *copy, struct error *e)
{
	struct call c = call_begin(state);
	int result = c.inner.copy_begin(c.state, copy, e);
	call_end(&c);
	return result;
}

static void timed_copy_end(void *state, const struct kv_guard_copy *copy)
{
	struct call c = call_begin(state);
	c.inner.copy_end(c.state, copy);
	call_end(&c);
}

static int timed_request_admitted(void *state, const struct kv_guard_admission *admission, struct error *e)
{
	struct call c = call_begin(state);
	int result = c.inner.request_admitted(c.state, admission, e);
	call_end(&c);
	return result;
}

static int timed_page_standing(void *state, uint64_t request, int logical, int32_t page)
{
	struct call c = call_begin(state);
	int result = c.inner.page_standing(c.state, request, logical, page);
	call_end(&c);
	return result;
}

static void timed_request_released(void *state, uint64_t request)
{
	struct call c = call_begin(state);
	c.inner.request_released(c.state, request);
	call_end(&c);
}

static void timed_not_validated(void *state, enum kv_guard_phase phase, const struct kv_guard_batch *batch, int b)
{
	struct call c = call_begin(state);
	c.inner.not_validated(c.state, phase, batch, b);
	call_end(&c);
}

static int timed_transfer_read(
	void *state, enum kv_guard_phase phase, uint64_t request, const int32_t *pages, int n_tokens, struct error *e)
{
	struct call c = call_begin(state);
	int result = c.inner.transfer_read(c.state, phase, request, pages, n_tokens, e);
	call_end(&c);
	return result;
}

static void timed_audit(void *state)
{
	struct call c = call_begin(state);
	c.inner.audit(c.state);
	call_end(&c);
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

#include "engine/kv/kv_guard.h"

#include <stddef.h>

static int none_open(void *context, const struct kv_guard_layout *layout, void **state, struct error *e)
{
	(void)context;
	(void)layout;
	(void)e;
	*state = NULL;
	return 0;
}

static int none_reserve(void *state, int max_requests, int table_stride, struct error *e)
{
	(void)state;
	(void)max_requests;
	(void)table_stride;
	(void)e;
	return 0;
}

static void none_state(void *state)
{
	(void)state;
}

static void none_number(void *state, uint64_t number)
{
	(void)state;
	(void)number;
}

static void none_scales(void *state, int layer, float k_scale, float v_scale)
{
	(void)state;
	(void)layer;
	(void)k_scale;
	(void)v_scale;
}

static void none_page(void *state, int32_t page, uint64_t request)
{
	(void)state;
	(void)page;
	(void)request;
}

static void none_unindexed(void *state, int32_t page)
{
	none_page(state, page, 0);
}

static void none_mapped(void *state, uint64_t request, int logical, int32_t page)
{
	(void)logical;
	none_page(state, page, request);
}

static void none_indexed(void *state, const struct kv_guard_key *key)
{
	(void)state;
	(void)key;
}

static int none_copy_begin(void *state, const struct kv_guard_copy *copy, struct error *e)
{
	(void)state;
	(void)copy;
	(void)e;
	return 0;
}

static void none_copy_end(void *state, const struct kv_guard_copy *copy)
{
	(void)state;
	(void)copy;
}

static int none_admitted(void *state, const struct kv_guard_admission *admission, struct error *e)
{
	(void)state;
	(void)admission;
	(void)e;
	return 0;
}

static int none_standing(void *state, uint64_t request, int logical, int32_t page)
{
	none_mapped(state, request, logical, page);
	return KV_PAGE_OWNED | KV_PAGE_CLEAN;
}

static int none_verify(
	void *state, enum kv_guard_phase phase, const struct kv_guard_batch *batch, uint8_t *bad, struct error *e)
{
	(void)state;
	(void)phase;
	(void)batch;
	(void)bad;
	(void)e;
	return 0;
}

static void none_not_validated(void *state, enum kv_guard_phase phase, const struct kv_guard_batch *batch, int b)
{
	(void)state;
	(void)phase;
	(void)batch;
	(void)b;
}

static int none_transfer_read(
	void *state, enum kv_guard_phase phase, uint64_t request, const int32_t *pages, int n_tokens, struct error *e)
{
	(void)state;
	(void)phase;
	(void)request;
	(void)pages;
	(void)n_tokens;
	(void)e;
	return 0;
}

static void none_sent(void *state, const struct kv_guard_transfer *transfer)
{
	(void)state;
	(void)transfer;
}

static int none_received(void *state, const struct kv_guard_transfer *transfer, struct error *e)
{
	(void)e;
	none_sent(state, transfer);
	return 0;
}

const struct kv_guard kv_guard_none = {
	.level = "none",
	.open = none_open,
	.reserve = none_reserve,
	.close = none_state,
	.step_begin = none_number,
	.scales_set = none_scales,
	.page_allocated = none_page,
	.page_freed = none_page,
	.page_mapped = none_mapped,
	.page_indexed = none_indexed,
	.page_unindexed = none_unindexed,
	.copy_begin = none_copy_begin,
	.copy_end = none_copy_end,
	.request_admitted = none_admitted,
	.page_standing = none_standing,
	.request_released = none_number,
	.verify = none_verify,
	.not_validated = none_not_validated,
	.transfer_read = none_transfer_read,
	.transfer_sent = none_sent,
	.transfer_received = none_received,
	.audit = none_state,
};

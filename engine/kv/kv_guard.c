#include "engine/kv/kv_guard.h"

static int none_open(void *context, const struct kv_guard_layout *layout, struct error *e)
{
	(void)context;
	(void)layout;
	(void)e;
	return 0;
}

static void none_page(void *context, int32_t page, uint64_t request)
{
	(void)context;
	(void)page;
	(void)request;
}

static void none_mapped(void *context, uint64_t request, int logical, int32_t page)
{
	(void)context;
	(void)request;
	(void)logical;
	(void)page;
}

static void none_prefix_hit(void *context, uint64_t request, int n_tokens)
{
	(void)context;
	(void)request;
	(void)n_tokens;
}

static void none_released(void *context, uint64_t request)
{
	(void)context;
	(void)request;
}

static int none_verify(
	void *context, enum kv_guard_phase phase, const struct kv_guard_batch *batch, uint8_t *bad, struct error *e)
{
	(void)context;
	(void)phase;
	(void)batch;
	(void)bad;
	(void)e;
	return 0;
}

static int none_received(void *context, uint64_t request, int logical, int32_t page, struct error *e)
{
	(void)e;
	none_mapped(context, request, logical, page);
	return 0;
}

static void none_audit(void *context)
{
	(void)context;
}

const struct kv_guard kv_guard_none = {
	.level = "none",
	.open = none_open,
	.page_allocated = none_page,
	.page_freed = none_page,
	.page_mapped = none_mapped,
	.prefix_hit = none_prefix_hit,
	.request_released = none_released,
	.verify = none_verify,
	.transfer_sent = none_mapped,
	.transfer_received = none_received,
	.audit = none_audit,
};

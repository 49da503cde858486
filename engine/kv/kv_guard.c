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

static void none_state(void *state)
{
	(void)state;
}

static void none_page(void *state, int32_t page, uint64_t request)
{
	(void)state;
	(void)page;
	(void)request;
}

static void none_mapped(void *state, uint64_t request, int logical, int32_t page)
{
	(void)logical;
	none_page(state, page, request);
}

static void none_prefix_hit(void *state, uint64_t request, const int32_t *tokens, int n_tokens)
{
	(void)state;
	(void)request;
	(void)tokens;
	(void)n_tokens;
}

static void none_released(void *state, uint64_t request)
{
	(void)state;
	(void)request;
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

static void none_sent(void *state, uint64_t request, int logical, int32_t page, int n_tokens)
{
	(void)n_tokens;
	none_mapped(state, request, logical, page);
}

static int none_received(void *state, uint64_t request, int logical, int32_t page, int n_tokens, struct error *e)
{
	(void)e;
	none_sent(state, request, logical, page, n_tokens);
	return 0;
}

const struct kv_guard kv_guard_none = {
	.level = "none",
	.open = none_open,
	.close = none_state,
	.page_allocated = none_page,
	.page_freed = none_page,
	.page_mapped = none_mapped,
	.prefix_hit = none_prefix_hit,
	.request_released = none_released,
	.verify = none_verify,
	.transfer_sent = none_sent,
	.transfer_received = none_received,
	.audit = none_state,
};

#include "engine/kv/fault_hook.h"

#include <stddef.h>

const struct fault_hook fault_hook_none = {NULL, NULL};

const char *fault_site_name(enum fault_site site)
{
	static const char *const names[FAULT_SITE_COUNT] = {
		[FAULT_POOL_ALLOC] = "pool.alloc",
		[FAULT_POOL_FREE] = "pool.free",
		[FAULT_POOL_LEFT] = "pool.left",
		[FAULT_POOL_RETAIN] = "pool.retain",
		[FAULT_RADIX_EVICT] = "radix.evict",
		[FAULT_RADIX_UNINDEX] = "radix.unindex",
		[FAULT_RADIX_PARENT] = "radix.parent",
		[FAULT_RADIX_SHARED] = "radix.shared",
		[FAULT_RADIX_HIT] = "radix.hit",
		[FAULT_RADIX_INSERT] = "radix.insert",
		[FAULT_COPY_ON_WRITE] = "copy_on_write",
		[FAULT_ADMISSION] = "admission",
		[FAULT_TABLE_ENTRY] = "table.entry",
		[FAULT_TABLE_ROW] = "table.row",
		[FAULT_TABLE_LENGTH] = "table.length",
		[FAULT_TABLE_RENEW] = "table.renew",
		[FAULT_SLOT] = "slot",
		[FAULT_POSITION] = "position",
		[FAULT_LENGTH] = "length",
		[FAULT_PADDING_SLOT] = "padding.slot",
		[FAULT_TRANSFER_PAGES] = "transfer.pages",
		[FAULT_TRANSFER_TARGET] = "transfer.target",
		[FAULT_STEP] = "step",
	};
	return names[site];
}

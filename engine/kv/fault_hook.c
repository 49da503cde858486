#include "engine/kv/fault_hook.h"

#include <stddef.h>

const struct fault_hook fault_hook_none = {NULL, NULL};

const char *fault_site_name(enum fault_site site)
{
	static const char *const names[FAULT_SITE_COUNT] = {"pool.alloc", "pool.free", "table.entry", "slot", "length"};
	return names[site];
}

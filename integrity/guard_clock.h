/* What a guard's work costs: a table that hands every call on to another guard and adds up the time of the monotonic clock
 * around it. It changes nothing else. */
#ifndef ASSAY_INTEGRITY_GUARD_CLOCK_H
#define ASSAY_INTEGRITY_GUARD_CLOCK_H

#include "engine/kv/kv_guard.h"

struct guard_clock {
	struct kv_guard table; /* for engine_config.guard */
	const struct kv_guard *inner;
	uint64_t nanoseconds, calls; /* the reading of the clock itself is in them */
};

/* Neither the clock nor inner may move until the engines that it is handed to are closed, or renewed with another guard. */
void guard_clock_init(struct guard_clock *clock, const struct kv_guard *inner);

#endif

#include "integrity/fault.h"

#include <stdlib.h>

static int64_t injector_at(void *context, const struct fault_point *point)
{
	struct fault_injector *f = context;
	int64_t value = point->value;

	if (point->site == FAULT_STEP) {
		f->steps++;
		fault_late_write(f);
	}
	if (f->fired || point->site != f->type->site || !f->type->act(f, point, &value))
		return point->value;
	if (f->seen++ != f->occurrence)
		return point->value;
	f->fired = true;
	f->request = point->request;
	f->step = f->steps;
	return value;
}

void fault_injector_init(struct fault_injector *f, const struct fault_type *type, int occurrence, uint64_t seed)
{
	*f = (struct fault_injector){.type = type, .occurrence = occurrence};
	py_random_seed(&f->rng, seed);
	f->hook = type ? (struct fault_hook){f, injector_at} : fault_hook_none;
}

void fault_injector_free(struct fault_injector *f)
{
	free(f->late.values);
	f->late.values = NULL;
}

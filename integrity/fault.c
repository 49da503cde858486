#include "integrity/fault.h"

#include <stdlib.h>

#include "engine/kv/kv_pool.h"

/* What the point says of pages: those that it is about, and the wrong one. */
static void pages_mark(struct fault_injector *f, const struct fault_point *p, int64_t value)
{
	int page_size = p->pool->geometry.page_size;
	int64_t pages[2] = {0, 0};

	switch (p->site) {
	case FAULT_POOL_FREE:
	case FAULT_POOL_LEFT:
	case FAULT_POOL_RETAIN:
	case FAULT_RADIX_EVICT:
	case FAULT_RADIX_UNINDEX:
	case FAULT_COPY_ON_WRITE:
		pages[0] = p->index;
		break;
	case FAULT_POOL_ALLOC:
	case FAULT_TRANSFER_TARGET:
		pages[0] = p->value;
		pages[1] = value;
		break;
	case FAULT_SLOT:
	case FAULT_PADDING_SLOT:
		pages[0] = value / page_size;
		break;
	case FAULT_RADIX_INSERT:
		f->mark.indexer = p->request;
		break;
	case FAULT_RADIX_PARENT:
	case FAULT_RADIX_SHARED:
	case FAULT_RADIX_HIT:
		f->mark.next = true;
		break;
	default:
		return;
	}
	f->mark.pool = p->pool;
	for (int i = 0; i < 2; i++)
		f->mark.pages[i] = (int32_t)(pages[i] < p->pool->geometry.n_pages ? pages[i] : 0);
}

static int64_t injector_at(void *context, const struct fault_point *point)
{
	struct fault_injector *f = context;
	int64_t value = point->value;

	if (f->late.pool)
		fault_late_writer_at(f, point);
	if (f->fired || point->site != f->type->site || !f->type->act(f, point, &value))
		return point->value;
	if (f->seen++ != f->occurrence)
		return point->value;
	f->fired = true;
	f->request = point->request;
	f->target = value;
	pages_mark(f, point, value);
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

static int64_t counter_at(void *context, const struct fault_point *point)
{
	struct fault_counter *c = context;

	for (int i = 0; i < fault_type_count(); i++)
		if (fault_type(i)->site == point->site)
			injector_at(&c->injectors[i], point);
	return point->value;
}

int fault_counter_init(struct fault_counter *c, struct error *e)
{
	c->injectors = mem_calloc((size_t)fault_type_count(), sizeof *c->injectors, e);
	if (!c->injectors)
		return ERR_MEMORY;
	for (int i = 0; i < fault_type_count(); i++)
		fault_injector_init(&c->injectors[i], fault_type(i), -1, 0);
	c->hook = (struct fault_hook){c, counter_at};
	return 0;
}

void fault_counter_free(struct fault_counter *c)
{
	free(c->injectors);
	c->injectors = NULL;
}

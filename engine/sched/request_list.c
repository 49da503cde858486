#include "engine/sched/request_list.h"

#include <stddef.h>

/* Puts r between two neighbours; NULL: the list's ends. */
static void link_between(struct request_list *l, struct request *before, struct request *r, struct request *after)
{
	*(before ? &before->next : &l->first) = r;
	r->next = after;
	if (!after)
		l->last = r;
	l->count++;
}

void request_list_push(struct request_list *l, struct request *r)
{
	link_between(l, l->last, r, NULL);
}

struct request *request_list_pop(struct request_list *l)
{
	struct request *r = l->first;
	if (r)
		request_list_remove(l, r);
	return r;
}

void request_list_insert(struct request_list *l, struct request *r)
{
	struct request *before = NULL, *after = l->first;

	if (l->last && l->last->id < r->id) {
		request_list_push(l, r);
		return;
	}
	while (after && after->id < r->id) {
		before = after;
		after = after->next;
	}
	link_between(l, before, r, after);
}

void request_list_remove(struct request_list *l, struct request *r)
{
	struct request *before = NULL;

	for (struct request *at = l->first; at != r; at = at->next)
		before = at;
	*(before ? &before->next : &l->first) = r->next;
	if (l->last == r)
		l->last = before;
	r->next = NULL;
	l->count--;
}

struct request *request_list_find(const struct request_list *l, uint64_t id)
{
	struct request *r = l->first;
	while (r && r->id != id)
		r = r->next;
	return r;
}

void request_list_free(struct request_list *l)
{
	for (struct request *r; (r = request_list_pop(l));)
		request_delete(r);
}

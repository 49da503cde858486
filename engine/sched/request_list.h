/* Lists of requests: first in, first out, or in order of id. A request is in one list at a time. */
#ifndef ASSAY_ENGINE_SCHED_REQUEST_LIST_H
#define ASSAY_ENGINE_SCHED_REQUEST_LIST_H

#include "engine/sched/request.h"

struct request_list {
	struct request *first, *last;
	int count;
};

void request_list_push(struct request_list *l, struct request *r);
struct request *request_list_pop(struct request_list *l); /* NULL when empty */

/* Before the first of a higher id. */
void request_list_insert(struct request_list *l, struct request *r);
void request_list_remove(struct request_list *l, struct request *r);

/* The request of that id, or NULL. */
struct request *request_list_find(const struct request_list *l, uint64_t id);

void request_list_free(struct request_list *l); /* and its requests */

#endif

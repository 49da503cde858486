#include "engine/sched/inbox.h"

#include <stdlib.h>

void inbox_init(struct inbox *in)
{
	*in = (struct inbox){.next_id = 1};
	pthread_mutex_init(&in->mutex, NULL);
}

void inbox_free(struct inbox *in)
{
	request_list_free(&in->requests);
	free(in->aborts);
	pthread_mutex_destroy(&in->mutex);
	*in = (struct inbox){0};
}

uint64_t inbox_next_id(struct inbox *in)
{
	pthread_mutex_lock(&in->mutex);
	uint64_t id = in->next_id++;
	pthread_mutex_unlock(&in->mutex);
	return id;
}

void inbox_put(struct inbox *in, struct request *r)
{
	pthread_mutex_lock(&in->mutex);
	request_list_insert(&in->requests, r);
	pthread_mutex_unlock(&in->mutex);
}

void inbox_abort(struct inbox *in, uint64_t id)
{
	pthread_mutex_lock(&in->mutex);
	if (in->n_aborts == in->aborts_capacity) {
		int capacity = in->aborts_capacity ? 2 * in->aborts_capacity : 16;
		uint64_t *grown = realloc(in->aborts, (size_t)capacity * sizeof *grown);
		if (grown) {
			in->aborts = grown;
			in->aborts_capacity = capacity;
		}
	}
	if (in->n_aborts < in->aborts_capacity)
		in->aborts[in->n_aborts++] = id;
	pthread_mutex_unlock(&in->mutex);
}

static void abort_in(const struct request_list *list, uint64_t id)
{
	struct request *r = request_list_find(list, id);
	if (r)
		r->aborted = true;
}

void inbox_take(struct inbox *in, struct request_list *waiting, struct request_list *const *running, int n_running)
{
	pthread_mutex_lock(&in->mutex);
	for (struct request *r; (r = request_list_pop(&in->requests));)
		request_list_insert(waiting, r);
	for (int i = 0; i < in->n_aborts; i++) {
		abort_in(waiting, in->aborts[i]);
		for (int k = 0; k < n_running; k++)
			abort_in(running[k], in->aborts[i]);
	}
	in->n_aborts = 0;
	pthread_mutex_unlock(&in->mutex);
}

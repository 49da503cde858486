/* Where other threads leave requests and withdrawals for the thread that owns the engine. */
#ifndef ASSAY_ENGINE_SCHED_INBOX_H
#define ASSAY_ENGINE_SCHED_INBOX_H

#include <pthread.h>

#include "engine/sched/request_list.h"

struct inbox {
	pthread_mutex_t mutex;
	struct request_list requests;
	uint64_t *aborts; /* [n_aborts] ids */
	int n_aborts, aborts_capacity;
	uint64_t next_id;
};

void inbox_init(struct inbox *in);
void inbox_free(struct inbox *in);

uint64_t inbox_next_id(struct inbox *in);
void inbox_put(struct inbox *in, struct request *r);

/* Without memory the withdrawal is lost: the request goes on. */
void inbox_abort(struct inbox *in, uint64_t id);

/* Moves what was left to `waiting`, in order of id, and marks what was withdrawn there and in `running` [n_running]. */
void inbox_take(struct inbox *in, struct request_list *waiting, struct request_list *const *running, int n_running);

#endif

/* A rank group of threads in one process. */
#ifndef ASSAY_ENGINE_COMM_THREADS_H
#define ASSAY_ENGINE_COMM_THREADS_H

#include "engine/comm.h"

/* out: [size] the ends of a group, 1 to COMM_MAX_RANKS. Each is used by one thread at a time, and destroyed by itself.
 * Beside what comm.h says, ERR_DEVICE on every rank where the ranks disagree (another collective, another size), where
 * each waits for another, and where one destroys its end while others wait: nobody hangs. */
int comm_threads_new(int size, struct comm **out, struct error *e);

#endif

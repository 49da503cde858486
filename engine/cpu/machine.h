/* What this machine can do at most: the ceilings that speeds are compared with. */
#ifndef ASSAY_ENGINE_CPU_MACHINE_H
#define ASSAY_ENGINE_CPU_MACHINE_H

#include "engine/engine.h"

/* Fills *out with the best of several short measurements on one thread and on `threads`: reading a buffer larger than
 * the caches, and fused multiply-adds in registers with the widest vectors of the kernels in use. Takes about two
 * seconds. */
int machine_measure(int threads, struct engine_machine *out, struct error *e);

#endif

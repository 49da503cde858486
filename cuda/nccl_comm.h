/* Collectives of a rank group by NCCL: one device and one thread of this process for each rank. */
#ifndef ASSAY_CUDA_NCCL_COMM_H
#define ASSAY_CUDA_NCCL_COMM_H

#include "engine/backend.h"
#include "engine/comm.h"

/* out: [size] the ends of a group over CUDA backends of `size` different devices; each op goes to its backend's stream,
 * behind the ops that wait there. Each end is destroyed before its backend. ERR_USAGE where this build or this machine
 * has no NCCL: the message says which. */
int nccl_comms_new(struct backend *const *backends, int size, struct comm **out, struct error *e);

#endif

/* What tests ask of the stand-in for NCCL besides its own calls. They open it by its path (NCCL_STAND_IN), and from then
 * on it is what dlopen("libnccl.so.2") finds; these are found by dlsym. */
#ifndef ASSAY_TESTS_CUDA_ON_CPU_NCCL_STAND_IN_H
#define ASSAY_TESTS_CUDA_ON_CPU_NCCL_STAND_IN_H

/* "nccl_stand_in_fail": that rank's calls-th call from now fails, of groups that are there. */
typedef void nccl_stand_in_fail_function(int rank, int calls);

/* "nccl_stand_in_misuse": what was done so far that NCCL forbids and does not always notice: two calls of a communicator
 * at a time, one of a communicator that was aborted, collectives that do not agree. NULL: nothing. */
typedef const char *nccl_stand_in_misuse_function(void);

#endif

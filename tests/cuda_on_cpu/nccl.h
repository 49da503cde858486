/* Stands in for NCCL's header of this name: the calls that this project makes. The library is nccl_stand_in.c. */
#ifndef ASSAY_TESTS_CUDA_ON_CPU_NCCL_H
#define ASSAY_TESTS_CUDA_ON_CPU_NCCL_H

#include <stddef.h>

#include "tests/cuda_on_cpu/cuda_runtime_api.h"

typedef struct ncclComm *ncclComm_t;

typedef enum {
	ncclSuccess = 0,
	ncclUnhandledCudaError = 1,
	ncclSystemError = 2,
	ncclInternalError = 3,
	ncclInvalidArgument = 4,
	ncclInvalidUsage = 5,
} ncclResult_t;

typedef enum { ncclUint8 = 1, ncclInt32 = 2, ncclUint32 = 3 } ncclDataType_t;
typedef enum { ncclSum = 0, ncclMax = 2 } ncclRedOp_t;

ncclResult_t ncclCommInitAll(ncclComm_t *comms, int n, const int *devices);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclAllGather(
	const void *own, void *all, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllReduce(const void *own, void *all, size_t count, ncclDataType_t type, ncclRedOp_t op,
	ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclSend(
	const void *data, size_t count, ncclDataType_t type, int to, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void *data, size_t count, ncclDataType_t type, int from, ncclComm_t comm, cudaStream_t stream);
const char *ncclGetErrorString(ncclResult_t result);

#endif

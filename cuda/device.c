#include "cuda/device.h"

#include "cuda/status.h"

static _Thread_local int in_use = -1;

static const char *missing(cudaError_t status)
{
	if (status == cudaSuccess)
		return "the driver knows of none";
	if (status == cudaErrorInsufficientDriver)
		return "this machine has no NVIDIA driver, or one that is too old for the CUDA runtime of this build";
	return cudaGetErrorString(status);
}

int device_open(int device, struct cudaDeviceProp *properties, struct error *e)
{
	int count = 0;
	cudaError_t status = cudaGetDeviceCount(&count);

	if (status != cudaSuccess || count == 0)
		return error_set(e, ERR_USAGE, "no CUDA device: %s", missing(status));
	if (device < 0 || device >= count)
		return error_set(e, ERR_USAGE, "CUDA device %d: this machine has %d, counted from 0", device, count);
	TRY(cuda_status(cudaSetDevice(device), "device", e));
	in_use = device;
	return cuda_status(cudaGetDeviceProperties(properties, device), "device", e);
}

void device_use(int device)
{
	if (in_use != device && cudaSetDevice(device) == cudaSuccess)
		in_use = device;
}

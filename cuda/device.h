/* The devices of this machine. */
#ifndef ASSAY_CUDA_DEVICE_H
#define ASSAY_CUDA_DEVICE_H

#include <cuda_runtime_api.h>

#include "engine/base/error.h"

/* Makes the device the calling thread's, and says what it is. ERR_USAGE: there is none of that number. */
int device_open(int device, struct cudaDeviceProp *properties, struct error *e);

/* Makes a device that was opened the calling thread's. */
void device_use(int device);

#endif

/* The CUDA kernels, compiled for the CPU. */
#include "cuda/attend.cu"
#include "cuda/linear_bf16.cu"
#include "cuda/rmsnorm.cu"

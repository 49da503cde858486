/* The CUDA kernels, compiled for the CPU. */
#include "cuda/attend.cu"
#include "cuda/linear_bf16.cu"
#include "cuda/logits.cu"
#include "cuda/rmsnorm.cu"
#include "cuda/route.cu"
#include "cuda/rows.cu"

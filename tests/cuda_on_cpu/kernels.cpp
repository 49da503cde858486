/* The CUDA kernels, compiled for the CPU. */
#include "cuda/attend.cu"
#include "cuda/latent.cu"
#include "cuda/linear_bf16.cu"
#include "cuda/pages.cu"
#include "cuda/qkv.cu"
#include "cuda/rmsnorm.cu"

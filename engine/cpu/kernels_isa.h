/* Names of the kernels of one instruction set: KERNEL_ISA is scalar, avx2 or avx512 (a compiler flag of meson.build).
 */
#ifndef ASSAY_ENGINE_CPU_KERNELS_ISA_H
#define ASSAY_ENGINE_CPU_KERNELS_ISA_H

#include "engine/cpu/kernels.h"

#ifndef KERNEL_ISA
#define KERNEL_ISA scalar
#endif

#define KERNEL_JOIN_(name, isa) name##_##isa
#define KERNEL_JOIN(name, isa) KERNEL_JOIN_(name, isa)
#define KERNEL(name) KERNEL_JOIN(name, KERNEL_ISA)
#define KERNEL_TEXT_(isa) #isa
#define KERNEL_TEXT(isa) KERNEL_TEXT_(isa)

void KERNEL(linear_panels)(const struct linear_args *a, const float *x, const float *x_scale, int first, int end);
void KERNEL(attend_tile)(const struct attend_args *a, int b, int kv_head, int first, int end, float *scratch);

#endif

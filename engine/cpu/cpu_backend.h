/* The CPU backend: always built, the oracle of the others. */
#ifndef ASSAY_ENGINE_CPU_CPU_BACKEND_H
#define ASSAY_ENGINE_CPU_CPU_BACKEND_H

#include "engine/backend.h"

struct cpu_kernels;

/* threads >= 1. isa: "scalar", "avx2", "avx512", or NULL for the best this machine has (the environment's ASSAY_ISA, a
 * switch for tests, wins over NULL); one that the machine lacks, or an unknown name, is ERR_USAGE. */
int cpu_backend_new(int threads, const char *isa, struct backend **out, struct error *e);

/* The instruction set in use, and its kernels. */
const char *cpu_backend_isa(const struct backend *b);
const struct cpu_kernels *cpu_backend_kernels(const struct backend *b);

#endif

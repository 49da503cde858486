/* Two generators: Philox4x32-10 (counter based, for sampling) and CPython's random.Random (for few-shot choice). */
#ifndef ASSAY_ENGINE_BASE_RNG_H
#define ASSAY_ENGINE_BASE_RNG_H

#include <stdint.h>

/* Philox4x32-10 (Salmon et al. 2011) of a 128-bit counter and a 64-bit key. */
void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* The same for many counters at once, for vectors: that of lane l is first + l in two words, then third and fourth. out:
 * [word][lane]. */
enum { PHILOX_LANES = 16 };
void philox4x32_lanes(
	uint64_t first, uint32_t third, uint32_t fourth, const uint32_t key[2], uint32_t out[4][PHILOX_LANES]);

/* Uniform in [0, 1) with 24 bits, a pure function of (seed, position). */
float philox_uniform(uint64_t seed, uint64_t position);

/* random.Random(seed) for an integer seed >= 0: MT19937 seeded by init_by_array of the seed's 32-bit words. */
struct py_random {
	uint32_t state[624];
	int index;
};

void py_random_seed(struct py_random *r, uint64_t seed);
uint32_t py_random_u32(struct py_random *r);               /* genrand_uint32 */
uint64_t py_random_below(struct py_random *r, uint64_t n); /* Random._randbelow, PRECOND: n >= 1 */

/* random.sample(range(n), k) into out[k], CPython 3.11's choice of method. PRECOND: k <= n.
 * Returns 0, or ERR_MEMORY. */
int py_random_sample(struct py_random *r, uint32_t n, uint32_t k, uint32_t *out);

#endif

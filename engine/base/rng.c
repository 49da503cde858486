#include "engine/base/rng.h"

#include <assert.h>
#include <stddef.h>

#include "engine/base/error.h"

static void philox_round(uint32_t counter[4], const uint32_t key[2])
{
	uint64_t a = (uint64_t)counter[0] * UINT32_C(0xd2511f53);
	uint64_t b = (uint64_t)counter[2] * UINT32_C(0xcd9e8d57);
	uint32_t next[4] = {(uint32_t)(b >> 32) ^ counter[1] ^ key[0], (uint32_t)b,
		(uint32_t)(a >> 32) ^ counter[3] ^ key[1], (uint32_t)a};
	memcpy(counter, next, sizeof(next));
}

void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
	uint32_t round_key[2] = {key[0], key[1]};
	uint32_t state[4] = {counter[0], counter[1], counter[2], counter[3]};
	for (int round = 0; round < 10; round++) {
		philox_round(state, round_key);
		round_key[0] += UINT32_C(0x9e3779b9);
		round_key[1] += UINT32_C(0xbb67ae85);
	}
	memcpy(out, state, sizeof(state));
}

void philox4x32_lanes(
	uint64_t first, uint32_t third, uint32_t fourth, const uint32_t key[2], uint32_t out[4][PHILOX_LANES])
{
	uint32_t k0 = key[0], k1 = key[1];

	for (uint64_t l = 0; l < PHILOX_LANES; l++) {
		out[0][l] = (uint32_t)(first + l);
		out[1][l] = (uint32_t)((first + l) >> 32);
		out[2][l] = third;
		out[3][l] = fourth;
	}
	for (int round = 0; round < 10; round++) {
		for (int l = 0; l < PHILOX_LANES; l++) {
			uint64_t a = (uint64_t)out[0][l] * UINT32_C(0xd2511f53);
			uint64_t b = (uint64_t)out[2][l] * UINT32_C(0xcd9e8d57);
			out[0][l] = (uint32_t)(b >> 32) ^ out[1][l] ^ k0;
			out[1][l] = (uint32_t)b;
			out[2][l] = (uint32_t)(a >> 32) ^ out[3][l] ^ k1;
			out[3][l] = (uint32_t)a;
		}
		k0 += UINT32_C(0x9e3779b9);
		k1 += UINT32_C(0xbb67ae85);
	}
}

float philox_uniform(uint64_t seed, uint64_t position)
{
	uint32_t counter[4] = {(uint32_t)position, (uint32_t)(position >> 32), 0, 0};
	uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
	uint32_t out[4];
	philox4x32(counter, key, out);
	return (float)(out[0] >> 8) * 0x1p-24f;
}

/* MT19937 (Matsumoto and Nishimura 1998): N words of state, M the middle word of the recurrence. */
enum { MT_N = 624, MT_M = 397 };

static void mt_init(uint32_t state[MT_N], uint32_t seed)
{
	state[0] = seed;
	for (uint32_t i = 1; i < MT_N; i++)
		state[i] = UINT32_C(1812433253) * (state[i - 1] ^ (state[i - 1] >> 30)) + i;
}

/* One step of init_by_array; returns the next index, having carried the last word to the front at the end. */
static size_t mt_mix(uint32_t state[MT_N], size_t i, uint32_t multiplier, uint32_t plus, uint32_t minus)
{
	uint32_t previous = state[i - 1] ^ (state[i - 1] >> 30);
	state[i] = (state[i] ^ (previous * multiplier)) + plus - minus;
	if (++i < MT_N)
		return i;
	state[0] = state[MT_N - 1];
	return 1;
}

void py_random_seed(struct py_random *r, uint64_t seed)
{
	const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
	const size_t key_length = key[1] ? 2 : 1;
	mt_init(r->state, UINT32_C(19650218));
	size_t i = 1;
	for (size_t step = 0; step < MT_N; step++) {
		size_t j = step % key_length;
		i = mt_mix(r->state, i, UINT32_C(1664525), key[j] + (uint32_t)j, 0);
	}
	for (size_t step = 0; step < MT_N - 1; step++)
		i = mt_mix(r->state, i, UINT32_C(1566083941), 0, (uint32_t)i);
	r->state[0] = UINT32_C(0x80000000);
	r->index = MT_N;
}

static void mt_refill(uint32_t state[MT_N])
{
	for (size_t i = 0; i < MT_N; i++) {
		uint32_t y = (state[i] & UINT32_C(0x80000000)) | (state[(i + 1) % MT_N] & UINT32_C(0x7fffffff));
		state[i] = state[(i + MT_M) % MT_N] ^ (y >> 1) ^ (y & 1 ? UINT32_C(0x9908b0df) : 0);
	}
}

uint32_t py_random_u32(struct py_random *r)
{
	if (r->index >= MT_N) {
		mt_refill(r->state);
		r->index = 0;
	}
	uint32_t y = r->state[r->index++];
	y ^= y >> 11;
	y ^= (y << 7) & UINT32_C(0x9d2c5680);
	y ^= (y << 15) & UINT32_C(0xefc60000);
	return y ^ (y >> 18);
}

/* Random.getrandbits(bits), 1 <= bits <= 64: the low word is drawn first. */
static uint64_t py_random_bits(struct py_random *r, int bits)
{
	if (bits <= 32)
		return py_random_u32(r) >> (32 - bits);
	uint64_t low = py_random_u32(r);
	return low | (uint64_t)(py_random_u32(r) >> (64 - bits)) << 32;
}

uint64_t py_random_below(struct py_random *r, uint64_t n)
{
	assert(n >= 1);
	int bits = 64 - __builtin_clzll(n);
	uint64_t value;
	do {
		value = py_random_bits(r, bits);
	} while (value >= n);
	return value;
}

static int sample_from_pool(struct py_random *r, uint32_t n, uint32_t k, uint32_t *out)
{
	uint32_t *pool = mem_calloc(n, sizeof(*pool), NULL);
	if (!pool)
		return ERR_MEMORY;
	for (uint32_t i = 0; i < n; i++)
		pool[i] = i;
	for (uint32_t i = 0; i < k; i++) {
		size_t j = (size_t)py_random_below(r, n - i);
		out[i] = pool[j];
		pool[j] = pool[n - i - 1];
	}
	free(pool);
	return 0;
}

/* Draws until unseen. The set of seen values is a hash table that is at most half full. */
static int sample_by_rejection(struct py_random *r, uint32_t n, uint32_t k, uint32_t *out)
{
	const uint32_t free_slot = UINT32_MAX; /* no value: values are below n <= UINT32_MAX */
	size_t slots = 16;
	while (slots / 2 < k)
		slots *= 2;
	uint32_t *seen = mem_calloc(slots, sizeof(*seen), NULL);
	if (!seen)
		return ERR_MEMORY;
	memset(seen, 0xff, slots * sizeof(*seen));
	for (uint32_t i = 0; i < k;) {
		uint32_t value = (uint32_t)py_random_below(r, n);
		size_t slot = (value * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (slots - 1);
		while (seen[slot] != free_slot && seen[slot] != value)
			slot = (slot + 1) & (slots - 1);
		if (seen[slot] == value)
			continue;
		seen[slot] = value;
		out[i++] = value;
	}
	free(seen);
	return 0;
}

int py_random_sample(struct py_random *r, uint32_t n, uint32_t k, uint32_t *out)
{
	assert(k <= n);
	/* CPython's estimate of the size of a small set: above it a list of n is the larger of the two. */
	uint64_t set_size = 21;
	if (k > 5) {
		uint64_t power = 1;
		while (power < (uint64_t)k * 3)
			power *= 4;
		set_size += power;
	}
	return n <= set_size ? sample_from_pool(r, n, k, out) : sample_by_rejection(r, n, k, out);
}

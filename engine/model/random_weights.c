#include "engine/model/random_weights.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/number.h"
#include "engine/base/rng.h"
#include "engine/base/thread_pool.h"

enum { PIECE = 1 << 16 /* values that a thread draws at a time, a multiple of BLOCK */ };

struct drawn {
	struct tensor tensor;
	char *name;
	uint16_t *values; /* [count] BF16, mapped */
};

/* The values lie in a file without a name, mapped: what a reader is done with may be dropped from memory (file.h), as
 * with any checkpoint, and is there again when it is read. */
struct random_weights {
	uint64_t seed;
	int file;
	off_t file_size;
	struct drawn **tensors; /* each allocated by itself: pointers to them stay good */
	size_t count, capacity;
};

struct random_weights *random_weights_new(uint64_t seed, struct error *e)
{
	struct random_weights *r = mem_calloc(1, sizeof(*r), e);
	if (!r)
		return NULL;
	r->seed = seed;
	r->file = memfd_create("weights", MFD_CLOEXEC);
	if (r->file < 0) {
		error_set(e, ERR_IO, "random weights: no file in memory: %s", strerror(errno));
		free(r);
		return NULL;
	}
	return r;
}

static void drawn_delete(struct drawn *d)
{
	if (!d)
		return;
	free(d->name);
	if (d->values)
		munmap(d->values, d->tensor.size);
	free(d);
}

void random_weights_delete(struct random_weights *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->count; i++)
		drawn_delete(r->tensors[i]);
	free(r->tensors);
	close(r->file);
	free(r);
}

/* Room for another tensor at the file's end; NULL when there is none. */
static uint16_t *map_new(struct random_weights *r, size_t size)
{
	off_t page = (off_t)sysconf(_SC_PAGESIZE), at = r->file_size, end = at + ((off_t)size + page - 1) / page * page;

	/* more than the machine has would be noticed only when it is filled */
	if (end / page > (off_t)sysconf(_SC_PHYS_PAGES) || ftruncate(r->file, end) != 0)
		return NULL;
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, r->file, at);
	if (memory == MAP_FAILED)
		return NULL;
	r->file_size = end;
	return memory;
}

struct filling {
	uint16_t *values;
	uint64_t count, seed;
	size_t number;
	float reach;
};

static uint16_t value_of(uint32_t half, float scale)
{
	return float_to_bf16(((float)(int32_t)half + 0.5f - 32768.0f) * scale);
}

enum { BLOCK = 8 * PHILOX_LANES };

/* Eight values of 16 bits come from each draw of the generator. number: of the first draw. */
static void block_draw(const struct filling *f, uint64_t number, uint16_t values[BLOCK])
{
	const uint32_t key[2] = {(uint32_t)f->seed, (uint32_t)(f->seed >> 32)};
	uint32_t bits[4][PHILOX_LANES];
	uint16_t of_word[8][PHILOX_LANES];
	float scale = f->reach / 32768.0f;

	philox4x32_lanes(number, (uint32_t)f->number, 1, key, bits);
	for (int word = 0; word < 4; word++)
		for (int l = 0; l < PHILOX_LANES; l++) {
			of_word[2 * word][l] = value_of(bits[word][l] & 0xffffu, scale);
			of_word[2 * word + 1][l] = value_of(bits[word][l] >> 16, scale);
		}
	for (int l = 0; l < PHILOX_LANES; l++)
		for (int j = 0; j < 8; j++)
			values[l * 8 + j] = of_word[j][l];
}

static void piece_fill(void *argument, int piece, int thread)
{
	const struct filling *f = argument;
	uint16_t block[BLOCK];
	uint64_t first = (uint64_t)piece * PIECE, end = f->count - first < PIECE ? f->count : first + PIECE;

	(void)thread;
	for (uint64_t i = first; i < end; i += BLOCK) {
		uint64_t n = end - i < BLOCK ? end - i : BLOCK;
		block_draw(f, i / 8, block);
		memcpy(f->values + i, block, n * sizeof *block);
	}
}

static bool ends_with(const char *name, const char *end)
{
	size_t n = strlen(name), m = strlen(end);
	return n >= m && strcmp(name + n - m, end) == 0;
}

static int room_make(struct random_weights *r, struct error *e)
{
	if (r->count < r->capacity)
		return 0;
	size_t capacity = r->capacity ? 2 * r->capacity : 64;
	struct drawn **grown = realloc(r->tensors, capacity * sizeof(struct drawn *));
	if (!grown)
		return error_set(e, ERR_MEMORY, "no memory for %zu tensors", capacity);
	r->tensors = grown;
	r->capacity = capacity;
	return 0;
}

int random_weights_draw(struct random_weights *r, struct thread_pool *threads, const char *name, int64_t rows,
	int64_t columns, const struct tensor **out, struct error *e)
{
	uint64_t count = (uint64_t)rows * (uint64_t)(columns ? columns : 1);

	TRY(room_make(r, e));
	struct drawn *d = mem_calloc(1, sizeof(*d), e);
	if (!d)
		return ERR_MEMORY;
	d->tensor.size = count * sizeof(*d->values);
	d->name = strdup(name);
	d->values = map_new(r, d->tensor.size);
	if (!d->name || !d->values) {
		drawn_delete(d);
		return error_set(e, ERR_MEMORY, "no memory for tensor \"%s\" of %" PRIu64 " values", name, count);
	}
	if (!columns && ends_with(name, "norm.weight")) {
		for (uint64_t i = 0; i < count; i++)
			d->values[i] = float_to_bf16(1.0f);
	} else {
		struct filling f = {
			d->values, count, r->seed, r->count, columns ? sqrtf(3.0f / (float)columns) : 0.02f};
		thread_pool_run(threads, (int)((count + PIECE - 1) / PIECE), piece_fill, &f);
	}
	d->tensor = (struct tensor){.name = d->name,
		.type = TENSOR_BF16,
		.rank = columns ? 2 : 1,
		.shape = {rows, columns},
		.count = count,
		.data = (const uint8_t *)d->values,
		.size = d->tensor.size};
	r->tensors[r->count++] = d;
	*out = &d->tensor;
	return 0;
}

size_t random_weights_count(const struct random_weights *r)
{
	return r->count;
}

const struct tensor *random_weights_at(const struct random_weights *r, size_t i)
{
	return &r->tensors[i]->tensor;
}

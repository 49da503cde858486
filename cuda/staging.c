#include "cuda/staging.h"

#include <stdlib.h>
#include <string.h>

#include "cuda/status.h"

enum {
	LEAST = 256, /* bytes of a place; also the grain of what travels */
	NEAR_BYTES = 1 << 20,
	NEAR_MOST = 64 * 1024, /* bytes of an array that lies with others */
	GAP_MOST = 4096,       /* bytes between two ranges that travel together all the same */
	PLACES_PER_SIZE = 16,  /* arrays whose address was seen once do not pile up */
};

struct staged {
	const void *host; /* where it came from last: a hint where to look, never trusted */
	size_t room;
	size_t bytes, stride; /* what is known: of each row; stride 0: no table */
	int rows;
	char *pinned, *device;
	size_t changed_first, changed_end; /* of pinned: not on its way yet */
	bool near;                         /* a part of the memory for small arrays */
	bool awaited;                      /* launches that are not made yet read it */
	size_t compared;                   /* bytes of each row, in this batch */
	int compared_rows;
	uint64_t used, version;
};

int staging_init(struct staging *s, cudaStream_t stream, struct error *e)
{
	*s = (struct staging){.stream = stream};
	TRY(cuda_status(cudaEventCreateWithFlags(&s->sent, cudaEventDisableTiming), "staging", e));
	TRY(cuda_status(cudaMallocHost((void **)&s->near_host, NEAR_BYTES), "pinned memory", e));
	return cuda_status(cudaMalloc((void **)&s->near_device, NEAR_BYTES), "staging", e);
}

void staging_free(struct staging *s)
{
	for (int i = 0; i < s->n_staged; i++) {
		if (s->first[i].near)
			continue;
		cudaFreeHost(s->first[i].pinned);
		cudaFree(s->first[i].device);
	}
	free(s->first);
	cudaFreeHost(s->near_host);
	cudaFree(s->near_device);
	if (s->sent)
		cudaEventDestroy(s->sent);
	*s = (struct staging){0};
}

static size_t room_for(size_t bytes)
{
	size_t room = LEAST;
	while (room < bytes)
		room *= 2;
	return room;
}

/* ---- places ---- */

static int place_memory(struct staging *s, struct staged *p, struct error *e)
{
	if (p->room <= NEAR_MOST && s->near_used + p->room <= NEAR_BYTES) {
		p->near = true;
		p->pinned = s->near_host + s->near_used;
		p->device = s->near_device + s->near_used;
		s->near_used += p->room;
		return 0;
	}
	TRY(cuda_status(cudaMallocHost((void **)&p->pinned, p->room), "pinned memory", e));
	int status = cuda_status(cudaMalloc((void **)&p->device, p->room), "staging", e);
	if (status < 0)
		cudaFreeHost(p->pinned);
	return status;
}

static int place_new(struct staging *s, size_t room, struct staged **out, struct error *e)
{
	if (s->n_staged == s->capacity) {
		int capacity = s->capacity ? 2 * s->capacity : 32;
		struct staged *grown = realloc(s->first, (size_t)capacity * sizeof *grown);
		if (!grown)
			return error_set(e, ERR_MEMORY, "no memory for %d staged arrays", capacity);
		s->first = grown;
		s->capacity = capacity;
	}
	struct staged p = {.room = room};
	TRY(place_memory(s, &p, e));
	s->first[s->n_staged] = p;
	*out = &s->first[s->n_staged++];
	return 0;
}

/* The array's own place, else a new one, else the one of its size that was not used for longest. */
static int place_find(struct staging *s, const void *host, size_t bytes, struct staged **out, struct error *e)
{
	struct staged *oldest = NULL;
	size_t room = room_for(bytes);
	int alike = 0;

	for (int i = 0; i < s->n_staged; i++) {
		struct staged *p = &s->first[i];
		if (p->host == host && p->room >= bytes) {
			*out = p;
			return 0;
		}
		if (p->room != room)
			continue;
		alike++;
		if (!oldest || p->used < oldest->used)
			oldest = p;
	}
	if (alike < PLACES_PER_SIZE)
		return place_new(s, room, out, e);
	*out = oldest;
	return 0;
}

/* ---- contents ---- */

struct range {
	size_t first, end;
};

/* The range of an array that the device does not have; false: it has all of it. */
static bool array_changed(const struct staged *p, const struct staging_array *a, struct range *out)
{
	const char *host = a->host;
	size_t known = p->stride ? 0 : p->bytes < a->bytes ? p->bytes : a->bytes, low = 0, high = a->bytes;

	if (known == a->bytes && memcmp(p->pinned, host, a->bytes) == 0)
		return false;
	while (low + LEAST <= known && memcmp(p->pinned + low, host + low, LEAST) == 0)
		low += LEAST;
	while (known == a->bytes && high >= low + LEAST &&
		memcmp(p->pinned + high - LEAST, host + high - LEAST, LEAST) == 0)
		high -= LEAST;
	*out = (struct range){low, high};
	return true;
}

/* The same of a table. */
static bool table_changed(const struct staged *p, const struct staging_array *a, struct range *out)
{
	bool known = p->stride == a->stride && p->bytes >= a->bytes && p->rows >= a->rows, any = false;

	for (int row = 0; row < a->rows; row++) {
		size_t at = (size_t)row * a->stride;
		if (known && memcmp(p->pinned + at, (const char *)a->host + at, a->bytes) == 0)
			continue;
		if (!any)
			out->first = at;
		out->end = at + a->bytes;
		any = true;
	}
	return any;
}

/* What was sent last has left pinned memory. */
static int sent_wait(struct staging *s, struct error *e)
{
	if (!s->in_flight)
		return 0;
	TRY(cuda_status(cudaEventSynchronize(s->sent), "staging", e));
	s->in_flight = false;
	return 0;
}

static void range_copy(struct staged *p, const struct staging_array *a, const struct range *r)
{
	size_t step = a->rows > 1 ? a->stride : r->end - r->first;

	for (size_t at = r->first; at < r->end; at += step)
		memcpy(p->pinned + at, (const char *)a->host + at, a->rows > 1 ? a->bytes : step);
}

/* What the place holds from now on; an array leaves what lies behind it as it was. */
static void known_note(struct staged *p, const struct staging_array *a)
{
	size_t stride = a->rows > 1 ? a->stride : 0;

	if (p->stride == stride && p->bytes >= a->bytes && p->rows >= a->rows)
		return;
	p->stride = stride;
	p->bytes = a->bytes;
	p->rows = a->rows;
}

static int place_fill(struct staging *s, struct staged *p, const struct staging_array *a, struct error *e)
{
	struct range r = {0, 0};

	if (!(a->rows > 1 ? table_changed(p, a, &r) : array_changed(p, a, &r)))
		return 0;
	if (p->awaited)
		return STAGING_BUSY;
	TRY(sent_wait(s, e));
	range_copy(p, a, &r);
	known_note(p, a);
	if (p->changed_end == 0 || r.first < p->changed_first)
		p->changed_first = r.first;
	if (r.end > p->changed_end)
		p->changed_end = r.end;
	p->version = ++s->clock;
	return 0;
}

int staging_put(struct staging *s, const struct staging_array *a, const void **device, struct error *e)
{
	struct staged *p = NULL;
	size_t whole = a->rows > 1 ? (size_t)(a->rows - 1) * a->stride + a->bytes : a->bytes;
	bool steady = s->batch && !a->changes;

	TRY(place_find(s, a->host, whole, &p, e));
	bool known = steady && p->host == a->host && p->compared >= a->bytes && p->compared_rows >= a->rows;
	if (!known) {
		int status = place_fill(s, p, a, e);
		if (status != 0)
			return status;
		p->compared = steady ? a->bytes : 0;
		p->compared_rows = a->rows;
	}
	p->host = a->host;
	p->awaited = true;
	p->used = ++s->clock;
	*device = p->device;
	return 0;
}

uint64_t staging_version(const struct staging *s, const void *device)
{
	for (int i = 0; i < s->n_staged; i++)
		if (s->first[i].device == device)
			return s->first[i].version;
	return 0;
}

/* ---- copies ---- */

static int range_send(struct staging *s, char *device, const char *pinned, size_t bytes, struct error *e)
{
	return cuda_status(
		cudaMemcpyAsync(device, pinned, bytes, cudaMemcpyHostToDevice, s->stream), "copy to the device", e);
}

int staging_send(struct staging *s, struct error *e)
{
	const char *from = NULL; /* the range in hand */
	char *to = NULL;
	size_t bytes = 0;
	bool any = false, near = false;

	for (int i = 0; i < s->n_staged; i++) {
		struct staged *p = &s->first[i];
		if (p->changed_end == 0)
			continue;
		const char *first = p->pinned + p->changed_first;
		size_t count = p->changed_end - p->changed_first;
		/* places of small arrays lie in the order in which they were made; between two of them lies what the
		 * device has already */
		if (near && p->near && (size_t)(first - (from + bytes)) <= GAP_MOST) {
			bytes = (size_t)(first - from) + count;
		} else {
			if (bytes > 0)
				TRY(range_send(s, to, from, bytes, e));
			from = first;
			to = p->device + p->changed_first;
			bytes = count;
		}
		near = p->near;
		p->changed_first = p->changed_end = 0;
		any = true;
	}
	if (!any)
		return 0;
	TRY(range_send(s, to, from, bytes, e));
	s->in_flight = true;
	return cuda_status(cudaEventRecord(s->sent, s->stream), "staging", e);
}

void staging_launched(struct staging *s)
{
	for (int i = 0; i < s->n_staged; i++)
		s->first[i].awaited = false;
}

void staging_batch(struct staging *s, bool begins)
{
	s->batch = begins;
	for (int i = 0; i < s->n_staged; i++)
		s->first[i].compared = 0;
}

/* Any bytes as a safetensors file: refused with a message, or tensors that lie inside it and can all be read. */
#include <stdlib.h>
#include <string.h>

#include "engine/model/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
	if (!condition)
		abort();
}

static void read_tensor(const struct safetensors *s, const struct tensor *t, const uint8_t *data, size_t size)
{
	float block[64];
	require(t->data >= data && t->size <= size && t->data - data <= (ptrdiff_t)(size - t->size));
	require(t->size == t->count * tensor_type_size(t->type));
	require(safetensors_find(s, t->name) == t);
	for (uint64_t first = 0; first < t->count; first += 64) {
		uint64_t n = t->count - first < 64 ? t->count - first : 64;
		require((tensor_to_float(t, first, n, block) < 0) == (t->type >= TENSOR_I64));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct error e = {0};
	struct safetensors *s;
	int status = safetensors_parse(data, size, "input", &s, &e);
	if (status < 0) {
		require(s == NULL && e.code == status && strncmp(e.message, "input: ", 7) == 0);
		return 0;
	}
	for (int i = 0; i < safetensors_count(s); i++)
		read_tensor(s, safetensors_at(s, i), data, size);
	safetensors_close(s);
	return 0;
}

#include "engine/backend.h"

const char *weight_format_name(enum weight_format format)
{
	static const char *const names[] = {"f32", "bf16", "e4m3", "int4"};
	return names[format];
}

const char *kv_format_name(enum kv_format format)
{
	static const char *const names[] = {"f32", "bf16", "fp8"};
	return names[format];
}

size_t kv_format_size(enum kv_format format)
{
	static const size_t sizes[] = {4, 2, 1};
	return sizes[format];
}

int linear_parts(int columns, int heads, int unit)
{
	for (int parts = 8; parts > 1; parts /= 2)
		if (columns % (parts * unit) == 0 && heads % parts == 0)
			return parts;
	return 1;
}

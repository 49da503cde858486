#include "engine/text/tokenizer_spec.h"

#include <stdlib.h>
#include <string.h>

const struct spec_added *spec_find_added(const struct tokenizer_spec *spec, struct str content)
{
	int32_t place = vocab_find(&spec->places, content);
	return place >= 0 ? &spec->added[place] : NULL;
}

int spec_add(struct tokenizer_spec *spec, struct spec_added added, struct error *e)
{
	if (added.content.length == 0)
		return 0;
	int32_t place = vocab_find(&spec->places, added.content);
	if (place >= 0) {
		added.special = added.special || spec->added[place].special;
		spec->added[place] = added;
		return 0;
	}
	if (spec->added_count >= VOCAB_ID_END)
		return error_set(e, ERR_INPUT, "more than %d added tokens", VOCAB_ID_END);
	if (spec->added_count == spec->added_capacity) {
		size_t capacity = spec->added_capacity ? spec->added_capacity * 2 : 16;
		struct spec_added *grown = realloc(spec->added, capacity * sizeof(*grown));
		if (!grown)
			return error_set(e, ERR_MEMORY, "out of memory: %zu added tokens", capacity);
		spec->added = grown;
		spec->added_capacity = capacity;
	}
	TRY(vocab_add(&spec->places, added.content, (int32_t)spec->added_count, 0, e));
	spec->added[spec->added_count++] = added;
	return 0;
}

void tokenizer_spec_free(struct tokenizer_spec *spec)
{
	free(spec->tokens);
	free(spec->merges);
	free(spec->added);
	vocab_free(&spec->places);
	memset(spec, 0, sizeof(*spec));
}

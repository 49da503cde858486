#include "evals/postprocess.h"

#include <stdint.h>

#include "engine/base/utf8.h"

static struct str lstrip(struct str s)
{
	struct str stripped = utf8_strip(s);
	if (stripped.length == 0)
		return (struct str){0};
	return (struct str){stripped.data, s.length - (size_t)(stripped.data - s.data)};
}

/* Drops everything up to the end of the last mark; false when there is none. */
static bool cut_reasoning(struct str *text, struct str mark)
{
	size_t found = str_find(*text, mark, 0);
	if (found == SIZE_MAX)
		return false;
	while (found != SIZE_MAX) {
		*text = (struct str){text->data + found + mark.length, text->length - found - mark.length};
		found = str_find(*text, mark, 0);
	}
	return true;
}

bool answer_postprocess(struct str text, const struct str *until, int n_until, struct str think_end, struct str *out)
{
	bool ended = true;
	if (think_end.length > 0) {
		ended = cut_reasoning(&text, think_end);
		text = lstrip(text);
	}
	for (int i = 0; i < n_until; i++) {
		size_t found = until[i].length ? str_find(text, until[i], 0) : SIZE_MAX;
		if (found != SIZE_MAX)
			text.length = found;
	}
	*out = text;
	return ended;
}

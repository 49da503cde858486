#include "evals/shard.h"

#include <stdlib.h>

enum { SHARDS_MAX = 4096 };

/* Digits up to end; 0 for anything that is no number from 1 to SHARDS_MAX. */
static int read_number(const char *text, char **end)
{
	if (*text < '0' || *text > '9')
		return 0;
	long value = strtol(text, end, 10);
	return value <= SHARDS_MAX ? (int)value : 0;
}

int shard_parse(const char *text, struct shard *out, struct error *e)
{
	char *end = NULL;
	*out = (struct shard){0};
	if (!text)
		return 0;
	int index = read_number(text, &end);
	int count = index > 0 && *end == '/' ? read_number(end + 1, &end) : 0;
	if (count < index || count < 1 || *end)
		return error_set(e, ERR_USAGE,
			"--shard '%.100s': expected I/N with 1 <= I <= N <= %d, such as 2/8 for the second of eight "
			"parts",
			text, SHARDS_MAX);
	*out = (struct shard){index, count};
	return 0;
}

bool shard_holds(struct shard shard, int64_t doc_id)
{
	return shard.count == 0 || doc_id % shard.count == shard.index - 1;
}

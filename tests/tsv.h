/* Golden tables: lines of fields between tabs; lines that begin with '#' are comments. */
#ifndef ASSAY_TESTS_TSV_H
#define ASSAY_TESTS_TSV_H

#include <stdlib.h>

#include "engine/base/str.h"
#include "tests/support.h"

enum { TSV_FIELDS = 16 };

struct tsv {
	struct buf content;
	size_t position;
	size_t line; /* 1-based, of the fields */
	struct str fields[TSV_FIELDS];
	size_t count;
};

/* A table of tests/golden/. */
static inline struct tsv tsv_open(const char *name)
{
	return (struct tsv){.content = test_read_file(golden_path(name))};
}

static inline void tsv_split(struct tsv *t, struct str line)
{
	t->count = 0;
	for (size_t at = 0; at <= line.length && t->count < TSV_FIELDS;) {
		size_t tab = str_find(line, (struct str){"\t", 1}, at);
		size_t end = tab == SIZE_MAX ? line.length : tab;
		t->fields[t->count++] = (struct str){line.data + at, end - at};
		at = end + 1;
	}
}

/* The next line's fields; false at the end, where the table is freed. */
static inline bool tsv_next(struct tsv *t)
{
	struct str all = buf_str(&t->content);
	while (t->position < all.length) {
		size_t end = str_find(all, (struct str){"\n", 1}, t->position);
		ck_assert_msg(end != SIZE_MAX, "a golden table ends within a line");
		struct str line = {all.data + t->position, end - t->position};
		t->position = end + 1;
		t->line++;
		if (str_starts_with(line, (struct str){"#", 1}))
			continue;
		tsv_split(t, line);
		return true;
	}
	buf_free(&t->content);
	return false;
}

/* A field as a C string that the caller frees. */
static inline char *tsv_text(const struct tsv *t, size_t field)
{
	ck_assert_msg(field < t->count, "line %zu has %zu fields, expected more", t->line, t->count);
	char *text = strndup(t->fields[field].data, t->fields[field].length);
	ck_assert_ptr_nonnull(text);
	return text;
}

/* A field as an unsigned number. */
static inline uint64_t tsv_u64(const struct tsv *t, size_t field, int base)
{
	char *text = tsv_text(t, field);
	char *end;
	uint64_t value = strtoull(text, &end, base);
	ck_assert_msg(*text && *end == '\0', "line %zu: '%s' is no number", t->line, text);
	free(text);
	return value;
}

#endif

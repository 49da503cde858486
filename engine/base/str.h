/* A borrowed run of bytes: text carries its length, NUL is a byte like any other. */
#ifndef ASSAY_ENGINE_BASE_STR_H
#define ASSAY_ENGINE_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct str {
	const char *data; /* never owned; may be NULL when length is 0 */
	size_t length;
};

static inline struct str str_of(const char *text)
{
	struct str s = {text, text ? strlen(text) : 0};
	return s;
}

static inline bool str_equal(struct str a, struct str b)
{
	return a.length == b.length && (a.length == 0 || memcmp(a.data, b.data, a.length) == 0);
}

static inline bool str_is(struct str a, const char *text)
{
	return str_equal(a, str_of(text));
}

static inline bool str_starts_with(struct str a, struct str prefix)
{
	return a.length >= prefix.length && (prefix.length == 0 || memcmp(a.data, prefix.data, prefix.length) == 0);
}

/* First occurrence of needle at or after from, or SIZE_MAX ((size_t)-1). An empty needle is found at from. */
size_t str_find(struct str haystack, struct str needle, size_t from);

/* For printf's "%.*s": precision and pointer. */
#define STR_ARG(s) (int)((s).length > 200 ? 200 : (s).length), ((s).data ? (s).data : "")

#endif

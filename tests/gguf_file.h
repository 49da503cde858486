/* GGUF files built by tests. */
#ifndef ASSAY_TESTS_GGUF_FILE_H
#define ASSAY_TESTS_GGUF_FILE_H

#include <string.h>

#include "engine/model/gguf.h"
#include "tests/support.h"

/* What a file holds so far; starts zeroed. */
struct gguf_file {
	struct buf keys, tensors, data;
	uint64_t n_keys, n_tensors;
};

/* Numbers of tensor types. */
enum { FILE_F32 = 0, FILE_F16 = 1, FILE_Q8_0 = 8, FILE_BF16 = 30 };

static inline void put_u32(struct buf *b, uint32_t value)
{
	buf_append(b, &value, sizeof(value));
}

static inline void put_u64(struct buf *b, uint64_t value)
{
	buf_append(b, &value, sizeof(value));
}

static inline void put_text(struct buf *b, struct str text)
{
	put_u64(b, text.length);
	buf_append_str(b, text);
}

static inline void file_key(struct gguf_file *f, const char *key, enum gguf_type type)
{
	put_text(&f->keys, str_of(key));
	put_u32(&f->keys, type);
	f->n_keys++;
}

static inline void file_text(struct gguf_file *f, const char *key, const char *text)
{
	file_key(f, key, GGUF_STRING);
	put_text(&f->keys, str_of(text));
}

static inline void file_u32(struct gguf_file *f, const char *key, uint32_t value)
{
	file_key(f, key, GGUF_U32);
	put_u32(&f->keys, value);
}

static inline void file_f32(struct gguf_file *f, const char *key, float value)
{
	file_key(f, key, GGUF_F32);
	buf_append(&f->keys, &value, sizeof(value));
}

static inline void file_bool(struct gguf_file *f, const char *key, bool value)
{
	file_key(f, key, GGUF_BOOL);
	buf_append_char(&f->keys, value);
}

static inline void file_array(struct gguf_file *f, const char *key, enum gguf_type item, uint64_t count)
{
	file_key(f, key, GGUF_ARRAY);
	put_u32(&f->keys, item);
	put_u64(&f->keys, count);
}

/* rows 0: a vector. The data begin at the next multiple of 32. */
static inline void file_tensor(struct gguf_file *f, const char *name, uint32_t type, uint64_t rows, uint64_t columns,
	const void *data, size_t size)
{
	while (f->data.length % 32 != 0)
		buf_append_char(&f->data, 0);
	put_text(&f->tensors, str_of(name));
	put_u32(&f->tensors, rows ? 2 : 1);
	put_u64(&f->tensors, columns);
	if (rows)
		put_u64(&f->tensors, rows);
	put_u32(&f->tensors, type);
	put_u64(&f->tensors, f->data.length);
	buf_append(&f->data, data, size);
	f->n_tensors++;
}

/* The whole file; *f is used up. */
static inline struct buf file_finish(struct gguf_file *f)
{
	struct buf out = {0};
	buf_append_text(&out, "GGUF");
	put_u32(&out, 3);
	put_u64(&out, f->n_tensors);
	put_u64(&out, f->n_keys);
	buf_append_str(&out, buf_str(&f->keys));
	buf_append_str(&out, buf_str(&f->tensors));
	while (f->n_tensors && out.length % 32 != 0)
		buf_append_char(&out, 0);
	buf_append_str(&out, buf_str(&f->data));
	buf_free(&f->keys);
	buf_free(&f->tensors);
	buf_free(&f->data);
	ck_assert(!out.failed);
	return out;
}

#endif

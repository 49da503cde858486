#include "engine/text/jinja_text.h"

#include "engine/base/utf8.h"

/* ---- Stripping ---- */

static bool strips(int32_t c, const struct str *chars)
{
	if (!chars)
		return utf8_is_python_space(c);
	for (size_t position = 0; position < chars->length;)
		if (utf8_next(*chars, &position) == c)
			return true;
	return false;
}

/* Where the last character of s begins. PRECOND: s is not empty. */
static size_t last_character(struct str s)
{
	size_t start = s.length - 1;
	while (start > 0 && s.length - start < 4 && ((unsigned char)s.data[start] & 0xc0) == 0x80)
		start--;
	return start;
}

struct str jinja_strip_text(struct str s, const struct str *chars, int ends)
{
	while ((ends & JINJA_STRIP_LEFT) && s.length > 0) {
		size_t next = 0;
		if (!strips(utf8_next(s, &next), chars))
			break;
		s = (struct str){s.data + next, s.length - next};
	}
	while ((ends & JINJA_STRIP_RIGHT) && s.length > 0) {
		size_t start = last_character(s), next = start;
		if (!strips(utf8_next(s, &next), chars))
			break;
		s.length = start;
	}
	return s;
}

/* ---- Lines ---- */

static bool ends_line(int32_t c)
{
	return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

int jinja_split_lines(struct jinja_run *r, struct str s, bool keep_ends, struct jinja_list *out)
{
	TRY(jinja_work_text(r, s.length));
	size_t start = 0;
	for (size_t position = 0; position < s.length;) {
		size_t here = position;
		int32_t c = utf8_next(s, &position);
		if (!ends_line(c))
			continue;
		if (c == '\r' && position < s.length && s.data[position] == '\n')
			position++;
		size_t end = keep_ends ? position : here;
		TRY(jinja_list_add(r, out, jinja_text((struct str){s.data + start, end - start})));
		start = position;
	}
	if (start == s.length)
		return 0;
	return jinja_list_add(r, out, jinja_text((struct str){s.data + start, s.length - start}));
}

/* ---- New texts ---- */

/* An empty `old` stands before each character and at the end. */
static int insert_everywhere(struct jinja_run *r, struct str s, struct str new, int64_t count, struct buf *out)
{
	size_t position = 0;
	for (; count != 0; count--) {
		size_t start = position;
		TRY(jinja_append(r, out, new));
		if (position >= s.length)
			return 0;
		utf8_next(s, &position);
		TRY(jinja_append(r, out, (struct str){s.data + start, position - start}));
		TRY(jinja_work(r, 1));
	}
	return position < s.length ? jinja_append(r, out, (struct str){s.data + position, s.length - position}) : 0;
}

static int replace_in(struct jinja_run *r, struct str s, struct str old, struct str new, int64_t count, struct buf *out)
{
	size_t start = 0;
	if (old.length == 0)
		return insert_everywhere(r, s, new, count, out);
	for (; count != 0; count--) {
		size_t found = str_find(s, old, start);
		if (found == SIZE_MAX)
			break;
		TRY(jinja_work(r, 1));
		TRY(jinja_append(r, out, (struct str){s.data + start, found - start}));
		TRY(jinja_append(r, out, new));
		start = found + old.length;
	}
	return s.length > start ? jinja_append(r, out, (struct str){s.data + start, s.length - start}) : 0;
}

int jinja_replace_text(
	struct jinja_run *r, struct str s, struct str old, struct str new, int64_t count, struct jinja_value *out)
{
	struct buf text = {0};
	TRY(jinja_work_bytes(r, s.length));
	int status = replace_in(r, s, old, new, count, &text);
	return jinja_buf_keep(r, status, &text, out);
}

int jinja_join(struct jinja_run *r, struct str between, const struct jinja_list *items, struct jinja_value *out)
{
	struct buf text = {0};
	int status = 0;
	for (size_t i = 0; i < items->count && status == 0; i++) {
		if (i > 0)
			status = jinja_append(r, &text, between);
		if (status == 0)
			status = jinja_print(r, &items->items[i], &text);
	}
	return jinja_buf_keep(r, status, &text, out);
}

static int fill_append(struct jinja_run *r, int64_t count, int32_t fill, struct buf *out)
{
	enum { BLOCK = 64 };
	char bytes[BLOCK * 4];
	size_t length = utf8_encode(fill, bytes);
	for (size_t i = 1; i < BLOCK; i++)
		memcpy(bytes + i * length, bytes, length);
	for (; count > 0; count -= BLOCK)
		TRY(jinja_append(r, out, (struct str){bytes, length * (size_t)(count < BLOCK ? count : BLOCK)}));
	return 0;
}

int jinja_pad(struct jinja_run *r, struct str s, int64_t left, int64_t right, int32_t fill, struct jinja_value *out)
{
	struct buf text = {0};
	int status = fill_append(r, left, fill, &text);
	if (status == 0)
		status = jinja_append(r, &text, s);
	if (status == 0)
		status = fill_append(r, right, fill, &text);
	return jinja_buf_keep(r, status, &text, out);
}

int jinja_center(struct jinja_run *r, struct str s, int64_t width, int32_t fill, struct jinja_value *out)
{
	int64_t length = (int64_t)utf8_count(s), both = width > length ? width - length : 0;
	/* where both sides cannot be equal, Python's choice depends on both numbers */
	int64_t left = both / 2 + (both & width & 1);
	return jinja_pad(r, s, left, both - left, fill, out);
}

int jinja_change_case(
	struct jinja_run *r, void (*change)(struct str, struct buf *), struct str s, struct jinja_value *out)
{
	struct buf text = {0};
	TRY(jinja_work(r, s.length));
	change(s, &text);
	return jinja_buf_keep(r, jinja_append_text(r, &text, ""), &text, out);
}

#include "reports/word_diff.h"

#include <stdint.h>
#include <stdlib.h>

enum { MAX_EDITS = 500, ROW = 2 * MAX_EDITS + 1 };

struct words {
	struct str *items;
	size_t n;
};

static bool is_space(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static int split(struct str text, struct words *out, struct error *e)
{
	out->n = 0;
	/* a word has a byte at least */
	out->items = mem_calloc(text.length, sizeof(*out->items), e);
	if (!out->items)
		return ERR_MEMORY;
	for (size_t at = 0, end; at < text.length; at = end) {
		bool space = is_space(text.data[at]);
		for (end = at + 1; end < text.length && is_space(text.data[end]) == space;)
			end++;
		out->items[out->n++] = (struct str){text.data + at, end - at};
	}
	return 0;
}

/* Adds a word behind the last run, or to it. */
static void add(struct word_diff *d, enum word_change change, struct str word)
{
	struct word_run *last = d->n ? &d->runs[d->n - 1] : NULL;
	if (last && last->change == change)
		last->text.length += word.length;
	else
		d->runs[d->n++] = (struct word_run){change, word};
}

/* ---- Myers: the furthest x on each diagonal after d edits ---- */

struct search {
	const struct str *a, *b;
	int64_t n, m;
	int32_t *rows; /* [MAX_EDITS + 1, ROW], diagonal k at column k + MAX_EDITS */
};

static bool step_down(const int32_t *row, int64_t k, int64_t d)
{
	return k == -d || (k != d && row[k - 1 + MAX_EDITS] < row[k + 1 + MAX_EDITS]);
}

/* The number of edits, or -1 for more than MAX_EDITS. Row d holds what stood before its edit was made. */
static int64_t shortest_edit(struct search *s)
{
	int32_t v[ROW + 2] = {0};
	for (int64_t d = 0; d <= MAX_EDITS; d++) {
		memcpy(s->rows + d * ROW, v, ROW * sizeof(*v));
		for (int64_t k = -d; k <= d; k += 2) {
			int64_t x = step_down(v, k, d) ? v[k + 1 + MAX_EDITS] : v[k - 1 + MAX_EDITS] + 1;
			while (x < s->n && x - k < s->m && x - k >= 0 && str_equal(s->a[x], s->b[x - k]))
				x++;
			v[k + MAX_EDITS] = (int32_t)x;
			if (x >= s->n && x - k >= s->m)
				return d;
		}
	}
	return -1;
}

/* Marks, walking back, which words of a are removed and which of b are added. */
static void trace(const struct search *s, int64_t edits, bool *removed, bool *added)
{
	int64_t x = s->n, y = s->m;
	for (int64_t d = edits; d > 0; d--) {
		const int32_t *row = s->rows + d * ROW;
		int64_t k = x - y;
		bool down = step_down(row, k, d);
		int64_t before = down ? k + 1 : k - 1;
		x = row[before + MAX_EDITS];
		y = x - before;
		if (down)
			added[y] = true;
		else
			removed[x] = true;
	}
}

/* Words that changed, in groups: all that a group removes stands before all that it adds. */
static void emit_changes(struct word_diff *d, struct str const *a, size_t n, const bool *removed, struct str const *b,
	size_t m, const bool *added)
{
	size_t x = 0, y = 0;
	while (x < n || y < m) {
		while (x < n && removed[x])
			add(d, WORD_REMOVED, a[x++]);
		while (y < m && added[y])
			add(d, WORD_ADDED, b[y++]);
		while (x < n && y < m && !removed[x] && !added[y]) {
			add(d, WORD_SAME, a[x++]);
			y++;
		}
	}
}

/* The middle, where the texts differ. */
static int compare_middle(
	struct word_diff *d, struct str const *a, size_t n, struct str const *b, size_t m, struct error *e)
{
	struct search s = {.a = a, .b = b, .n = (int64_t)n, .m = (int64_t)m};
	bool *removed = mem_calloc(n + 1, sizeof(bool), e), *added = mem_calloc(m + 1, sizeof(bool), e);
	s.rows = mem_calloc((size_t)(MAX_EDITS + 1) * ROW, sizeof(*s.rows), e);
	int status = removed && added && s.rows ? 0 : ERR_MEMORY;
	if (status == 0) {
		int64_t edits = n < INT32_MAX && m < INT32_MAX ? shortest_edit(&s) : -1;
		if (edits >= 0) {
			trace(&s, edits, removed, added);
		} else {
			memset(removed, true, n * sizeof(bool));
			memset(added, true, m * sizeof(bool));
		}
		emit_changes(d, a, n, removed, b, m, added);
	}
	free(s.rows);
	free(removed);
	free(added);
	return status;
}

int word_diff_make(struct str old_text, struct str new_text, struct word_diff *out, struct error *e)
{
	struct words a = {0}, b = {0};
	size_t head = 0, tail = 0;
	*out = (struct word_diff){0};
	int status = split(old_text, &a, e);
	if (status == 0)
		status = split(new_text, &b, e);
	if (status == 0) {
		out->runs = mem_calloc(a.n + b.n, sizeof(*out->runs), e);
		status = out->runs ? 0 : ERR_MEMORY;
	}
	if (status == 0) {
		while (head < a.n && head < b.n && str_equal(a.items[head], b.items[head]))
			add(out, WORD_SAME, a.items[head++]);
		while (tail < a.n - head && tail < b.n - head &&
			str_equal(a.items[a.n - 1 - tail], b.items[b.n - 1 - tail]))
			tail++;
		status = compare_middle(out, a.items + head, a.n - head - tail, b.items + head, b.n - head - tail, e);
		for (size_t i = a.n - tail; i < a.n && status == 0; i++)
			add(out, WORD_SAME, a.items[i]);
	}
	free(a.items);
	free(b.items);
	return status;
}

void word_diff_free(struct word_diff *d)
{
	free(d->runs);
	*d = (struct word_diff){0};
}

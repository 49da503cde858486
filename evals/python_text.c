#include "evals/python_text.h"

#include <stdint.h>

#include <utf8proc.h>

#include "engine/base/utf8.h"

enum {
	CAPITAL_I_WITH_DOT = 0x130,
	COMBINING_DOT_ABOVE = 0x307,
	CAPITAL_SIGMA = 0x3a3,
	SMALL_SIGMA = 0x3c3,
	FINAL_SIGMA = 0x3c2,
};

/* Letters by other categories than Lu, Ll, Lt that Unicode still calls cased (Other_Lowercase, Other_Uppercase). */
static const struct {
	int32_t first, last;
} other_cased[] = {{0xaa, 0xaa}, {0xba, 0xba}, {0x2160, 0x217f}, {0x24b6, 0x24e9}, {0x1f130, 0x1f149},
	{0x1f150, 0x1f169}, {0x1f170, 0x1f189}};

/* Word_Break MidLetter, MidNumLet and Single_Quote: the marks inside a word that casing looks past. */
static const int32_t word_marks[] = {'\'', '.', ':', 0xb7, 0x387, 0x55f, 0x5f4, 0x2018, 0x2019, 0x2024, 0x2027, 0xfe13,
	0xfe52, 0xfe55, 0xff07, 0xff0e, 0xff1a};

static bool is_cased(int32_t c)
{
	utf8proc_category_t category = utf8proc_category(c);
	if (category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LT)
		return true;
	for (size_t i = 0; i < sizeof(other_cased) / sizeof(other_cased[0]); i++)
		if (c >= other_cased[i].first && c <= other_cased[i].last)
			return true;
	return false;
}

static bool is_case_ignorable(int32_t c)
{
	switch (utf8proc_category(c)) {
	case UTF8PROC_CATEGORY_MN:
	case UTF8PROC_CATEGORY_ME:
	case UTF8PROC_CATEGORY_CF:
	case UTF8PROC_CATEGORY_LM:
	case UTF8PROC_CATEGORY_SK:
		return true;
	default:
		break;
	}
	for (size_t i = 0; i < sizeof(word_marks) / sizeof(word_marks[0]); i++)
		if (c == word_marks[i])
			return true;
	return false;
}

/* The next character at or after position that casing does not look past is a cased one. */
static bool cased_follows(struct str text, size_t position)
{
	while (position < text.length) {
		int32_t c = utf8_next(text, &position);
		if (c >= 0 && is_case_ignorable(c))
			continue;
		return c >= 0 && is_cased(c);
	}
	return false;
}

void python_lower(struct str text, struct buf *out)
{
	bool after_cased = false; /* the last character that casing does not look past was a cased one */
	size_t position = 0;
	while (position < text.length) {
		int32_t c = utf8_next(text, &position);
		if (c < 0) {
			utf8_append(out, 0xfffd);
			after_cased = false;
			continue;
		}
		if (c == CAPITAL_SIGMA) {
			utf8_append(out, after_cased && !cased_follows(text, position) ? FINAL_SIGMA : SMALL_SIGMA);
		} else if (c == CAPITAL_I_WITH_DOT) {
			utf8_append(out, 'i');
			utf8_append(out, COMBINING_DOT_ABOVE);
		} else {
			utf8_append(out, utf8proc_tolower(c));
		}
		if (!is_case_ignorable(c))
			after_cased = is_cased(c);
	}
}

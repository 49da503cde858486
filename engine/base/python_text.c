#include "engine/base/python_text.h"

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

/* The small form of the character at *position, which moves behind it. after_cased: the last character that casing
 * does not look past was a cased one. */
static void append_lower(struct str text, size_t *position, bool after_cased, struct buf *out)
{
	int32_t c = utf8_next(text, position);
	if (c == CAPITAL_SIGMA) {
		utf8_append(out, after_cased && !cased_follows(text, *position) ? FINAL_SIGMA : SMALL_SIGMA);
	} else if (c == CAPITAL_I_WITH_DOT) {
		utf8_append(out, 'i');
		utf8_append(out, COMBINING_DOT_ABOVE);
	} else {
		utf8_append(out, c < 0 ? 0xfffd : utf8proc_tolower(c));
	}
}

/* The text from start on; what stands before it decides the form of a sigma, too. */
static void lower_from(struct str text, size_t start, struct buf *out)
{
	bool after_cased = false;
	for (size_t position = 0; position < text.length;) {
		size_t here = position;
		int32_t c = utf8_next(text, &position);
		if (here >= start)
			append_lower(text, &here, after_cased, out);
		if (c < 0 || !is_case_ignorable(c))
			after_cased = c >= 0 && is_cased(c);
	}
}

/* The one character that begins there, as it stands in the text. */
static void lower_one(struct str text, size_t start, struct buf *out)
{
	bool after_cased = false;
	size_t position = start;
	while (position > 0) {
		size_t before = position - 1;
		while (before > 0 && ((unsigned char)text.data[before] & 0xc0) == 0x80)
			before--;
		size_t next = before;
		int32_t c = utf8_next(text, &next);
		position = before;
		if (c >= 0 && is_case_ignorable(c))
			continue;
		after_cased = c >= 0 && is_cased(c);
		break;
	}
	append_lower(text, &start, after_cased, out);
}

void python_lower(struct str text, struct buf *out)
{
	lower_from(text, 0, out);
}

/* ---- Capitals ---- */

/* Characters whose capital, alone or at the beginning of a word, is more than one character (Unicode's
 * SpecialCasing). */
static const struct {
	int32_t small, upper[3], title[3];
} long_capitals[] = {
	{0xdf, {0x53, 0x53, 0}, {0x53, 0x73, 0}},
	{0x149, {0x2bc, 0x4e, 0}, {0x2bc, 0x4e, 0}},
	{0x1f0, {0x4a, 0x30c, 0}, {0x4a, 0x30c, 0}},
	{0x390, {0x399, 0x308, 0x301}, {0x399, 0x308, 0x301}},
	{0x3b0, {0x3a5, 0x308, 0x301}, {0x3a5, 0x308, 0x301}},
	{0x587, {0x535, 0x552, 0}, {0x535, 0x582, 0}},
	{0x1e96, {0x48, 0x331, 0}, {0x48, 0x331, 0}},
	{0x1e97, {0x54, 0x308, 0}, {0x54, 0x308, 0}},
	{0x1e98, {0x57, 0x30a, 0}, {0x57, 0x30a, 0}},
	{0x1e99, {0x59, 0x30a, 0}, {0x59, 0x30a, 0}},
	{0x1e9a, {0x41, 0x2be, 0}, {0x41, 0x2be, 0}},
	{0x1f50, {0x3a5, 0x313, 0}, {0x3a5, 0x313, 0}},
	{0x1f52, {0x3a5, 0x313, 0x300}, {0x3a5, 0x313, 0x300}},
	{0x1f54, {0x3a5, 0x313, 0x301}, {0x3a5, 0x313, 0x301}},
	{0x1f56, {0x3a5, 0x313, 0x342}, {0x3a5, 0x313, 0x342}},
	{0x1f80, {0x1f08, 0x399, 0}, {0x1f88, 0, 0}},
	{0x1f81, {0x1f09, 0x399, 0}, {0x1f89, 0, 0}},
	{0x1f82, {0x1f0a, 0x399, 0}, {0x1f8a, 0, 0}},
	{0x1f83, {0x1f0b, 0x399, 0}, {0x1f8b, 0, 0}},
	{0x1f84, {0x1f0c, 0x399, 0}, {0x1f8c, 0, 0}},
	{0x1f85, {0x1f0d, 0x399, 0}, {0x1f8d, 0, 0}},
	{0x1f86, {0x1f0e, 0x399, 0}, {0x1f8e, 0, 0}},
	{0x1f87, {0x1f0f, 0x399, 0}, {0x1f8f, 0, 0}},
	{0x1f88, {0x1f08, 0x399, 0}, {0x1f88, 0, 0}},
	{0x1f89, {0x1f09, 0x399, 0}, {0x1f89, 0, 0}},
	{0x1f8a, {0x1f0a, 0x399, 0}, {0x1f8a, 0, 0}},
	{0x1f8b, {0x1f0b, 0x399, 0}, {0x1f8b, 0, 0}},
	{0x1f8c, {0x1f0c, 0x399, 0}, {0x1f8c, 0, 0}},
	{0x1f8d, {0x1f0d, 0x399, 0}, {0x1f8d, 0, 0}},
	{0x1f8e, {0x1f0e, 0x399, 0}, {0x1f8e, 0, 0}},
	{0x1f8f, {0x1f0f, 0x399, 0}, {0x1f8f, 0, 0}},
	{0x1f90, {0x1f28, 0x399, 0}, {0x1f98, 0, 0}},
	{0x1f91, {0x1f29, 0x399, 0}, {0x1f99, 0, 0}},
	{0x1f92, {0x1f2a, 0x399, 0}, {0x1f9a, 0, 0}},
	{0x1f93, {0x1f2b, 0x399, 0}, {0x1f9b, 0, 0}},
	{0x1f94, {0x1f2c, 0x399, 0}, {0x1f9c, 0, 0}},
	{0x1f95, {0x1f2d, 0x399, 0}, {0x1f9d, 0, 0}},
	{0x1f96, {0x1f2e, 0x399, 0}, {0x1f9e, 0, 0}},
	{0x1f97, {0x1f2f, 0x399, 0}, {0x1f9f, 0, 0}},
	{0x1f98, {0x1f28, 0x399, 0}, {0x1f98, 0, 0}},
	{0x1f99, {0x1f29, 0x399, 0}, {0x1f99, 0, 0}},
	{0x1f9a, {0x1f2a, 0x399, 0}, {0x1f9a, 0, 0}},
	{0x1f9b, {0x1f2b, 0x399, 0}, {0x1f9b, 0, 0}},
	{0x1f9c, {0x1f2c, 0x399, 0}, {0x1f9c, 0, 0}},
	{0x1f9d, {0x1f2d, 0x399, 0}, {0x1f9d, 0, 0}},
	{0x1f9e, {0x1f2e, 0x399, 0}, {0x1f9e, 0, 0}},
	{0x1f9f, {0x1f2f, 0x399, 0}, {0x1f9f, 0, 0}},
	{0x1fa0, {0x1f68, 0x399, 0}, {0x1fa8, 0, 0}},
	{0x1fa1, {0x1f69, 0x399, 0}, {0x1fa9, 0, 0}},
	{0x1fa2, {0x1f6a, 0x399, 0}, {0x1faa, 0, 0}},
	{0x1fa3, {0x1f6b, 0x399, 0}, {0x1fab, 0, 0}},
	{0x1fa4, {0x1f6c, 0x399, 0}, {0x1fac, 0, 0}},
	{0x1fa5, {0x1f6d, 0x399, 0}, {0x1fad, 0, 0}},
	{0x1fa6, {0x1f6e, 0x399, 0}, {0x1fae, 0, 0}},
	{0x1fa7, {0x1f6f, 0x399, 0}, {0x1faf, 0, 0}},
	{0x1fa8, {0x1f68, 0x399, 0}, {0x1fa8, 0, 0}},
	{0x1fa9, {0x1f69, 0x399, 0}, {0x1fa9, 0, 0}},
	{0x1faa, {0x1f6a, 0x399, 0}, {0x1faa, 0, 0}},
	{0x1fab, {0x1f6b, 0x399, 0}, {0x1fab, 0, 0}},
	{0x1fac, {0x1f6c, 0x399, 0}, {0x1fac, 0, 0}},
	{0x1fad, {0x1f6d, 0x399, 0}, {0x1fad, 0, 0}},
	{0x1fae, {0x1f6e, 0x399, 0}, {0x1fae, 0, 0}},
	{0x1faf, {0x1f6f, 0x399, 0}, {0x1faf, 0, 0}},
	{0x1fb2, {0x1fba, 0x399, 0}, {0x1fba, 0x345, 0}},
	{0x1fb3, {0x391, 0x399, 0}, {0x1fbc, 0, 0}},
	{0x1fb4, {0x386, 0x399, 0}, {0x386, 0x345, 0}},
	{0x1fb6, {0x391, 0x342, 0}, {0x391, 0x342, 0}},
	{0x1fb7, {0x391, 0x342, 0x399}, {0x391, 0x342, 0x345}},
	{0x1fbc, {0x391, 0x399, 0}, {0x1fbc, 0, 0}},
	{0x1fc2, {0x1fca, 0x399, 0}, {0x1fca, 0x345, 0}},
	{0x1fc3, {0x397, 0x399, 0}, {0x1fcc, 0, 0}},
	{0x1fc4, {0x389, 0x399, 0}, {0x389, 0x345, 0}},
	{0x1fc6, {0x397, 0x342, 0}, {0x397, 0x342, 0}},
	{0x1fc7, {0x397, 0x342, 0x399}, {0x397, 0x342, 0x345}},
	{0x1fcc, {0x397, 0x399, 0}, {0x1fcc, 0, 0}},
	{0x1fd2, {0x399, 0x308, 0x300}, {0x399, 0x308, 0x300}},
	{0x1fd3, {0x399, 0x308, 0x301}, {0x399, 0x308, 0x301}},
	{0x1fd6, {0x399, 0x342, 0}, {0x399, 0x342, 0}},
	{0x1fd7, {0x399, 0x308, 0x342}, {0x399, 0x308, 0x342}},
	{0x1fe2, {0x3a5, 0x308, 0x300}, {0x3a5, 0x308, 0x300}},
	{0x1fe3, {0x3a5, 0x308, 0x301}, {0x3a5, 0x308, 0x301}},
	{0x1fe4, {0x3a1, 0x313, 0}, {0x3a1, 0x313, 0}},
	{0x1fe6, {0x3a5, 0x342, 0}, {0x3a5, 0x342, 0}},
	{0x1fe7, {0x3a5, 0x308, 0x342}, {0x3a5, 0x308, 0x342}},
	{0x1ff2, {0x1ffa, 0x399, 0}, {0x1ffa, 0x345, 0}},
	{0x1ff3, {0x3a9, 0x399, 0}, {0x1ffc, 0, 0}},
	{0x1ff4, {0x38f, 0x399, 0}, {0x38f, 0x345, 0}},
	{0x1ff6, {0x3a9, 0x342, 0}, {0x3a9, 0x342, 0}},
	{0x1ff7, {0x3a9, 0x342, 0x399}, {0x3a9, 0x342, 0x345}},
	{0x1ffc, {0x3a9, 0x399, 0}, {0x1ffc, 0, 0}},
	{0xfb00, {0x46, 0x46, 0}, {0x46, 0x66, 0}},
	{0xfb01, {0x46, 0x49, 0}, {0x46, 0x69, 0}},
	{0xfb02, {0x46, 0x4c, 0}, {0x46, 0x6c, 0}},
	{0xfb03, {0x46, 0x46, 0x49}, {0x46, 0x66, 0x69}},
	{0xfb04, {0x46, 0x46, 0x4c}, {0x46, 0x66, 0x6c}},
	{0xfb05, {0x53, 0x54, 0}, {0x53, 0x74, 0}},
	{0xfb06, {0x53, 0x54, 0}, {0x53, 0x74, 0}},
	{0xfb13, {0x544, 0x546, 0}, {0x544, 0x576, 0}},
	{0xfb14, {0x544, 0x535, 0}, {0x544, 0x565, 0}},
	{0xfb15, {0x544, 0x53b, 0}, {0x544, 0x56b, 0}},
	{0xfb16, {0x54e, 0x546, 0}, {0x54e, 0x576, 0}},
	{0xfb17, {0x544, 0x53d, 0}, {0x544, 0x56d, 0}},
};

static void append_capital(int32_t c, bool title, struct buf *out)
{
	bool listed = c >= long_capitals[0].small;
	for (size_t i = 0; listed && i < sizeof(long_capitals) / sizeof(long_capitals[0]); i++) {
		if (long_capitals[i].small != c)
			continue;
		const int32_t *capital = title ? long_capitals[i].title : long_capitals[i].upper;
		for (int j = 0; j < 3 && capital[j]; j++)
			utf8_append(out, capital[j]);
		return;
	}
	utf8_append(out, title ? utf8proc_totitle(c) : utf8proc_toupper(c));
}

void python_upper(struct str text, struct buf *out)
{
	for (size_t position = 0; position < text.length;) {
		int32_t c = utf8_next(text, &position);
		append_capital(c < 0 ? 0xfffd : c, false, out);
	}
}

void python_capitalize(struct str text, struct buf *out)
{
	size_t position = 0;
	if (text.length == 0)
		return;
	int32_t first = utf8_next(text, &position);
	append_capital(first < 0 ? 0xfffd : first, true, out);
	lower_from(text, position, out);
}

void python_title(struct str text, struct buf *out)
{
	bool inside = false; /* a cased character came before: the next one is lower case */
	for (size_t position = 0; position < text.length;) {
		size_t start = position;
		int32_t c = utf8_next(text, &position);
		if (inside)
			lower_one(text, start, out);
		else
			append_capital(c < 0 ? 0xfffd : c, true, out);
		inside = c >= 0 && is_cased(c);
	}
}

enum python_case python_case_of(int32_t c)
{
	switch (utf8proc_category(c)) {
	case UTF8PROC_CATEGORY_LU:
		return PYTHON_UPPER;
	case UTF8PROC_CATEGORY_LL:
		return PYTHON_LOWER;
	case UTF8PROC_CATEGORY_LT:
		return PYTHON_TITLE;
	default:
		break;
	}
	if (!is_cased(c))
		return PYTHON_UNCASED;
	/* the two ordinal indicators are small letters without a capital */
	return utf8proc_toupper(c) != c || c == 0xaa || c == 0xba ? PYTHON_LOWER : PYTHON_UPPER;
}

void python_swapcase(struct str text, struct buf *out)
{
	for (size_t position = 0; position < text.length;) {
		size_t start = position;
		int32_t c = utf8_next(text, &position);
		enum python_case is = c < 0 ? PYTHON_UNCASED : python_case_of(c);
		if (is == PYTHON_UPPER)
			lower_one(text, start, out);
		else if (is == PYTHON_LOWER)
			append_capital(c, false, out);
		else
			utf8_append(out, c < 0 ? 0xfffd : c);
	}
}

#include "engine/text/unicode.h"

#include <stddef.h>

#include <utf8proc.h>

bool unicode_is_white_space(int32_t code_point)
{
	if (code_point < 0x80)
		return code_point == ' ' || (code_point >= '\t' && code_point <= '\r');
	switch (code_point) {
	case 0x85:
	case 0xa0:
	case 0x1680:
	case 0x2028:
	case 0x2029:
	case 0x202f:
	case 0x205f:
	case 0x3000:
		return true;
	default:
		return code_point >= 0x2000 && code_point <= 0x200a;
	}
}

/* Alphabetic characters whose category is Other_Symbol: circled and squared Latin letters. */
static bool is_alphabetic_symbol(int32_t c)
{
	return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) ||
		(c >= 0x1f170 && c <= 0x1f189);
}

bool unicode_is_word(int32_t code_point)
{
	switch (utf8proc_category(code_point)) {
	case UTF8PROC_CATEGORY_LU:
	case UTF8PROC_CATEGORY_LL:
	case UTF8PROC_CATEGORY_LT:
	case UTF8PROC_CATEGORY_LM:
	case UTF8PROC_CATEGORY_LO:
	case UTF8PROC_CATEGORY_MN:
	case UTF8PROC_CATEGORY_MC:
	case UTF8PROC_CATEGORY_ME:
	case UTF8PROC_CATEGORY_ND:
	case UTF8PROC_CATEGORY_NL:
	case UTF8PROC_CATEGORY_PC:
		return true;
	case UTF8PROC_CATEGORY_SO:
		return is_alphabetic_symbol(code_point);
	case UTF8PROC_CATEGORY_CF:
		return code_point == 0x200c || code_point == 0x200d;
	default:
		return false;
	}
}

int unicode_lower(int32_t code_point, int32_t out[2])
{
	/* The one letter whose unconditional lower case is longer: i with a dot above. */
	if (code_point == 0x130) {
		out[0] = 'i';
		out[1] = 0x307;
		return 2;
	}
	out[0] = utf8proc_tolower(code_point);
	return 1;
}

/* clang-format off */
static const struct {
	int32_t first, last;
} new_ranges[] = {
	{0x7fd, 0x7fd}, {0x898, 0x89f}, {0x8ca, 0x8d3}, {0x9fe, 0x9fe}, {0xc3c, 0xc3c}, {0xd3b, 0xd3c},
	{0xeba, 0xeba}, {0x1715, 0x1715}, {0x1abf, 0x1ace}, {0x1df6, 0x1dfa}, {0x32ff, 0x32ff}, {0xa7f2, 0xa7f4},
	{0xa82c, 0xa82c}, {0xab69, 0xab69}, {0x10781, 0x10785}, {0x10787, 0x107b0}, {0x107b2, 0x107ba},
	{0x10d24, 0x10d27}, {0x10eab, 0x10eac}, {0x10efd, 0x10eff}, {0x10f46, 0x10f50}, {0x10f82, 0x10f85},
	{0x11070, 0x11070}, {0x1133b, 0x1133b}, {0x1145e, 0x1145e}, {0x11839, 0x1183a}, {0x11938, 0x11938},
	{0x1193d, 0x1193e}, {0x11943, 0x11943}, {0x119e0, 0x119e0}, {0x11a34, 0x11a34}, {0x11a47, 0x11a47},
	{0x11a99, 0x11a99}, {0x11d42, 0x11d42}, {0x11d44, 0x11d45}, {0x11d97, 0x11d97}, {0x11f41, 0x11f42},
	{0x16ff0, 0x16ff1}, {0x1e030, 0x1e06d}, {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae},
	{0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef}, {0x1f16c, 0x1f16c}, {0x1fbf0, 0x1fbf9},
};
/* clang-format on */

bool unicode_is_new_to_normal_forms(int32_t code_point)
{
	size_t low = 0, high = sizeof(new_ranges) / sizeof(new_ranges[0]), count = high;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (code_point > new_ranges[middle].last)
			low = middle + 1;
		else
			high = middle;
	}
	return low < count && code_point >= new_ranges[low].first;
}

#include "engine/text/unicode.h"

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

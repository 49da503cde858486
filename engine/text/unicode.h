/* Character properties as the reference tokenizer's library uses them; the tables are utf8proc's. */
#ifndef ASSAY_ENGINE_TEXT_UNICODE_H
#define ASSAY_ENGINE_TEXT_UNICODE_H

#include <stdbool.h>
#include <stdint.h>

/* The property White_Space: U+0085 and U+3000 have it, U+180E and U+200B do not. */
bool unicode_is_white_space(int32_t code_point);

/* What \w means to Rust's regex: Alphabetic, Mark, Decimal_Number, Connector_Punctuation, Join_Control. */
bool unicode_is_word(int32_t code_point);

/* The lower case of one character alone, without regard to its neighbours: one or two code points. Returns how many. */
int unicode_lower(int32_t code_point, int32_t out[2]);

/* Characters newer than Unicode 9 that decompose or combine: the reference's normaliser knows Unicode 9 and leaves
 * them alone. */
bool unicode_is_new_to_normal_forms(int32_t code_point);

#endif

/* Values of options as text: read strictly, the same in every locale, and what a mistyped name may have meant. */
#ifndef ASSAY_EVALS_OPTION_VALUES_H
#define ASSAY_EVALS_OPTION_VALUES_H

#include <stdbool.h>
#include <stdint.h>

/* Decimal digits, nothing else. */
bool option_parse_uint(const char *text, uint64_t *out);

/* Digits with an optional point and exponent ("0.5", ".5", "1e-3"), no sign, finite. */
bool option_parse_number(const char *text, double *out);

/* Whether a and b differ in ASCII letter case at most. */
bool option_same_name(const char *a, const char *b);

/* Edits (insert, delete, replace, swap neighbours) from a to b, ASCII case apart; at most limit + 1. */
int option_distance(const char *a, const char *b, int limit);

/* The candidate nearest to text when it is near enough to be meant, else NULL. candidates ends with NULL. */
const char *option_nearest(const char *text, const char *const *candidates);

#endif

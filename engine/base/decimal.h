/* Binary floating point to decimal and back, the same in every locale. */
#ifndef ASSAY_ENGINE_BASE_DECIMAL_H
#define ASSAY_ENGINE_BASE_DECIMAL_H

#include "engine/base/buf.h"

/* The nearest double of a C string that holds a number as JSON writes it (beyond the range: infinity or zero). */
double decimal_to_double(const char *text);

/* Appends the shortest decimal that reads back as the same number (of several the nearest), in the form of Python's repr
 * (1.0, 1e-07, 1e+16). PRECOND: finite. */
void decimal_write_double(double value, struct buf *out);
void decimal_write_float(float value, struct buf *out);

#endif

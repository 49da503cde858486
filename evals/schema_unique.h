/* uniqueItems: whether two elements of an array are equal. */
#ifndef ASSAY_EVALS_SCHEMA_UNIQUE_H
#define ASSAY_EVALS_SCHEMA_UNIQUE_H

#include <stdint.h>

#include "engine/base/error.h"
#include "engine/base/json_strict.h"

/* 1 when two are equal as JSON Schema has it, else 0, or ERR_MEMORY. *work goes down by what is looked at; at 0 the answer
 * means nothing. */
int schema_any_equal(const struct json *array, uint64_t *work, struct error *e);

#endif

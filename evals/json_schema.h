/* JSON Schema, draft 2020-12, for what tools use (EVALS section 4): type, enum, const, the bounds of numbers, strings,
 * arrays and objects, properties and their kin, items, prefixItems, contains, uniqueItems, pattern, anyOf, oneOf,
 * allOf, not, if/then/else, dependentRequired, dependentSchemas, $defs and local $ref (recursive ones too),
 * unevaluatedProperties. format is not asserted. A keyword that is not known might constrain: it is an error by its
 * name, never a silent pass; so is a value that the draft's own schema of schemas does not allow. */
#ifndef ASSAY_EVALS_JSON_SCHEMA_H
#define ASSAY_EVALS_JSON_SCHEMA_H

#include "engine/base/buf.h"
#include "engine/base/error.h"
#include "engine/base/json_strict.h"

struct json_schema; /* used by one thread at a time */

/* Compiles a schema, whose tree is borrowed until json_schema_delete. ERR_INPUT names the place and the keyword. */
int json_schema_new(const struct json *schema, struct json_schema **out, struct error *e);
void json_schema_delete(struct json_schema *s);

/* 1: instance is valid; 0: it is not, and *why (may be NULL) is appended the place and the keyword that says so;
 * ERR_LIMIT: judging it takes more work or depth than is bounded. */
int json_schema_check(const struct json_schema *s, const struct json *instance, struct buf *why, struct error *e);

/* `assay rescore --suite schema`: lines {"schema", "instance"} to {"valid"} or {"error"}. */
int json_schema_rescore(const char *path, struct buf *out, struct error *e);

#endif

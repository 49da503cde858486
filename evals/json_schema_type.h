/* What a compiled JSON Schema is made of: written by json_schema.c and schema_refs.c, read by schema_check.c. */
#ifndef ASSAY_EVALS_JSON_SCHEMA_TYPE_H
#define ASSAY_EVALS_JSON_SCHEMA_TYPE_H

#include <stdint.h>

#include "evals/ecma_pattern.h"
#include "evals/json_schema.h"
#include "evals/schema_keys.h"

/* In the order in which a schema's keywords are checked; the last one sees what the others have evaluated. */
enum schema_keyword {
	SCHEMA_REF,
	SCHEMA_TYPE,
	SCHEMA_ENUM,
	SCHEMA_CONST,
	SCHEMA_MULTIPLE_OF,
	SCHEMA_MINIMUM,
	SCHEMA_MAXIMUM,
	SCHEMA_EXCLUSIVE_MINIMUM,
	SCHEMA_EXCLUSIVE_MAXIMUM,
	SCHEMA_MIN_LENGTH,
	SCHEMA_MAX_LENGTH,
	SCHEMA_PATTERN,
	SCHEMA_MIN_ITEMS,
	SCHEMA_MAX_ITEMS,
	SCHEMA_UNIQUE_ITEMS,
	SCHEMA_PREFIX_ITEMS,
	SCHEMA_ITEMS,
	SCHEMA_CONTAINS,
	SCHEMA_MIN_CONTAINS, /* read by contains */
	SCHEMA_MAX_CONTAINS, /* read by contains */
	SCHEMA_MIN_PROPERTIES,
	SCHEMA_MAX_PROPERTIES,
	SCHEMA_REQUIRED,
	SCHEMA_DEPENDENT_REQUIRED,
	SCHEMA_PROPERTIES,
	SCHEMA_PATTERN_PROPERTIES,
	SCHEMA_ADDITIONAL_PROPERTIES,
	SCHEMA_PROPERTY_NAMES,
	SCHEMA_DEPENDENT_SCHEMAS,
	SCHEMA_ALL_OF,
	SCHEMA_ANY_OF,
	SCHEMA_ONE_OF,
	SCHEMA_NOT,
	SCHEMA_IF,
	SCHEMA_THEN, /* read by if */
	SCHEMA_ELSE, /* read by if */
	SCHEMA_UNEVALUATED_PROPERTIES,
	SCHEMA_ANNOTATION, /* constrains nothing */
};

struct schema_node;

/* One keyword of one schema. */
struct schema_use {
	enum schema_keyword keyword;
	const char *name;
	const struct json *value;
	struct schema_node **nodes;     /* [count] of the subschemas, in the order of value; owned */
	struct ecma_pattern **patterns; /* [count] pattern, patternProperties; owned */
	size_t count;
	struct schema_keys keys; /* of value: properties alone */
};

/* A schema: an object, or true or false. */
struct schema_node {
	const struct json *source;
	struct schema_node *next_in_table;
	const struct json *resource; /* the object that "#" of a reference means */
	struct schema_use *uses;     /* [n_uses], by keyword; owned */
	size_t n_uses;
	bool is_target; /* of a reference: several ways may lead to it */
};

/* A reference whose target is found when all of the schema has been read. */
struct schema_reference {
	struct schema_node *node;
	struct schema_use *use;
};

/* A place that references reach by name: an object with $id, or one with $anchor. */
struct schema_name {
	const struct json *resource; /* of $id: the object itself; of $anchor: where it counts */
	const struct json *target;
	char *uri;         /* of $id, absolute as far as the schema tells; owned. NULL: an anchor */
	struct str anchor; /* of $anchor */
};

struct json_schema {
	struct schema_node **table; /* [capacity] chains by source; owned with the nodes */
	size_t capacity, n_nodes;
	struct schema_name *names;
	size_t n_names;
	struct schema_reference *references;
	size_t n_references, n_resolved;
	struct schema_node *root;
	struct buf place; /* while it is compiled: where, as a JSON pointer */
	uint64_t work;    /* left for finding what references mean: counts members and names looked at */
	struct error *e;  /* while it is compiled */
};

/* Notes $id and $anchor of an object, and what resource its references count from. */
int schema_names_add(struct json_schema *s, const struct json *object, const struct json **resource);
void schema_names_free(struct json_schema *s);

/* What a reference in that resource means, and the resource of the target. */
int schema_reference_find(struct json_schema *s, struct str reference, const struct json *resource,
	const struct json **target, const struct json **target_resource);

/* The use of a keyword in a schema, or NULL. */
const struct schema_use *schema_use_of(const struct schema_node *node, enum schema_keyword keyword);

/* ERR_INPUT "schema at /place: ...". */
int schema_fail(const struct json_schema *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif

/* What was found of schemas on values. A schema that references lead to is reached again and again where anyOf and its
 * kin try one branch after the other: without memory the work doubles with each level, with it each schema is judged
 * once on each value. */
#ifndef ASSAY_EVALS_SCHEMA_MEMO_H
#define ASSAY_EVALS_SCHEMA_MEMO_H

#include "evals/json_schema_type.h"

enum schema_found { FOUND_NOTHING, FOUND_OPEN /* being judged */, FOUND_VALID, FOUND_INVALID };

struct schema_finding {
	const struct schema_node *node; /* NULL: a free slot */
	const struct json *value;
	enum schema_found found;
	bool *seen; /* [value->count] members that a valid one evaluated, owned; NULL: nobody asked */
};

/* Starts zeroed. */
struct schema_memo {
	struct schema_finding *slots; /* [capacity], a power of two; owned */
	size_t capacity, count;
};

/* The finding of a schema on a value, which must live as long as the memo, FOUND_NOTHING at first; valid until the next
 * call. NULL: ERR_MEMORY. */
struct schema_finding *schema_memo_at(
	struct schema_memo *m, const struct schema_node *node, const struct json *value, struct error *e);
void schema_memo_free(struct schema_memo *m);

#endif

/* What the two halves of the parser share: statements (jinja_parser.c) and expressions (jinja_expression.c). */
#ifndef ASSAY_ENGINE_TEXT_JINJA_PARSER_H
#define ASSAY_ENGINE_TEXT_JINJA_PARSER_H

#include "engine/text/jinja_lexer.h"
#include "engine/text/jinja_tree.h"

struct jinja_parser {
	const struct jinja_token *at; /* the next token; the last one is JINJA_END */
	const char *name;
	struct arena *arena;
	int depth;     /* of the parser's own calls */
	int loops;     /* around this place, in this macro */
	bool soft;     /* inside of `if`: an unknown filter is an error only when it is reached, as in Jinja */
	char specials; /* of enum jinja_specials: what was named since the macro began */
	const struct jinja_node *unknown; /* the first filter or test that is an error at once */
	struct error *e;
};

struct jinja_list_end { /* a list of nodes that grows at its end */
	struct jinja_node **last;
};

static inline void jinja_list_push(struct jinja_list_end *l, struct jinja_node *n)
{
	*l->last = n;
	l->last = &n->next;
}

/* Each of these gives NULL (or false, or a negative status) after an error, which is then in p->e. */
void *jinja_parse_fail(struct jinja_parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "expected WHAT, found ..." */
void *jinja_parse_expected(struct jinja_parser *p, const char *what);
struct jinja_node *jinja_node_new(struct jinja_parser *p, enum jinja_node_type type);
/* Settles the depth of a node whose operands and items are all there; NULL where it is too deep. */
struct jinja_node *jinja_node_done(struct jinja_parser *p, struct jinja_node *n);
/* Enters one call deeper; p->depth-- leads back. */
bool jinja_parse_enter(struct jinja_parser *p);

bool jinja_at_operator(const struct jinja_parser *p, const char *text);
bool jinja_at_name(const struct jinja_parser *p, const char *name);
/* Takes the token where it is that one. */
bool jinja_take_operator(struct jinja_parser *p, const char *text);
bool jinja_take_name(struct jinja_parser *p, const char *name);
/* The same, an error where it is not. */
bool jinja_expect_operator(struct jinja_parser *p, const char *text);

/* One expression, with `a if b else c` where that is wanted. */
struct jinja_node *jinja_parse_expression(struct jinja_parser *p, bool conditions);
/* One, or several with commas between: a tuple. stop: a name that ends it, or NULL. */
struct jinja_node *jinja_parse_tuple(struct jinja_parser *p, bool conditions, const char *stop);
/* What may be assigned to: a name, a namespace's attribute where members may be, several with commas. */
struct jinja_node *jinja_parse_target(struct jinja_parser *p, bool members, const char *stop);
struct jinja_node *jinja_parse_name_target(struct jinja_parser *p);
/* Filters behind a first one without its bar (begun), or with bars, upon n. */
struct jinja_node *jinja_parse_filters(struct jinja_parser *p, struct jinja_node *n, bool begun);

#endif

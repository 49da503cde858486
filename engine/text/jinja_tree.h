/* A template as a tree. Nodes live in the template's arena; names and texts borrow from it or from the source. */
#ifndef ASSAY_ENGINE_TEXT_JINJA_TREE_H
#define ASSAY_ENGINE_TEXT_JINJA_TREE_H

#include "engine/base/arena.h"
#include "engine/base/error.h"
#include "engine/text/jinja_value.h"

enum jinja_node_type {
	/* expressions */
	JINJA_N_CONSTANT,  /* value */
	JINJA_N_NAME,      /* name */
	JINJA_N_TUPLE,     /* items */
	JINJA_N_LIST,      /* items */
	JINJA_N_DICT,      /* items: PAIR */
	JINJA_N_PAIR,      /* a: b */
	JINJA_N_ATTRIBUTE, /* a.name */
	JINJA_N_ITEM,      /* a[b] */
	JINJA_N_SLICE,     /* a[b:c:d]; each of b, c, d may be NULL */
	JINJA_N_CALL,      /* a(items: ARGUMENT) */
	JINJA_N_ARGUMENT,  /* a; name, where it is a keyword; op: '*' for *a and 'p' for **a */
	JINJA_N_FILTER,    /* a | name(items); builtin NULL: not known, an error once it is reached */
	JINJA_N_TEST,      /* a is name(items) */
	JINJA_N_UNARY,     /* op: '-', '+', '!' */
	JINJA_N_AND,
	JINJA_N_OR,
	JINJA_N_BINARY,    /* a op b: '+', '-', '*', '/', 'f' (//), '%', 'p' (**) */
	JINJA_N_CONCAT,    /* items joined as text */
	JINJA_N_COMPARE,   /* a, then items: OPERAND */
	JINJA_N_OPERAND,   /* op a: '=', '!', '<', '>', 'l' (<=), 'g' (>=), 'i' (in), 'n' (not in) */
	JINJA_N_CONDITION, /* a if b else c; c may be NULL */

	/* statements */
	JINJA_N_DATA,       /* value: text */
	JINJA_N_PRINT,      /* a */
	JINJA_N_FOR,        /* for a in b (if c): body, other; op: 'r' for a recursive one */
	JINJA_N_IF,         /* if a: body, other; op: 'e' where other is the IF of an elif */
	JINJA_N_SET,        /* a = b */
	JINJA_N_SET_BLOCK,  /* a = body, through the filters b (NULL: none) */
	JINJA_N_MACRO,      /* name, items: PARAMETER, body; op: enum jinja_specials */
	JINJA_N_PARAMETER,  /* name, a: default or NULL */
	JINJA_N_CALL_BLOCK, /* a: CALL, items: PARAMETER, body; op as a macro's */
	JINJA_N_FILTERED,   /* body through the filters b */
	JINJA_N_WITH,       /* items: SET, body */
	JINJA_N_SCOPE,      /* body */
	JINJA_N_BREAK,
	JINJA_N_CONTINUE,
	JINJA_N_BODY,   /* what the filters of a block begin with: the block's text */
	JINJA_N_MEMBER, /* name.attribute as a target of set: name, value: text */
};

/* A macro takes more arguments than it declares only where its body names what holds them. */
enum jinja_specials { JINJA_VARARGS = 1, JINJA_KWARGS = 2, JINJA_CALLER = 4 };

struct jinja_node {
	enum jinja_node_type type;
	int line;
	int depth; /* of expressions inside each other, this one included */
	char op;
	struct str name;
	struct jinja_value value;
	const struct jinja_builtin *builtin;
	struct jinja_node *a, *b, *c, *d;
	struct jinja_node *items, *body, *other; /* first of a list */
	struct jinja_node *next;                 /* in the list that it belongs to */
};

/* Parses a whole template into the arena. source: line feeds only, alive as long as the tree. *root: the first statement,
 * NULL for an empty template. Errors: "NAME:LINE: cause". */
int jinja_parse_tree(
	struct str source, const char *name, struct arena *arena, struct jinja_node **root, struct error *e);

#endif

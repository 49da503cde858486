/* What a template's tree does: expressions to values (jinja_eval.c), operators (jinja_operators.c), statements to text
 * (jinja_statements.c). */
#ifndef ASSAY_ENGINE_TEXT_JINJA_EVAL_H
#define ASSAY_ENGINE_TEXT_JINJA_EVAL_H

#include "engine/text/jinja_builtin.h"
#include "engine/text/jinja_tree.h"
#include "engine/text/jinja_value.h"

struct jinja_scope {
	struct jinja_scope *parent;
	struct jinja_dict names;
};

struct jinja_macro {
	struct str name;
	const struct jinja_node *parameters, *body;
	struct jinja_scope *scope; /* where it was made */
	char specials;             /* enum jinja_specials */
};

struct jinja_loop {
	struct jinja_list items;
	size_t index;
	int64_t depth; /* 0: not inside of itself */
	const struct jinja_node *node;
	struct jinja_scope *scope; /* around the loop */
	bool has_changed;
	struct jinja_value last; /* what `changed` was asked before */
};

enum jinja_flow { JINJA_FLOW_ON = 0, JINJA_FLOW_BREAK, JINJA_FLOW_CONTINUE };

/* ---- Expressions ---- */

int jinja_eval(struct jinja_run *r, const struct jinja_node *n, struct jinja_value *out);
int jinja_arguments_eval(struct jinja_run *r, const struct jinja_node *items, struct jinja_arguments *out);
int jinja_call_value(struct jinja_run *r, const struct jinja_value *callee, const struct jinja_arguments *arguments,
	struct jinja_value *out);
/* v.name and v[key]; undefined where there is none. */
int jinja_attribute(struct jinja_run *r, const struct jinja_value *v, struct str name, struct jinja_value *out);
int jinja_item(
	struct jinja_run *r, const struct jinja_value *v, const struct jinja_value *key, struct jinja_value *out);
int jinja_slice(
	struct jinja_run *r, const struct jinja_value *v, const struct jinja_value bounds[3], struct jinja_value *out);
/* a op b, as in JINJA_N_BINARY. */
int jinja_binary(struct jinja_run *r, char op, const struct jinja_value *a, const struct jinja_value *b,
	struct jinja_value *out);
/* a op b, as in JINJA_N_OPERAND. */
int jinja_relation(struct jinja_run *r, char op, const struct jinja_value *a, const struct jinja_value *b, bool *out);

/* ---- Statements ---- */

/* A flow, or a negative status. */
int jinja_execute(struct jinja_run *r, const struct jinja_node *list);
int jinja_macro_call(struct jinja_run *r, const struct jinja_macro *macro, const struct jinja_arguments *arguments,
	struct jinja_value *out);
int jinja_loop_attribute(struct jinja_run *r, const struct jinja_value *v, struct str name, struct jinja_value *out);
/* loop(items), in a recursive one. */
int jinja_loop_call(struct jinja_run *r, const struct jinja_loop *loop, const struct jinja_arguments *arguments,
	struct jinja_value *out);
int jinja_scope_set(struct jinja_run *r, struct jinja_scope *scope, struct str name, struct jinja_value value);
struct str jinja_macro_name(const struct jinja_macro *macro);

#endif

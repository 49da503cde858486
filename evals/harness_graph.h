/* Tasks and groups of a results file of lm-evaluation-harness: which task lies below which group. */
#ifndef ASSAY_EVALS_HARNESS_GRAPH_H
#define ASSAY_EVALS_HARNESS_GRAPH_H

#include "engine/base/error.h"
#include "engine/base/json_strict.h"

/* Whatever the file has a result, a number of samples or members for. All is borrowed from the file's tree. */
struct harness_node {
	struct str name;
	const struct json *results; /* its member of "results"; NULL: none */
	const struct json *counts;  /* of "n-samples"; NULL: it is no task */
	const struct json *members; /* of "group_subtasks"; NULL: it is no group */
	int64_t documents;          /* of a task */
	size_t first, n;            /* its part of edges */
	size_t parent;              /* the first other group that names it; itself: none does */
	uint64_t seen;              /* by the walk of that number */
};

struct harness_graph {
	struct harness_node *nodes; /* [n_nodes] by name; owned */
	size_t *edges;              /* [n_edges] members, group after group; owned */
	size_t *below;              /* [n_below] what the last walk came to; owned */
	size_t n_nodes, n_edges, n_below;
	uint64_t walks, steps;
};

/* root: a results file, which the graph borrows from. Members that are no nodes are left out. ERR_MEMORY; *out is to be
 * freed on failure, too. */
int harness_graph_make(const struct json *root, struct harness_graph *out, struct error *e);
void harness_graph_free(struct harness_graph *g);

/* Fills below with the node and all nodes that its members lead to, each once. ERR_INPUT where all walks together took more
 * steps than any real file's do. */
int harness_graph_walk(struct harness_graph *g, const struct harness_node *from, struct error *e);

/* The topmost group above a task or group, or itself. */
struct str harness_graph_top(const struct harness_graph *g, struct str name);

#endif

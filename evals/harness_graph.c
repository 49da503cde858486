#include "evals/harness_graph.h"

#include <stdlib.h>

enum {
	MOST_GROUPS = 64,     /* one inside another; ends circles */
	MOST_STEPS = 10000000 /* of all walks: one for each metric of each group */
};

void harness_graph_free(struct harness_graph *g)
{
	free(g->nodes);
	free(g->edges);
	free(g->below);
	*g = (struct harness_graph){0};
}

/* ---- Making ---- */

static int by_name(const void *a, const void *b)
{
	struct str x = ((const struct harness_node *)a)->name, y = ((const struct harness_node *)b)->name;
	size_t shorter = x.length < y.length ? x.length : y.length;
	int order = shorter ? memcmp(x.data, y.data, shorter) : 0;
	return order ? order : (x.length > y.length) - (x.length < y.length);
}

static struct harness_node *find(const struct harness_graph *g, struct str name)
{
	const struct harness_node key = {.name = name};
	return g->n_nodes ? bsearch(&key, g->nodes, g->n_nodes, sizeof(*g->nodes), by_name) : NULL;
}

static size_t count_members(const struct json *object)
{
	return json_is(object, JSON_OBJECT) ? object->count : 0;
}

/* All names of the three members as nodes of their own. PRECOND: there is room for them. */
static void collect(struct harness_graph *g, const struct json *root)
{
	static const char *const names[] = {"results", "n-samples", "group_subtasks"};
	for (int i = 0; i < 3; i++) {
		const struct json *object = json_get(root, names[i]);
		JSON_EACH (member, count_members(object) ? object : NULL) {
			if (member->shadowed)
				continue;
			struct harness_node node = {.name = member->key};
			*(i == 0 ? &node.results : i == 1 ? &node.counts : &node.members) = member;
			json_int64(json_get(node.counts, "effective"), &node.documents);
			g->nodes[g->n_nodes++] = node;
		}
	}
}

/* Nodes of one name become one. */
static void join(struct harness_graph *g)
{
	size_t n = 0;
	if (g->n_nodes > 0)
		qsort(g->nodes, g->n_nodes, sizeof(*g->nodes), by_name);
	for (size_t i = 0; i < g->n_nodes; i++) {
		struct harness_node next = g->nodes[i];
		if (n > 0 && str_equal(g->nodes[n - 1].name, next.name)) {
			struct harness_node *node = &g->nodes[n - 1];
			node->results = next.results ? next.results : node->results;
			node->counts = next.counts ? next.counts : node->counts;
			node->members = next.members ? next.members : node->members;
			node->documents += next.documents; /* only the one with counts has any */
			continue;
		}
		next.parent = n;
		g->nodes[n++] = next;
	}
	g->n_nodes = n;
}

static void connect_group(struct harness_graph *g, struct harness_node *group)
{
	size_t self = (size_t)(group - g->nodes);
	group->first = g->n_edges;
	JSON_EACH (name, json_is(group->members, JSON_ARRAY) ? group->members : NULL) {
		struct harness_node *member = json_is(name, JSON_STRING) ? find(g, name->text) : NULL;
		if (!member)
			continue;
		size_t index = (size_t)(member - g->nodes);
		g->edges[g->n_edges++] = index;
		if (member->parent == index && index != self)
			member->parent = self;
	}
	group->n = g->n_edges - group->first;
}

int harness_graph_make(const struct json *root, struct harness_graph *out, struct error *e)
{
	const struct json *subtasks = json_get(root, "group_subtasks");
	size_t names = count_members(json_get(root, "results")) + count_members(json_get(root, "n-samples")) +
		count_members(subtasks);
	size_t members = 0;

	JSON_EACH (group, count_members(subtasks) ? subtasks : NULL)
		members += group->count;
	*out = (struct harness_graph){0};
	out->nodes = calloc(names + 1, sizeof(*out->nodes));
	out->below = calloc(names + 1, sizeof(*out->below));
	out->edges = calloc(members + 1, sizeof(*out->edges));
	if (!out->nodes || !out->below || !out->edges)
		return error_set(e, ERR_MEMORY, "no memory for %zu tasks and groups", names);
	collect(out, root);
	join(out);
	/* in the order of the file: the first group that names a task is the one above it */
	JSON_EACH (group, count_members(subtasks) ? subtasks : NULL)
		if (!group->shadowed)
			connect_group(out, find(out, group->key));
	return 0;
}

/* ---- Asking ---- */

static void reach(struct harness_graph *g, size_t index)
{
	struct harness_node *node = &g->nodes[index];
	if (node->seen == g->walks)
		return;
	node->seen = g->walks;
	g->below[g->n_below++] = index;
}

int harness_graph_walk(struct harness_graph *g, const struct harness_node *from, struct error *e)
{
	g->walks++;
	g->n_below = 0;
	reach(g, (size_t)(from - g->nodes));
	for (size_t i = 0; i < g->n_below; i++) {
		const struct harness_node *node = &g->nodes[g->below[i]];
		g->steps += node->n + 1;
		if (g->steps > MOST_STEPS)
			return error_set(
				e, ERR_INPUT, "\"group_subtasks\" leads through more than %d members", MOST_STEPS);
		for (size_t j = 0; j < node->n; j++)
			reach(g, g->edges[node->first + j]);
	}
	return 0;
}

struct str harness_graph_top(const struct harness_graph *g, struct str name)
{
	const struct harness_node *node = find(g, name);
	for (int depth = 0; node && depth < MOST_GROUPS; depth++)
		node = &g->nodes[node->parent];
	return node ? node->name : name;
}

#include "cuda/steps.h"

#include <stdlib.h>
#include <string.h>

#include "cuda/kernels.cuh"
#include "cuda/status.h"
#include "engine/base/hash.h"

void steps_init(struct steps *s, cudaStream_t stream)
{
	*s = (struct steps){.stream = stream};
}

static void graph_free(struct step_graph *g)
{
	free(g->ops);
	if (g->exec)
		cudaGraphExecDestroy(g->exec);
	*g = (struct step_graph){0};
}

void steps_forget(struct steps *s)
{
	for (int i = 0; i < s->n_graphs; i++)
		graph_free(&s->graphs[i]);
	s->n_graphs = 0;
}

void steps_free(struct steps *s)
{
	steps_forget(s);
	free(s->ops);
	cudaFree(s->workspace);
	*s = (struct steps){0};
}

struct op *steps_add(struct steps *s, enum op_kind kind, struct error *e)
{
	if (s->n == s->capacity) {
		int capacity = s->capacity ? 2 * s->capacity : 512;
		struct op *grown = realloc(s->ops, (size_t)capacity * sizeof *grown);
		if (!grown) {
			error_set(e, ERR_MEMORY, "no memory for %d ops of a step", capacity);
			return NULL;
		}
		s->ops = grown;
		s->capacity = capacity;
	}
	struct op *op = &s->ops[s->n++];
	memset(op, 0, sizeof *op);
	op->kind = kind;
	return op;
}

/* ---- one op ---- */

static bool by_library(const struct steps *s, const struct op *op)
{
	return s->library && op->linear.weight->format == WEIGHT_BF16;
}

static size_t op_workspace(const struct steps *s, const struct op *op)
{
	switch (op->kind) {
	case OP_LINEAR:
		if (by_library(s, op))
			return library_workspace(&op->linear);
		return linear_workspace(op->linear.weight, op->linear.n_tokens);
	case OP_HEAD_LINEAR:
		return head_linear_workspace(
			op->head_linear.weights, op->head_linear.n_heads, op->head_linear.n_tokens);
	case OP_EXPERTS:
		return experts_workspace(&op->experts);
	case OP_ATTEND:
		return attend_split_bytes(&op->attend);
	case OP_LATENT_ATTEND:
		return latent_attend_split_bytes(&op->latent_attend);
	default:
		return 0;
	}
}

static int linear_op_launch(const struct steps *s, const struct op *op, struct error *e)
{
	return by_library(s, op) ? library_linear(s->library, &op->linear, s->workspace, s->stream, e)
				 : linear_launch(&op->linear, s->workspace, s->stream, e);
}

static int rows_copy_launch(const struct rows_copy_args *a, cudaStream_t stream, struct error *e)
{
	return cuda_status(cudaMemcpy2DAsync(a->to, a->to_stride, a->from, a->from_stride, a->bytes, a->n_rows,
				   cudaMemcpyDeviceToDevice, stream),
		"copy of rows", e);
}

static int op_launch(const struct steps *s, const struct op *op, struct error *e)
{
	void *const workspace = s->workspace;
	cudaStream_t stream = s->stream;

	if (s->library && (op->kind == OP_HEAD_LINEAR || op->kind == OP_EXPERTS))
		return error_set(e, ERR_USAGE, "products per head or expert are our own: expected --gemm own");
	switch (op->kind) {
	case OP_EMBED:
		return embed_launch(&op->embed, stream, e);
	case OP_RMSNORM:
		return rmsnorm_launch(&op->rmsnorm, stream, e);
	case OP_LINEAR:
		return linear_op_launch(s, op, e);
	case OP_PARTS_SUM:
		return parts_sum_launch(&op->parts_sum, stream, e);
	case OP_ROW_AMAX:
		return row_amax_launch(&op->row_amax, stream, e);
	case OP_ROPE_TABLE:
		return rope_table_launch(&op->rope_table, stream, e);
	case OP_QKV_FINISH:
		return qkv_finish_launch(&op->qkv_finish, stream, e);
	case OP_ATTEND:
		return op_workspace(s, op) > 0 ? attend_split_launch(&op->attend, workspace, stream, e)
					       : attend_launch(&op->attend, stream, e);
	case OP_LATENT_WRITE:
		return latent_write_launch(&op->latent_write, stream, e);
	case OP_LATENT_ATTEND:
		return op_workspace(s, op) > 0 ? latent_attend_split_launch(&op->latent_attend, workspace, stream, e)
					       : latent_attend_launch(&op->latent_attend, stream, e);
	case OP_HEAD_LINEAR:
		return head_linear_launch(&op->head_linear, workspace, stream, e);
	case OP_SWIGLU:
		return swiglu_launch(&op->swiglu, stream, e);
	case OP_ROUTE:
		return route_launch(&op->route, stream, e);
	case OP_EXPERTS:
		return experts_launch(&op->experts, workspace, stream, e);
	case OP_ROWS_COPY:
		return rows_copy_launch(&op->rows_copy, stream, e);
	case OP_LOGITS_TAIL:
		return logits_tail_launch(&op->logits_tail, stream, e);
	case OP_VERIFY_PAGES:
		return verify_pages_launch(&op->verify_pages, stream, e);
	case OP_PAGE_GATE:
		return page_gate_launch(&op->page_gate, stream, e);
	case OP_COPY_PAGES:
		return copy_pages_launch(&op->copy_pages, stream, e);
	}
	return error_set(e, ERR_DEVICE, "op %d is unknown", (int)op->kind);
}

/* The workspace that all waiting ops need. Graphs hold the address of the one before: they end with it. */
static int workspace_grow(struct steps *s, struct error *e)
{
	size_t wanted = 0;

	for (int i = 0; i < s->n; i++) {
		size_t bytes = op_workspace(s, &s->ops[i]);
		wanted = bytes > wanted ? bytes : wanted;
	}
	if (wanted <= s->workspace_bytes)
		return 0;
	TRY(cuda_status(cudaStreamSynchronize(s->stream), "the ops before", e));
	steps_forget(s);
	cudaFree(s->workspace);
	s->workspace = NULL;
	s->workspace_bytes = 0;
	if (cuda_status(cudaMalloc(&s->workspace, wanted), "workspace", e) < 0)
		return error_prefix(e, "%zu bytes beside a product", wanted);
	s->workspace_bytes = wanted;
	return 0;
}

static int ops_launch(const struct steps *s, struct error *e)
{
	for (int i = 0; i < s->n; i++)
		TRY(op_launch(s, &s->ops[i], e));
	return 0;
}

/* ---- graphs ---- */

static size_t ops_bytes(const struct steps *s)
{
	return (size_t)s->n * sizeof *s->ops;
}

static struct step_graph *graph_find(struct steps *s)
{
	for (int i = 0; i < s->n_graphs; i++)
		if (s->graphs[i].n == s->n && memcmp(s->graphs[i].ops, s->ops, ops_bytes(s)) == 0)
			return &s->graphs[i];
	return NULL;
}

/* Whether the list was launched before; it is noted. Only when to capture depends on it. */
static bool seen_before(struct steps *s)
{
	uint64_t h = hash64(s->ops, ops_bytes(s));

	for (uint64_t i = 0; i < s->n_seen && i < STEPS_SEEN; i++)
		if (s->seen[i] == h)
			return true;
	s->seen[s->n_seen++ % STEPS_SEEN] = h;
	return false;
}

/* A free place, or that of the graph that was not used for longest. */
static struct step_graph *graph_place(struct steps *s)
{
	struct step_graph *oldest = &s->graphs[0];

	if (s->n_graphs < STEPS_GRAPHS)
		return &s->graphs[s->n_graphs++];
	for (int i = 1; i < s->n_graphs; i++)
		if (s->graphs[i].used < oldest->used)
			oldest = &s->graphs[i];
	graph_free(oldest);
	return oldest;
}

static int graph_capture(struct steps *s, struct step_graph *g, struct error *e)
{
	cudaGraph_t graph = NULL;

	g->n = s->n;
	g->ops = mem_calloc((size_t)s->n, sizeof *g->ops, e);
	if (!g->ops)
		return ERR_MEMORY;
	memcpy(g->ops, s->ops, ops_bytes(s));
	TRY(cuda_status(cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeThreadLocal), "graph", e));
	int status = ops_launch(s, e);
	/* ends the capture also after a failure, whose message stays */
	int ended = cuda_status(cudaStreamEndCapture(s->stream, &graph), "graph", status < 0 ? NULL : e);
	status = status < 0 ? status : ended;
	if (status == 0)
		status = cuda_status(cudaGraphInstantiate(&g->exec, graph, 0), "graph", e);
	if (graph)
		cudaGraphDestroy(graph);
	return status;
}

static int list_launch(struct steps *s, struct error *e)
{
	struct step_graph *g = s->no_graphs ? NULL : graph_find(s);

	if (!g) {
		if (s->no_graphs || !seen_before(s))
			return ops_launch(s, e);
		g = graph_place(s);
		int status = graph_capture(s, g, e);
		if (status < 0) {
			graph_free(g);
			return status;
		}
	}
	g->used = ++s->clock;
	return cuda_status(cudaGraphLaunch(g->exec, s->stream), "graph", e);
}

int steps_launch(struct steps *s, struct error *e)
{
	if (s->n == 0)
		return 0;
	int status = workspace_grow(s, e);
	if (status == 0)
		status = list_launch(s, e);
	s->n = 0;
	return status;
}

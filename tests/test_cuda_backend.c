/* The CUDA backend's host side: the whole engine on the kernels, both on the CPU that stands in for a GPU, against the CPU
 * backend; one output whatever surrounds a request; guards, hand-over and failures. */
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda_backend.h"
#include "cuda/staging.h"
#include "engine/backend.h"
#include "engine/base/number.h"
#include "engine/kv/fault_hook.h"
#include "integrity/guard.h"
#include "tests/cuda_on_cpu/cuda_on_cpu.h"
#include "tests/engine_support.h"
#include "tests/tiny_model.h"

const char *const test_program_name = "cuda_backend";

/* ---- models ---- */

/* Two layers with q and k norms, parts of 2, an odd vocabulary; its weights are drawn in bf16. */
static const char small_config[] =
	"{\"model_type\": \"qwen3\", \"hidden_size\": 64, \"intermediate_size\": 128, \"num_hidden_layers\": 2, "
	"\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 16, \"vocab_size\": 203, "
	"\"max_position_embeddings\": 256, \"rms_norm_eps\": 1e-06, \"rope_theta\": 10000.0, "
	"\"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\"}\n";
enum { SMALL_VOCAB = 203 };

struct model {
	const char *path;
	bool random;
	int vocab;
};

static struct model small_model(void)
{
	scratch_folder();
	return (struct model){test_write_file("config.json", small_config, sizeof small_config - 1), true, SMALL_VOCAB};
}

static struct model float_model(void)
{
	return (struct model){tiny_model(37, -1), false, 37};
}

/* ---- engines ---- */

static struct backend *backend_new(const struct cuda_options *options)
{
	struct backend *b;
	CHECK_OK(cuda_backend_new(options, &b, &test_error));
	return b;
}

static struct engine *open_on(
	const struct model *m, const char *variant, struct engine_config config, struct backend *backend)
{
	config.backend = backend;
	config.random_weights = m->random;
	config.weights_seed = 7;
	config.threads = 1;
	config.kv_memory = config.kv_memory ? config.kv_memory : 1 << 20;
	return open_with(m->path, variant, config);
}

static struct engine *open_cuda(const struct model *m, const char *variant, struct engine_config config)
{
	return open_on(m, variant, config, backend_new(&(struct cuda_options){0}));
}

static void prompt_make(int32_t *tokens, int n, int vocab, int seed)
{
	for (int i = 0; i < n; i++)
		tokens[i] = (seed * 131 + i * (17 + seed) + i * i) % vocab;
}

/* ---- one request's whole output ---- */

enum { PROMPT = 35, ANSWER = 5, TOP = 3 };

/* Rows, answer and alternatives of a prompt. rows: [PROMPT, vocab]. */
struct output {
	float rows[PROMPT * SMALL_VOCAB];
	int32_t tokens[ANSWER];
	float logprobs[ANSWER];
	int32_t top_ids[(PROMPT - 1 + ANSWER) * TOP];
	float top_values[(PROMPT - 1 + ANSWER) * TOP];
};

static struct output *output_new(void)
{
	struct output *o = calloc(1, sizeof *o);
	ck_assert_ptr_nonnull(o);
	return o;
}

static struct engine_request request_for(const struct model *m, int32_t *tokens, struct output *o, bool rows)
{
	prompt_make(tokens, PROMPT, m->vocab, 1);
	return (struct engine_request){.tokens = tokens,
		.n_tokens = PROMPT,
		.logprobs_from = 1,
		.top_logprobs = TOP,
		.rows = rows ? o->rows : NULL,
		.max_tokens = ANSWER,
		.ignore_eos = true};
}

static void output_take(struct output *o, const struct engine_result *r)
{
	ck_assert_msg(r->finish == ENGINE_LENGTH, "%s: %s", engine_finish_name(r->finish), r->error.message);
	ck_assert_int_eq(r->n_generated, ANSWER);
	memcpy(o->tokens, r->tokens, sizeof o->tokens);
	memcpy(o->logprobs, r->logprobs, sizeof o->logprobs);
	memcpy(o->top_ids, r->top_ids, sizeof o->top_ids);
	memcpy(o->top_values, r->top_values, sizeof o->top_values);
}

/* The request among `others`, the engine is closed after. */
static struct output *output_among(const struct model *m, struct engine *engine, int others, bool rows)
{
	struct output *o = output_new();
	int32_t tokens[PROMPT], other[48];
	struct engine_request r = request_for(m, tokens, o, rows);
	uint64_t id = 0;

	for (int i = 0; i <= others; i++) {
		int n = 1 + (i * 29) % 40;
		prompt_make(other, n, m->vocab, i + 2);
		struct engine_request short_one = {.tokens = other,
			.n_tokens = n,
			.logprobs_from = -1,
			.max_tokens = 1 + i % 4,
			.sampling = {.temperature = 0.8f, .top_p = 0.9f, .seed = 5}};
		if (i == others / 2)
			id = submit(engine, &r);
		else
			submit(engine, &short_one);
	}
	for (int i = 0; i <= others; i++) {
		struct engine_result *result = finish_one(engine);
		if (result->id == id)
			output_take(o, result);
		engine_result_free(result);
	}
	engine_close(engine);
	return o;
}

/* ---- against the CPU ---- */

/* Largest difference of two log-probabilities of which either is above -12; NaN never passes. */
static double rows_distance(const struct output *a, const struct output *b, int vocab)
{
	double most = 0;
	for (int i = 0; i < PROMPT * vocab; i++) {
		double x = (double)a->rows[i], y = (double)b->rows[i];
		if (!(x < -12 && y < -12))
			most = fabs(x - y) <= most ? most : fabs(x - y);
		if (isnan(x) || isnan(y))
			return INFINITY;
	}
	return most;
}

/* The CPU keeps activations in f32. CUDA rounds the input of a product to bf16 where the weights are no f32: 2^-9 of each
 * value, some hundredths of a logit in a model of random weights. Where something is then rounded to E4M3 (K and V, or
 * the input of W8A8), a value that differs by so little can fall on the next code, 2^-3 of it away. Each kernel by itself
 * is held against double precision to 1e-5 (test_cuda_on_cpu). Tolerances are twice what was found, or more. */
static const struct {
	const char *variant;
	bool floats; /* the model with f32 weights */
	double tolerance;
} cpu_cases[] = {
	{"bf16/f32", true, 2e-5},
	{"bf16/fp8", true, 2e-5},
	{"bf16/f32", false, 0.05},
	{"bf16/fp8", false, 0.35},
	{"fp8/bf16", false, 0.05},
	{"fp8w/bf16", false, 0.06},
	{"int4g32/fp8", false, 0.2},
	{"bf16/bf16>bf16/fp8", false, 0.1},
};

START_TEST(logits_are_the_cpus)
{
	struct model m = cpu_cases[_i].floats ? float_model() : small_model();
	struct engine_config config = {.page_size = 16};
	struct output *cpu = output_among(&m, open_on(&m, cpu_cases[_i].variant, config, NULL), 0, true);
	struct output *cuda = output_among(&m, open_cuda(&m, cpu_cases[_i].variant, config), 0, true);
	double distance = rows_distance(cpu, cuda, m.vocab);

	ck_assert_msg(distance <= cpu_cases[_i].tolerance,
		"%s, %s: a log-probability differs by %g, at most %g expected", cpu_cases[_i].variant,
		cpu_cases[_i].floats ? "f32 weights" : "bf16 weights", distance, cpu_cases[_i].tolerance);
	free(cpu);
	free(cuda);
}
END_TEST

/* ---- one output ---- */

static const char *const bit_variants[] = {"bf16/bf16", "fp8/fp8", "int4g32/fp8"};

START_TEST(one_prompt_has_one_output_whatever_surrounds_it)
{
	static const struct {
		const char *name;
		int others;
		uint64_t seed;
		struct engine_config config;
	} ways[] = {
		{"alone", 0, 0, {0}},
		{"alone, everything at once", 0, 1, {0}},
		{"with one other", 1, 0, {0}},
		{"with four others, padded", 4, 9, {.pad_decode = true}},
		{"chunks of 7, padded", 1, 0, {.chunk = 7, .pad_decode = true}},
		{"steps of 20 tokens, pages of 4", 2, 5, {.max_batch_tokens = 20, .page_size = 4}},
	};
	struct model m = small_model();
	struct output *first = NULL;

	for (int w = 0; w < COUNT(ways) - 2 * test_build_is_slow(); w++) {
		cuda_on_cpu_seed(ways[w].seed);
		struct output *o =
			output_among(&m, open_cuda(&m, bit_variants[_i], ways[w].config), ways[w].others, false);
		if (!first)
			first = o;
		ck_assert_msg(
			memcmp(o, first, sizeof *o) == 0, "%s: %s gives other bits", bit_variants[_i], ways[w].name);
		if (o != first)
			free(o);
	}
	free(first);
}
END_TEST

START_TEST(graphs_give_the_same_bits)
{
	struct model m = small_model();
	struct engine_config config = {.pad_decode = true};
	int before = cuda_on_cpu_graph_launches();
	struct output *with = output_among(&m, open_cuda(&m, "bf16/bf16", config), 2, false);
	int launched = cuda_on_cpu_graph_launches() - before;
	struct output *without = output_among(
		&m, open_on(&m, "bf16/bf16", config, backend_new(&(struct cuda_options){.no_graphs = true})), 2, false);

	/* steps of one padded batch size differ in nothing that a launch depends on: the third is the graph of the second */
	ck_assert_int_ge(launched, 2);
	ck_assert_int_eq(cuda_on_cpu_graph_launches() - before, launched);
	ck_assert(memcmp(with, without, sizeof *with) == 0);
	free(with);
	free(without);
}
END_TEST

/* The short prompt's steps are graphs when a long one makes the products' workspace grow. */
START_TEST(graphs_end_with_the_memory_they_name)
{
	struct model m = small_model();
	struct engine *engine =
		open_cuda(&m, "bf16/bf16", (struct engine_config){.pad_decode = true, .no_prefix_cache = true});
	int32_t tokens[100];
	float first[ANSWER] = {0};

	for (int i = 0; i < 4; i++) {
		int n = i == 2 ? COUNT(tokens) : 5;
		prompt_make(tokens, n, m.vocab, 1);
		struct engine_request request = {
			.tokens = tokens, .n_tokens = n, .logprobs_from = -1, .max_tokens = ANSWER, .ignore_eos = true};
		struct engine_result *r = ask(engine, &request);
		ck_assert_int_eq(r->n_generated, ANSWER);
		if (i == 0)
			memcpy(first, r->logprobs, sizeof first);
		else if (i != 2)
			ck_assert_msg(memcmp(first, r->logprobs, sizeof first) == 0, "asked again, %d", i);
		engine_result_free(r);
	}
	engine_close(engine);
}
END_TEST

/* ---- products by cuBLASLt ---- */

/* What is loaded here is what the backend finds under its name. */
static void library_load(const char *path)
{
	ck_assert_msg(dlopen(path, RTLD_NOW) != NULL, "%s", dlerror());
}

/* The same model within what another order of sums may change, which is not nothing. */
START_TEST(products_by_a_library_are_near_to_ours)
{
	struct model m = small_model();
	struct engine_config config = {.pad_decode = true};

	library_load(CUBLASLT_STAND_IN);
	cuda_on_cpu_seed((uint64_t)_i);
	struct backend *b = backend_new(&(struct cuda_options){.library = true});
	ck_assert_ptr_nonnull(strstr(b->ops->numerics, "library"));
	struct output *own = output_among(&m, open_cuda(&m, "bf16/f32", config), 1, true);
	struct output *library = output_among(&m, open_on(&m, "bf16/f32", config, b), 1, true);
	double distance = rows_distance(own, library, m.vocab);
	ck_assert_msg(distance > 0 && distance <= 0.05, "a log-probability differs by %g", distance);
	free(own);
	free(library);
}
END_TEST

static void expect_no_library(const char *message)
{
	struct backend *b;
	struct error e = {0};

	ck_assert_int_eq(cuda_backend_new(&(struct cuda_options){.library = true}, &b, &e), ERR_USAGE);
	ck_assert_msg(strstr(e.message, message), "%s", e.message);
	ck_assert_ptr_null(b);
}

START_TEST(a_library_that_is_too_old_is_told)
{
	library_load(CUBLASLT_STAND_IN_OF_OLD);
	expect_no_library("products by cuBLASLt: libcublasLt.so.13 is version 11.10, expected 11.11 or newer");
}
END_TEST

START_TEST(a_library_is_looked_for_by_every_name)
{
	if (dlopen("libcublasLt.so.13", RTLD_LAZY))
		SKIP("this machine has cuBLASLt");
	expect_no_library("products by cuBLASLt: libcublasLt.so.13: cannot open");
	library_load(CUBLASLT_STAND_IN_12);
	struct backend *b = backend_new(&(struct cuda_options){.library = true});
	b->ops->destroy(b);
}
END_TEST

/* ---- guards ---- */

struct planted {
	uint64_t request;
	int seen, fired;
};

/* Later in its answer the request's first page is taken for its second. */
static int64_t planted_at(void *context, const struct fault_point *p)
{
	struct planted *f = context;
	if (p->site != FAULT_TABLE_ENTRY || p->request != f->request || p->index != 1 || f->seen++ < 3)
		return p->value;
	f->fired++;
	return p->value + 1;
}

/* Three requests under the guard, the second of them with a fault: how each ends. */
static void guarded_run(const struct model *m, struct backend *backend, enum engine_finish finish[3], int *steps)
{
	struct planted planted = {.request = 2};
	struct fault_hook faults = {&planted, planted_at};
	struct guard guard;
	int32_t tokens[3][24];

	guard_init(&guard, &(struct guard_options){.level = GUARD_DIGEST});
	struct engine *engine = open_on(m, "bf16/fp8",
		(struct engine_config){.guard = &guard.table, .faults = &faults, .pad_decode = true}, backend);
	for (int i = 0; i < 3; i++) {
		prompt_make(tokens[i], 24, m->vocab, i + 3);
		submit(engine,
			&(struct engine_request){.tokens = tokens[i],
				.n_tokens = 24,
				.logprobs_from = -1,
				.max_tokens = 8,
				.ignore_eos = true});
	}
	for (int i = 0; i < 3; i++) {
		struct engine_result *r = finish_one(engine);
		finish[r->id - 1] = r->finish;
		engine_result_free(r);
	}
	CHECK_OK(engine_audit(engine, &test_error));
	engine_close(engine);
	ck_assert_int_gt(planted.fired, 0);
	ck_assert_int_gt((int)(guard.fired[GUARD_TAG] + guard.fired[GUARD_OWNER]), 0);
	*steps = (int)guard.verified_steps;
}

START_TEST(guards_check_what_the_device_reads)
{
	struct model m = small_model();
	enum engine_finish cpu[3], cuda[3];
	int cpu_steps, cuda_steps;

	guarded_run(&m, NULL, cpu, &cpu_steps);
	guarded_run(&m, backend_new(&(struct cuda_options){0}), cuda, &cuda_steps);
	ck_assert_int_eq(cuda_steps, cpu_steps);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(cpu[i], i == 1 ? ENGINE_FAILED : ENGINE_LENGTH);
		ck_assert_int_eq(cuda[i], cpu[i]);
	}
}
END_TEST

enum { VERIFY_PAGES = 40, VERIFY_STRIDE = 9, VERIFY_ROWS = 3 };

/* The tables of three sequences, all good. */
struct verify {
	int32_t tables[VERIFY_ROWS * VERIFY_STRIDE], used[VERIFY_ROWS], rows[VERIFY_ROWS], first_bad[VERIFY_ROWS];
	uint64_t expected[VERIFY_ROWS * VERIFY_STRIDE], tags[VERIFY_PAGES];
	int32_t pages[VERIFY_ROWS * VERIFY_STRIDE];
};

static struct verify_pages_args verify_args(struct verify *v)
{
	for (int i = 0; i < VERIFY_PAGES; i++)
		v->tags[i] = 1000 + (uint64_t)i;
	for (int b = 0; b < VERIFY_ROWS; b++) {
		v->rows[b] = VERIFY_ROWS - 1 - b;
		v->used[b] = VERIFY_STRIDE - b;
		for (int i = 0; i < VERIFY_STRIDE; i++) {
			int32_t page = 1 + b * VERIFY_STRIDE + i;
			v->tables[b * VERIFY_STRIDE + i] = page;
			v->pages[v->rows[b] * VERIFY_STRIDE + i] = page;
			v->expected[v->rows[b] * VERIFY_STRIDE + i] = v->tags[page];
		}
	}
	return (struct verify_pages_args){.block_tables = v->tables,
		.table_stride = VERIFY_STRIDE,
		.n_sequences = VERIFY_ROWS,
		.n_used = v->used,
		.rows = v->rows,
		.expected_stride = VERIFY_STRIDE,
		.expected = v->expected,
		.pages = v->pages,
		.page_tags = v->tags,
		.n_pages = VERIFY_PAGES,
		.first_bad = v->first_bad};
}

static void verify_expect(
	struct backend *b, const struct verify_pages_args *a, int32_t first, int32_t second, int32_t third)
{
	const int32_t expected[VERIFY_ROWS] = {first, second, third};

	for (int i = 0; i < VERIFY_ROWS; i++)
		a->first_bad[i] = 77;
	b->ops->verify_pages(b, a);
	for (int i = 0; i < VERIFY_ROWS; i++)
		ck_assert_msg(a->first_bad[i] == expected[i], "sequence %d: first bad page %d, expected %d", i,
			a->first_bad[i], expected[i]);
}

/* A step's end with nothing wanted of it but the check behind it. */
static void step_end(struct backend *b, const float *x, const struct weight *head)
{
	struct logits_row row = {.target = 3};
	struct logits_args a = {.x = x, .head = head, .hidden = 8, .vocab = 16, .rows = &row, .n_rows = 1};
	struct error e = {0};

	b->ops->logits(b, &a);
	ck_assert_msg(b->ops->finish(b, &e) == 0, "%s", e.message);
}

/* Nothing may stand for a check of what has changed since: neither before the step, nor behind it. */
START_TEST(a_check_behind_the_step_is_of_what_is_there)
{
	struct backend *b = backend_new(&(struct cuda_options){0});
	static const float values[16 * 8] = {1};
	struct host_matrix matrix = {.format = WEIGHT_F32, .rows = 16, .columns = 8, .data = values};
	struct weight head;
	struct verify v;
	struct verify_pages_args a = verify_args(&v);

	cuda_on_cpu_seed((uint64_t)_i);
	CHECK_OK(b->ops->weight_pack(b, &matrix, 1, &head, &test_error));
	float *x = b->ops->alloc(b, 8 * sizeof *x, &test_error);
	ck_assert_ptr_nonnull(x);
	for (int round = 0; round < 4; round++) { /* eager, captured, replayed */
		verify_expect(b, &a, -1, -1, -1);
		step_end(b, x, &head);
		verify_expect(b, &a, -1, -1, -1);
	}
	verify_expect(b, &a, -1, -1, -1);
	step_end(b, x, &head);
	v.tags[5]++; /* by a late writer: page 4 of the first sequence */
	verify_expect(b, &a, 4, -1, -1);
	v.tables[VERIFY_STRIDE + 2] = 0; /* after the check before the reads */
	step_end(b, x, &head);
	verify_expect(b, &a, 4, 2, -1);
	v.tables[VERIFY_STRIDE + 2] = VERIFY_PAGES;
	verify_expect(b, &a, 4, 2, -1);
	v.tables[VERIFY_STRIDE + 2] = 1 + VERIFY_STRIDE + 2;
	v.used[2] = VERIFY_STRIDE + 1;
	v.used[1] = -1;
	verify_expect(b, &a, 4, 0, VERIFY_STRIDE);
	step_end(b, x, &head);
	verify_expect(b, &a, 4, 0, VERIFY_STRIDE);
	b->ops->weight_free(b, &head);
	b->ops->free(b, x);
	b->ops->destroy(b);
}
END_TEST

/* ---- arrays of the host ---- */

/* What an embedding of one-hot rows reads shows which ids the device had. */
static void ids_embed(struct backend *b, const float *table, const int32_t *ids, int n, float *out)
{
	b->ops->embed(b,
		&(struct embed_args){
			.table = table, .format = WEIGHT_F32, .ids = ids, .n_tokens = n, .hidden = 4, .out = out});
}

START_TEST(an_array_may_be_used_again_at_once)
{
	enum { ROWS = 300, ARRAYS = 40, IDS = 70 };
	struct backend *b = backend_new(&(struct cuda_options){0});
	float table[ROWS * 4], out[ARRAYS * IDS * 4];
	int32_t ids[IDS];
	struct error e = {0};

	cuda_on_cpu_seed((uint64_t)_i);
	for (int i = 0; i < ROWS * 4; i++)
		table[i] = (float)i;
	float *device_table = b->ops->alloc(b, sizeof table, &test_error);
	float *device_out = b->ops->alloc(b, sizeof out, &test_error);
	b->ops->upload(b, device_table, table, sizeof table);
	for (int array = 0; array < ARRAYS; array++) {
		int32_t other[ARRAYS * IDS]; /* addresses that come and go */
		int32_t *used = array % 3 == 2 ? other + array * IDS : ids;
		int n = array % 2 ? IDS : 5;
		for (int i = 0; i < n; i++)
			used[i] = (array * 7 + i * (array % 5)) % ROWS;
		ids_embed(b, device_table, used, n, device_out + array * IDS * 4);
	}
	b->ops->download(b, out, device_out, sizeof out);
	ck_assert_msg(b->ops->finish(b, &e) == 0, "%s", e.message);
	for (int array = 0; array < ARRAYS; array++)
		for (int i = 0; i < (array % 2 ? IDS : 5); i++)
			ck_assert_int_eq((int)out[(array * IDS + i) * 4], (array * 7 + i * (array % 5)) % ROWS * 4);
	b->ops->free(b, device_table);
	b->ops->free(b, device_out);
	b->ops->destroy(b);
}
END_TEST

/* ---- rows of logits ---- */

enum { ROW_VOCAB = 37, ROW_PARTS = 3, ROW_WIDTH = 13, ROW_COUNT = 5, ROW_TOP = 4 };

struct rows {
	struct logits_row row[ROW_COUNT];
	int32_t top_ids[ROW_COUNT][ROW_TOP];
	float top_logprobs[ROW_COUNT][ROW_TOP], all[ROW_COUNT][ROW_VOCAB];
};

/* What is wanted of each row differs. */
static void rows_want(struct rows *r)
{
	memset(r, 0, sizeof *r);
	for (int i = 0; i < ROW_COUNT; i++) {
		r->row[i] = (struct logits_row){.token = i, .target = -1};
		if (i % 2 == 0)
			r->row[i].target = 7 * i;
		if (i > 1) {
			r->row[i].sample = true;
			r->row[i].position = (uint64_t)i;
			r->row[i].sampling = (struct sampling){i == 2 ? 0.0f : 0.7f, i == 3 ? 5 : 0, 0.9f, 11};
		}
		r->row[i].top_count = i == 1 || i == 4 ? ROW_TOP - i % 2 : 0;
		r->row[i].top_ids = r->top_ids[i];
		r->row[i].top_logprobs = r->top_logprobs[i];
		r->row[i].all_logprobs = i == 3 ? r->all[i] : NULL;
	}
}

static void rows_read(struct backend *b, const float *values, struct rows *r)
{
	struct error e = {0};
	float *logits = b->ops->alloc(b, ROW_PARTS * ROW_COUNT * ROW_WIDTH * sizeof *logits, &test_error);

	ck_assert_ptr_nonnull(logits);
	b->ops->upload(b, logits, values, ROW_PARTS * ROW_COUNT * ROW_WIDTH * sizeof *logits);
	rows_want(r);
	b->ops->logits(b,
		&(struct logits_args){.hidden = 8,
			.vocab = ROW_VOCAB,
			.logits = logits,
			.logits_parts = ROW_PARTS,
			.rows = r->row,
			.n_rows = ROW_COUNT});
	ck_assert_msg(b->ops->finish(b, &e) == 0, "%s", e.message);
	b->ops->free(b, logits);
	b->ops->destroy(b);
}

/* The kernels behind the product have the CPU's bits, so whole answers can be compared. */
START_TEST(rows_of_ranks_are_read_as_the_cpu_does)
{
	float values[ROW_PARTS * ROW_COUNT * ROW_WIDTH];
	struct rows cpu, cuda;
	struct backend *b;

	for (int i = 0; i < COUNT(values); i++)
		values[i] = (float)((i * 7919 + i * i * 31) % 1009) / 250.0f - 2.0f;
	cuda_on_cpu_seed((uint64_t)_i);
	CHECK_OK(engine_cpu_backend(1, &b, &test_error));
	rows_read(b, values, &cpu);
	rows_read(backend_new(&(struct cuda_options){0}), values, &cuda);
	for (int i = 0; i < ROW_COUNT; i++) {
		ck_assert_int_eq(cuda.row[i].argmax, cpu.row[i].argmax);
		ck_assert_uint_eq(float_bits(cuda.row[i].target_logprob), float_bits(cpu.row[i].target_logprob));
		ck_assert_int_eq(cuda.row[i].sampled, cpu.row[i].sampled);
		ck_assert_uint_eq(float_bits(cuda.row[i].sampled_logprob), float_bits(cpu.row[i].sampled_logprob));
	}
	ck_assert(memcmp(cuda.top_ids, cpu.top_ids, sizeof cpu.top_ids) == 0);
	ck_assert(memcmp(cuda.top_logprobs, cpu.top_logprobs, sizeof cpu.top_logprobs) == 0);
	ck_assert(memcmp(cuda.all, cpu.all, sizeof cpu.all) == 0);
}
END_TEST

/* ---- counters ---- */

enum { CACHE_PAGES = 3, CACHE_VALUES = CACHE_PAGES * 2 * 4 * 16 };

/* Page 1 of a cache in f32, with some values beyond 448, to page 2 of one in fp8, for each counter a number of times. */
static void pages_convert(struct backend *b, uint64_t counted[2])
{
	const struct kv_geometry geometry = {4, CACHE_PAGES, 2, 16};
	const int32_t source = 1, target = 2;
	float values[CACHE_VALUES];
	struct error e = {0};
	struct kv_layer from = {KV_F32, NULL, NULL, 1.0f, 1.0f}, to = {KV_E4M3, NULL, NULL, 1.0f, 1.0f};

	for (int i = 0; i < CACHE_VALUES; i++)
		values[i] = i % 7 == 0 ? 1000.0f : (float)i;
	from.k = b->ops->alloc(b, sizeof values, &test_error);
	from.v = b->ops->alloc(b, sizeof values, &test_error);
	to.k = b->ops->alloc(b, CACHE_VALUES, &test_error);
	to.v = b->ops->alloc(b, CACHE_VALUES, &test_error);
	b->ops->upload(b, from.k, values, sizeof values);
	b->ops->upload(b, from.v, values, sizeof values);
	for (int i = 0; i < 5; i++) {
		b->ops->copy_pages(b,
			&(struct copy_pages_args){
				geometry, geometry, from, to, &source, &target, 1, 3, i == 4 ? NULL : &counted[i > 0]});
		if (i == 1)
			ck_assert_int_eq(b->ops->finish(b, &e), 0);
	}
	ck_assert_int_eq(b->ops->finish(b, &e), 0);
	b->ops->free(b, from.k);
	b->ops->free(b, from.v);
	b->ops->free(b, to.k);
	b->ops->free(b, to.v);
	b->ops->destroy(b);
}

START_TEST(clipped_values_are_counted_once)
{
	uint64_t cpu[2] = {10, 20}, cuda[2] = {10, 20};
	struct backend *b;

	cuda_on_cpu_seed((uint64_t)_i);
	CHECK_OK(engine_cpu_backend(1, &b, &test_error));
	pages_convert(b, cpu);
	pages_convert(backend_new(&(struct cuda_options){0}), cuda);
	ck_assert_uint_gt(cpu[0], 10);
	ck_assert_uint_eq(cpu[1] - 20, 3 * (cpu[0] - 10));
	ck_assert_uint_eq(cuda[0], cpu[0]);
	ck_assert_uint_eq(cuda[1], cpu[1]);
}
END_TEST

/* ---- failures ---- */

START_TEST(a_backend_that_cannot_open_says_why)
{
	struct backend *b;
	struct error e = {0};

	cuda_on_cpu_device(0, SIZE_MAX);
	ck_assert_int_eq(cuda_backend_new(&(struct cuda_options){0}, &b, &e), ERR_USAGE);
	ck_assert_ptr_null(b);
	ck_assert_ptr_nonnull(strstr(e.message, "no CUDA device"));
	cuda_on_cpu_device(-1, SIZE_MAX);
	ck_assert_int_eq(cuda_backend_new(&(struct cuda_options){0}, &b, &e), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(e.message, "no NVIDIA driver"));
	cuda_on_cpu_device(1, SIZE_MAX);
	ck_assert_int_eq(cuda_backend_new(&(struct cuda_options){.device = 1}, &b, &e), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(e.message, "CUDA device 1: this machine has 1"));
	cuda_on_cpu_device(1, 100);
	ck_assert_int_eq(cuda_backend_new(&(struct cuda_options){0}, &b, &e), ERR_MEMORY);
	cuda_on_cpu_device(1, SIZE_MAX);
}
END_TEST

/* Whatever the memory does not hold, the engine does not open, says how much was wanted, and gives all back. */
START_TEST(an_engine_that_does_not_fit_says_so)
{
	struct model m = small_model();
	struct engine *engine;
	int failed = 0;

	for (size_t memory = 3 << 20; memory < (12 << 20); memory += 700 << 10) {
		struct engine_config config = {.model = m.path,
			.random_weights = true,
			.threads = 1,
			.kv_memory = 4 << 20,
			.max_batch_tokens = 64};
		struct error e = {0};
		cuda_on_cpu_device(1, SIZE_MAX);
		config.backend = backend_new(&(struct cuda_options){0});
		CHECK_OK(variant_parse("bf16/bf16", &config.variant, &test_error));
		cuda_on_cpu_device(1, memory);
		if (engine_open(&config, &engine, &e) == 0) {
			engine_close(engine);
			continue;
		}
		failed++;
		ck_assert_msg(e.code == ERR_MEMORY && strstr(e.message, "bytes"), "%d: %s", e.code, e.message);
	}
	cuda_on_cpu_device(1, SIZE_MAX);
	ck_assert_int_gt(failed, 0);
}
END_TEST

/* A failure is kept until finish tells it; until then nothing runs, and no page counts as good. */
START_TEST(a_failed_op_is_told_by_finish)
{
	struct backend *b = backend_new(&(struct cuda_options){0});
	struct verify v;
	struct verify_pages_args a = verify_args(&v);
	struct error e = {0};
	float *x = b->ops->alloc(b, 4096, &test_error);
	struct route_args route = {.logits = x,
		.n_tokens = 1,
		.n_experts = 100000,
		.n_chosen = 1,
		.n_group = 1,
		.topk_group = 1,
		.scaling = 1.0f,
		.experts = (int32_t *)(void *)x,
		.weights = x};

	b->ops->route(b, &route);
	ck_assert_int_eq(b->ops->finish(b, &e), ERR_INPUT);
	ck_assert_msg(strstr(e.message, "100000"), "%s", e.message);
	CHECK_OK(b->ops->finish(b, &test_error));
	verify_expect(b, &a, -1, -1, -1);
	b->ops->route(b, &route);
	verify_expect(b, &a, 0, 0, 0);
	ck_assert_int_eq(b->ops->finish(b, &e), ERR_INPUT);
	verify_expect(b, &a, -1, -1, -1);
	b->ops->free(b, x);
	b->ops->destroy(b);
}
END_TEST

START_TEST(the_device_is_measured)
{
	struct cuda_machine m;

	CHECK_OK(cuda_machine_measure(0, &m, &test_error));
	ck_assert_str_eq(m.name, "no GPU: the CPU stands in");
	ck_assert(m.copy > 0 && m.tensor_flops > 0);
	ck_assert_int_eq(cuda_machine_measure(3, &m, &test_error), ERR_USAGE);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *host = test_case(suite, "host side", 0);
	tcase_add_loop_test(host, an_array_may_be_used_again_at_once, 0, 3);
	tcase_add_loop_test(host, a_check_behind_the_step_is_of_what_is_there, 0, 3);
	tcase_add_loop_test(host, rows_of_ranks_are_read_as_the_cpu_does, 0, 2);
	tcase_add_loop_test(host, clipped_values_are_counted_once, 0, 2);
	tcase_add_test(host, a_backend_that_cannot_open_says_why);
	tcase_add_test(host, an_engine_that_does_not_fit_says_so);
	tcase_add_test(host, a_failed_op_is_told_by_finish);
	tcase_add_test(host, the_device_is_measured);

	TCase *engine = test_case(suite, "engine", 120);
	tcase_add_loop_test(engine, logits_are_the_cpus, 0, COUNT(cpu_cases));
	tcase_add_loop_test(
		engine, one_prompt_has_one_output_whatever_surrounds_it, test_build_is_slow(), COUNT(bit_variants));
	tcase_add_test(engine, graphs_give_the_same_bits);
	tcase_add_test(engine, graphs_end_with_the_memory_they_name);
	tcase_add_test(engine, guards_check_what_the_device_reads);
	tcase_add_loop_test(engine, products_by_a_library_are_near_to_ours, 0, 2 - test_build_is_slow());
	tcase_add_test(engine, a_library_that_is_too_old_is_told);
	tcase_add_test(engine, a_library_is_looked_for_by_every_name);
}

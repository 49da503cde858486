/* The engine on real weights: the values of transformers. */
#include <math.h>
#include <stdlib.h>

#include "engine/base/file.h"
#include "engine/base/json_strict.h"
#include "engine/model/safetensors.h"
#include "tests/engine_support.h"

const char *const test_program_name = "engine_values";

/* ---- goldens ---- */

struct golden {
	struct engine *engine;
	struct engine_text *text;
	struct buf lines;
	size_t at;
	struct json_document *document;
};

static struct golden golden_open_with(const char *path, const char *model, const char *variant)
{
	struct golden g = {
		.engine = open_with(model, variant, (struct engine_config){0}), .lines = test_read_file(path)};
	CHECK_OK(engine_text_open(model, &g.text, &test_error));
	return g;
}

static struct golden golden_open(const char *path, const char *model)
{
	return golden_open_with(path, model, "bf16/f32");
}

static const struct json *golden_next(struct golden *g)
{
	json_free(g->document);
	g->document = NULL;
	if (g->at >= g->lines.length)
		return NULL;
	const char *start = g->lines.data + g->at;
	size_t length = strcspn(start, "\n");
	g->at += length + 1;
	CHECK_OK(json_parse((struct str){start, length}, "golden", 0, &g->document, &test_error));
	return json_root(g->document);
}

static void golden_close(struct golden *g)
{
	json_free(g->document);
	buf_free(&g->lines);
	engine_text_close(g->text);
	engine_close(g->engine);
}

/* tolerance: per token. Returns the number of lines. */
static int check_logprobs(const char *path, const char *model, double tolerance)
{
	struct golden g = golden_open(path, model);
	int lines = 0;

	for (const struct json *line; (line = golden_next(&g)); lines++) {
		struct engine_ids ids;
		size_t n_context;
		double sum = 0;
		bool greedy = true;
		CHECK_OK(engine_text_encode_pair(g.text, json_get(line, "context")->text,
			json_get(line, "continuation")->text, &ids, &n_context, &test_error));
		struct engine_request r = {
			.tokens = ids.data, .n_tokens = (int)ids.count, .logprobs_from = (int)n_context};
		struct engine_result *result = ask(g.engine, &r);
		for (int i = 0; i < result->n_prompt_logprobs; i++) {
			sum += (double)result->prompt_logprobs[i];
			greedy &= result->prompt_greedy[i];
		}
		double expected = json_double(json_get(line, "logprob"));
		ck_assert_int_eq(result->n_prompt_logprobs, (int)json_double(json_get(line, "tokens")));
		ck_assert_msg(fabs(sum - expected) <= tolerance * result->n_prompt_logprobs,
			"line %d: %.6f, expected %.6f", lines + 1, sum, expected);
		ck_assert_int_eq(greedy, json_bool(json_get(line, "is_greedy"), false));
		engine_result_free(result);
		engine_ids_free(&ids);
	}
	golden_close(&g);
	return lines;
}

static void check_same_ids(const struct json *expected, const struct engine_result *r, int line)
{
	int n = r->n_generated - r->ended_by_eos, i = 0;
	ck_assert_msg((int)expected->count == n, "line %d: %d tokens, expected %zu", line, n, expected->count);
	JSON_EACH (id, expected) {
		ck_assert_msg(r->tokens[i] == (int)json_double(id), "line %d: token %d is %d", line, i, r->tokens[i]);
		i++;
	}
}

/* A line whose smallest lead is below `tie` is a true tie: either token is right. */
static int check_generate(const char *path, const char *model, double tie)
{
	struct golden g = golden_open(path, model);
	int lines = 0;

	for (const struct json *line; (line = golden_next(&g)); lines++) {
		struct engine_ids ids;
		struct str stops[8];
		int n_stops = 0;
		JSON_EACH (stop, json_get(line, "stop"))
			stops[n_stops++] = stop->text;
		CHECK_OK(engine_text_encode(g.text, json_get(line, "prompt")->text, true, &ids, &test_error));
		struct engine_request r = {.tokens = ids.data,
			.n_tokens = (int)ids.count,
			.logprobs_from = -1,
			.stops = stops,
			.n_stops = n_stops,
			.max_tokens = (int)json_double(json_get(line, "max_tokens"))};
		struct engine_result *result = ask(g.engine, &r);
		if (json_double(json_get(line, "gap")) > tie) {
			struct str text = {result->text.data, result->text_cut},
				   expected = json_get(line, "text")->text;
			ck_assert_msg(str_equal(text, expected), "line %d: '%.*s', expected '%.*s'", lines + 1,
				STR_ARG(text), STR_ARG(expected));
			check_same_ids(json_get(line, "tokens"), result, lines + 1);
			ck_assert_str_eq(
				engine_finish_name(result->finish), json_get(line, "finish_reason")->text.data);
		}
		engine_result_free(result);
		engine_ids_free(&ids);
	}
	golden_close(&g);
	return lines;
}

START_TEST(frozen_logprobs_are_those_of_transformers)
{
	ck_assert_int_ge(check_logprobs(golden_path("engine/pocket_logprobs.jsonl"), POCKET, 2e-4), 40);
}
END_TEST

START_TEST(frozen_answers_are_those_of_transformers)
{
	ck_assert_int_ge(check_generate(golden_path("engine/pocket_generate.jsonl"), POCKET, 1e-3), 7);
}
END_TEST

START_TEST(all_pocket_values_are_those_of_transformers)
{
	const char *logprobs = shared_path("golden/pocket/logprobs.jsonl"),
		   *generate = shared_path("golden/pocket/generate.jsonl");
	if (!logprobs || !generate)
		SKIP("no shared golden/pocket");
	ck_assert_int_ge(check_logprobs(logprobs, POCKET, 2e-4), 400);
	ck_assert_int_ge(check_generate(generate, POCKET, 1e-3), 60);
}
END_TEST

/* Public models, where their folders and GGUF files are given. */
static const struct {
	const char *name, *gguf; /* folder and file below ASSAY_MODELS */
	int logprobs, answers;   /* at least so many golden lines */
} public_models[] = {
	{"smollm2", "smollm2-135m-instruct-q4_1.gguf", 100, 9},
	{"qwen", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", 200, 9},
};
enum { PUBLIC = sizeof(public_models) / sizeof(public_models[0]) };

/* A path below ASSAY_MODELS, to be freed; NULL: it is not there. */
static char *public_path(const char *name)
{
	const char *models = getenv("ASSAY_MODELS");
	char *path = models ? path_join(models, name, &test_error) : NULL;
	if (path && !file_exists(path) && !file_is_folder(path)) {
		free(path);
		path = NULL;
	}
	return path;
}

static const char *public_golden(int i, const char *file)
{
	char relative[64];
	snprintf(relative, sizeof(relative), "golden/%s/%s", public_models[i].name, file);
	return shared_path(relative);
}

START_TEST(public_values_are_those_of_transformers)
{
	char *model = public_path(public_models[_i].name);
	const char *logprobs = public_golden(_i, "logprobs.jsonl");
	if (!model || !logprobs)
		SKIP("ASSAY_MODELS holds no %s, or no shared golden of it", public_models[_i].name);
	ck_assert_int_ge(check_logprobs(logprobs, model, 1e-3), public_models[_i].logprobs);
	ck_assert_int_ge(check_generate(public_golden(_i, "generate.jsonl"), model, 5e-3), public_models[_i].answers);
	free(model);
}
END_TEST

/* The same lines through a folder and a GGUF file: the same ids, and the same values as bits. */
static void check_same_line(struct golden *folder, struct golden *file, const struct json *line)
{
	struct golden *both[] = {folder, file};
	struct engine_ids ids[2];
	struct engine_result *results[2];
	size_t n_context[2];
	for (int i = 0; i < 2; i++) {
		CHECK_OK(engine_text_encode_pair(both[i]->text, json_get(line, "context")->text,
			json_get(line, "continuation")->text, &ids[i], &n_context[i], &test_error));
		struct engine_request r = {
			.tokens = ids[i].data, .n_tokens = (int)ids[i].count, .logprobs_from = (int)n_context[i]};
		results[i] = ask(both[i]->engine, &r);
	}
	ck_assert(ids[0].count == ids[1].count && n_context[0] == n_context[1]);
	ck_assert_mem_eq(ids[0].data, ids[1].data, ids[0].count * sizeof(int32_t));
	ck_assert_int_eq(results[0]->n_prompt_logprobs, results[1]->n_prompt_logprobs);
	ck_assert_mem_eq(results[0]->prompt_logprobs, results[1]->prompt_logprobs,
		(size_t)results[0]->n_prompt_logprobs * sizeof(float));
	for (int i = 0; i < 2; i++) {
		engine_ids_free(&ids[i]);
		engine_result_free(results[i]);
	}
}

START_TEST(public_files_equal_their_folders)
{
	static const char *const variants[] = {"bf16/f32", "int4/fp8"};
	char *folder = public_path(public_models[_i].name), *file = public_path(public_models[_i].gguf);
	const char *path = public_golden(_i, "logprobs.jsonl");
	if (!folder || !file || !path)
		SKIP("ASSAY_MODELS holds no %s as folder and file, or no shared golden of it", public_models[_i].name);
	for (int v = 0; v < COUNT(variants); v++) {
		struct golden a = golden_open_with(path, folder, variants[v]),
			      b = golden_open_with(path, file, variants[v]);
		const struct json *line;
		for (int lines = 0; lines < 10 && (line = golden_next(&a)); lines++)
			check_same_line(&a, &b, line);
		ck_assert_str_eq(engine_text_template_hash(a.text), engine_text_template_hash(b.text));
		golden_close(&a);
		golden_close(&b);
	}
	free(folder);
	free(file);
}
END_TEST

/* Families of random weights: llama with its rope scaling, qwen2 with biases, qwen3 with q and k norms and long
 * heads. */
static const char *const tiny[] = {"llama", "qwen2", "qwen3"};

/* Whole rows against the logits. */
/* Every row of log-probabilities against the golden logits. The engine is closed. */
static void check_rows(struct engine *engine, const char *golden)
{
	struct safetensors *file;
	CHECK_OK(safetensors_open(golden, &file, &test_error));
	for (int k = 0; k < 4; k++) {
		char name[32];
		snprintf(name, sizeof name, "ids_%d", k);
		const struct tensor *ids = safetensors_find(file, name);
		snprintf(name, sizeof name, "logits_%d", k);
		const struct tensor *logits = safetensors_find(file, name);
		int n = (int)ids->count, vocab = (int)logits->shape[1];
		int32_t tokens[128];
		float *rows = calloc((size_t)(n * vocab), sizeof *rows),
		      *expected = calloc((size_t)(n * vocab), sizeof *expected);
		for (int i = 0; i < n; i++) {
			int64_t id;
			memcpy(&id, ids->data + 8 * i, sizeof id);
			tokens[i] = (int32_t)id;
		}
		CHECK_OK(tensor_to_float(logits, 0, logits->count, expected));
		/* rows predict tokens 1..n: the last one what would come next */
		struct engine_request r = {.tokens = tokens, .n_tokens = n, .logprobs_from = 1, .rows = rows};
		engine_result_free(ask(engine, &r));
		for (int i = 0; i < n; i++) {
			double sum = 0;
			for (int v = 0; v < vocab; v++)
				sum += exp((double)expected[i * vocab + v]);
			for (int v = 0; v < vocab; v++)
				ck_assert_double_eq_tol(
					(double)rows[i * vocab + v], (double)expected[i * vocab + v] - log(sum), 2e-4);
		}
		free(rows);
		free(expected);
	}
	safetensors_close(file);
	engine_close(engine);
}

START_TEST(tiny_rows_are_those_of_transformers)
{
	char relative[64];
	snprintf(relative, sizeof(relative), "golden/tiny/%s/golden.safetensors", tiny[_i]);
	const char *golden = shared_path(relative);
	snprintf(relative, sizeof(relative), "golden/tiny/%s", tiny[_i]);
	const char *model = shared_path(relative);
	if (!golden)
		SKIP("no shared golden/tiny/%s", tiny[_i]);
	check_rows(open_with(model, "bf16/f32", (struct engine_config){0}), golden);
}
END_TEST

/* The configuration ties the head, but the checkpoint has one of its own: transformers uses that one. */
START_TEST(a_head_of_its_own_is_not_tied)
{
	const char *golden = shared_path("golden/tiny/llama/golden.safetensors");
	if (!golden)
		SKIP("no shared golden/tiny/llama");
	struct buf weights = test_read_file(shared_path("golden/tiny/llama/model.safetensors"));
	struct buf config = test_read_file(shared_path("golden/tiny/llama/config.json"));
	char *tie = strstr(config.data, "\"tie_word_embeddings\": false");
	ck_assert_ptr_nonnull(tie);
	memcpy(strchr(tie, ':') + 1, " true ", 6);
	char *model = strdup(test_write_file("model/config.json", config.data, config.length));
	test_write_file("model/model.safetensors", weights.data, weights.length);
	*strrchr(model, '/') = '\0';
	struct engine *engine = open_with(model, "bf16/f32", (struct engine_config){0});
	ck_assert(engine_facts(engine)->head_untied);
	check_rows(engine, golden);
	free(model);
	buf_free(&weights);
	buf_free(&config);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *values = test_case(suite, "values", 120);

	tcase_add_test(values, frozen_logprobs_are_those_of_transformers);
	tcase_add_test(values, frozen_answers_are_those_of_transformers);
	tcase_add_test(values, all_pocket_values_are_those_of_transformers);
	tcase_add_loop_test(values, tiny_rows_are_those_of_transformers, 0, COUNT(tiny));
	tcase_add_test(values, a_head_of_its_own_is_not_tied);
	TCase *models = test_case(suite, "public models", 900);
	tcase_add_loop_test(models, public_values_are_those_of_transformers, 0, PUBLIC);
	tcase_add_loop_test(models, public_files_equal_their_folders, 0, PUBLIC);
}

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

static struct golden golden_open(const char *path, const char *model)
{
	struct golden g = {
		.engine = open_with(model, "bf16/f32", (struct engine_config){0}), .lines = test_read_file(path)};
	CHECK_OK(engine_text_open(model, &g.text, &test_error));
	return g;
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

/* A public model of 30 layers, where its folder is given. */
START_TEST(smollm2_values_are_those_of_transformers)
{
	const char *models = getenv("ASSAY_MODELS"), *logprobs = shared_path("golden/smollm2/logprobs.jsonl");
	if (!models || !logprobs)
		SKIP("ASSAY_MODELS is not set, or no shared golden/smollm2");
	char *model = path_join(models, "smollm2", &test_error);
	ck_assert_int_ge(check_logprobs(logprobs, model, 1e-3), 100);
	ck_assert_int_ge(check_generate(shared_path("golden/smollm2/generate.jsonl"), model, 5e-3), 9);
	free(model);
}
END_TEST

/* Whole rows against the logits of a random model with llama3 rope scaling. */
START_TEST(tiny_llama_rows_are_those_of_transformers)
{
	const char *golden = shared_path("golden/tiny/llama/golden.safetensors"),
		   *model = shared_path("golden/tiny/llama");
	if (!golden)
		SKIP("no shared golden/tiny/llama");
	struct safetensors *file;
	struct engine *engine = open_with(model, "bf16/f32", (struct engine_config){0});
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
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *values = test_case(suite, "values", 120);

	tcase_add_test(values, frozen_logprobs_are_those_of_transformers);
	tcase_add_test(values, frozen_answers_are_those_of_transformers);
	tcase_add_test(values, all_pocket_values_are_those_of_transformers);
	tcase_add_test(values, smollm2_values_are_those_of_transformers);
	tcase_add_test(values, tiny_llama_rows_are_those_of_transformers);
}

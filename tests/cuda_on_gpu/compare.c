/* One model on the CPU and on a CUDA device: how far their log-probabilities are apart, and whether the device's bits
 * depend on what else is in the batch. One JSON object a variant. Exit code: 0, 1 where bits differ, a value is no number
 * or the two are too far apart, 2 usage, 4 for an error. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda_backend.h"
#include "engine/engine.h"

enum { TOKENS = 64, OTHERS = 15 };

/* Of the squares of a row's log-probabilities round their mean: rows that have nothing in common differ by 1 or more. The
 * device rounds activations to bf16 where the CPU keeps f32, and a K or V that then falls on another code of E4M3 adds to
 * that: 0.005 at most on the pocket model with the kernels on the CPU. */
static const double NMSE_MOST = 0.05;

struct subject {
	const char *model;
	bool random;
};

static void prompt_make(int32_t *tokens, int n, int vocab, int seed)
{
	for (int i = 0; i < n; i++)
		tokens[i] = (int32_t)(((long)seed * 7919 + (long)i * (131 + seed) + (long)i * i) % vocab);
}

static int engine_new(const struct subject *s, const char *variant, bool cuda, struct engine **out, struct error *e)
{
	struct engine_config config = {.model = s->model,
		.random_weights = s->random,
		.weights_seed = 1,
		.kv_memory = (uint64_t)256 << 20,
		.pad_decode = cuda};

	*out = NULL;
	TRY(variant_parse(variant, &config.variant, e));
	if (cuda)
		TRY(cuda_backend_new(&(struct cuda_options){0}, &config.backend, e));
	return engine_open(&config, out, e);
}

/* Log-probability rows of one prompt, among others. rows: [TOKENS, vocab]. */
static int rows_compute(struct engine *engine, int others, float *rows, struct error *e)
{
	int vocab = engine_facts(engine)->vocab_size;
	int32_t tokens[TOKENS], other[2 * TOKENS];
	uint64_t id;

	for (int i = 0; i < others; i++) {
		int n = 1 + i * 37 % (2 * TOKENS);
		prompt_make(other, n, vocab, i + 2);
		struct engine_request r = {
			.tokens = other, .n_tokens = n, .logprobs_from = -1, .max_tokens = 4, .ignore_eos = true};
		TRY(engine_submit(engine, &r, &id, e));
	}
	prompt_make(tokens, TOKENS, vocab, 1);
	struct engine_request r = {.tokens = tokens,
		.n_tokens = TOKENS,
		.logprobs_from = 1,
		.rows = rows,
		.max_tokens = 1,
		.ignore_eos = true};
	TRY(engine_submit(engine, &r, &id, e));
	for (int done = 0; done <= others;) {
		struct engine_result *result = engine_poll(engine);
		bool idle;
		if (!result) {
			TRY(engine_step(engine, &idle, e));
			continue;
		}
		if (result->finish == ENGINE_FAILED) {
			*e = result->error;
			engine_result_free(result);
			return e->code;
		}
		engine_result_free(result);
		done++;
	}
	return 0;
}

static int row_argmax(const float *row, int vocab)
{
	int best = 0;
	for (int i = 1; i < vocab; i++)
		best = row[i] > row[best] ? i : best;
	return best;
}

static double row_mean(const float *row, int vocab)
{
	double sum = 0;
	for (int i = 0; i < vocab; i++)
		sum += (double)row[i];
	return sum / vocab;
}

/* Prints what differs; whether all is well. */
static bool report(
	const struct subject *s, const char *variant, const float *cpu, const float *cuda, bool same, int vocab)
{
	double most = 0, error = 0, power = 0, target = 0;
	int agree = 0;
	int32_t tokens[TOKENS];
	bool good = same;

	prompt_make(tokens, TOKENS, vocab, 1);
	for (int t = 0; t < TOKENS; t++) {
		const float *a = cpu + (size_t)t * (size_t)vocab, *b = cuda + (size_t)t * (size_t)vocab;
		double mean = row_mean(a, vocab);
		for (int i = 0; i < vocab; i++) {
			double difference = fabs((double)a[i] - (double)b[i]);
			if (!isfinite(difference)) {
				good = false;
				continue;
			}
			most = difference > most ? difference : most;
			error += difference * difference;
			power += ((double)a[i] - mean) * ((double)a[i] - mean);
		}
		double of_target = t + 1 < TOKENS ? fabs((double)a[tokens[t + 1]] - (double)b[tokens[t + 1]]) : 0;
		target = isfinite(of_target) && of_target > target ? of_target : target;
		agree += row_argmax(a, vocab) == row_argmax(b, vocab);
	}
	printf("{\"model\": \"%s\", \"variant\": \"%s\", \"rows\": %d, \"max_abs\": %.6g, \"max_abs_of_targets\": "
	       "%.6g, "
	       "\"nmse\": %.6g, \"argmax_same\": %d, \"same_bits_in_a_batch\": %s}",
		s->model, variant, TOKENS, most, target, power > 0 ? error / power : 0, agree, same ? "true" : "false");
	return good && error <= NMSE_MOST * power;
}

/* separator: printed before what is found. */
static int compare(const struct subject *s, const char *variant, const char *separator, bool *good, struct error *e)
{
	struct engine *cpu = NULL, *cuda = NULL;
	float *rows = NULL;
	size_t count = 0;
	int status = engine_new(s, variant, false, &cpu, e);

	if (status == 0)
		status = engine_new(s, variant, true, &cuda, e);
	if (status == 0) {
		count = (size_t)TOKENS * (size_t)engine_facts(cpu)->vocab_size;
		rows = mem_calloc(3 * count, sizeof *rows, e);
		status = rows ? rows_compute(cpu, 0, rows, e) : ERR_MEMORY;
	}
	if (status == 0)
		status = rows_compute(cuda, 0, rows + count, e);
	if (status == 0) {
		engine_cache_clear(cuda);
		status = rows_compute(cuda, OTHERS, rows + 2 * count, e);
	}
	if (status == 0) {
		printf("%s", separator);
		*good &= report(s, variant, rows, rows + count,
			memcmp(rows + count, rows + 2 * count, count * sizeof *rows) == 0,
			engine_facts(cpu)->vocab_size);
	}
	free(rows);
	engine_close(cpu);
	engine_close(cuda);
	return status;
}

int main(int argc, char **argv)
{
	bool random = argc > 1 && strcmp(argv[1], "--random") == 0, good = true;
	int first = random ? 2 : 1;
	struct error e = {0};

	if (argc < first + 2) {
		fprintf(stderr, "usage: %s [--random] MODEL|CONFIG VARIANT...\n", argv[0]);
		return 2;
	}
	struct subject s = {argv[first], random};
	printf("[");
	for (int i = first + 1; i < argc; i++) {
		if (compare(&s, argv[i], i > first + 1 ? ",\n " : "", &good, &e) < 0) {
			printf("]\n");
			fprintf(stderr, "%s, %s: %s\n", s.model, argv[i], e.message);
			return error_exit_code(e.code);
		}
		fflush(stdout);
	}
	printf("]\n");
	return good ? 0 : 1;
}

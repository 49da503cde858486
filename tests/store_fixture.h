/* Rows that the tests of the store write, and a text of all that a run holds. */
#ifndef ASSAY_TESTS_STORE_FIXTURE_H
#define ASSAY_TESTS_STORE_FIXTURE_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reports/store.h"
#include "tests/support.h"

#define STR(literal) ((struct str){literal, sizeof(literal) - 1})

static inline const char *fixture_path(const char *name)
{
	static char path[4096];
	snprintf(path, sizeof(path), "%s/%s", scratch_folder(), name);
	return path;
}

static inline struct store_run fixture_run(const char *config_hash)
{
	return (struct store_run){
		.kind = "run",
		.config_hash = config_hash,
		.version = "0.1.0",
		.command = "assay run --suite gsm8k",
		.model = "/data/pocket/model",
		.model_fingerprint = "f00d",
		.numerics_id = "n1",
		.for_gating = true,
		.provenance = STR("{\"seeds\": {\"fewshot\": 1234}}"),
	};
}

static inline struct store_variant fixture_variant(const char *name)
{
	return (struct store_variant){
		.name = name,
		.weights_bytes = 1835008,
		.kv_bytes_per_token = 512,
		.kv_tokens = 4096,
		.facts = STR("{\"kv_scale\": \"1.0\", \"saturated\": 0}"),
	};
}

static inline struct store_sample fixture_sample(int64_t variant_id, int64_t doc_id)
{
	return (struct store_sample){
		.variant_id = variant_id,
		.suite = "gsm8k",
		.task = "gsm8k",
		.doc_id = doc_id,
		.doc_hash = "d0",
		.prompt_hash = "p0",
		.target_hash = "t0",
		.response = STR("\" 18\\n#### 18\""),
		.filtered = STR("{\"strict-match\": \"18\"}"),
		.metrics = STR("{\"exact_match,strict-match\": 1.0}"),
		.status = SAMPLE_OK,
		.finish_reason = "stop",
		.prompt_tokens = 100,
		.cached_tokens = 64,
		.generated_tokens = 7,
		.seconds = 0.25,
	};
}

static inline struct store *fixture_open(const char *path)
{
	struct store *s = NULL;
	CHECK_OK(store_open(path, &s, &test_error));
	return s;
}

/* Begins the run of that configuration; returns its id. */
static inline int64_t fixture_begin(struct store *s, const char *config_hash, bool resumed_expected)
{
	struct store_run run = fixture_run(config_hash);
	int64_t run_id = 0;
	bool resumed = !resumed_expected;
	CHECK_OK(store_run_begin(s, &run, &run_id, &resumed, &test_error));
	ck_assert_int_eq(resumed, resumed_expected);
	return run_id;
}

static inline int64_t fixture_add_variant(struct store *s, const char *name)
{
	struct store_variant variant = fixture_variant(name);
	int64_t variant_id = 0;
	CHECK_OK(store_variant_add(s, &variant, &variant_id, &test_error));
	return variant_id;
}

static inline enum store_answered fixture_answered(struct store *s, const struct store_sample *sample)
{
	enum store_answered answered = STORE_CHANGED;
	CHECK_OK(store_sample_answered(s, sample->variant_id, sample->suite, sample->task, sample->doc_id,
		sample->doc_hash, sample->prompt_hash, &answered, &test_error));
	return answered;
}

static inline int fixture_append_sample(void *context, const struct store_sample *x, struct error *e)
{
	struct buf *out = context;
	buf_printf(out, "%" PRId64 " %s %s %" PRId64 " %s %s %s|", x->variant_id, x->suite, x->task, x->doc_id,
		x->doc_hash, x->prompt_hash, x->target_hash);
	buf_append_str(out, x->response);
	buf_append_char(out, '|');
	buf_append_str(out, x->filtered);
	buf_append_char(out, '|');
	buf_append_str(out, x->metrics);
	buf_append_char(out, '|');
	buf_append_str(out, x->tokens);
	buf_append_char(out, '|');
	buf_append_str(out, x->token_logprobs);
	buf_printf(out, "|%s %s %s %" PRId64 " %" PRId64 " %" PRId64 " cut %" PRId64 " %g\n",
		sample_status_name(x->status), x->finish_reason ? x->finish_reason : "-", x->error ? x->error : "-",
		x->prompt_tokens, x->cached_tokens, x->generated_tokens, x->context_cut, x->seconds);
	return buf_check(out, e);
}

/* Every sample of a run, a line each. */
static inline struct buf fixture_samples(struct store *s, int64_t run_id)
{
	struct buf out = {0};
	CHECK_OK(store_samples_each(s, run_id, 0, NULL, fixture_append_sample, &out, &test_error));
	return out;
}

struct fixture_run_facts {
	int n;
	int64_t run_id, pid;
	enum run_status status;
	double seconds;
	int resumptions;
	bool finished;
	char uid[STORE_UID_SIZE];
};

static inline int fixture_take_run(void *context, const struct store_run *run, struct error *e)
{
	struct fixture_run_facts *facts = context;
	(void)e;
	facts->n++;
	facts->run_id = run->run_id;
	facts->pid = run->pid;
	facts->status = run->status;
	facts->seconds = run->seconds;
	facts->resumptions = run->resumptions;
	facts->finished = run->finished != 0;
	snprintf(facts->uid, sizeof(facts->uid), "%s", run->uid);
	return 0;
}

/* What a reader sees of one run, or (run_id 0) of the last of all. */
static inline struct fixture_run_facts fixture_facts(const char *path, int64_t run_id)
{
	struct fixture_run_facts facts = {0};
	struct store *s = NULL;
	CHECK_OK(store_open_reading(path, &s, &test_error));
	CHECK_OK(store_runs_each(s, run_id, fixture_take_run, &facts, &test_error));
	store_close(s);
	return facts;
}

#endif

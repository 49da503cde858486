/* Asking an engine, for the test programs that do. */
#ifndef ASSAY_TESTS_ENGINE_SUPPORT_H
#define ASSAY_TESTS_ENGINE_SUPPORT_H

#include "engine/engine.h"
#include "tests/support.h"

#define POCKET SOURCE_DIR "/datasets/pocket/model"
#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

static inline struct engine *open_with(const char *model, const char *variant, struct engine_config config)
{
	struct engine *engine;
	config.model = model;
	CHECK_OK(variant_parse(variant, &config.variant, &test_error));
	CHECK_OK(engine_open(&config, &engine, &test_error));
	return engine;
}

static inline void renew_with(
	struct engine *engine, const char *model, const char *variant, struct engine_config config)
{
	config.model = model;
	CHECK_OK(variant_parse(variant, &config.variant, &test_error));
	CHECK_OK(engine_renew(engine, &config, &test_error));
}

static inline struct engine *open_pocket(const char *variant)
{
	return open_with(POCKET, variant, (struct engine_config){.threads = 1, .kv_memory = 64 << 20});
}

static inline uint64_t submit(struct engine *engine, const struct engine_request *r)
{
	uint64_t id = 0;
	CHECK_OK(engine_submit(engine, r, &id, &test_error));
	return id;
}

static inline struct engine_result *finish_one(struct engine *engine)
{
	for (;;) {
		struct engine_result *r = engine_poll(engine);
		bool idle;
		if (r)
			return r;
		CHECK_OK(engine_step(engine, &idle, &test_error));
	}
}

static inline struct engine_result *ask(struct engine *engine, const struct engine_request *r)
{
	uint64_t id = submit(engine, r);
	struct engine_result *result = finish_one(engine);
	ck_assert_uint_eq(result->id, id);
	return result;
}

#endif

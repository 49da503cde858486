/* Ranks on CUDA devices, joined by NCCL: devices and library are stood in for on the CPU. What arrives; the bits of a
 * model by its number of ranks; and every way to fail, after which nobody hangs (a hang is the test's timeout). */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda_backend.h"
#include "cuda/nccl_comm.h"
#include "engine/backend.h"
#include "engine/base/number.h"
#include "engine/comm.h"
#include "tests/cuda_on_cpu/cuda_on_cpu.h"
#include "tests/cuda_on_cpu/nccl_stand_in.h"
#include "tests/engine_support.h"

const char *const test_program_name = "cuda_ranks";

enum { MOST = 1003, ROUNDS = 10 };

/* ---- the library ---- */

static nccl_stand_in_fail_function *plant_failure;
static nccl_stand_in_misuse_function *misuse;

static void *library_open(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);
	ck_assert_msg(library != NULL, "%s", dlerror());
	return library;
}

static void library_use(void)
{
	void *library = library_open(NCCL_STAND_IN);
	*(void **)&plant_failure = dlsym(library, "nccl_stand_in_fail");
	*(void **)&misuse = dlsym(library, "nccl_stand_in_misuse");
	ck_assert(plant_failure && misuse);
}

static void library_used_well(void)
{
	ck_assert_msg(misuse() == NULL, "%s", misuse());
}

/* ---- groups ---- */

/* What one rank does, on a thread of its own; the status and error of what it asked last are looked at afterwards. */
struct rank {
	struct comm *comm;
	struct backend *backend;
	void (*body)(struct rank *r);
	const void *argument;
	int status;
	struct error error;
	int wrong; /* values that are not what they should be */
};

struct group {
	int size;
	struct backend *backends[COMM_MAX_RANKS];
	struct comm *comms[COMM_MAX_RANKS];
	struct rank ranks[COMM_MAX_RANKS];
};

static struct group group_open(int size)
{
	struct group g = {.size = size};

	cuda_on_cpu_device(size, SIZE_MAX);
	CHECK_OK(cuda_ranks_new(&(struct cuda_options){0}, size, g.backends, g.comms, &test_error));
	return g;
}

static void *rank_main(void *argument)
{
	struct rank *r = argument;
	r->body(r);
	return NULL;
}

static void group_run(struct group *g, void (*body)(struct rank *r), const void *argument)
{
	pthread_t threads[COMM_MAX_RANKS];

	for (int i = 0; i < g->size; i++) {
		g->ranks[i] = (struct rank){
			.comm = g->comms[i], .backend = g->backends[i], .body = body, .argument = argument};
		ck_assert_int_eq(pthread_create(&threads[i], NULL, rank_main, &g->ranks[i]), 0);
	}
	for (int i = 0; i < g->size; i++)
		pthread_join(threads[i], NULL);
}

static void group_close(struct group *g)
{
	for (int i = 0; i < g->size; i++)
		if (g->comms[i])
			g->comms[i]->ops->destroy(g->comms[i]);
	for (int i = 0; i < g->size; i++)
		g->backends[i]->ops->destroy(g->backends[i]);
	library_used_well();
}

static void *device_new(const struct rank *r, size_t bytes)
{
	struct error e = {0};
	void *memory = r->backend->ops->alloc(r->backend, bytes, &e);
	ck_assert_msg(memory != NULL, "%s", e.message);
	return memory;
}

static void upload(const struct rank *r, void *device, const void *host, size_t bytes)
{
	r->backend->ops->upload(r->backend, device, host, bytes);
}

static void download(const struct rank *r, void *host, const void *device, size_t bytes)
{
	r->backend->ops->download(r->backend, host, device, bytes);
}

static void device_free(const struct rank *r, void *memory)
{
	r->backend->ops->free(r->backend, memory);
}

/* ---- what arrives ---- */

static const int sizes[] = {1, 0, 3, 64, MOST};
static const int groups[] = {2, 3, 4, 8};

static uint8_t byte_of(int rank, int round, int i)
{
	return (uint8_t)(rank * 37 + round * 11 + i * 5 + 1);
}

static void bytes_of(uint8_t *out, int rank, int round, int n)
{
	for (int i = 0; i < n; i++)
		out[i] = byte_of(rank, round, i);
}

static void gather_body(struct rank *r)
{
	struct comm *c = r->comm;
	uint8_t host[COMM_MAX_RANKS * MOST], *own = device_new(r, MOST), *all = device_new(r, sizeof host);

	for (int round = 0; round < ROUNDS && r->status == 0; round++) {
		int n = sizes[round % COUNT(sizes)];
		uint8_t *from = round % 2 ? all + c->rank * n : own;
		memset(host, 0, sizeof host);
		upload(r, all, host, sizeof host);
		bytes_of(host, c->rank, round, n);
		upload(r, from, host, (size_t)n);
		r->status = c->ops->all_gather(c, from, (size_t)n, all, &r->error);
		download(r, host, all, sizeof host);
		for (int q = 0; q < c->size; q++)
			for (int i = 0; i < n; i++)
				r->wrong += host[q * n + i] != byte_of(q, round, i);
	}
	device_free(r, own);
	device_free(r, all);
}

/* Magnitudes, infinities, and a NaN in one rank. */
static float value_of(int rank, int round, int i)
{
	if (i % 11 == 5 && rank == i % 3)
		return i % 2 ? NAN : INFINITY;
	return (float)((rank * 31 + round * 7 + i * 13) % 101) / 8.0f;
}

static bool is_max(float value, int size, int round, int i)
{
	float max = 0.0f;
	for (int q = 0; q < size; q++) {
		float other = value_of(q, round, i);
		if (isnan(other))
			return isnan(value);
		max = fmaxf(max, other);
	}
	return float_bits(value) == float_bits(max);
}

static void max_body(struct rank *r)
{
	struct comm *c = r->comm;
	float host[MOST], *values = device_new(r, sizeof host);

	for (int round = 0; round < ROUNDS && r->status == 0; round++) {
		int n = sizes[round % COUNT(sizes)];
		for (int i = 0; i < n; i++)
			host[i] = value_of(c->rank, round, i);
		upload(r, values, host, sizeof host);
		r->status = c->ops->all_reduce_max(c, values, (size_t)n, &r->error);
		download(r, host, values, sizeof host);
		for (int i = 0; i < n; i++)
			r->wrong += !is_max(host[i], c->size, round, i);
	}
	device_free(r, values);
}

/* Each rank sends to rank 0, which sends back what it got to the next one. */
static void message_body(struct rank *r)
{
	struct comm *c = r->comm;
	uint8_t host[MOST], *data = device_new(r, COMM_MAX_RANKS * MOST);

	for (int round = 0; round < ROUNDS && r->status == 0; round++) {
		int n = sizes[round % COUNT(sizes)], before = c->rank > 1 ? c->rank - 1 : c->size - 1;
		bytes_of(host, c->rank, round, n);
		upload(r, data, host, (size_t)n);
		for (int q = 1; q < c->size && c->rank == 0; q++)
			c->ops->receive(c, q, data + q * MOST, (size_t)n, &r->error);
		for (int q = 1; q < c->size && c->rank == 0; q++)
			c->ops->send(c, q, data + (q > 1 ? q - 1 : c->size - 1) * MOST, (size_t)n, &r->error);
		r->status = r->error.code;
		if (c->rank == 0)
			continue;
		c->ops->send(c, 0, data, (size_t)n, &r->error);
		c->ops->receive(c, 0, data, (size_t)n, &r->error);
		download(r, host, data, (size_t)n);
		for (int i = 0; i < n; i++)
			r->wrong += host[i] != byte_of(before, round, i);
	}
	device_free(r, data);
}

static atomic_int arrived;

static void barrier_body(struct rank *r)
{
	for (int round = 1; round <= 70 && r->status == 0; round++) {
		atomic_fetch_add(&arrived, 1);
		r->status = r->comm->ops->barrier(r->comm, &r->error);
		r->wrong += atomic_load(&arrived) < round * r->comm->size;
	}
}

static void (*const bodies[])(struct rank *r) = {gather_body, max_body, message_body, barrier_body};

START_TEST(everybody_gets_what_was_sent)
{
	static const uint64_t seeds[] = {0, 1, 7};

	library_use();
	for (int i = 0; i < COUNT(groups); i++) {
		cuda_on_cpu_seed(seeds[i % COUNT(seeds)]);
		struct group g = group_open(groups[i]);
		for (int body = 0; body < COUNT(bodies); body++) {
			atomic_store(&arrived, 0);
			group_run(&g, bodies[body], NULL);
			for (int r = 0; r < g.size; r++) {
				ck_assert_msg(g.ranks[r].status == 0, "body %d: rank %d of %d: %s", body, r, g.size,
					g.ranks[r].error.message);
				ck_assert_msg(g.ranks[r].wrong == 0, "body %d: rank %d of %d: %d wrong values", body, r,
					g.size, g.ranks[r].wrong);
			}
		}
		group_close(&g);
	}
}
END_TEST

/* ---- a model ---- */

enum { PROMPT = 21, ANSWER = 3, VOCAB = 243 };

struct answer {
	float rows[PROMPT * VOCAB];
	int32_t tokens[ANSWER];
	float logprobs[ANSWER];
};

static struct engine *open_ranks(const char *variant, int ranks, struct group *g)
{
	struct engine_config config = {
		.threads = 1, .ranks = ranks, .kv_memory = 4 << 20, .chunk = 16, .pad_decode = true};

	cuda_on_cpu_device(ranks, SIZE_MAX);
	if (ranks == 1) {
		CHECK_OK(cuda_backend_new(&(struct cuda_options){0}, &config.backend, &test_error));
	} else {
		*g = group_open(ranks);
		config.rank_backends = g->backends;
		config.rank_comms = g->comms;
	}
	return open_with(golden_path("ranks"), variant, config);
}

static struct engine_request request_for(int32_t tokens[PROMPT], float *rows)
{
	for (int i = 0; i < PROMPT; i++)
		tokens[i] = (i * 37 + i * i) % (VOCAB - 20) + 10;
	return (struct engine_request){.tokens = tokens,
		.n_tokens = PROMPT,
		.logprobs_from = 1,
		.rows = rows,
		.max_tokens = ANSWER,
		.ignore_eos = true};
}

static const char *const variants[] = {"bf16/bf16", "fp8/fp8", "int4g32/fp8"};

START_TEST(every_number_of_ranks_gives_the_same_bits)
{
	static struct answer first, answer;
	int32_t tokens[PROMPT];
	struct group g;

	library_use();
	cuda_on_cpu_seed((uint64_t)_i);
	for (int ranks = 1; ranks <= 4; ranks *= 2) {
		struct engine *engine = open_ranks(variants[_i], ranks, &g);
		struct engine_request request = request_for(tokens, answer.rows);
		struct engine_result *r = ask(engine, &request);
		ck_assert_msg(r->finish == ENGINE_LENGTH, "%d ranks: %s", ranks, r->error.message);
		memcpy(answer.tokens, r->tokens, sizeof answer.tokens);
		memcpy(answer.logprobs, r->logprobs, sizeof answer.logprobs);
		engine_result_free(r);
		engine_close(engine);
		if (ranks == 1)
			first = answer;
		ck_assert_msg(memcmp(&first, &answer, sizeof first) == 0, "%s: %d ranks give other bits", variants[_i],
			ranks);
		ck_assert(first.rows[0] < 0.0f);
	}
	library_used_well();
}
END_TEST

/* ---- a library that will not do ---- */

START_TEST(a_missing_library_is_named)
{
	struct backend *backends[2];
	struct comm *comms[2];
	struct error e = {0};

	cuda_on_cpu_device(2, SIZE_MAX);
	if (dlopen("libnccl.so.2", RTLD_LAZY))
		SKIP("this machine has NCCL");
	ck_assert_int_eq(cuda_ranks_new(&(struct cuda_options){0}, 2, backends, comms, &e), ERR_USAGE);
	ck_assert_msg(strstr(e.message, "ranks on CUDA need NCCL: libnccl.so.2: cannot open"), "%s", e.message);
	ck_assert(!backends[0] && !backends[1]);
}
END_TEST

START_TEST(a_library_without_a_function_is_named)
{
	struct backend *backends[2];
	struct comm *comms[2];
	struct error e = {0};

	cuda_on_cpu_device(2, SIZE_MAX);
	library_open(NCCL_STAND_IN_OF_OLD);
	ck_assert_int_eq(cuda_ranks_new(&(struct cuda_options){0}, 2, backends, comms, &e), ERR_USAGE);
	ck_assert_msg(strstr(e.message, "libnccl.so.2 has no ncclCommAbort"), "%s", e.message);
	ck_assert(!comms[0] && !comms[1]);
}
END_TEST

START_TEST(devices_that_cannot_be_joined_are_told)
{
	struct backend *backends[2];
	struct comm *comms[2];
	struct error e = {0};

	library_use();
	cuda_on_cpu_device(1, SIZE_MAX);
	ck_assert_int_eq(cuda_ranks_new(&(struct cuda_options){0}, 2, backends, comms, &e), ERR_USAGE);
	ck_assert_msg(strstr(e.message, "rank 1 of 2: CUDA device 1: this machine has 1"), "%s", e.message);

	for (int r = 0; r < 2; r++)
		CHECK_OK(cuda_backend_new(&(struct cuda_options){0}, &backends[r], &test_error));
	ck_assert_int_eq(nccl_comms_new(backends, 2, comms, &e), ERR_DEVICE);
	ck_assert_msg(strstr(e.message, "cannot join 2 devices: error 5: invalid usage"), "%s", e.message);
	for (int r = 0; r < 2; r++)
		backends[r]->ops->destroy(backends[r]);

	for (int call = 1; call <= 3; call++) {
		cuda_on_cpu_device(2, SIZE_MAX);
		plant_failure(1, call);
		ck_assert_int_eq(cuda_ranks_new(&(struct cuda_options){0}, 2, backends, comms, &e), ERR_DEVICE);
		ck_assert_msg(strstr(e.message, "cannot connect 2 devices: error 2"), "%s", e.message);
	}
	library_used_well();
}
END_TEST

/* ---- ranks that fail ---- */

enum op { OP_GATHER, OP_MAX, OP_BARRIER, OP_RECEIVE, OP_SEND, OP_COUNT };

static int op_call(struct rank *r, enum op op, int peer, struct error *e)
{
	struct comm *c = r->comm;
	char *memory = device_new(r, (1 + COMM_MAX_RANKS) * 16);
	int status = 0;

	if (op == OP_GATHER)
		status = c->ops->all_gather(c, memory, 16, memory + 16, e);
	else if (op == OP_MAX)
		status = c->ops->all_reduce_max(c, (float *)(void *)memory, 4, e);
	else if (op == OP_RECEIVE)
		status = c->ops->receive(c, peer, memory, 16, e);
	else if (op == OP_SEND)
		status = c->ops->send(c, peer, memory, 16, e);
	if (status == 0) /* where the device ends what waits on it */
		status = c->ops->barrier(c, e);
	device_free(r, memory);
	return status;
}

struct failure {
	enum op op;
	int rank; /* that fails instead */
};

static void failing_body(struct rank *r)
{
	const struct failure *f = r->argument;
	struct comm *c = r->comm;
	struct error again = {0};

	if (c->rank == f->rank)
		c->ops->give_up(c, &(struct error){ERR_MEMORY, "a planted cause"});
	else
		r->status = op_call(r, f->op, f->rank, &r->error);
	/* and so does whatever comes later */
	c->ops->give_up(c, &(struct error){ERR_IO, "a later cause"});
	r->wrong += op_call(r, OP_BARRIER, 0, &again) != ERR_MEMORY;
	r->wrong += c->rank != f->rank && strcmp(again.message, r->error.message) != 0;
}

START_TEST(a_failing_rank_is_named_by_every_op)
{
	char message[64];

	library_use();
	cuda_on_cpu_seed((uint64_t)_i);
	for (int size = 2; size <= 4; size++)
		for (int rank = 0; rank < size; rank++) {
			struct failure f = {(enum op)_i, rank};
			struct group g = group_open(size);
			group_run(&g, failing_body, &f);
			snprintf(message, sizeof message, "rank %d failed: a planted cause", rank);
			for (int r = 0; r < size; r++) {
				ck_assert_int_eq(g.ranks[r].wrong, 0);
				if (r == rank)
					continue;
				ck_assert_int_eq(g.ranks[r].status, ERR_MEMORY);
				ck_assert_str_eq(g.ranks[r].error.message, message);
			}
			group_close(&g);
		}
}
END_TEST

/* Ranks that go on calling while others abort them. */
static void busy_body(struct rank *r)
{
	char *memory = device_new(r, (1 + COMM_MAX_RANKS) * 16);

	for (int i = 0; i < 10000 && r->status == 0; i++)
		r->status = r->comm->ops->all_gather(r->comm, memory, 16, memory + 16, &r->error);
	device_free(r, memory);
}

START_TEST(a_call_that_fails_ends_all)
{
	library_use();
	cuda_on_cpu_seed((uint64_t)_i);
	for (int again = 0; again < 5; again++) {
		struct group g = group_open(4);
		plant_failure(again % 4, 3 + 50 * again);
		group_run(&g, busy_body, NULL);
		for (int r = 0; r < 4; r++) {
			char message[64];
			ck_assert_int_eq(g.ranks[r].status, ERR_DEVICE);
			snprintf(message, sizeof message, "rank %d failed: all-gather: NCCL error 2", again % 4);
			ck_assert_msg(strstr(g.ranks[r].error.message, message), "%s", g.ranks[r].error.message);
		}
		group_close(&g);
	}
}
END_TEST

/* Rank 1 gives up when rank 0 has put so much into its stream that it must wait for its device, and so for rank 1. */
static atomic_int calls_made;

static void ahead_body(struct rank *r)
{
	char *memory = device_new(r, 64);

	while (r->comm->rank == 1 && atomic_load(&calls_made) < 60)
		sched_yield();
	if (r->comm->rank == 1)
		r->comm->ops->give_up(r->comm, &(struct error){ERR_DEVICE, "a planted cause"});
	for (int i = 0; i < 5000 && r->status == 0; i++) {
		r->status = r->comm->ops->all_gather(r->comm, memory, 8, memory + 16, &r->error);
		atomic_fetch_add(&calls_made, 1);
	}
	device_free(r, memory);
}

START_TEST(a_rank_that_runs_ahead_can_be_ended)
{
	library_use();
	cuda_on_cpu_seed(0);
	struct group g = group_open(2);
	atomic_store(&calls_made, 0);
	group_run(&g, ahead_body, NULL);
	for (int r = 0; r < 2; r++)
		ck_assert_str_eq(g.ranks[r].error.message, "rank 1 failed: a planted cause");
	group_close(&g);
}
END_TEST

static void leaving_body(struct rank *r)
{
	if (r->comm->rank == 1)
		r->comm->ops->destroy(r->comm);
	else
		r->status = op_call(r, OP_GATHER, 0, &r->error);
}

START_TEST(a_rank_that_leaves_ends_the_group)
{
	library_use();
	struct group g = group_open(3);
	group_run(&g, leaving_body, NULL);
	g.comms[1] = NULL;
	for (int r = 0; r < 3; r += 2)
		ck_assert_str_eq(g.ranks[r].error.message, "rank 1 failed: it left the group");
	group_close(&g);
}
END_TEST

START_TEST(a_message_needs_another_rank)
{
	library_use();
	struct group g = group_open(2);
	struct rank r = {.comm = g.comms[1], .backend = g.backends[1]};
	for (int peer = -1; peer < 3; peer++) {
		struct error e = {0};
		if (peer == 0)
			continue;
		ck_assert_int_eq(op_call(&r, OP_SEND, peer, &e), ERR_USAGE);
		ck_assert_int_eq(op_call(&r, OP_RECEIVE, peer, &e), ERR_USAGE);
		ck_assert_msg(strstr(e.message, "by rank 1 of 2: expected another rank"), "%s", e.message);
	}
	group_run(&g, gather_body, NULL); /* the group goes on */
	ck_assert_int_eq(g.ranks[0].status | g.ranks[1].status | g.ranks[0].wrong | g.ranks[1].wrong, 0);
	group_close(&g);
}
END_TEST

/* Steps until one fails, and then does again. */
static void expect_failed(struct engine *engine, const char *message)
{
	int32_t tokens[PROMPT];
	struct engine_request request = request_for(tokens, NULL);
	struct error e = {0}, again = {0};
	bool idle = false;

	submit(engine, &request);
	for (int step = 0; step < 20 && e.code == 0; step++)
		engine_step(engine, &idle, &e);
	ck_assert_msg(strstr(e.message, message), "'%s' expected in: %s", message, e.message);
	ck_assert_int_eq(engine_step(engine, &idle, &again), e.code);
	ck_assert_str_eq(again.message, e.message);
	engine_close(engine);
	library_used_well();
}

START_TEST(a_step_ends_where_a_rank_fails)
{
	struct group g;
	char message[64];

	library_use();
	struct engine *engine = open_ranks("fp8/bf16", 4, &g);
	plant_failure(_i % 4, 1 + _i);
	snprintf(message, sizeof message, "rank %d failed: ", _i % 4);
	expect_failed(engine, message);
}
END_TEST

START_TEST(a_device_without_memory_ends_the_step)
{
	struct group g;

	library_use();
	struct engine *engine = open_ranks("bf16/bf16", 2, &g);
	cuda_on_cpu_device(2, 1);
	expect_failed(engine, "failed: ");
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *arrives = test_case(suite, "what arrives", 60);
	tcase_add_test(arrives, everybody_gets_what_was_sent);
	TCase *model = test_case(suite, "a model", 120);
	tcase_add_loop_test(model, every_number_of_ranks_gives_the_same_bits, test_build_is_slow(), COUNT(variants));
	TCase *library = test_case(suite, "the library", 0);
	tcase_add_test(library, a_missing_library_is_named);
	tcase_add_test(library, a_library_without_a_function_is_named);
	tcase_add_test(library, devices_that_cannot_be_joined_are_told);
	TCase *failures = test_case(suite, "failures", 60);
	tcase_add_loop_test(failures, a_failing_rank_is_named_by_every_op, 0, OP_COUNT);
	tcase_add_loop_test(failures, a_call_that_fails_ends_all, 0, 2);
	tcase_add_test(failures, a_rank_that_runs_ahead_can_be_ended);
	tcase_add_test(failures, a_rank_that_leaves_ends_the_group);
	tcase_add_test(failures, a_message_needs_another_rank);
	tcase_add_loop_test(failures, a_step_ends_where_a_rank_fails, 0, test_build_is_slow() ? 3 : 9);
	tcase_add_test(failures, a_device_without_memory_ends_the_step);
}

/* Collectives of thread ranks: what arrives, at sizes 0, 1 and odd; and every way to fail, after which nobody hangs
 * (a hang is the test's timeout). */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/number.h"
#include "engine/comm_threads.h"
#include "tests/support.h"

const char *const test_program_name = "comm";

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))
enum { SIZE_MAX_BYTES = 1003, ROUNDS = 12 };

/* ---- ranks ---- */

/* What one rank does, on a thread of its own; the status and error of what it asked last are looked at afterwards. */
struct rank {
	struct comm *comm;
	void (*body)(struct rank *r);
	const void *argument;
	int status;
	struct error error;
	int wrong; /* values that are not what they should be */
};

static void *rank_main(void *argument)
{
	struct rank *r = argument;
	r->body(r);
	return NULL;
}

static void ranks_run(int size, void (*body)(struct rank *r), const void *argument, struct rank *ranks)
{
	pthread_t threads[COMM_MAX_RANKS];
	struct comm *comms[COMM_MAX_RANKS];

	CHECK_OK(comm_threads_new(size, comms, &test_error));
	for (int i = 0; i < size; i++) {
		ranks[i] = (struct rank){.comm = comms[i], .body = body, .argument = argument};
		ck_assert_int_eq(pthread_create(&threads[i], NULL, rank_main, &ranks[i]), 0);
	}
	for (int i = 0; i < size; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < size; i++)
		if (ranks[i].comm)
			ranks[i].comm->ops->destroy(ranks[i].comm);
}

static void expect_all_right(int size, const struct rank *ranks)
{
	for (int i = 0; i < size; i++) {
		ck_assert_msg(ranks[i].status == 0, "rank %d of %d: %s", i, size, ranks[i].error.message);
		ck_assert_msg(ranks[i].wrong == 0, "rank %d of %d: %d wrong values", i, size, ranks[i].wrong);
	}
}

/* ---- what arrives ---- */

static const int sizes[] = {0, 1, 3, 64, SIZE_MAX_BYTES};

static uint8_t byte_of(int rank, int round, int i)
{
	return (uint8_t)(rank * 37 + round * 11 + i * 5 + 1);
}

static void gather_body(struct rank *r)
{
	struct comm *c = r->comm;
	uint8_t own[SIZE_MAX_BYTES], all[COMM_MAX_RANKS * SIZE_MAX_BYTES];

	for (int round = 0; round < ROUNDS && r->status == 0; round++) {
		int n = sizes[round % COUNT(sizes)];
		bool in_place = round % 2;
		uint8_t *from = in_place ? all + c->rank * n : own;
		memset(all, 0, sizeof all);
		for (int i = 0; i < n; i++)
			from[i] = byte_of(c->rank, round, i);
		r->status = c->ops->all_gather(c, from, (size_t)n, all, &r->error);
		for (int q = 0; q < c->size; q++)
			for (int i = 0; i < n; i++)
				r->wrong += all[q * n + i] != byte_of(q, round, i);
		memset(from, 0xee, (size_t)n); /* nobody may read it any more */
	}
}

START_TEST(gather_brings_everybody_all)
{
	struct rank ranks[COMM_MAX_RANKS];
	ranks_run(_i, gather_body, NULL, ranks);
	expect_all_right(_i, ranks);
}
END_TEST

/* Also negative values, infinities, and a NaN in one rank. */
static float value_of(int rank, int round, int i)
{
	if (i % 7 == 3)
		return -1.0f - (float)((rank + i) % 5);
	if (i % 11 == 5 && rank == i % 3)
		return i % 2 ? NAN : INFINITY;
	return (float)((rank * 31 + round * 7 + i * 13) % 101) - 50.0f;
}

static uint32_t max_bits(int size, int round, int i)
{
	float max = -INFINITY;
	for (int q = 0; q < size; q++) {
		float value = value_of(q, round, i);
		if (isnan(value))
			return 1;
		max = value > max ? value : max;
	}
	return float_bits(max);
}

static void max_body(struct rank *r)
{
	struct comm *c = r->comm;
	float values[SIZE_MAX_BYTES];

	for (int round = 0; round < ROUNDS && r->status == 0; round++) {
		int n = sizes[round % COUNT(sizes)];
		for (int i = 0; i < n; i++)
			values[i] = value_of(c->rank, round, i);
		r->status = c->ops->all_reduce_max(c, values, (size_t)n, &r->error);
		for (int i = 0; i < n; i++)
			r->wrong += (isnan(values[i]) ? 1 : float_bits(values[i])) != max_bits(c->size, round, i);
	}
}

START_TEST(max_is_the_largest_of_all)
{
	struct rank ranks[COMM_MAX_RANKS];
	ranks_run(_i, max_body, NULL, ranks);
	expect_all_right(_i, ranks);
}
END_TEST

/* A message goes round, and each rank adds to it. */
static void ring_body(struct rank *r)
{
	struct comm *c = r->comm;
	int next = (c->rank + 1) % c->size, before = (c->rank + c->size - 1) % c->size;
	uint8_t data[SIZE_MAX_BYTES] = {0};

	for (int round = 0; round < ROUNDS && r->status == 0; round++) {
		int n = sizes[round % COUNT(sizes)];
		memset(data, 0, sizeof data);
		if (c->rank > 0)
			r->status = c->ops->receive(c, before, data, (size_t)n, &r->error);
		for (int i = 0; i < n; i++)
			data[i] = (uint8_t)(data[i] + byte_of(c->rank, round, i));
		if (r->status == 0)
			r->status = c->ops->send(c, next, data, (size_t)n, &r->error);
		if (c->rank > 0 || r->status < 0)
			continue;
		r->status = c->ops->receive(c, before, data, (size_t)n, &r->error);
		for (int i = 0; i < n; i++) {
			uint8_t sum = 0;
			for (int q = 0; q < c->size; q++)
				sum = (uint8_t)(sum + byte_of(q, round, i));
			r->wrong += data[i] != sum;
		}
	}
}

START_TEST(messages_go_round)
{
	struct rank ranks[COMM_MAX_RANKS];
	ranks_run(_i, ring_body, NULL, ranks);
	expect_all_right(_i, ranks);
}
END_TEST

static void barrier_body(struct rank *r)
{
	atomic_int *arrived = (atomic_int *)(uintptr_t)r->argument;
	for (int round = 1; round <= 200 && r->status == 0; round++) {
		atomic_fetch_add(arrived, 1);
		r->status = r->comm->ops->barrier(r->comm, &r->error);
		r->wrong += atomic_load(arrived) < round * r->comm->size;
	}
}

START_TEST(nobody_passes_a_barrier_before_all_are_there)
{
	struct rank ranks[COMM_MAX_RANKS];
	atomic_int arrived = 0;
	ranks_run(_i, barrier_body, &arrived, ranks);
	expect_all_right(_i, ranks);
}
END_TEST

/* ---- failures ---- */

enum op { OP_GATHER, OP_MAX, OP_BARRIER, OP_RECEIVE, OP_SEND, OP_LEAVE, OP_COUNT };

/* The messages are with `peer`. */
static int op_call(struct comm *c, enum op op, int peer, size_t bytes, struct error *e)
{
	char own[64] = {0}, all[COMM_MAX_RANKS * 64];
	float values[16] = {0};

	switch (op) {
	case OP_GATHER:
		return c->ops->all_gather(c, own, bytes, all, e);
	case OP_MAX:
		return c->ops->all_reduce_max(c, values, bytes / sizeof *values, e);
	case OP_RECEIVE:
		return c->ops->receive(c, peer, own, bytes, e);
	case OP_SEND:
		return c->ops->send(c, peer, own, bytes, e);
	default:
		return c->ops->barrier(c, e);
	}
}

struct failure {
	enum op op;
	int rank;  /* that fails instead */
	int after; /* barriers before it */
};

static void failing_body(struct rank *r)
{
	const struct failure *f = r->argument;
	struct comm *c = r->comm;

	for (int i = 0; i < f->after; i++)
		r->wrong += c->ops->barrier(c, &r->error) != 0;
	if (c->rank == f->rank)
		c->ops->give_up(c, &(struct error){ERR_MEMORY, "a planted cause"});
	r->status = op_call(c, f->op, f->rank == c->rank ? (c->rank + 1) % c->size : f->rank, 16, &r->error);
	struct error again = {0}; /* and so does whatever comes later */
	c->ops->give_up(c, &(struct error){ERR_IO, "a later cause"});
	r->wrong += op_call(c, OP_BARRIER, 0, 0, &again) != r->status || strcmp(again.message, r->error.message) != 0;
}

START_TEST(a_failing_rank_is_named_by_every_op)
{
	static const int group[] = {2, 3, 8};
	struct rank ranks[COMM_MAX_RANKS];
	char message[64];

	for (int g = 0; g < COUNT(group); g++)
		for (int rank = 0; rank < group[g]; rank++) {
			struct failure f = {(enum op)_i, rank, rank % 3};
			ranks_run(group[g], failing_body, &f, ranks);
			snprintf(message, sizeof message, "rank %d failed: a planted cause", rank);
			for (int i = 0; i < group[g]; i++) {
				ck_assert_int_eq(ranks[i].status, ERR_MEMORY);
				ck_assert_str_eq(ranks[i].error.message, message);
				ck_assert_int_eq(ranks[i].wrong, 0);
			}
		}
}
END_TEST

/* What each of three ranks calls; OP_LEAVE: it destroys its end. */
static const struct {
	const char *name;
	struct {
		enum op op;
		int peer;
		size_t bytes;
	} calls[3];
	const char *messages[3]; /* of which each must be in the error */
} quarrels[] = {
	{"two collectives", {{OP_BARRIER, 0, 0}, {OP_GATHER, 0, 8}, {OP_BARRIER, 0, 0}},
		{"not in the same call", "rank 0: barrier", "rank 1: all_gather of 8 bytes"}},
	{"two sizes", {{OP_GATHER, 0, 8}, {OP_GATHER, 0, 8}, {OP_GATHER, 0, 12}},
		{"not in the same call", "rank 0: all_gather of 8 bytes", "rank 2: all_gather of 12 bytes"}},
	{"two sizes of a maximum", {{OP_MAX, 0, 4}, {OP_MAX, 0, 0}, {OP_MAX, 0, 4}},
		{"not in the same call", "of 4 bytes", "rank 1: all_reduce_max of 0 bytes"}},
	{"two ends of a message", {{OP_SEND, 1, 8}, {OP_RECEIVE, 0, 9}, {OP_BARRIER, 0, 0}},
		{"two ends", "rank 0: send of 8 bytes to rank 1", "rank 1: receive of 9 bytes from rank 0"}},
	{"all receive", {{OP_RECEIVE, 1, 8}, {OP_RECEIVE, 2, 8}, {OP_RECEIVE, 0, 8}},
		{"every rank waits", "rank 0: receive of 8 bytes from rank 1", "rank 1: receive"}},
	{"all send", {{OP_SEND, 1, 8}, {OP_SEND, 2, 8}, {OP_SEND, 0, 8}},
		{"every rank waits", "rank 0: send", "rank 1"}},
	{"one receives, others wait for it", {{OP_BARRIER, 0, 0}, {OP_BARRIER, 0, 0}, {OP_RECEIVE, 0, 8}},
		{"every rank waits", "rank 0: barrier", "rank 2: receive of 8 bytes from rank 0"}},
	{"one leaves", {{OP_BARRIER, 0, 0}, {OP_LEAVE, 0, 0}, {OP_RECEIVE, 1, 8}},
		{"rank 1 failed: it left the group", "rank 1", "left"}},
};

static void quarrel_body(struct rank *r)
{
	int i = *(const int *)r->argument, rank = r->comm->rank;
	enum op op = quarrels[i].calls[rank].op;

	if (op == OP_LEAVE) {
		r->comm->ops->destroy(r->comm);
		r->comm = NULL;
		return;
	}
	r->status = op_call(r->comm, op, quarrels[i].calls[rank].peer, quarrels[i].calls[rank].bytes, &r->error);
}

START_TEST(ranks_that_disagree_are_told)
{
	struct rank ranks[COMM_MAX_RANKS];

	for (int again = 0; again < 20; again++) {
		ranks_run(3, quarrel_body, &_i, ranks);
		for (int r = 0; r < 3; r++) {
			if (quarrels[_i].calls[r].op == OP_LEAVE)
				continue;
			ck_assert_msg(ranks[r].status == ERR_DEVICE, "%s: rank %d: status %d", quarrels[_i].name, r,
				ranks[r].status);
			for (int m = 0; m < 3; m++)
				ck_assert_msg(strstr(ranks[r].error.message, quarrels[_i].messages[m]),
					"%s: rank %d: %s: no '%s'", quarrels[_i].name, r, ranks[r].error.message,
					quarrels[_i].messages[m]);
		}
	}
}
END_TEST

/* ---- one rank, and none ---- */

START_TEST(a_group_of_one_has_nobody_to_ask)
{
	struct comm *threads, *both[2] = {comm_self(), NULL};
	CHECK_OK(comm_threads_new(1, &threads, &test_error));
	both[1] = threads;

	for (int i = 0; i < 2; i++) {
		struct comm *c = both[i];
		float values[2] = {-1.0f, 2.0f}, all[2] = {0};
		struct error e = {0};
		CHECK_OK(c->ops->all_gather(c, values, sizeof values, all, &test_error));
		CHECK_OK(c->ops->all_gather(c, all, sizeof values, all, &test_error));
		ck_assert_mem_eq(all, values, sizeof all);
		CHECK_OK(c->ops->all_reduce_max(c, all, 2, &test_error));
		ck_assert_mem_eq(all, values, sizeof all);
		CHECK_OK(c->ops->barrier(c, &test_error));
		for (int to = -1; to < 2; to++) {
			ck_assert_int_eq(c->ops->send(c, to, values, 8, &e), ERR_USAGE);
			ck_assert_int_eq(c->ops->receive(c, to, all, 8, &e), ERR_USAGE);
		}
		c->ops->destroy(c);
	}
}
END_TEST

START_TEST(sizes_of_a_group)
{
	static const int wrong[] = {0, -1, COMM_MAX_RANKS + 1, 1 << 30};
	struct comm *out[COMM_MAX_RANKS];

	for (int i = 0; i < COUNT(wrong); i++) {
		struct error e = {0};
		ck_assert_int_eq(comm_threads_new(wrong[i], out, &e), ERR_USAGE);
		ck_assert_msg(strstr(e.message, "expected 1 to 8"), "%s", e.message);
	}
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *arrives = test_case(suite, "what arrives", 60);
	tcase_add_loop_test(arrives, gather_brings_everybody_all, 1, COMM_MAX_RANKS + 1);
	tcase_add_loop_test(arrives, max_is_the_largest_of_all, 1, COMM_MAX_RANKS + 1);
	tcase_add_loop_test(arrives, messages_go_round, 2, COMM_MAX_RANKS + 1);
	tcase_add_loop_test(arrives, nobody_passes_a_barrier_before_all_are_there, 1, COMM_MAX_RANKS + 1);
	TCase *failures = test_case(suite, "failures", 60);
	tcase_add_loop_test(failures, a_failing_rank_is_named_by_every_op, 0, OP_LEAVE);
	tcase_add_loop_test(failures, ranks_that_disagree_are_told, 0, COUNT(quarrels));
	tcase_add_test(failures, a_group_of_one_has_nobody_to_ask);
	tcase_add_test(failures, sizes_of_a_group);
}

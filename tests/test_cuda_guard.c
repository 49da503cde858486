/* Guards over checks of pages whose answer comes with the step: an engine on the CPU that stands in for a GPU ends as on the
 * CPU backend, with one wait for the device in a step, and no answer of a backend is taken for a good one. */
#include <stdlib.h>
#include <string.h>

#include "engine/backend.h"
#include "tests/backend_pair.h"
#include "tests/cuda_on_cpu/cuda_on_cpu.h"
#include "tests/hostile_guard.h"

const char *const test_program_name = "cuda_guard";

/* ---- engines ---- */

/* Three layers, for an attack that changes a value of the third. */
static const char small_config[] =
	"{\"model_type\": \"llama\", \"hidden_size\": 32, \"intermediate_size\": 32, \"num_hidden_layers\": 3, "
	"\"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"head_dim\": 16, \"vocab_size\": 97, "
	"\"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-06, \"rope_theta\": 10000.0, "
	"\"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\"}\n";
enum { VOCAB = 97, PROMPT = 9, ANSWER = 6 };

static const char *small_model(void)
{
	scratch_folder();
	return test_write_file("config.json", small_config, sizeof small_config - 1);
}

static struct engine_config engine_config_of(struct backend *backend, const struct kv_guard *guard, bool padded)
{
	return (struct engine_config){.backend = backend,
		.random_weights = true,
		.weights_seed = 7,
		.threads = 1,
		.page_size = 4,
		.kv_memory = 1 << 15,
		.max_requests = 4,
		.pad_decode = padded,
		.guard = guard};
}

static struct engine *engine_on(struct backend *backend, const struct kv_guard *guard, bool padded)
{
	return open_with(small_model(), "bf16/bf16", engine_config_of(backend, guard, padded));
}

static struct engine *small_engine(bool cuda, const struct kv_guard *guard, bool padded)
{
	return engine_on(backend_new(cuda), guard, padded);
}

static void small_requests(struct engine *engine)
{
	int32_t tokens[PROMPT + REQUESTS];

	for (int r = 0; r < REQUESTS; r++) {
		for (int i = 0; i < PROMPT + r; i++)
			tokens[i] = (7 * r + i * (3 + r)) % VOCAB;
		submit(engine,
			&(struct engine_request){.tokens = tokens,
				.n_tokens = PROMPT + r,
				.max_tokens = ANSWER,
				.logprobs_from = -1,
				.ignore_eos = true});
	}
}

static void small_answers(struct engine *engine, struct answers *out)
{
	small_requests(engine);
	answers_collect(engine, out);
}

/* By request and check: an answer that comes with the step is told after what the host finds before it. */
static int incident_order(const void *a, const void *b)
{
	const struct guard_incident *x = a, *y = b;
	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	if (x->request != y->request)
		return x->request < y->request ? -1 : 1;
	return (int)x->check - (int)y->check;
}

/* A digest is of values, which are not the CPU's bit for bit; all else is bookkeeping. */
static bool incidents_alike(const struct guard_incident *a, const struct guard_incident *b)
{
	return a->check == b->check && a->moment == b->moment && a->request == b->request && a->page == b->page &&
		a->logical == b->logical && a->step == b->step && a->emitted == b->emitted &&
		(a->check == GUARD_CONTENT || (a->expected == b->expected && a->actual == b->actual));
}

static void incidents_compare(const char *name, struct hostile *cpu, struct hostile *cuda)
{
	qsort(cpu->seen, (size_t)cpu->n_seen, sizeof *cpu->seen, incident_order);
	qsort(cuda->seen, (size_t)cuda->n_seen, sizeof *cuda->seen, incident_order);
	for (int i = 0; i < cpu->n_seen && i < cuda->n_seen; i++) {
		const struct guard_incident *a = &cpu->seen[i], *b = &cuda->seen[i];
		ck_assert_msg(incidents_alike(a, b),
			"%s: %s %s page %d logical %d of %d, the CPU's: %s %s page %d logical %d of %d", name,
			guard_check_name(b->check), guard_moment_name(b->moment), b->page, b->logical, (int)b->request,
			guard_check_name(a->check), guard_moment_name(a->moment), a->page, a->logical, (int)a->request);
	}
	ck_assert_msg(cpu->n_seen == cuda->n_seen, "%s: %d incidents, the CPU's %d", name, cuda->n_seen, cpu->n_seen);
}

struct ending {
	struct answers answers;
	int n_free, n_quarantined; /* pages, two steps later */
};

static struct ending attacked(struct hostile *h, const struct attack *attack, bool observe, bool cuda)
{
	struct ending end;
	bool idle;

	hostile_init(h, attack, observe ? GUARD_PAGES : attack->level, observe);
	struct engine *engine = small_engine(cuda, &h->table, attack->padded);
	small_answers(engine, &end.answers);
	ck_assert_msg(h->done, "%s: the moment never came", attack->name);
	CHECK_OK(engine_step(engine, &idle, &test_error));
	CHECK_OK(engine_step(engine, &idle, &test_error));
	end.n_free = h->pool->n_free;
	end.n_quarantined = h->pool->n_quarantined;
	engine_close(engine);
	return end;
}

static void endings_compare(const struct attack *attack, const struct answers *clean)
{
	static struct hostile on_cpu, on_cuda;
	bool sooner = attack->window && (attack->act == entry_to_peer || attack->act == page_freed_early);
	struct ending cpu = attacked(&on_cpu, attack, false, false), cuda = attacked(&on_cuda, attack, false, true);

	for (int i = 0; sooner && i < on_cpu.n_seen; i++)
		if (on_cpu.seen[i].moment == GUARD_AT_PUBLISH)
			on_cpu.seen[i].moment = GUARD_AT_READ;
	incidents_compare(attack->name, &on_cpu, &on_cuda);
	ck_assert_msg(cuda.n_free == cpu.n_free && cuda.n_quarantined == cpu.n_quarantined,
		"%s: %d pages are free, %d in quarantine, the CPU's: %d, %d", attack->name, cuda.n_free,
		cuda.n_quarantined, cpu.n_free, cpu.n_quarantined);
	for (int r = 0; r < REQUESTS; r++) {
		ck_assert_msg(cuda.answers.failed[r] == cpu.answers.failed[r] &&
				cuda.answers.generated[r] == cpu.answers.generated[r],
			"%s: request %d has another end than on the CPU", attack->name, r + 1);
		if (!cuda.answers.failed[r])
			ck_assert_msg(cuda.answers.bits[r] == clean->bits[r], "%s: request %d has other bits",
				attack->name, r + 1);
	}
}

enum { ATTACK_GROUPS = 4 };

/* Each attack at its level ends on the device as on the CPU. What strikes in the window between the check and the step is
 * found by the device before its reads, where it is in a table. */
START_TEST(attacks_end_as_on_the_cpu)
{
	struct engine *engine = small_engine(true, NULL, false);
	struct answers clean;

	small_answers(engine, &clean);
	engine_close(engine);
	for (int i = _i; i < COUNT(attacks); i += ATTACK_GROUPS)
		endings_compare(&attacks[i], &clean);
}
END_TEST

START_TEST(an_observing_guard_sees_the_same)
{
	static struct hostile on_cpu, on_cuda;

	for (int i = _i; i < COUNT(attacks); i += ATTACK_GROUPS) {
		if (attacks[i].deadly)
			continue;
		attacked(&on_cpu, &attacks[i], true, false);
		attacked(&on_cuda, &attacks[i], true, true);
		incidents_compare(attacks[i].name, &on_cpu, &on_cuda);
	}
}
END_TEST

static void free_page_and_next_slot(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	entry_to_free(h, batch, b);
	slot_next(h, batch, b);
}

/* What a check of the host finds because a table is bad, and what it finds beside that, is told as by the CPU. */
START_TEST(host_and_device_find_together_what_the_cpu_does)
{
	static const struct attack both[] = {
		{"a free page", GUARD_PAGES, GUARD_FILL, GUARD_AT_READ, .act = entry_to_free},
		{"a free page and another slot", GUARD_PAGES, GUARD_TAG, GUARD_AT_READ, .act = free_page_and_next_slot},
	};
	struct engine *engine = small_engine(true, NULL, false);
	struct answers clean;

	small_answers(engine, &clean);
	engine_close(engine);
	for (int i = 0; i < COUNT(both); i++)
		endings_compare(&both[i], &clean);
}
END_TEST

static void page_and_slot_of_peer(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	entry_to_peer(h, batch, b);
	slot_of_peer(h, batch, b);
}

/* A sequence whose slot, too, was another's when it was parked has written nothing there. */
START_TEST(a_parked_write_soils_nobody)
{
	static const struct attack attack = {"in the window, another's page and slot", GUARD_PAGES, GUARD_TAG,
		GUARD_AT_READ, .window = true, .act = page_and_slot_of_peer};
	static struct hostile h;
	struct engine *engine = small_engine(true, NULL, false);
	struct answers clean;

	small_answers(engine, &clean);
	engine_close(engine);
	struct ending end = attacked(&h, &attack, false, true);
	ck_assert_int_eq((int)incident_of(&h, GUARD_TAG)->moment, GUARD_AT_READ);
	ck_assert_ptr_null(incident_of(&h, GUARD_WRITE));
	ck_assert_int_eq(end.n_quarantined, 0);
	for (int r = 0; r < REQUESTS; r++) {
		ck_assert_int_eq(end.answers.failed[r], r == VICTIM - 1);
		ck_assert(r == VICTIM - 1 || end.answers.bits[r] == clean.bits[r]);
	}
}
END_TEST

/* ---- answers that a guard should not get ---- */

static struct lying {
	const struct backend_ops *inner;
	struct verify_pages_args asked;
	int32_t answer; /* for every sequence */
	bool silent;
	enum kv_guard_phase phase; /* of those at once */
} lying;

/* The CPU, which defers an answer that it then does not find out. */
static void lying_verify(struct backend *b, const struct verify_pages_args *a)
{
	lying.asked = *a;
	if (a->deferral)
		a->deferral->deferred = true;
	else
		lying.inner->verify_pages(b, a);
}

static int lying_finish(struct backend *b, struct error *e)
{
	for (int i = 0; !lying.silent && lying.asked.deferral && i < lying.asked.n_sequences; i++)
		lying.asked.first_bad[i] = lying.answer;
	lying.asked.deferral = NULL;
	return lying.inner->finish(b, e);
}

/* Nothing of a step is published without the answer, nor what the device named and the host's table does not show. */
START_TEST(no_answer_is_no_good_one)
{
	static const struct {
		int32_t answer;
		bool silent;
		enum guard_check check;
	} cases[] = {{-1, true, GUARD_EPOCH}, {INT32_MIN, false, GUARD_EPOCH}, {1, false, GUARD_TAG}};
	static struct hostile h;
	struct backend *b = backend_new(false);
	struct backend_ops ops = *b->ops;
	struct answers got;

	lying = (struct lying){.inner = b->ops, .answer = cases[_i].answer, .silent = cases[_i].silent};
	ops.verify_pages = lying_verify;
	ops.finish = lying_finish;
	b->ops = &ops;
	hostile_init(&h, NULL, GUARD_PAGES, false);
	struct engine *engine = engine_on(b, &h.table, false);
	small_answers(engine, &got);
	engine_close(engine);
	ck_assert_int_eq(h.n_seen, REQUESTS);
	for (int r = 0; r < REQUESTS; r++) {
		ck_assert(got.failed[r] && got.generated[r] == 0);
		ck_assert_int_eq((int)h.seen[r].check, (int)cases[_i].check);
		ck_assert_int_eq((int)h.seen[r].moment, GUARD_AT_READ);
	}
}
END_TEST

static enum kv_guard_phase lying_phase;

static int phase_verify(
	void *state, enum kv_guard_phase phase, const struct kv_guard_batch *batch, uint8_t *bad, struct error *e)
{
	const struct guard_state *s = state;
	const struct hostile *h = s->guard->options.sink_context;

	lying_phase = phase;
	return h->inner->verify(state, phase, batch, bad, e);
}

/* The CPU, with another answer than it found out, at once. */
static void lying_verify_at_once(struct backend *b, const struct verify_pages_args *a)
{
	lying.inner->verify_pages(b, a);
	for (int i = 0; lying_phase == lying.phase && i < a->n_sequences; i++)
		a->first_bad[i] = lying.answer;
}

/* An answer counts before the reads as before the publishing, at every level. */
START_TEST(an_answer_at_once_is_believed)
{
	static const enum guard_level levels[] = {GUARD_TAGS, GUARD_PAGES, GUARD_DIGEST};
	static const struct {
		int32_t answer;
		enum guard_check check;
	} cases[] = {{0, GUARD_TAG}, {1, GUARD_TAG}, {-7, GUARD_EPOCH}, {INT32_MIN, GUARD_EPOCH}};
	static struct hostile h;
	struct backend *b = backend_new(false);
	struct backend_ops ops = *b->ops;
	struct answers got;
	bool publish = _i % 2;

	lying = (struct lying){.inner = b->ops,
		.answer = cases[_i / 2 % 4].answer,
		.phase = publish ? KV_GUARD_BEFORE_PUBLISH : KV_GUARD_BEFORE_READ};
	ops.verify_pages = lying_verify_at_once;
	b->ops = &ops;
	hostile_init(&h, NULL, levels[_i / 8], false);
	h.table.verify = phase_verify;
	struct engine *engine = engine_on(b, &h.table, false);
	small_answers(engine, &got);
	engine_close(engine);
	for (int r = 0; r < REQUESTS; r++) {
		ck_assert(got.failed[r] && got.generated[r] == 0);
		ck_assert_int_eq((int)h.seen[r].check, (int)cases[_i / 2 % 4].check);
		ck_assert_int_eq((int)h.seen[r].moment, publish ? GUARD_AT_PUBLISH : GUARD_AT_READ);
	}
}
END_TEST

/* ---- padding ---- */

static int32_t padding_page;

static int padding_verify(
	void *state, enum kv_guard_phase phase, const struct kv_guard_batch *batch, uint8_t *bad, struct error *e)
{
	const struct guard_state *s = state;
	struct hostile *h = s->guard->options.sink_context;

	for (int b = 0; b < batch->n_sequences && phase == KV_GUARD_BEFORE_READ; b++)
		if (batch->request[b] == 0)
			*table_entry(batch, b, 0) = padding_page;
	return h->inner->verify(state, phase, batch, bad, e);
}

/* No level lets a row of padding read what is no page; the requests beside it go on. */
START_TEST(padding_reads_no_page_outside)
{
	static const int32_t pages[] = {INT32_MIN / 4, -1, 1 << 28};
	static struct hostile h;
	struct answers clean, got;
	bool cuda = _i % 2;

	padding_page = pages[_i / 4];
	struct engine *engine = small_engine(cuda, NULL, true);
	small_answers(engine, &clean);
	engine_close(engine);
	hostile_init(&h, NULL, _i / 2 % 2 ? GUARD_PAGES : GUARD_TAGS, false);
	h.table.verify = padding_verify;
	engine = small_engine(cuda, &h.table, true);
	small_answers(engine, &got);
	engine_close(engine);
	ck_assert_int_gt(h.n_seen, 0);
	ck_assert_int_eq((int)h.seen[0].check, GUARD_BOUNDS);
	for (int r = 0; r < REQUESTS; r++)
		ck_assert(!got.failed[r] && got.bits[r] == clean.bits[r]);
}
END_TEST

/* ---- waits ---- */

/* Steps of one padded batch: a graph holds each of them whole, with both checks, and the host waits once; it asks again,
 * of what is left, in a step with a finding. */
START_TEST(a_step_has_one_wait_and_one_graph)
{
	static struct hostile h;
	int whole = 0;

	cuda_on_cpu_seed((uint64_t)_i / 2);
	hostile_init(&h, _i % 2 ? &attacks[0] : NULL, GUARD_PAGES, false);
	struct engine *engine = small_engine(true, &h.table, true);
	small_requests(engine);
	for (bool idle = false; !idle && !h.done;) {
		int waits = cuda_on_cpu_waits(), graphs = cuda_on_cpu_graph_launches();
		int kernels = cuda_on_cpu_kernel_launches(), checked = (int)h.guard.verified_steps;
		CHECK_OK(engine_step(engine, &idle, &test_error));
		if (cuda_on_cpu_graph_launches() == graphs || cuda_on_cpu_kernel_launches() > kernels + h.done)
			continue; /* the first two steps, or prompts */
		whole++;
		ck_assert_int_eq((int)h.guard.verified_steps, checked + 1);
		ck_assert_int_eq(cuda_on_cpu_graph_launches(), graphs + 1);
		ck_assert_int_eq(cuda_on_cpu_kernel_launches() - kernels, h.done);
		ck_assert_int_eq(cuda_on_cpu_waits() - waits, 1 + h.done);
	}
	ck_assert_int_ge(whole, _i % 2 ? 1 : ANSWER - 3);
	ck_assert_int_eq(h.guard.incidents > 0, _i % 2);
	ck_assert(_i % 2 == 0 || incident_of(&h, GUARD_TAG)->moment == GUARD_AT_READ);
	engine_close(engine);
}
END_TEST

/* No graph of the pools before is launched on those that are there now. */
START_TEST(an_engine_renewed_answers_the_same)
{
	static struct hostile before, after;
	struct answers first, second;

	hostile_init(&before, NULL, GUARD_PAGES, false);
	hostile_init(&after, NULL, GUARD_PAGES, false);
	struct engine *engine = small_engine(true, &before.table, true);
	small_answers(engine, &first);
	renew_with(engine, small_model(), "bf16/bf16", engine_config_of(NULL, &after.table, true));
	small_answers(engine, &second);
	engine_close(engine);
	ck_assert_uint_gt(before.guard.verified_steps, 0);
	ck_assert_uint_eq(before.guard.verified_steps, after.guard.verified_steps);
	ck_assert_uint_eq(before.guard.incidents + after.guard.incidents, 0);
	for (int r = 0; r < REQUESTS; r++)
		ck_assert(!second.failed[r] && second.bits[r] == first.bits[r]);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *engine = test_case(suite, "engine", 60);
	tcase_add_loop_test(engine, attacks_end_as_on_the_cpu, 0, test_build_is_slow() ? 1 : ATTACK_GROUPS);
	tcase_add_loop_test(engine, an_observing_guard_sees_the_same, 0, 1);
	tcase_add_test(engine, host_and_device_find_together_what_the_cpu_does);
	tcase_add_test(engine, a_parked_write_soils_nobody);
	tcase_add_loop_test(engine, no_answer_is_no_good_one, 0, 3);
	tcase_add_loop_test(engine, an_answer_at_once_is_believed, 0, 24);
	tcase_add_loop_test(engine, padding_reads_no_page_outside, 0, 12);
	tcase_add_loop_test(engine, a_step_has_one_wait_and_one_graph, 0, 4);
	tcase_add_test(engine, an_engine_renewed_answers_the_same);
}

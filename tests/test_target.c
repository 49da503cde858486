/* Items through the engine: choices of one token from one forward pass give the bits that each alone gives, and what
 * does not fit is cut and counted, or an error of its item. */
#include "evals/postprocess.h"
#include "evals/target.h"
#include "tests/support.h"

const char *const test_program_name = "target";

#define POCKET SOURCE_DIR "/datasets/pocket/model"

static struct engine_text *text;
static struct target *target;

static void set_up(void)
{
	struct engine_config config = {.model = POCKET, .kv_memory = 4 << 20, .threads = 1};
	struct engine *engine;
	CHECK_OK(variant_parse("bf16/bf16", &config.variant, &test_error));
	CHECK_OK(engine_open(&config, &engine, &test_error));
	CHECK_OK(engine_text_open(POCKET, &text, &test_error));
	CHECK_OK(target_new(engine, text, &target, &test_error));
}

static void tear_down(void)
{
	target_delete(target);
	engine_text_close(text);
}

static struct target_answer *answered(const struct suite_item *item)
{
	struct target_answer *answer;
	CHECK_OK(target_submit(target, item, &test_error));
	CHECK_OK(target_take(target, &answer, &test_error));
	ck_assert_ptr_nonnull(answer);
	ck_assert_ptr_eq(answer->item, item);
	ck_assert_int_eq(target_in_flight(target), 0);
	return answer;
}

#define CONTEXT                                                                                                        \
	"The following are multiple choice questions (with answers) about capitals.\n\nWhat is the capital of Peru?\n" \
	"A. Lima\nB. Rome\nC. Oslo\nD. Paris\nAnswer:"

/* Of one token: A to D twice, so that two choices share even the token. Of several: codes. */
static const struct str choices[] = {{"A", 1}, {"B", 1}, {"Lima glass lion", 15}, {"C", 1}, {"D", 1}, {"B", 1}};
enum { N_CHOICES = 6 };

static struct suite_item item_of(const struct str *of, int n)
{
	return (struct suite_item){.task = "t",
		.kind = REQUEST_LOGLIKELIHOOD,
		.context = str_of(CONTEXT),
		.choices = of,
		.n_choices = n,
		.delimiter = {" ", 1}};
}

START_TEST(one_pass_gives_the_bits_of_each_alone)
{
	struct suite_item all = item_of(choices, N_CHOICES);
	struct engine_stats before, after;
	engine_stats(target_engine(target), &before);
	struct target_answer *together = answered(&all);
	engine_stats(target_engine(target), &after);
	uint64_t read = after.prompt_tokens + after.cached_tokens - before.prompt_tokens - before.cached_tokens;
	int greedy = 0;
	for (int i = 0; i < N_CHOICES; i++) {
		struct engine_ids ids;
		size_t n_context;
		struct buf continuation = {0};
		buf_printf(&continuation, " %s", choices[i].data);
		CHECK_OK(engine_text_encode_pair(
			text, all.context, buf_str(&continuation), &ids, &n_context, &test_error));
		ck_assert_int_eq(ids.count - n_context == 1, choices[i].length == 1);
		struct engine_request request = {
			.tokens = ids.data, .n_tokens = (int)ids.count, .logprobs_from = (int)n_context};
		uint64_t id;
		struct engine_result *result = NULL;
		CHECK_OK(engine_submit(target_engine(target), &request, &id, &test_error));
		for (bool idle = false; !result && !idle; result = engine_poll(target_engine(target)))
			CHECK_OK(engine_step(target_engine(target), &idle, &test_error));
		double sum = 0;
		bool is_greedy = true;
		for (int t = 0; t < result->n_prompt_logprobs; t++) {
			sum += (double)result->prompt_logprobs[t];
			is_greedy = is_greedy && result->prompt_greedy[t];
		}
		ck_assert_msg(together->answer.logprobs[i] == sum, "choice %d: %.17g, alone %.17g", i,
			together->answer.logprobs[i], sum);
		ck_assert_int_eq(together->answer.is_greedy[i], is_greedy);
		greedy += is_greedy;
		engine_result_free(result);
		engine_ids_free(&ids);
		buf_free(&continuation);
	}
	/* The context is read twice: for the letters, and for the long choice, whose last token is scored and not read. */
	ck_assert_uint_lt(read, 2 * strlen(CONTEXT));
	ck_assert_int_eq(together->prompt_tokens, (int)read);
	/* once more, all that may be is found */
	struct target_answer *again = answered(&all);
	ck_assert_int_eq(again->prompt_tokens, together->prompt_tokens);
	ck_assert_int_gt(again->cached_tokens, together->cached_tokens);
	ck_assert_int_le(again->cached_tokens, again->prompt_tokens);
	target_answer_free(again);
	ck_assert_int_le(greedy, 1);
	ck_assert_int_eq(together->context_cut, 0);
	target_answer_free(together);
}
END_TEST

START_TEST(long_contexts_are_cut_and_counted)
{
	int most = engine_facts(target_engine(target))->max_positions;
	struct buf context = {0};
	for (int i = 0; i < most; i++)
		buf_append_text(&context, " dog cat");
	struct suite_item item = {.task = "t",
		.kind = REQUEST_LOGLIKELIHOOD,
		.context = buf_str(&context),
		.choices = choices,
		.n_choices = 2};
	struct engine_ids ids;
	CHECK_OK(engine_text_encode_prompt(text, item.context, &ids, &test_error));
	struct target_answer *a = answered(&item);
	ck_assert_int_eq(a->error.code, 0);
	ck_assert_int_eq(
		a->prompt_tokens, most); /* context + choice, the last max_length + 1 of them, but the choice */
	ck_assert_int_eq(a->context_cut, (int)ids.count - most);
	target_answer_free(a);
	item = (struct suite_item){
		.task = "t", .kind = REQUEST_GENERATE, .context = buf_str(&context), .max_tokens = 12};
	a = answered(&item);
	ck_assert_int_eq(a->error.code, 0);
	ck_assert_int_eq(a->context_cut, (int)ids.count - (most - 12));
	ck_assert_int_eq(a->answer.truncated, a->finish == ENGINE_LENGTH);
	target_answer_free(a);
	item.max_tokens = most;
	a = answered(&item);
	ck_assert_int_eq(a->error.code, ERR_LIMIT);
	target_answer_free(a);
	engine_ids_free(&ids);
	buf_free(&context);
}
END_TEST

/* An item that cannot be asked comes back with its error and disturbs no other. */
START_TEST(an_item_that_cannot_be_scored)
{
	static const struct str bad[] = {{"A", 1}, {"Lima glass lion", 15}, {"B", 1}};
	struct suite_item item = item_of(bad, 3),
			  empty = {.task = "t",
				  .kind = REQUEST_GENERATE,
				  .context = str_of(CONTEXT),
				  .max_tokens = 1 << 30};
	struct target_answer *first = NULL, *second = NULL;
	CHECK_OK(target_submit(target, &item, &test_error));
	CHECK_OK(target_submit(target, &empty, &test_error));
	ck_assert_int_eq(target_in_flight(target), 2);
	CHECK_OK(target_take(target, &first, &test_error));
	CHECK_OK(target_take(target, &second, &test_error));
	ck_assert_ptr_eq(first->item, &empty);
	ck_assert_int_eq(first->error.code, ERR_LIMIT);
	ck_assert_int_eq(second->error.code, 0);
	target_answer_free(first);
	target_answer_free(second);
	CHECK_OK(target_take(target, &first, &test_error));
	ck_assert_ptr_null(first);
}
END_TEST

/* A stop string inside the reasoning ends nothing, and cuts nothing off; behind it, it does both. */
START_TEST(an_answer_begins_behind_the_reasoning)
{
	static const char gsm[] = "Question: Tom has 3 apples and buys 4 more. How many apples does he have?\nAnswer:";
	struct suite_item item = {.task = "t", .kind = REQUEST_GENERATE, .context = str_of(gsm), .max_tokens = 24};
	struct target_answer *plain = answered(&item), *a;
	struct str raw = plain->answer.text, early = {raw.data, 3}, mark = {raw.data + raw.length / 2, 2},
		   late = {raw.data + raw.length - 2, 2}, expected;

	ck_assert_uint_gt(raw.length, 20);
	answer_postprocess(raw, NULL, 0, mark, &expected);
	item.until = &early;
	item.n_until = 1;
	a = answered(&item);
	ck_assert_uint_eq(a->answer.text.length, 0);
	target_answer_free(a);

	target_set_think_end(target, mark);
	a = answered(&item);
	ck_assert_int_eq(a->n_generated, plain->n_generated);
	ck_assert_uint_gt(expected.length, 0);
	ck_assert(str_equal(a->answer.text, expected));
	ck_assert_int_eq(a->answer.truncated, a->finish == ENGINE_LENGTH);
	target_answer_free(a);

	item.until = &late;
	a = answered(&item);
	ck_assert_uint_lt(a->answer.text.length, expected.length);
	ck_assert(!a->answer.truncated);
	target_answer_free(a);

	target_set_think_end(target, str_of("</think>")); /* which never comes: all of it stands, cut where it says */
	a = answered(&item);
	ck_assert_int_eq(a->n_generated, plain->n_generated);
	ck_assert_int_eq(a->answer.truncated, a->finish == ENGINE_LENGTH);
	target_answer_free(a);
	target_answer_free(plain);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *items = test_case(suite, "items", 60);
	tcase_add_checked_fixture(items, set_up, tear_down);
	tcase_add_test(items, one_pass_gives_the_bits_of_each_alone);
	tcase_add_test(items, long_contexts_are_cut_and_counted);
	tcase_add_test(items, an_item_that_cannot_be_scored);
	tcase_add_test(items, an_answer_begins_behind_the_reasoning);
}

#include <math.h>
#include <string.h>
#include <string>

#include "cuda/kernels.cuh"
#include "tests/cuda_cases/case_support.cuh"

extern "C" {
#include "engine/cpu/ref.h"
#include "engine/cpu/sample.h"
}

static const struct logits_case {
	const char *name;
	int vocab, n_rows;
} cases[] = {
	{"V 1", 1, 11},
	{"V 7", 7, 11},
	{"V 8", 8, 11},
	{"V 512", 512, 4},
	{"V 513", 513, 11},
	{"V 1000", 1000, 22},
	{"V 4099", 4099, 7},
	{"V 262657, more chunks than threads", 262657, 2},
};

/* ---- rows ---- */

enum row_kind { SPREAD, TIES, EQUAL, SOME_INFINITE, PEAK, ZEROS, WIDE, ROW_KINDS };

/* Rows of numbers; some minus infinity. */
static void fill_row(enum row_kind kind, generator &g, float *x, size_t n)
{
	const std::vector<float> random = random_values(g, n);
	for (size_t i = 0; i < n; i++) {
		x[i] = 8.0f * random[i];
		if (kind == TIES)
			x[i] = rintf(4.0f * random[i]);
		else if (kind == EQUAL)
			x[i] = -2.5f;
		else if (kind == SOME_INFINITE && i % 3 > 0)
			x[i] = -INFINITY;
		else if (kind == PEAK && i == n / 2)
			x[i] = 40.0f;
		else if (kind == ZEROS)
			x[i] = i % 2 == 0 ? 0.0f : -0.0f;
		else if (kind == WIDE)
			x[i] = 1000.0f * random[i];
	}
}

/* ---- requests ---- */

static const struct {
	int top_count;
	bool target, sample, all;
	struct sampling sampling;
} wanted[] = {
	{0, false, false, false, {}},
	{0, true, false, false, {}},
	{1, true, false, true, {}},
	{20, false, true, false, {0.0f, 0, 1.0f, 1}},
	{0, false, true, false, {1.0f, 0, 1.0f, 2}},
	{5, true, true, true, {0.7f, 0, 1.0f, 0xfedcba9876543210u}},
	{0, false, true, false, {1.0f, 5, 1.0f, 4}},
	{LOGITS_TOP_MAX, false, true, false, {1.5f, 0, 0.9f, 5}},
	{0, false, true, false, {1.0f, 40, 0.5f, 6}},
	{0, false, true, true, {0.3f, 1000000, 0.01f, 7}},
	{2, false, true, false, {2.0f, 3, 0.999999f, 8}},
};
enum { WANTED = sizeof(wanted) / sizeof(wanted[0]), TOP_STRIDE = LOGITS_TOP_MAX };

static struct logits_request make_request(int row, int vocab)
{
	const auto &w = wanted[row % WANTED];
	struct logits_request request = {};
	request.target = w.target ? (row * 37 + vocab / 2) % vocab : -1;
	request.top_count = w.top_count < vocab ? w.top_count : vocab;
	request.sample = w.sample;
	request.all = w.all;
	request.sampling = w.sampling;
	request.position = (uint64_t)row << 30 | (uint64_t)row;
	return request;
}

/* ---- one launch and what the CPU says ---- */

struct logits_output {
	std::vector<float> logits;                 /* [n_rows, V] */
	std::vector<struct logits_result> results; /* [n_rows] */
	std::vector<int32_t> top_ids;              /* [n_rows, TOP_STRIDE] */
	std::vector<float> top_logprobs;
};

static int run_rows(const float *x, const struct logits_request *requests, size_t n_rows, size_t vocab,
	logits_output *out, struct error *e)
{
	device_array<float> logits(std::vector<float>(x, x + n_rows * vocab)), top_logprobs(n_rows * TOP_STRIDE);
	const device_array<struct logits_request> device_requests(
		std::vector<struct logits_request>(requests, requests + n_rows));
	device_array<struct logits_result> results(n_rows);
	device_array<int32_t> top_ids(n_rows * TOP_STRIDE);
	device_array<unsigned char> scratch(logits_tail_scratch_bytes((int)n_rows, (int)vocab));
	bool any_all = false;
	for (size_t row = 0; row < n_rows; row++)
		any_all = any_all || requests[row].all;

	const struct logits_tail_args a = {logits.data, (int)n_rows, (int)vocab, device_requests.data, results.data,
		TOP_STRIDE, top_ids.data, top_logprobs.data, any_all, scratch.data};
	TRY(logits_tail_launch(&a, 0, e));
	TRY(device_finish("logits", e));
	*out = {logits.download(), results.download(), top_ids.download(), top_logprobs.download()};
	return 0;
}

static int compare_id(const char *what, int row, int32_t id, int32_t expected, struct error *e)
{
	return id == expected ? 0 : error_set(e, ERR_INPUT, "row %d: %s is %d, expected %d", row, what, id, expected);
}

static int compare_float(const char *what, int row, float value, float expected, struct error *e)
{
	const std::string where = "row " + std::to_string(row) + ", " + what;
	return compare_bits(where.c_str(), &value, &expected, 1, 1, e);
}

/* The bits of the CPU's reference, and its ids. */
static int check_row(const logits_output &out, int row, const struct logits_request &request, const float *x,
	size_t vocab, struct error *e)
{
	const struct logits_result &result = out.results[(size_t)row];
	float max, log_sum;
	int argmax;
	row_softmax_ref(x, (int)vocab, &max, &argmax, &log_sum);
	TRY(compare_float("maximum", row, result.max + 0.0f, max + 0.0f, e)); /* whatever the sign of zero */
	TRY(compare_float("log sum", row, result.log_sum, log_sum, e));
	TRY(compare_id("argmax", row, result.argmax, argmax, e));
	if (request.target >= 0)
		TRY(compare_float("target", row, result.target_logprob, (x[request.target] - max) - log_sum, e));
	if (request.sample) {
		std::vector<int32_t> order(vocab);
		const int32_t sampled = sample_token(x, (int)vocab, &request.sampling, request.position, order.data());
		TRY(compare_id("drawn token", row, result.sampled, sampled, e));
		TRY(compare_float("drawn", row, result.sampled_logprob, (x[sampled] - max) - log_sum, e));
	}
	std::vector<int32_t> ids((size_t)request.top_count);
	if (request.top_count > 0)
		top_tokens(x, (int)vocab, request.top_count, ids.data());
	for (size_t i = 0; i < (size_t)request.top_count; i++) {
		const size_t at = (size_t)row * TOP_STRIDE + i;
		TRY(compare_id("likely token", row, out.top_ids[at], ids[i], e));
		TRY(compare_float("likely", row, out.top_logprobs[at], (x[ids[i]] - max) - log_sum, e));
	}
	std::vector<float> expected(x, x + vocab);
	for (float &value : expected)
		value = request.all ? (value - max) - log_sum : value;
	return compare_bits("logits afterwards", &out.logits[(size_t)row * vocab], expected.data(), vocab, vocab, e);
}

/* A row alone gives what it gives among others. */
static int check_alone(const logits_output &all, int row, const struct logits_request &request, const float *x,
	size_t vocab, struct error *e)
{
	logits_output alone;
	TRY(run_rows(x, &request, 1, vocab, &alone, e));
	const size_t top = (size_t)row * TOP_STRIDE, count = (size_t)request.top_count;
	if (memcmp(&alone.results[0], &all.results[(size_t)row], sizeof(alone.results[0])) != 0)
		return error_set(e, ERR_INPUT, "row %d alone: another result", row);
	if (memcmp(alone.top_ids.data(), &all.top_ids[top], count * sizeof(int32_t)) != 0)
		return error_set(e, ERR_INPUT, "row %d alone: other likely tokens", row);
	TRY(compare_bits(
		"likely tokens of a row alone", alone.top_logprobs.data(), &all.top_logprobs[top], count, count, e));
	return compare_bits("a row alone", alone.logits.data(), &all.logits[(size_t)row * vocab], vocab, vocab, e);
}

static int check_numbers(const struct logits_case *c, struct error *e)
{
	const size_t vocab = (size_t)c->vocab, n_rows = (size_t)c->n_rows;
	generator g(11);
	std::vector<float> x(n_rows * vocab);
	std::vector<struct logits_request> requests;
	for (size_t row = 0; row < n_rows; row++) {
		fill_row((enum row_kind)(row % ROW_KINDS), g, &x[row * vocab], vocab);
		requests.push_back(make_request((int)row, c->vocab));
	}
	if (vocab > 200000) /* a likely token far behind the chunks of the first round */
		x[vocab - 2] = 9.0f;
	logits_output out;
	TRY(run_rows(x.data(), requests.data(), n_rows, vocab, &out, e));
	for (size_t row = 0; row < n_rows; row++) {
		TRY(check_row(out, (int)row, requests[row], &x[row * vocab], vocab, e));
		if (row % 5 == 1)
			TRY(check_alone(out, (int)row, requests[row], &x[row * vocab], vocab, e));
	}
	return 0;
}

/* What is no number comes out as NaN; nothing is read or written elsewhere, and ids stay in range. */
static int check_not_numbers(const struct logits_case *c, struct error *e)
{
	static const char *const kinds[] = {"one NaN", "nothing but NaN", "nothing but minus infinity", "infinity"};
	enum { KINDS = sizeof(kinds) / sizeof(kinds[0]), ROWS = KINDS * 2 };
	const size_t vocab = (size_t)c->vocab;
	const struct sampling sampling[] = {{1.0f, 3, 0.9f, 3}, {0.5f, 0, 0.5f, 4}};
	std::vector<float> x(ROWS * vocab, 1.0f);
	std::vector<struct logits_request> requests;
	for (size_t row = 0; row < ROWS; row++) {
		for (size_t i = 0; i < vocab; i++) {
			float &value = x[row * vocab + i];
			if (row % KINDS == 1 || (row % KINDS == 0 && i == vocab / 2))
				value = NAN;
			else if (row % KINDS == 2 || (row % KINDS == 3 && i == vocab / 2))
				value = row % KINDS == 2 ? -INFINITY : INFINITY;
		}
		struct logits_request request = {};
		request.target = c->vocab / 3;
		request.sample = true;
		request.sampling = sampling[row / KINDS];
		request.top_count = c->vocab < 4 ? c->vocab : 4;
		requests.push_back(request);
	}
	logits_output out;
	TRY(run_rows(x.data(), requests.data(), ROWS, vocab, &out, e));
	for (size_t row = 0; row < ROWS; row++) {
		const struct logits_result &r = out.results[row];
		const char *const kind = kinds[row % KINDS];
		if (!isnan(r.target_logprob) || !isnan(r.sampled_logprob))
			return error_set(e, ERR_INPUT, "%s: log-probabilities %g and %g, expected NaN", kind,
				(double)r.target_logprob, (double)r.sampled_logprob);
		if (r.argmax < 0 || r.argmax >= c->vocab || r.sampled < 0 || r.sampled >= c->vocab)
			return error_set(
				e, ERR_INPUT, "%s: tokens %d and %d of %d", kind, r.argmax, r.sampled, c->vocab);
		for (int i = 0; i < requests[row].top_count; i++) {
			const int32_t id = out.top_ids[row * TOP_STRIDE + (size_t)i];
			if (id < 0 || id >= c->vocab)
				return error_set(e, ERR_INPUT, "%s: likely token %d of %d", kind, id, c->vocab);
		}
	}
	return 0;
}

/* More likely tokens than a row has room for are refused; no rows are no work. */
static int check_sizes(struct error *e)
{
	struct logits_tail_args a = {};
	struct error expected;
	a.vocab = 10;
	a.top_stride = LOGITS_TOP_MAX + 1;
	if (logits_tail_launch(&a, 0, &expected) != ERR_INPUT)
		return error_set(e, ERR_INPUT, "%d likely tokens were not refused", a.top_stride);
	a.top_stride = 0;
	return logits_tail_launch(&a, 0, e);
}

static const char *case_name(int i)
{
	return cases[i].name;
}

/* The order of every sum is the reference's, or has no say: its bits are expected of a GPU too. */
static int case_run(int i, bool exact, struct error *e)
{
	(void)exact;
	TRY(check_sizes(e));
	TRY(check_numbers(&cases[i], e));
	return cases[i].vocab == 7 || cases[i].vocab == 513 ? check_not_numbers(&cases[i], e) : 0;
}

extern "C" const struct cuda_case_group logits_cases = {
	"logits", sizeof(cases) / sizeof(cases[0]), case_name, case_run};

#include <algorithm>
#include <math.h>
#include <string>

#include "cuda/kernels.cuh"
#include "tests/cuda_cases/case_support.cuh"

extern "C" {
#include "engine/cpu/ops_latent.h"
}

static const struct latent_case {
	const char *name;
	enum kv_format format;
	int page_size, n_heads, value_width, width;
	float k_scale;
} cases[] = {
	{"f32, 3 heads, rows of 16 + 8", KV_F32, 16, 3, 16, 24, 1.0f},
	{"bf16, 6 heads, rows of 32 + 16", KV_BF16, 8, 6, 32, 48, 0.5f},
	{"fp8, 2 heads, rows of 128 + 16", KV_E4M3, 64, 2, 128, 144, 0.01f},
	{"bf16, 1 head, rows of 512 + 64", KV_BF16, 32, 1, 512, 576, 1.0f},
	{"f32, 1 head, rows of 512 + 64", KV_F32, 16, 1, 512, 576, 2.0f},
	{"fp8, 5 heads, rows of 21 + 6", KV_E4M3, 1, 5, 21, 27, 0.02f},
	{"f32, 2 heads, rows of 4, all of them values", KV_F32, 4, 2, 4, 4, 1.0f},
};

/* The first is longer than one running softmax covers: its last rows have an order of sums of their own. */
static const std::vector<int> lengths = {270, 1, 65};
enum { SEQUENCE_270 = 0, SEQUENCE_65 = 2, TOKENS = 270 + 1 + 65, FIRST_SPLIT = 256, COUNTED_BEFORE = 6 };

struct latent_data {
	const struct latent_case *shape;
	struct kv_geometry geometry;
	int pages_per_sequence;
	std::vector<float> q, latent; /* [TOKENS, N, width], [TOKENS, width] */
	std::vector<int32_t> tables;
	std::vector<int64_t> slots; /* [TOKENS] */
	std::vector<uint8_t> cache; /* as latent_write_cpu leaves it */
	uint64_t saturated;
	std::vector<float> out; /* [TOKENS, N, C] of all in one batch */
};

/* Tokens first .. first + count - 1 of a sequence. */
struct piece {
	int sequence, first, count;
};

static int first_token(int sequence)
{
	int first = 0;
	for (int b = 0; b < sequence; b++)
		first += lengths[(size_t)b];
	return first;
}

static struct latent_write_args write_arguments(const latent_data *d)
{
	struct latent_write_args a = {};
	a.n_tokens = TOKENS;
	a.width = d->shape->width;
	a.geometry = d->geometry;
	a.layer = {d->shape->format, NULL, NULL, d->shape->k_scale, 1.0f};
	return a;
}

static void data_init(latent_data *d, const struct latent_case *c)
{
	generator g(4);
	d->shape = c;
	d->pages_per_sequence = (lengths[SEQUENCE_270] + c->page_size - 1) / c->page_size;
	d->geometry = {c->page_size, (int)lengths.size() * d->pages_per_sequence + 1, 1, c->width};
	d->latent = random_values(g, (size_t)(TOKENS * c->width));
	d->q = random_values(g, (size_t)(TOKENS * c->n_heads * c->width));
	for (int i = 0; i < c->width; i++)
		d->latent[(size_t)(100 * c->width + i)] *= 10.0f; /* clipped where a scale is small */
	d->tables.resize(lengths.size() * (size_t)d->pages_per_sequence);
	for (size_t i = 0; i < d->tables.size(); i++)
		d->tables[i] = (int32_t)i + 1;
	std::shuffle(d->tables.begin(), d->tables.end(), g);
	for (size_t b = 0; b < lengths.size(); b++)
		for (int i = 0; i < lengths[b]; i++)
			d->slots.push_back(
				(int64_t)d->tables[b * (size_t)d->pages_per_sequence + (size_t)(i / c->page_size)] *
					c->page_size +
				i % c->page_size);
	d->cache.assign((size_t)(d->geometry.n_pages * c->page_size * c->width) * kv_format_size(c->format), 0xff);
	d->saturated = COUNTED_BEFORE;
	struct latent_write_args a = write_arguments(d);
	a.latent = d->latent.data();
	a.layer.k = d->cache.data();
	a.slots = d->slots.data();
	a.saturated = &d->saturated;
	latent_write_cpu(&a);
}

static int check_write(const latent_data *d, struct error *e)
{
	const device_array<float> latent(d->latent);
	const device_array<uint8_t> cache(std::vector<uint8_t>(d->cache.size(), 0xff));
	const device_array<int64_t> slots(d->slots);
	const device_array<uint64_t> saturated(std::vector<uint64_t>(1, COUNTED_BEFORE));
	struct latent_write_args a = write_arguments(d);
	a.latent = latent.data;
	a.layer.k = cache.data;
	a.slots = slots.data;
	a.saturated = saturated.data;
	TRY(latent_write_launch(&a, 0, e));
	a.n_tokens = 0;
	TRY(latent_write_launch(&a, 0, e));
	TRY(device_finish("latent write", e));
	if (cache.download() != d->cache)
		return error_set(e, ERR_INPUT, "the cache is not that of latent_write_cpu");
	if (saturated.download()[0] != d->saturated)
		return error_set(e, ERR_INPUT, "%llu values clipped, expected %llu",
			(unsigned long long)saturated.download()[0], (unsigned long long)d->saturated);
	return 0;
}

/* The arguments of a batch, in host memory. */
struct batch {
	std::vector<float> q;
	std::vector<int32_t> cu_seqlens, first_position, tables;
	struct latent_attend_args args;
};

static void batch_init(batch *b, const latent_data *d, const std::vector<piece> &pieces)
{
	const struct latent_case *c = d->shape;
	const size_t row = (size_t)(c->n_heads * c->width), pages = (size_t)d->pages_per_sequence;
	b->cu_seqlens.push_back(0);
	for (const piece &p : pieces) {
		const float *q = &d->q[(size_t)(first_token(p.sequence) + p.first) * row];
		const int32_t *table = &d->tables[(size_t)p.sequence * pages];
		b->q.insert(b->q.end(), q, q + (size_t)p.count * row);
		b->cu_seqlens.push_back(b->cu_seqlens.back() + p.count);
		b->first_position.push_back(p.first);
		b->tables.insert(b->tables.end(), table, table + pages);
	}
	b->args = {};
	b->args.n_tokens = b->cu_seqlens.back();
	b->args.n_sequences = (int)pieces.size();
	b->args.n_heads = c->n_heads;
	b->args.value_width = c->value_width;
	b->args.width = c->width;
	b->args.scale = 4.0f / sqrtf((float)c->width);
	b->args.geometry = d->geometry;
	b->args.layer = {c->format, NULL, NULL, c->k_scale, 1.0f};
	b->args.table_stride = d->pages_per_sequence;
}

static size_t row_values(const latent_data *d) /* of an output row */
{
	return (size_t)(d->shape->n_heads * d->shape->value_width);
}

static int run_device(
	const latent_data *d, const std::vector<piece> &pieces, bool split, std::vector<float> *out, struct error *e)
{
	batch b;
	batch_init(&b, d, pieces);
	const device_array<float> q(b.q);
	const device_array<int32_t> cu_seqlens(b.cu_seqlens), first_position(b.first_position), tables(b.tables);
	const device_array<uint8_t> cache(d->cache);
	device_array<float> device_out((size_t)b.args.n_tokens * row_values(d));
	struct latent_attend_args a = b.args;
	a.q = q.data;
	a.layer.k = cache.data;
	a.cu_seqlens = cu_seqlens.data;
	a.first_position = first_position.data;
	a.block_tables = tables.data;
	a.out = device_out.data;
	const device_array<uint8_t> scratch(split ? latent_attend_split_bytes(&a) : 0);
	if (split && scratch.count == 0)
		return error_set(e, ERR_INPUT, "a step of %d tokens is not split", a.n_tokens);
	TRY(split ? latent_attend_split_launch(&a, scratch.data, 0, e) : latent_attend_launch(&a, 0, e));
	TRY(device_finish("latent attend", e));
	*out = device_out.download();
	return 0;
}

static std::vector<float> run_reference(const latent_data *d, const std::vector<piece> &pieces)
{
	batch b;
	batch_init(&b, d, pieces);
	std::vector<float> out((size_t)b.args.n_tokens * row_values(d)), scratch;
	struct latent_attend_args a = b.args;
	a.q = b.q.data();
	a.layer.k = const_cast<uint8_t *>(d->cache.data());
	a.cu_seqlens = b.cu_seqlens.data();
	a.first_position = b.first_position.data();
	a.block_tables = b.tables.data();
	a.out = out.data();
	struct thread_pool *pool = thread_pool_new(1, NULL);
	scratch.resize(latent_attend_scratch_floats(&a, 1));
	latent_attend_cpu(&a, pool, scratch.data());
	thread_pool_delete(pool);
	return out;
}

/* The pieces, run together, give the rows of the whole batch. */
static int check_pieces(
	const char *what, const latent_data *d, const std::vector<piece> &pieces, bool split, struct error *e)
{
	const size_t row = row_values(d);
	std::vector<float> out;
	size_t at = 0;
	TRY(run_device(d, pieces, split, &out, e));
	for (const piece &p : pieces) {
		const std::string place = std::string(what) + (split ? ", split: sequence " : ": sequence ") +
			std::to_string(p.sequence) + " from " + std::to_string(p.first);
		const float *expected = &d->out[(size_t)(first_token(p.sequence) + p.first) * row];
		TRY(compare_bits(place.c_str(), out.data() + at, expected, (size_t)p.count * row, row, e));
		at += (size_t)p.count * row;
	}
	return 0;
}

static int check_refused(struct error *e)
{
	static const struct {
		enum kv_format format;
		int value_width, width;
	} misfits[] = {
		{KV_BF16, 0, 16}, {KV_BF16, 17, 16}, {KV_BF16, 513, 600}, {KV_F32, 512, 800}, {KV_E4M3, 16, 4096}};
	for (const auto &m : misfits) {
		struct error expected;
		struct latent_attend_args a = {};
		a.n_heads = a.geometry.page_size = 1;
		a.layer.format = m.format;
		a.value_width = m.value_width;
		a.width = m.width;
		if (latent_attend_launch(&a, 0, &expected) != ERR_INPUT)
			return error_set(e, ERR_INPUT, "rows of %d, %d of them values, were not refused", m.width,
				m.value_width);
	}
	return 0;
}

static const char *case_name(int i)
{
	return cases[i].name;
}

static int case_run(int i, bool exact, struct error *e)
{
	latent_data d;
	std::vector<piece> all;
	data_init(&d, &cases[i]);
	TRY(check_write(&d, e));
	for (int b = 0; b < (int)lengths.size(); b++)
		all.push_back({b, 0, lengths[(size_t)b]});
	TRY(run_device(&d, all, false, &d.out, e));
	const std::vector<float> expected = run_reference(&d, all);
	const size_t row = row_values(&d), later = (size_t)(first_token(SEQUENCE_270 + 1)) * row;
	TRY(compare_nmse("against latent_attend_cpu", d.out.data(), expected.data(), expected.size(), 1e-10, e));
	if (exact) {
		TRY(compare_bits(
			"against latent_attend_cpu", d.out.data(), expected.data(), FIRST_SPLIT * row, row, e));
		TRY(compare_bits(
			"against latent_attend_cpu", &d.out[later], &expected[later], expected.size() - later, row, e));
	}
	for (bool split : {false, true})
		TRY(check_pieces("decode", &d, {{SEQUENCE_270, 269, 1}, {1, 0, 1}, {SEQUENCE_65, 64, 1}}, split, e));
	TRY(check_pieces("chunks", &d, {{SEQUENCE_65, 60, 0}, {SEQUENCE_270, 250, 9}, {SEQUENCE_65, 1, 3}}, true, e));
	TRY(check_pieces("the rest", &d, {{SEQUENCE_270, 259, 11}, {SEQUENCE_65, 4, 61}}, false, e));
	return check_refused(e);
}

extern "C" const struct cuda_case_group latent_cases = {
	"latent", sizeof(cases) / sizeof(cases[0]), case_name, case_run};

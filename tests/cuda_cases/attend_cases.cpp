#include <algorithm>
#include <math.h>
#include <string>

#include "cuda/kernels.cuh"
#include "tests/cuda_cases/case_support.cuh"

extern "C" {
#include "engine/cpu/ref.h"
}

static const struct attend_case {
	const char *name;
	enum kv_format format;
	int page_size, n_heads, n_kv_heads, head_dim;
	float k_scale, v_scale;
} cases[] = {
	{"f32, pages of 16, 6/2 heads of 64", KV_F32, 16, 6, 2, 64, 1.0f, 1.0f},
	{"f32, pages of 64, 2/2 heads of 16", KV_F32, 64, 2, 2, 16, 0.75f, 1.5f},
	{"f32, pages of 1, 4/1 heads of 128", KV_F32, 1, 4, 1, 128, 1.0f, 1.0f},
	{"bf16, pages of 8, 6/2 heads of 64", KV_BF16, 8, 6, 2, 64, 1.0f, 1.0f},
	{"bf16, pages of 32, 4/1 heads of 128", KV_BF16, 32, 4, 1, 128, 1.3f, 0.7f},
	{"bf16, pages of 64, 3/3 heads of 32", KV_BF16, 64, 3, 3, 32, 0.5f, 2.0f},
	{"bf16, pages of 16, 8/1 heads of 80", KV_BF16, 16, 8, 1, 80, 1.0f, 1.0f},
	{"bf16, pages of 2, 9/3 heads of 16", KV_BF16, 2, 9, 3, 16, 1.0f, 1.0f},
	{"fp8, pages of 16, 6/2 heads of 64", KV_E4M3, 16, 6, 2, 64, 1.0f, 1.0f},
	{"fp8, pages of 8, 4/1 heads of 128", KV_E4M3, 8, 4, 1, 128, 0.0131f, 0.0071f},
	{"fp8, pages of 64, 4/4 heads of 16", KV_E4M3, 64, 4, 4, 16, 0.0131f, 0.9f},
	{"fp8, pages of 4, 8/1 heads of 32", KV_E4M3, 4, 8, 1, 32, 0.5f, 0.25f},
	{"fp8, pages of 32, 7/1 heads of 96", KV_E4M3, 32, 7, 1, 96, 0.01f, 0.02f},
	{"bf16, pages of 16, 1/1 heads of 256", KV_BF16, 16, 1, 1, 256, 1.0f, 0.5f},
	/* rows that are not whole pieces of 16 bytes, and not whole groups of eight values */
	{"fp8, pages of 16, 4/2 heads of 24", KV_E4M3, 16, 4, 2, 24, 0.02f, 0.01f},
	{"bf16, pages of 4, 2/1 heads of 4", KV_BF16, 4, 2, 1, 4, 1.0f, 2.0f},
	{"f32, pages of 32, 3/1 heads of 1", KV_F32, 32, 3, 1, 1, 1.0f, 1.0f},
	{"fp8, pages of 1, 2/2 heads of 35", KV_E4M3, 1, 2, 2, 35, 0.02f, 0.01f},
};

/* Sequences longer than what one running softmax covers: the order of sums is no longer the reference's there. */
static const struct attend_case long_cases[] = {
	{"long: bf16, pages of 16, 4/1 heads of 16", KV_BF16, 16, 4, 1, 16, 1.0f, 1.0f},
	{"long: fp8, pages of 64, 1/1 heads of 136", KV_E4M3, 64, 1, 1, 136, 0.02f, 0.01f},
	{"long: f32, pages of 2, 3/1 heads of 8", KV_F32, 2, 3, 1, 8, 1.0f, 1.0f},
};
enum { CASES = sizeof(cases) / sizeof(cases[0]), LONG_CASES = sizeof(long_cases) / sizeof(long_cases[0]) };

static const std::vector<int> short_lengths = {1, 63, 64, 65, 200}, long_lengths = {257, 515};
enum { SEQUENCE_65 = 3, SEQUENCE_200 = 4, SEQUENCE_257 = 0, SEQUENCE_515 = 1, FIRST_SPLIT = 256 };

/* A case's sequences: what would be computed for all of their tokens. */
struct attend_data {
	const struct attend_case *shape;
	std::vector<int> lengths; /* of the sequences */
	int q_stride, pages_per_sequence;
	std::vector<float> q, k, v;  /* [tokens, q_stride], [tokens, G, D] twice */
	std::vector<int32_t> tables; /* [sequences, pages_per_sequence], scattered over the pool */
	std::vector<float> out;      /* [TOKENS, N * D]: of all sequences in one batch */
};

/* Tokens first .. first + count - 1 of a sequence; the cache holds nothing of the later ones. */
struct piece {
	int sequence, first, count;
};

static int n_sequences(const attend_data *d)
{
	return (int)d->lengths.size();
}

/* Of a sequence; of n_sequences: how many tokens there are. */
static int first_token(const attend_data *d, int sequence)
{
	int first = 0;
	for (int b = 0; b < sequence; b++)
		first += d->lengths[(size_t)b];
	return first;
}

static size_t row_values(const attend_data *d) /* of an output row */
{
	return (size_t)d->shape->n_heads * (size_t)d->shape->head_dim;
}

static struct kv_geometry geometry_of(const attend_data *d)
{
	return {d->shape->page_size, n_sequences(d) * d->pages_per_sequence + 1, d->shape->n_kv_heads,
		d->shape->head_dim};
}

static void data_init(attend_data *d, const struct attend_case *c, const std::vector<int> &lengths)
{
	generator g(3);
	d->shape = c;
	d->lengths = lengths;
	const int tokens = first_token(d, n_sequences(d)), longest = *std::max_element(lengths.begin(), lengths.end());
	d->q_stride = (c->n_heads + 2 * c->n_kv_heads) * c->head_dim;
	d->pages_per_sequence = (longest + c->page_size - 1) / c->page_size;
	d->q = random_values(g, (size_t)tokens * (size_t)d->q_stride);
	d->k = random_values(g, (size_t)(tokens * c->n_kv_heads * c->head_dim));
	d->v = random_values(g, d->k.size());
	for (float &value : d->q)
		value *= 4.0f; /* so that weights differ and maxima move */
	for (size_t i = 0; i < d->q.size(); i++)
		if (i % (size_t)d->q_stride >= row_values(d))
			d->q[i] = NAN; /* k and v of the row: not attention's to read */
	d->tables.resize((size_t)(n_sequences(d) * d->pages_per_sequence));
	for (size_t i = 0; i < d->tables.size(); i++)
		d->tables[i] = (int32_t)i + 1;
	for (size_t i = d->tables.size(); i > 1; i--)
		std::swap(d->tables[i - 1], d->tables[g() % i]);
}

/* The pages as they are when the pieces' tokens and those before them are written: all else is NaN. */
static void cache_fill(
	const attend_data *d, const std::vector<piece> &pieces, std::vector<uint8_t> *k, std::vector<uint8_t> *v)
{
	const struct kv_geometry g = geometry_of(d);
	const struct attend_case *c = d->shape;
	const size_t values = (size_t)g.n_pages * (size_t)(g.n_kv_heads * g.page_size * g.head_dim);
	const size_t size = c->format == KV_F32 ? 4 : c->format == KV_BF16 ? 2 : 1;
	k->assign(values * size, 0xff);
	v->assign(values * size, 0xff);
	for (const piece &p : pieces) {
		for (int position = 0; position < p.first + p.count; position++) {
			const int page =
				d->tables[(size_t)(p.sequence * d->pages_per_sequence + position / g.page_size)];
			for (int head = 0; head < g.n_kv_heads; head++) {
				const size_t to =
					(size_t)((page * g.n_kv_heads + head) * g.page_size + position % g.page_size) *
					(size_t)g.head_dim;
				const size_t from =
					(size_t)((first_token(d, p.sequence) + position) * g.n_kv_heads + head) *
					(size_t)g.head_dim;
				kv_store_ref(c->format, k->data(), to, &d->k[from], g.head_dim, c->k_scale);
				kv_store_ref(c->format, v->data(), to, &d->v[from], g.head_dim, c->v_scale);
			}
		}
	}
}

/* The arguments of a batch, in host memory. */
struct batch {
	std::vector<float> q;
	std::vector<int32_t> cu_seqlens, first_position, tables;
	std::vector<uint8_t> k, v;
	struct attend_args args;
};

static void batch_init(batch *b, const attend_data *d, const std::vector<piece> &pieces)
{
	const int stride = d->pages_per_sequence + 3, page_size = d->shape->page_size;
	b->cu_seqlens.push_back(0);
	for (const piece &p : pieces) {
		const size_t first = (size_t)(first_token(d, p.sequence) + p.first) * (size_t)d->q_stride;
		b->q.insert(b->q.end(), d->q.begin() + (ptrdiff_t)first,
			d->q.begin() + (ptrdiff_t)(first + (size_t)p.count * (size_t)d->q_stride));
		b->cu_seqlens.push_back(b->cu_seqlens.back() + p.count);
		b->first_position.push_back(p.first);
		/* entries behind the last page in use would fault if they were followed */
		for (int page = 0; page < stride; page++)
			b->tables.push_back(page * page_size < p.first + p.count
					? d->tables[(size_t)(p.sequence * d->pages_per_sequence + page)]
					: INT32_MAX);
	}
	cache_fill(d, pieces, &b->k, &b->v);
	b->args = {};
	b->args.q_stride = d->q_stride;
	b->args.n_tokens = b->cu_seqlens.back();
	b->args.n_sequences = (int)pieces.size();
	b->args.n_heads = d->shape->n_heads;
	b->args.scale = 1.0f / sqrtf((float)d->shape->head_dim);
	b->args.geometry = geometry_of(d);
	b->args.layer = {d->shape->format, NULL, NULL, d->shape->k_scale, d->shape->v_scale};
	b->args.table_stride = stride;
}

/* Alone, or with the positions of each row shared by several blocks. */
static int launch(const struct attend_args *a, bool split, struct error *e)
{
	if (!split)
		return attend_launch(a, 0, e);
	const size_t bytes = attend_split_bytes(a);
	if (bytes == 0)
		return error_set(e, ERR_INPUT, "a step of %d tokens is not split", a->n_tokens);
	device_array<uint8_t> scratch(bytes);
	TRY(attend_split_launch(a, scratch.data, 0, e));
	return device_finish("attend in splits", e);
}

/* out: rows of the pieces in turn. */
static int run_device(
	const attend_data *d, const std::vector<piece> &pieces, bool split, std::vector<float> *out, struct error *e)
{
	batch b;
	batch_init(&b, d, pieces);
	const device_array<float> q(b.q);
	const device_array<int32_t> cu_seqlens(b.cu_seqlens), first_position(b.first_position), tables(b.tables);
	const device_array<uint8_t> k(b.k), v(b.v);
	device_array<float> device_out((size_t)b.args.n_tokens * row_values(d));
	struct attend_args a = b.args;
	a.q = q.data;
	a.layer.k = k.data;
	a.layer.v = v.data;
	a.cu_seqlens = cu_seqlens.data;
	a.first_position = first_position.data;
	a.block_tables = tables.data;
	a.out = device_out.data;
	TRY(launch(&a, split, e));
	TRY(device_finish("attend", e));
	*out = device_out.download();
	return 0;
}

static void run_reference(const attend_data *d, const std::vector<piece> &pieces, std::vector<float> *out)
{
	batch b;
	batch_init(&b, d, pieces);
	out->resize((size_t)b.args.n_tokens * row_values(d));
	struct attend_args a = b.args;
	a.q = b.q.data();
	a.layer.k = b.k.data();
	a.layer.v = b.v.data();
	a.cu_seqlens = b.cu_seqlens.data();
	a.first_position = b.first_position.data();
	a.block_tables = b.tables.data();
	a.out = out->data();
	attend_ref(&a);
}

/* The pieces, run together, give the rows of the whole batch. */
static int check_pieces(
	const char *what, const attend_data *d, const std::vector<piece> &pieces, bool split, struct error *e)
{
	std::vector<float> out;
	TRY(run_device(d, pieces, split, &out, e));
	const size_t row = row_values(d);
	size_t at = 0;
	for (const piece &p : pieces) {
		const std::string place = std::string(what) + ": sequence of " +
			std::to_string(d->lengths[(size_t)p.sequence]) + " from " + std::to_string(p.first);
		const float *expected = &d->out[(size_t)(first_token(d, p.sequence) + p.first) * row];
		TRY(compare_bits(place.c_str(), out.data() + at, expected, (size_t)p.count * row, row, e));
		at += (size_t)p.count * row;
	}
	return 0;
}

static int check_chunks(const attend_data *d, int sequence, int chunk, struct error *e)
{
	const std::string what = "chunks of " + std::to_string(chunk);
	const int length = d->lengths[(size_t)sequence];
	for (int first = 0; first < length; first += chunk)
		TRY(check_pieces(what.c_str(), d, {{sequence, first, std::min(chunk, length - first)}}, false, e));
	return 0;
}

static int check_batches(const attend_data *d, struct error *e)
{
	std::vector<piece> last_tokens;
	for (int b = 0; b < n_sequences(d); b++) {
		if (b != SEQUENCE_200) /* it is alone in check_chunks */
			TRY(check_pieces("alone", d, {{b, 0, d->lengths[(size_t)b]}}, false, e));
		last_tokens.push_back({b, d->lengths[(size_t)b] - 1, 1});
	}
	TRY(check_pieces("decode", d, last_tokens, false, e));
	/* decode beside a chunk, with a sequence that has no token in this step, first, between and last */
	return check_pieces("mixed", d,
		{{SEQUENCE_65, 64, 0}, {0, 0, 1}, {SEQUENCE_200, 130, 70}, {1, 10, 0}, {SEQUENCE_65, 64, 1}, {2, 0, 0}},
		false, e);
}

/* A later token that is NaN spoils its own row and no earlier one. */
static int check_nan(attend_data *d, struct error *e)
{
	const size_t row = row_values(d), kv_row = (size_t)(d->shape->n_kv_heads * d->shape->head_dim);
	const size_t last = (size_t)(first_token(d, SEQUENCE_65) + 63);
	const std::vector<float> k = d->k, v = d->v;
	std::vector<float> out;
	for (size_t i = 0; i < kv_row; i++)
		d->k[last * kv_row + i] = d->v[last * kv_row + i] = NAN;
	const int status = run_device(d, {{SEQUENCE_65, 0, 64}}, false, &out, e);
	d->k = k;
	d->v = v;
	TRY(status);
	for (size_t i = 63 * row; i < 64 * row; i++)
		if (!isnan(out[i]))
			return error_set(e, ERR_INPUT, "NaN in k and v is lost in out[63][%zu]", i % row);
	return compare_bits("before a token of NaN", out.data(), &d->out[(size_t)first_token(d, SEQUENCE_65) * row],
		63 * row, row, e);
}

static int check_refused(struct error *e)
{
	for (int head_dim : {0, -16, 257}) {
		struct error expected;
		struct attend_args a = {};
		a.n_heads = 1;
		a.geometry.head_dim = head_dim;
		a.geometry.n_kv_heads = a.geometry.page_size = 1;
		if (attend_launch(&a, 0, &expected) != ERR_INPUT)
			return error_set(e, ERR_INPUT, "head size %d was not refused", head_dim);
	}
	return 0;
}

/* All sequences in one batch, whose rows every other batch must give: d->out. */
static int check_all(attend_data *d, bool exact, struct error *e)
{
	std::vector<piece> all;
	std::vector<float> expected;
	const size_t row = row_values(d);
	for (int b = 0; b < n_sequences(d); b++)
		all.push_back({b, 0, d->lengths[(size_t)b]});
	TRY(run_device(d, all, false, &d->out, e));
	run_reference(d, all, &expected);
	TRY(compare_nmse("against attend_ref", d->out.data(), expected.data(), expected.size(), 1e-10, e));
	for (int b = 0; exact && b < n_sequences(d); b++) {
		const size_t first = (size_t)first_token(d, b) * row;
		const size_t n = (size_t)std::min<int>(d->lengths[(size_t)b], FIRST_SPLIT) * row;
		TRY(compare_bits("against attend_ref", &d->out[first], &expected[first], n, row, e));
	}
	return 0;
}

/* So many rows that fewer blocks than splits share the positions of each. */
static int check_few_sharing(const attend_data *d, struct error *e)
{
	const int group = d->shape->n_heads / d->shape->n_kv_heads, n = 1000 / ((group + 4) * d->shape->n_kv_heads);
	return check_pieces("many rows", d, std::vector<piece>((size_t)n, {SEQUENCE_515, 514, 1}), true, e);
}

/* Decode with and without shared positions, and chunks over the edge of a split. */
static int run_long(const struct attend_case *c, bool exact, struct error *e)
{
	attend_data d;
	data_init(&d, c, long_lengths);
	TRY(check_all(&d, exact, e));
	for (bool split : {false, true}) {
		TRY(check_pieces("decode", &d, {{SEQUENCE_257, 255, 1}, {SEQUENCE_257, 256, 1}, {SEQUENCE_515, 514, 1}},
			split, e));
		TRY(check_pieces("decode alone", &d, {{SEQUENCE_515, 511, 1}}, split, e));
		TRY(check_pieces(
			"chunks", &d, {{SEQUENCE_257, 0, 0}, {SEQUENCE_515, 250, 9}, {SEQUENCE_257, 0, 3}}, split, e));
	}
	if (c->head_dim <= 8) /* many rows take their time */
		TRY(check_few_sharing(&d, e));
	return check_pieces("the rest", &d, {{SEQUENCE_515, 259, 256}}, false, e);
}

static const char *case_name(int i)
{
	return i < CASES ? cases[i].name : long_cases[i - CASES].name;
}

static int case_run(int i, bool exact, struct error *e)
{
	attend_data d;

	if (i >= CASES)
		return run_long(&long_cases[i - CASES], exact, e);
	data_init(&d, &cases[i], short_lengths);
	TRY(check_all(&d, exact, e));
	TRY(check_batches(&d, e));
	TRY(check_chunks(&d, SEQUENCE_65, 1, e));
	TRY(check_chunks(&d, SEQUENCE_65, 7, e));
	TRY(check_chunks(&d, SEQUENCE_200, 64, e));
	TRY(check_nan(&d, e));
	return check_refused(e);
}

extern "C" const struct cuda_case_group attend_cases = {"attend", CASES + LONG_CASES, case_name, case_run};

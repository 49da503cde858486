/* Memory in large pages: zeros, apart from each other, given back in any order. */
#include <stdint.h>

#include "engine/base/large_memory.h"
#include "tests/support.h"

const char *const test_program_name = "large_memory";

/* ---- blocks ---- */

static const size_t block_sizes[] = {
	0, 1, 4095, 4096, 4097, (1 << 17) - 1, 1 << 17, (1 << 17) + 1, (1 << 21) - 1, 1 << 21, (1 << 21) + 1, 5 << 20};

START_TEST(a_block_is_zeros_to_its_end)
{
	struct large_block b;
	size_t bytes = block_sizes[_i];

	CHECK_OK(large_block_map(&b, bytes, &test_error));
	ck_assert_uint_ge((size_t)(b.end - b.start), bytes);
	ck_assert_uint_eq((uintptr_t)b.start % (bytes >= 1 << 17 ? 1 << 21 : 1 << 12), 0);
	size_t others = 0;
	for (char *at = b.start; at < b.end; at++) {
		others += *at != 0;
		*at = 1;
	}
	ck_assert_uint_eq(others, 0);
	large_block_unmap(&b);
	ck_assert_ptr_null(b.base);
	large_block_unmap(&b); /* which holds nothing any more */
}
END_TEST

START_TEST(a_block_that_cannot_be_is_refused)
{
	static const size_t sizes[] = {SIZE_MAX, PTRDIFF_MAX, (size_t)PTRDIFF_MAX - (1 << 22), (size_t)1 << 60};
	struct error e = {0};
	struct large_block b;

	ck_assert_int_eq(large_block_map(&b, sizes[_i], &e), ERR_MEMORY);
	ck_assert_ptr_null(b.base);
	ck_assert_ptr_nonnull(strstr(e.message, "no memory for"));
	ck_assert_ptr_null(slab_take(NULL, sizes[_i], &e));
	struct slabs slabs = {0};
	ck_assert_ptr_null(slab_take(&slabs, sizes[_i], &e));
	slabs_end(&slabs);
}
END_TEST

/* ---- pieces ---- */

enum { PIECES = 40 };

/* From nothing to more than a slab of 64 MiB holds. */
static size_t piece_size(int i)
{
	static const size_t sizes[] = {1, 63, 64, 65, 4096, 100000, 3 << 20, 11 << 20, (64 << 20) - 200, 0, 65 << 20};
	return sizes[i % (int)(sizeof sizes / sizeof *sizes)];
}

static void ends_write(unsigned char *piece, size_t size, int value)
{
	if (size > 0)
		piece[0] = piece[size - 1] = piece[size / 2] = (unsigned char)value;
}

static void ends_check(const unsigned char *piece, size_t size, int value)
{
	if (size > 0)
		ck_assert(piece[0] == value && piece[size - 1] == value && piece[size / 2] == value);
}

enum order { FORWARD, BACKWARD, MIXED, ORDERS };

static int place_of(int i, enum order order)
{
	return order == FORWARD ? i : order == BACKWARD ? PIECES - 1 - i : i * 7 % PIECES;
}

START_TEST(pieces_are_zeros_and_apart)
{
	struct slabs slabs = {0}, *shared = _i % 2 ? &slabs : NULL;
	unsigned char *pieces[PIECES];

	for (int i = 0; i < PIECES; i++) {
		pieces[i] = slab_take(shared, piece_size(i), &test_error);
		ck_assert_ptr_nonnull(pieces[i]);
		ck_assert_uint_eq((uintptr_t)pieces[i] % 64, 0);
		ends_check(pieces[i], piece_size(i), 0);
		ends_write(pieces[i], piece_size(i), i + 1);
	}
	if (_i / 2 % 2)
		slabs_end(&slabs); /* before the pieces are given */
	for (int i = 0; i < PIECES; i++) {
		int at = place_of(i, (enum order)(_i / 4));
		ends_check(pieces[at], piece_size(at), at + 1);
		slab_give(pieces[at]);
	}
	ck_assert_ptr_null(slabs.current);
	slab_give(NULL);
	slabs_end(&slabs);
}
END_TEST

/* Small pieces share a block until its last one is given; then the next is cut from a new one. */
START_TEST(pieces_share_a_block)
{
	struct slabs slabs = {0};
	char *a = slab_take(&slabs, 1000, &test_error), *b = slab_take(&slabs, 1000, &test_error);

	ck_assert_int_gt(b - a, 1000);
	ck_assert_int_lt(b - a, 2000);
	slab_give(a);
	char *c = slab_take(&slabs, 1000, &test_error);
	ck_assert_int_lt(c - b, 2000);
	slab_give(b);
	slab_give(c);
	ck_assert_ptr_null(slabs.current);
	c = slab_take(&slabs, 10, &test_error);
	ck_assert_int_eq(*c, 0);
	slab_give(c);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *blocks = test_case(suite, "blocks", 0), *pieces = test_case(suite, "pieces", 0);

	tcase_add_loop_test(blocks, a_block_is_zeros_to_its_end, 0, sizeof block_sizes / sizeof *block_sizes);
	tcase_add_loop_test(blocks, a_block_that_cannot_be_is_refused, 0, 4);
	tcase_add_loop_test(pieces, pieces_are_zeros_and_apart, 0, 4 * ORDERS);
	tcase_add_test(pieces, pieces_share_a_block);
}

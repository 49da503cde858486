/* Files as they come: plain, packed, cut short, empty, missing, folders, FIFOs; and the hashes of files. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "tests/support.h"

const char *const test_program_name = "base_file";

static const char text[] = "one\nzwei \xc3\xa4\n\0after a NUL";
enum { TEXT_LENGTH = sizeof(text) - 1 };

static void check_content(const struct buf *b, const void *expected, size_t length)
{
	ck_assert_uint_eq(b->length, length);
	ck_assert_mem_eq(b->data, expected, length);
	ck_assert_int_eq(b->data[length], '\0');
}

static void check_error(int status, int code, const char *first, const char *second)
{
	ck_assert_msg(status == code, "status %d, expected %d: %s", status, code, test_error.message);
	ck_assert_int_eq(test_error.code, code);
	ck_assert_msg(strstr(test_error.message, first) != NULL, "'%s' lacks '%s'", test_error.message, first);
	ck_assert_msg(strstr(test_error.message, second) != NULL, "'%s' lacks '%s'", test_error.message, second);
}

/* Packs bytes as a gzip file of its own. */
static struct buf gzip_bytes(const void *bytes, size_t length)
{
	z_stream stream = {0};
	ck_assert_int_eq(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
	size_t bound = deflateBound(&stream, length);
	unsigned char *packed = mem_calloc(bound, 1, NULL);
	ck_assert_ptr_nonnull(packed);
	stream.next_in = (unsigned char *)(uintptr_t)bytes;
	stream.avail_in = (unsigned)length;
	stream.next_out = packed;
	stream.avail_out = (unsigned)bound;
	ck_assert_int_eq(deflate(&stream, Z_FINISH), Z_STREAM_END);
	struct buf result = {0};
	buf_append(&result, packed, stream.total_out);
	deflateEnd(&stream);
	free(packed);
	return result;
}

START_TEST(reads_a_plain_file)
{
	const char *path = test_write_file("plain", text, TEXT_LENGTH);
	struct buf b = {0};
	buf_append_text(&b, "before ");
	CHECK_OK(file_read(path, &b, &test_error));
	ck_assert_uint_eq(b.length, 7 + TEXT_LENGTH);
	ck_assert_mem_eq(b.data, "before one", 10);
	buf_clear(&b);
	CHECK_OK(file_read(path, &b, &test_error));
	check_content(&b, text, TEXT_LENGTH);
	buf_free(&b);
}
END_TEST

START_TEST(reads_an_empty_file)
{
	const char *path = test_write_file("empty", "", 0);
	struct buf b = {0};
	CHECK_OK(file_read(path, &b, &test_error));
	ck_assert_uint_eq(b.length, 0);
	ck_assert_str_eq(buf_text(&b), "");
	struct file_map map;
	CHECK_OK(file_map_open(&map, path, &test_error));
	ck_assert_ptr_null(map.data);
	ck_assert_uint_eq(map.size, 0);
	file_map_close(&map);
}
END_TEST

/* Sizes around the length of a gzip magic number and of the read chunk. */
START_TEST(reads_any_size)
{
	static const size_t sizes[] = {1, 2, 3, 4095, 65535, 65536, 65537, 300001};
	size_t size = sizes[_i];
	unsigned char *bytes = mem_calloc(size, 1, NULL);
	ck_assert_ptr_nonnull(bytes);
	for (size_t i = 0; i < size; i++)
		bytes[i] = (unsigned char)(i * 2654435761U >> 13);
	bytes[0] = 0x1f; /* half a gzip magic number is none */
	if (size > 1)
		bytes[1] = 'x';
	struct buf b = {0};
	CHECK_OK(file_read(test_write_file("sized", bytes, size), &b, &test_error));
	check_content(&b, bytes, size);
	buf_free(&b);
	struct buf packed = gzip_bytes(bytes, size);
	CHECK_OK(file_read(test_write_file("sized.gz", packed.data, packed.length), &b, &test_error));
	check_content(&b, bytes, size);
	buf_free(&b);
	buf_free(&packed);
	free(bytes);
}
END_TEST

START_TEST(unpacks_members_in_a_row)
{
	struct buf first = gzip_bytes(text, TEXT_LENGTH);
	struct buf second = gzip_bytes("more", 4);
	buf_append_str(&first, buf_str(&second));
	struct buf b = {0};
	CHECK_OK(file_read(test_write_file("two.gz", first.data, first.length), &b, &test_error));
	ck_assert_uint_eq(b.length, TEXT_LENGTH + 4);
	ck_assert_str_eq(b.data + TEXT_LENGTH, "more");
	buf_free(&b);
	buf_free(&first);
	buf_free(&second);
}
END_TEST

/* Every proper prefix of a gzip file is refused, but the first byte alone, which is no gzip magic number. */
START_TEST(refuses_truncated_gzip)
{
	struct buf packed = gzip_bytes(text, TEXT_LENGTH);
	for (size_t length = 2; length < packed.length; length++) {
		const char *path = test_write_file("cut.gz", packed.data, length);
		struct buf b = {0};
		int status = file_read(path, &b, &test_error);
		ck_assert_msg(status == ERR_INPUT, "%zu of %zu bytes: status %d", length, packed.length, status);
		check_error(status, ERR_INPUT, path, "gzip");
		buf_free(&b);
	}
	buf_free(&packed);
}
END_TEST

START_TEST(refuses_damaged_gzip)
{
	struct buf packed = gzip_bytes(text, TEXT_LENGTH);
	packed.data[packed.length - 6] ^= 1; /* the checksum */
	const char *path = test_write_file("damaged.gz", packed.data, packed.length);
	struct buf b = {0};
	check_error(file_read(path, &b, &test_error), ERR_INPUT, path, "damaged");
	buf_free(&b);
	buf_free(&packed);
}
END_TEST

START_TEST(refuses_a_gzip_bomb)
{
	size_t size = (size_t)80 << 20;
	char *zeros = mem_calloc(size, 1, NULL);
	ck_assert_ptr_nonnull(zeros);
	struct buf packed = gzip_bytes(zeros, size);
	free(zeros);
	const char *path = test_write_file("bomb.gz", packed.data, packed.length);
	struct buf b = {0};
	check_error(file_read(path, &b, &test_error), ERR_INPUT, path, "250 to 1");
	buf_free(&b);
	buf_free(&packed);
}
END_TEST

START_TEST(names_what_is_missing)
{
	const char *folder = scratch_folder();
	char *absent = path_join(folder, "absent.json", &test_error);
	struct buf b = {0};
	struct file_map map;
	char digest[SHA256_HEX_SIZE];
	check_error(file_read(absent, &b, &test_error), ERR_MISSING, absent, "No such file");
	check_error(file_map_open(&map, absent, &test_error), ERR_MISSING, absent, "No such file");
	check_error(sha256_file(absent, digest, &test_error), ERR_MISSING, absent, "No such file");
	check_error(file_read(folder, &b, &test_error), ERR_MISSING, folder, "folder");
	check_error(file_map_open(&map, folder, &test_error), ERR_MISSING, folder, "folder");
	check_error(sha256_file(folder, digest, &test_error), ERR_MISSING, folder, "directory");
	check_error(file_read("", &b, &test_error), ERR_MISSING, "cannot open", "No such file");
	ck_assert_ptr_null(map.data);
	ck_assert(!file_exists(absent) && !file_is_folder(absent));
	ck_assert(!file_exists(folder) && file_is_folder(folder));
	free(absent);
}
END_TEST

START_TEST(names_what_may_not_be_read)
{
	const char *path = test_write_file("secret", text, TEXT_LENGTH);
	ck_assert_int_eq(chmod(path, 0), 0);
	/* The superuser may read everything; "nobody" may not. */
	uid_t user = geteuid();
	if (user == 0)
		ck_assert_int_eq(seteuid(65534), 0);
	struct buf b = {0};
	struct file_map map;
	check_error(file_read(path, &b, &test_error), ERR_MISSING, path, "Permission denied");
	check_error(file_map_open(&map, path, &test_error), ERR_MISSING, path, "Permission denied");
	ck_assert_int_eq(seteuid(user), 0);
}
END_TEST

/* /proc/self/mem opens, but its first page cannot be read. */
START_TEST(a_failing_read_is_an_io_error)
{
	struct buf b = {0};
	char digest[SHA256_HEX_SIZE];
	check_error(file_read("/proc/self/mem", &b, &test_error), ERR_IO, "/proc/self/mem", "Input/output error");
	check_error(sha256_file("/proc/self/mem", digest, &test_error), ERR_IO, "/proc/self/mem", "Input/output error");
	buf_free(&b);
}
END_TEST

/* Files of /proc have size 0 and content all the same. */
START_TEST(reads_a_file_without_size)
{
	struct buf b = {0};
	CHECK_OK(file_read("/proc/self/stat", &b, &test_error));
	ck_assert_uint_gt(b.length, 10);
	buf_free(&b);
}
END_TEST

struct feeder {
	const char *path;
	struct buf bytes;
};

static void *feed_fifo(void *argument)
{
	struct feeder *f = argument;
	int fd = open(f->path, O_WRONLY | O_CLOEXEC);
	/* In two pieces, so that one read() does not see all. */
	for (size_t half = 0; fd >= 0 && half < 2; half++) {
		size_t from = half ? f->bytes.length / 2 : 0;
		size_t to = half ? f->bytes.length : f->bytes.length / 2;
		if (write(fd, f->bytes.data + from, to - from) != (ssize_t)(to - from))
			break;
		usleep(20000);
	}
	close(fd);
	return NULL;
}

START_TEST(reads_a_fifo)
{
	char *path = path_join(scratch_folder(), "fifo", &test_error);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	struct file_map map;
	check_error(file_map_open(&map, path, &test_error), ERR_MISSING, path, "regular file");
	struct feeder f = {.path = path};
	if (_i == 0)
		buf_append(&f.bytes, text, TEXT_LENGTH);
	else
		f.bytes = gzip_bytes(text, TEXT_LENGTH);
	pthread_t thread;
	ck_assert_int_eq(pthread_create(&thread, NULL, feed_fifo, &f), 0);
	struct buf b = {0};
	CHECK_OK(file_read(path, &b, &test_error));
	pthread_join(thread, NULL);
	check_content(&b, text, TEXT_LENGTH);
	buf_free(&b);
	buf_free(&f.bytes);
	free(path);
}
END_TEST

START_TEST(reads_standard_input)
{
	struct buf packed = gzip_bytes(text, TEXT_LENGTH);
	const char *path = _i == 0 ? test_write_file("in", text, TEXT_LENGTH)
				   : test_write_file("in.gz", packed.data, packed.length);
	buf_free(&packed);
	int fd = open(path, O_RDONLY);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(dup2(fd, STDIN_FILENO), STDIN_FILENO);
	close(fd);
	struct buf b = {0};
	CHECK_OK(file_read("-", &b, &test_error));
	check_content(&b, text, TEXT_LENGTH);
	buf_free(&b);
}
END_TEST

START_TEST(closed_standard_input_is_missing)
{
	close(STDIN_FILENO);
	struct buf b = {0};
	check_error(file_read("-", &b, &test_error), ERR_MISSING, "standard input", "Bad file descriptor");
}
END_TEST

START_TEST(maps_a_file)
{
	const char *path = test_write_file("mapped", text, TEXT_LENGTH);
	struct file_map map;
	CHECK_OK(file_map_open(&map, path, &test_error));
	ck_assert_uint_eq(map.size, TEXT_LENGTH);
	ck_assert_mem_eq(map.data, text, TEXT_LENGTH);
	ck_assert_uint_eq((uintptr_t)map.data % (uintptr_t)sysconf(_SC_PAGESIZE), 0);
	file_map_close(&map);
	ck_assert_ptr_null(map.data);
	file_map_close(&map);
	ck_assert(file_exists(path) && !file_is_folder(path));
}
END_TEST

/* Resident memory of this process, in pages. */
static long resident_pages(void)
{
	struct buf sizes = test_read_file("/proc/self/statm");
	long pages = strtol(strchr(buf_text(&sizes), ' '), NULL, 10);
	buf_free(&sizes);
	return pages;
}

static unsigned sum_of(const struct file_map *map)
{
	unsigned sum = 0;
	for (size_t i = 0; i < map->size; i++)
		sum += map->data[i];
	return sum;
}

/* Released pages leave memory and come back with what they held; odd ends are no trouble. */
START_TEST(releases_what_was_read)
{
	enum { SIZE = (8 << 20) + 123 };
	char *content = malloc(SIZE);
	struct file_map map;
	ck_assert_ptr_nonnull(content);
	memset(content, 3, SIZE);
	scratch_folder();
	const char *path = test_write_file("large", content, SIZE);
	free(content);
	CHECK_OK(file_map_open(&map, path, &test_error));
	ck_assert_uint_eq(sum_of(&map), 3U * SIZE);
	long before = resident_pages();
	file_map_release(map.data + 1, SIZE - 2);
	ck_assert_int_ge(before - resident_pages(), (7 << 20) / sysconf(_SC_PAGESIZE));
	file_map_release(map.data + 5, 0);
	ck_assert_uint_eq(sum_of(&map), 3U * SIZE);
	file_map_close(&map);
}
END_TEST

START_TEST(joins_paths)
{
	static const struct {
		const char *dir, *name, *joined;
	} cases[] = {{"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"/", "b", "/b"}, {"", "b", "b"}, {"a/b", "c/d", "a/b/c/d"},
		{"", "", ""}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *joined = path_join(cases[i].dir, cases[i].name, &test_error);
		ck_assert_str_eq(joined, cases[i].joined);
		free(joined);
	}
}
END_TEST

/* FIPS 180-4 examples. */
static const struct {
	const char *message, *digest;
} sha256_cases[] = {
	{"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
	{"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
	{"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		"248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
};

START_TEST(sha256_known_answers)
{
	const char *message = sha256_cases[_i].message;
	size_t length = strlen(message);
	char digest[SHA256_HEX_SIZE];
	sha256_hex(message, length, digest);
	ck_assert_str_eq(digest, sha256_cases[_i].digest);
	CHECK_OK(sha256_file(test_write_file("hashed", message, length), digest, &test_error));
	ck_assert_str_eq(digest, sha256_cases[_i].digest);
	struct sha256 *s = sha256_new(&test_error);
	ck_assert_ptr_nonnull(s);
	for (size_t i = 0; i < length; i++)
		sha256_update(s, message + i, 1);
	sha256_update(s, NULL, 0);
	sha256_finish(s, digest);
	ck_assert_str_eq(digest, sha256_cases[_i].digest);
	sha256_delete(s);
	sha256_delete(NULL);
}
END_TEST

/* FIPS 180-4: a million times 'a', more than one chunk of a file. */
START_TEST(sha256_of_a_million)
{
	char *many = mem_calloc(1000000, 2, NULL);
	ck_assert_ptr_nonnull(many);
	memset(many, 'a', 2000000);
	char digest[SHA256_HEX_SIZE];
	sha256_hex(many, 1000000, digest);
	ck_assert_str_eq(digest, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
	char of_file[SHA256_HEX_SIZE];
	sha256_hex(many, 2000000, digest);
	CHECK_OK(sha256_file(test_write_file("many", many, 2000000), of_file, &test_error));
	ck_assert_str_eq(digest, of_file);
	free(many);
}
END_TEST

/* The sanity values of xxHash: XXH3_64bits without seed of the empty input. */
START_TEST(hash64_known_answer)
{
	ck_assert_uint_eq(hash64(NULL, 0), UINT64_C(0x2d06800538d394c2));
	ck_assert_uint_ne(hash64("a", 1), hash64("b", 1));
	ck_assert_uint_ne(hash64("a", 1), hash64("a", 2));
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *read = test_case(suite, "read", 60);
	tcase_add_test(read, reads_a_plain_file);
	tcase_add_test(read, reads_an_empty_file);
	tcase_add_loop_test(read, reads_any_size, 0, 8);
	tcase_add_test(read, reads_a_file_without_size);
	tcase_add_loop_test(read, reads_a_fifo, 0, 2);
	tcase_add_loop_test(read, reads_standard_input, 0, 2);
	tcase_add_test(read, closed_standard_input_is_missing);
	tcase_add_test(read, names_what_is_missing);
	tcase_add_test(read, names_what_may_not_be_read);
	tcase_add_test(read, a_failing_read_is_an_io_error);

	TCase *packed = test_case(suite, "gzip", 60);
	tcase_add_test(packed, unpacks_members_in_a_row);
	tcase_add_test(packed, refuses_truncated_gzip);
	tcase_add_test(packed, refuses_damaged_gzip);
	tcase_add_test(packed, refuses_a_gzip_bomb);

	TCase *other = test_case(suite, "map and paths", 0);
	tcase_add_test(other, maps_a_file);
	tcase_add_test(other, releases_what_was_read);
	tcase_add_test(other, joins_paths);

	TCase *hash = test_case(suite, "hash", 0);
	tcase_add_loop_test(hash, sha256_known_answers, 0, 3);
	tcase_add_test(hash, sha256_of_a_million);
	tcase_add_test(hash, hash64_known_answer);
}

#include "engine/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum {
	READ_CHUNK = 1 << 16,
	/* Text packs ten to fifty times, deflate at most 1032 times: beyond these bounds a gzip file is a bomb. */
	UNPACKED_ALWAYS_ALLOWED = 64 << 20,
	UNPACKED_RATIO_LIMIT = 250,
};

/* Which kind of failure an errno of open() is: the input that was named, or the machine. */
static int open_error_code(int number)
{
	return number == EMFILE || number == ENFILE || number == ENOMEM || number == EIO ? ERR_IO : ERR_MISSING;
}

/* Opens path for reading and describes it. The descriptor or a negative status. */
static int open_input(const char *path, int flags, struct stat *info, struct error *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | flags);
	if (fd < 0)
		return error_set(e, open_error_code(errno), "%s: cannot open: %s", path, strerror(errno));
	int status = 0;
	if (fstat(fd, info) != 0)
		status = error_set(e, ERR_IO, "%s: cannot stat: %s", path, strerror(errno));
	else if (S_ISDIR(info->st_mode))
		status = error_set(e, ERR_MISSING, "%s: is a folder, expected a file", path);
	if (status == 0)
		return fd;
	close(fd);
	return status;
}

int file_map_open(struct file_map *map, const char *path, struct error *e)
{
	*map = (struct file_map){0};
	struct stat info;
	/* O_NONBLOCK: opening a FIFO must not wait for its writer. */
	int fd = open_input(path, O_NONBLOCK, &info, e);
	if (fd < 0)
		return fd;
	int status = 0;
	if (!S_ISREG(info.st_mode)) {
		status = error_set(e, ERR_MISSING, "%s: cannot be mapped, expected a regular file", path);
	} else if (info.st_size > 0) {
		void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (data == MAP_FAILED)
			status = error_set(e, ERR_IO, "%s: cannot map %lld bytes: %s", path, (long long)info.st_size,
				strerror(errno));
		else
			*map = (struct file_map){data, (size_t)info.st_size};
	}
	close(fd);
	return status;
}

void file_map_close(struct file_map *map)
{
	if (map->data)
		munmap((void *)(uintptr_t)map->data, map->size);
	*map = (struct file_map){0};
}

void file_map_release(const void *data, size_t size)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)data & ~(page - 1);

	/* The pages at the edges are the mapping's too: it begins and ends with whole pages. Advice that is refused
	 * costs only memory. */
	if (size > 0)
		(void)madvise((void *)start, (uintptr_t)data + size - start, MADV_DONTNEED);
}

static int check_not_bomb(gzFile file, size_t unpacked, const char *name, struct error *e)
{
	if (unpacked <= UNPACKED_ALWAYS_ALLOWED || gzdirect(file))
		return 0;
	z_off_t packed = gzoffset(file);
	if (packed < 0 || unpacked / UNPACKED_RATIO_LIMIT <= (size_t)packed)
		return 0;
	return error_set(e, ERR_INPUT, "%s: gzip data of %lld bytes unpack to more than %zu, expected at most %d to 1",
		name, (long long)packed, unpacked, UNPACKED_RATIO_LIMIT);
}

/* The failure that zlib recorded; errno is the one of its last read(). */
static int gzip_error(gzFile file, int saved_errno, const char *name, struct error *e)
{
	int number = Z_OK;
	const char *reason = gzerror(file, &number);
	switch (number) {
	case Z_OK:
		return 0;
	case Z_ERRNO:
		if (saved_errno == EINTR)
			return error_set(e, ERR_INTERRUPTED, "%s: reading was interrupted", name);
		return error_set(e, ERR_IO, "%s: cannot read: %s", name, strerror(saved_errno));
	case Z_MEM_ERROR:
		return error_set(e, ERR_MEMORY, "%s: no memory to unpack gzip data", name);
	case Z_BUF_ERROR:
		return error_set(e, ERR_INPUT, "%s: gzip data end too early", name);
	default:
		return error_set(e, ERR_INPUT, "%s: gzip data are damaged: %s", name, reason);
	}
}

static int gzip_read_all(gzFile file, const char *name, struct buf *out, struct error *e)
{
	char *chunk = mem_calloc(READ_CHUNK, 1, e);
	if (!chunk)
		return ERR_MEMORY;
	int status = 0;
	size_t unpacked = 0;
	for (;;) {
		errno = 0;
		int got = gzread(file, chunk, READ_CHUNK);
		if (got <= 0) {
			status = gzip_error(file, errno, name, e);
			break;
		}
		buf_append(out, chunk, (size_t)got);
		unpacked += (size_t)got;
		TRY_CLEANUP(status, buf_check(out, e));
		TRY_CLEANUP(status, check_not_bomb(file, unpacked, name, e));
	}
cleanup:
	free(chunk);
	return status;
}

int file_read(const char *path, struct buf *out, struct error *e)
{
	const bool standard_input = strcmp(path, "-") == 0;
	const char *name = standard_input ? "standard input" : path;
	struct stat info;
	int fd = standard_input ? dup(STDIN_FILENO) : open_input(path, 0, &info, e);
	if (standard_input && fd < 0)
		return error_set(e, ERR_MISSING, "standard input: cannot open: %s", strerror(errno));
	if (fd < 0)
		return fd;
	gzFile file = gzdopen(fd, "rb");
	if (!file) {
		close(fd);
		return error_set(e, ERR_MEMORY, "%s: no memory to read it", name);
	}
	int status = gzip_read_all(file, name, out, e);
	gzclose_r(file);
	return status;
}

bool file_exists(const char *path)
{
	struct stat info;
	return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

bool file_is_folder(const char *path)
{
	struct stat info;
	return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

char *path_join(const char *dir, const char *name, struct error *e)
{
	struct buf path = {0};
	buf_append_text(&path, dir);
	if (path.length > 0 && path.data[path.length - 1] != '/')
		buf_append_char(&path, '/');
	buf_append_text(&path, name);
	if (buf_check(&path, e) < 0) {
		buf_free(&path);
		return NULL;
	}
	return path.data;
}

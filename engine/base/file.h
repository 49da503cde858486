/* Whole files: mapped read-only, or read into a buffer. Errors name the path and the system's reason;
 * a file that is missing, a folder or unreadable is ERR_MISSING. */
#ifndef ASSAY_ENGINE_BASE_FILE_H
#define ASSAY_ENGINE_BASE_FILE_H

#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/error.h"
#include "engine/base/str.h"

struct file_map {
	const uint8_t *data; /* page-aligned; NULL for an empty file */
	size_t size;
};

int file_map_open(struct file_map *map, const char *path, struct error *e);
void file_map_close(struct file_map *map); /* zeroes *map */

/* Says that a part of a mapping will not be read soon: its pages stop counting as this process's memory, and come
 * back when they are read after all. */
void file_map_release(const void *data, size_t size);

/* Reads a whole file, which may be a FIFO; "-" is standard input; gzip data are unpacked on the way (damaged data and
 * what unpacks beyond measure are ERR_INPUT). out is appended to. */
int file_read(const char *path, struct buf *out, struct error *e);

bool file_exists(const char *path); /* a regular file (or a link to one) */
bool file_is_folder(const char *path);

/* dir + "/" + name (no second "/" where dir ends with one, none where it is empty) in a fresh C string that the caller
 * frees; NULL and *e on failure. */
char *path_join(const char *dir, const char *name, struct error *e);

#endif

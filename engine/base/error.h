/* Status codes and the message that goes with them. Every fallible function returns 0 or one of these codes and
 * fills the caller's struct error; the message names the file, the value and what was expected. */
#ifndef ASSAY_ENGINE_BASE_ERROR_H
#define ASSAY_ENGINE_BASE_ERROR_H

#include <stdarg.h>
#include <stddef.h>

enum error_code {
	ERR_USAGE = -1,       /* the command line or configuration is wrong: exit 2 */
	ERR_INPUT = -2,       /* a file's content is malformed or not supported: exit 2 */
	ERR_IO = -3,          /* the operating system refused: exit 4 (exit 2 where a named input file is missing) */
	ERR_MEMORY = -4,      /* allocation failed: exit 4 */
	ERR_DEVICE = -5,      /* the accelerator or its library failed: exit 4 */
	ERR_LIMIT = -6,       /* a request does not fit the engine's limits (context, pages): exit 4 */
	ERR_STORE = -7,       /* the database refused: exit 4 */
	ERR_EMPTY = -8,       /* nothing was evaluated: exit 5 */
	ERR_INTERRUPTED = -9, /* stopped by a signal, resumable: exit 130 */
	ERR_MISSING = -10,    /* a named input does not exist or cannot be opened: exit 2 */
};

struct error {
	int code;           /* 0 or enum error_code */
	char message[1024]; /* without the final line feed; UTF-8; empty when code is 0 */
};

/* Sets code and message (printf form) and returns code, so that `return error_set(...)` reads well. e may be NULL. */
int error_set(struct error *e, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " before the message; keeps the code and returns it (with a NULL e, where it is not known: ERR_INPUT).
 */
int error_prefix(struct error *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The process exit code that ARCHITECTURE section 5 gives to an error code (0 for 0). */
int error_exit_code(int code);

/* Forwards a negative status upward. */
#define TRY(expression)                         \
	do {                                    \
		int try_status_ = (expression); \
		if (try_status_ < 0)            \
			return try_status_;     \
	} while (0)

/* The same in a function with one cleanup label. */
#define TRY_CLEANUP(status, expression)  \
	do {                             \
		(status) = (expression); \
		if ((status) < 0)        \
			goto cleanup;    \
	} while (0)

/* calloc with overflow check; NULL and ERR_MEMORY in *e on failure. A zero size gives a unique pointer. */
void *mem_calloc(size_t count, size_t size, struct error *e);

/* 64-byte aligned, zeroed; free with free(). */
void *mem_aligned(size_t bytes, struct error *e);

#endif

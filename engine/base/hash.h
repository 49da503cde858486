/* SHA-256 (libcrypto) for identities, XXH3 (xxHash) for tables and digests. */
#ifndef ASSAY_ENGINE_BASE_HASH_H
#define ASSAY_ENGINE_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/error.h"
#include "engine/base/str.h"

enum { SHA256_HEX_SIZE = 65 };

/* Lower-case hex with its NUL. */
void sha256_hex(const void *data, size_t length, char out[SHA256_HEX_SIZE]);

struct sha256; /* a running digest */
struct sha256 *sha256_new(struct error *e);
void sha256_update(struct sha256 *s, const void *data, size_t length);
void sha256_finish(struct sha256 *s, char out[SHA256_HEX_SIZE]); /* may be called once */
void sha256_delete(struct sha256 *s);

/* Hash of a whole file's bytes. */
int sha256_file(const char *path, char out[SHA256_HEX_SIZE], struct error *e);

uint64_t hash64(const void *data, size_t length);

#endif

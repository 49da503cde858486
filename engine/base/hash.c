#include "engine/base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>
#include <xxhash.h>

enum { SHA256_SIZE = 32 };

static void hex_write(const unsigned char digest[SHA256_SIZE], char out[SHA256_HEX_SIZE])
{
	static const char digits[] = "0123456789abcdef";
	for (size_t i = 0; i < SHA256_SIZE; i++) {
		out[2 * i] = digits[digest[i] >> 4];
		out[2 * i + 1] = digits[digest[i] & 15];
	}
	out[SHA256_HEX_SIZE - 1] = '\0';
}

/* libcrypto fails here only when memory has run out. Going on would store a false identity, so the program stops. */
static void require(int status)
{
	if (status != 1) {
		fputs("libcrypto could not compute a SHA-256\n", stderr);
		abort();
	}
}

void sha256_hex(const void *data, size_t length, char out[SHA256_HEX_SIZE])
{
	unsigned char digest[SHA256_SIZE];
	require(EVP_Digest(length ? data : "", length, digest, NULL, EVP_sha256(), NULL));
	hex_write(digest, out);
}

struct sha256 {
	EVP_MD_CTX *context;
};

struct sha256 *sha256_new(struct error *e)
{
	struct sha256 *s = mem_calloc(1, sizeof(*s), e);
	if (!s)
		return NULL;
	s->context = EVP_MD_CTX_new();
	if (!s->context || EVP_DigestInit_ex(s->context, EVP_sha256(), NULL) != 1) {
		sha256_delete(s);
		error_set(e, ERR_MEMORY, "libcrypto could not begin a SHA-256");
		return NULL;
	}
	return s;
}

void sha256_update(struct sha256 *s, const void *data, size_t length)
{
	if (length > 0)
		require(EVP_DigestUpdate(s->context, data, length));
}

void sha256_finish(struct sha256 *s, char out[SHA256_HEX_SIZE])
{
	unsigned char digest[SHA256_SIZE];
	require(EVP_DigestFinal_ex(s->context, digest, NULL));
	hex_write(digest, out);
}

void sha256_delete(struct sha256 *s)
{
	if (!s)
		return;
	EVP_MD_CTX_free(s->context);
	free(s);
}

/* Feeds a whole open file to s. */
static int hash_descriptor(struct sha256 *s, int fd, const char *path, struct error *e)
{
	enum { CHUNK = 1 << 20 };
	char *chunk = mem_calloc(CHUNK, 1, e);
	if (!chunk)
		return ERR_MEMORY;
	int status = 0;
	for (;;) {
		ssize_t got = read(fd, chunk, CHUNK);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			int code = errno == EISDIR ? ERR_MISSING : ERR_IO;
			status = error_set(e, code, "%s: cannot read: %s", path, strerror(errno));
		}
		if (got <= 0)
			break;
		sha256_update(s, chunk, (size_t)got);
	}
	free(chunk);
	return status;
}

int sha256_file(const char *path, char out[SHA256_HEX_SIZE], struct error *e)
{
	struct sha256 *s = sha256_new(e);
	if (!s)
		return ERR_MEMORY;
	int status;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		status = error_set(e, ERR_MISSING, "%s: cannot open: %s", path, strerror(errno));
		goto cleanup;
	}
	TRY_CLEANUP(status, hash_descriptor(s, fd, path, e));
	sha256_finish(s, out);
cleanup:
	if (fd >= 0)
		close(fd);
	sha256_delete(s);
	return status;
}

uint64_t hash64(const void *data, size_t length)
{
	return XXH3_64bits(length ? data : "", length);
}

/* Byte-level BPE (and the BPE of SentencePiece-like tokenizer.json files): text to ids and back, as Hugging Face's
 * `tokenizers` does it. Immutable after it was opened; encode and decode may run on several threads at once. */
#ifndef ASSAY_ENGINE_TEXT_TOKENIZER_H
#define ASSAY_ENGINE_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/error.h"
#include "engine/base/str.h"

struct tokenizer;

struct token_ids {
	int32_t *data; /* owned; free() it */
	size_t count;
	size_t capacity;
};

/* Appends one id. */
int token_ids_push(struct token_ids *ids, int32_t id, struct error *e);
void token_ids_free(struct token_ids *ids); /* zeroes *ids */

/* Reads tokenizer.json text (name stands in errors) and, where there is one, the folder's tokenizer_config.json text
 * (length 0: none) for bos_token, eos_token and other special tokens; its add_bos_token has no effect beside a
 * tokenizer.json, as in transformers 5. Parts of tokenizer.json that are not known here (a model type, a normaliser,
 * a pre-tokenizer) are refused by name. */
int tokenizer_open(struct str tokenizer_json, const char *name, struct str tokenizer_config, const char *config_name,
		   struct tokenizer **out, struct error *e);

/* Opens FOLDER/tokenizer.json and FOLDER/tokenizer_config.json; ERR_MISSING without the former. */
int tokenizer_open_folder(const char *folder, struct tokenizer **out, struct error *e);

void tokenizer_free(struct tokenizer *t);

enum tokenizer_specials {
	TOKENIZER_PLAIN = 0,    /* never adds BOS/EOS (post-processor off), add_special_tokens=False */
	TOKENIZER_SPECIALS = 1, /* what the file's post-processor adds: the tokenizer's own default */
};

/* Appends the ids of text (added tokens inside it are recognised) to *ids. text must be valid UTF-8 (else
 * ERR_INPUT). */
int tokenizer_encode(const struct tokenizer *t, struct str text, enum tokenizer_specials specials, struct token_ids *ids,
		     struct error *e);

/* Appends the raw bytes that id stands for (byte-level decoded, not yet UTF-8 checked): bytes add up over ids. A
 * special token gives nothing when skip_special; an id outside the vocabulary gives nothing. */
void tokenizer_decode_id(const struct tokenizer *t, int32_t id, bool skip_special, struct buf *bytes);

/* The text of ids as Hugging Face's decode(skip_special_tokens=skip_special, clean_up_tokenization_spaces=False):
 * bytes joined, then invalid UTF-8 replaced by U+FFFD. */
void tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t count, bool skip_special, struct buf *text);

/* The vocabulary's own spelling of a token ("Ġthe"), empty for an unknown id. Borrowed. */
struct str tokenizer_piece(const struct tokenizer *t, int32_t id);

int32_t tokenizer_id(const struct tokenizer *t, struct str piece); /* -1: not there */
size_t tokenizer_vocab_size(const struct tokenizer *t);             /* largest id + 1, added tokens included */
int32_t tokenizer_bos(const struct tokenizer *t);                   /* -1: none */
int32_t tokenizer_eos(const struct tokenizer *t);                   /* -1: none */
bool tokenizer_is_special(const struct tokenizer *t, int32_t id);

/* sha256 over the files it was made from: part of a run's provenance. 64 hex digits. Borrowed. */
const char *tokenizer_fingerprint(const struct tokenizer *t);

#endif

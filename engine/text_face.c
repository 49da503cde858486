#include "engine/engine.h"

#include <stdlib.h>

#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/text/chat_sources.h"
#include "engine/text/encode_pair.h"
#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_gguf.h"
#include "engine/text_face.h"

struct engine_text {
	struct tokenizer *tokenizer;
	char template_hash[SHA256_HEX_SIZE]; /* "" without a template */
};

static int template_hash_read(const char *model, char out[SHA256_HEX_SIZE], struct error *e)
{
	struct chat_sources sources;
	TRY(chat_sources_read(model, &sources, e));
	const struct chat_source *source = chat_sources_find(&sources, "default");
	if (source)
		sha256_hex(source->text, source->length, out);
	chat_sources_free(&sources);
	return 0;
}

static int folder_text_open(const char *folder, struct engine_text *t, struct error *why, struct error *e)
{
	char *path = path_join(folder, "tokenizer.json", e);
	int status = path ? 0 : ERR_MEMORY;

	if (path && !file_exists(path)) {
		error_set(why, ERR_MISSING, "%s: is missing", path);
	} else if (path) {
		status = tokenizer_open_folder(folder, &t->tokenizer, e);
		if (status == 0)
			status = template_hash_read(folder, t->template_hash, e);
	}
	free(path);
	return status;
}

static int gguf_text_open(const char *path, struct engine_text *t, struct error *why, struct error *e)
{
	struct gguf *file;
	struct str template;

	TRY(gguf_open(path, &file, e));
	int status = 0;
	if (tokenizer_gguf_check(file, why) == 0) {
		status = tokenizer_open_gguf(file, &t->tokenizer, e);
		int found = status < 0 ? status : gguf_text(file, "tokenizer.chat_template", &template, e);
		if (found > 0)
			sha256_hex(template.data, template.length, t->template_hash);
		status = found < 0 ? found : 0;
	}
	gguf_close(file);
	return status;
}

int engine_text_open_if_any(const char *model, struct engine_text **out, struct error *why, struct error *e)
{
	struct engine_text *t = mem_calloc(1, sizeof *t, e);

	*out = NULL;
	*why = (struct error){0};
	if (!t)
		return ERR_MEMORY;
	int status = file_exists(model) ? gguf_text_open(model, t, why, e) : folder_text_open(model, t, why, e);
	if (status < 0 || why->code) {
		engine_text_close(t);
		return status;
	}
	*out = t;
	return 0;
}

int engine_text_open(const char *model, struct engine_text **out, struct error *e)
{
	struct error why;

	TRY(engine_text_open_if_any(model, out, &why, e));
	if (*out)
		return 0;
	*e = why;
	return e->code;
}

void engine_text_close(struct engine_text *text)
{
	if (!text)
		return;
	tokenizer_free(text->tokenizer);
	free(text);
}

const struct tokenizer *engine_text_tokenizer(const struct engine_text *text)
{
	return text ? text->tokenizer : NULL;
}

void engine_ids_free(struct engine_ids *ids)
{
	free(ids->data);
	*ids = (struct engine_ids){0};
}

/* The tokenizer's growing list becomes the caller's, also after a failure (then it is freed). */
static int ids_hand_over(int status, struct token_ids *ids, struct engine_ids *out)
{
	*out = (struct engine_ids){0};
	if (status < 0)
		token_ids_free(ids);
	else
		*out = (struct engine_ids){ids->data, ids->count};
	return status;
}

int engine_text_encode(
	const struct engine_text *text, struct str input, bool specials, struct engine_ids *out, struct error *e)
{
	struct token_ids ids = {0};
	int status = tokenizer_encode(text->tokenizer, input, specials ? TOKENIZER_SPECIALS : TOKENIZER_PLAIN, &ids, e);
	return ids_hand_over(status, &ids, out);
}

int engine_text_encode_prompt(
	const struct engine_text *text, struct str prompt, struct engine_ids *out, struct error *e)
{
	struct token_ids ids = {0};
	int status = encode_once(text->tokenizer, prompt, TOKENIZER_SPECIALS, &ids, e);
	return ids_hand_over(status, &ids, out);
}

int engine_text_encode_pair(const struct engine_text *text, struct str context, struct str continuation,
	struct engine_ids *out, size_t *n_context, struct error *e)
{
	struct token_ids ids = {0};
	int status = encode_pair(text->tokenizer, context, continuation, TOKENIZER_SPECIALS, &ids, n_context, e);
	return ids_hand_over(status, &ids, out);
}

void engine_text_decode(
	const struct engine_text *text, const int32_t *ids, size_t count, bool skip_special, struct buf *out)
{
	tokenizer_decode(text->tokenizer, ids, count, skip_special, out);
}

struct str engine_text_piece(const struct engine_text *text, int32_t id)
{
	return tokenizer_piece(text->tokenizer, id);
}

int32_t engine_text_bos(const struct engine_text *text)
{
	return tokenizer_bos(text->tokenizer);
}

int32_t engine_text_eos(const struct engine_text *text)
{
	return tokenizer_eos(text->tokenizer);
}

const char *engine_text_fingerprint(const struct engine_text *text)
{
	return tokenizer_fingerprint(text->tokenizer);
}

const char *engine_text_template_hash(const struct engine_text *text)
{
	return text->template_hash;
}

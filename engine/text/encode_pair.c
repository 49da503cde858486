#include "engine/text/encode_pair.h"

#include "engine/base/buf.h"
#include "engine/base/utf8.h"

static int32_t prefix_token(const struct tokenizer *t)
{
	return tokenizer_bos(t) >= 0 ? tokenizer_bos(t) : tokenizer_eos(t);
}

/* Encodes one text; a text that begins with the prefix token's own brings its special tokens along. */
int encode_once(const struct tokenizer *t, struct str text, enum tokenizer_specials specials, struct token_ids *ids,
	struct error *e)
{
	int32_t prefix = prefix_token(t);
	if (specials == TOKENIZER_SPECIALS && prefix >= 0) {
		struct buf spelling = {0};
		tokenizer_decode(t, &prefix, 1, false, &spelling);
		int status = buf_check(&spelling, e);
		if (str_starts_with(text, buf_str(&spelling)))
			specials = TOKENIZER_PLAIN;
		buf_free(&spelling);
		TRY(status);
	}
	return tokenizer_encode(t, text, specials, ids, e);
}

/* No context: the prefix token stands before the ids of the continuation, or is the first of them. */
static int encode_alone(
	const struct tokenizer *t, struct str continuation, struct token_ids *whole, size_t *n_context, struct error *e)
{
	int32_t prefix = prefix_token(t);
	if (prefix < 0)
		return error_set(e, ERR_INPUT,
			"the context has no tokens, and the tokenizer has neither a BOS nor an EOS token to score "
			"from");
	size_t start = whole->count;
	TRY(token_ids_push(whole, prefix, e));
	TRY(tokenizer_encode(t, continuation, TOKENIZER_PLAIN, whole, e));
	if (whole->count > start + 1 && whole->data[start + 1] == prefix) {
		whole->count--;
		for (size_t i = start + 1; i < whole->count; i++)
			whole->data[i] = whole->data[i + 1];
	}
	*n_context = 1;
	return 0;
}

static int encode_joined(const struct tokenizer *t, struct str context, struct str text,
	enum tokenizer_specials specials, struct token_ids *whole, size_t *n_context, struct error *e)
{
	struct token_ids joined = {0};
	size_t start = whole->count;
	int status;
	TRY_CLEANUP(status, encode_once(t, text, specials, &joined, e));
	TRY_CLEANUP(status, encode_once(t, context, specials, whole, e));
	*n_context = whole->count - start;
	for (size_t i = *n_context; i < joined.count; i++)
		TRY_CLEANUP(status, token_ids_push(whole, joined.data[i], e));

cleanup:
	token_ids_free(&joined);
	return status;
}

int encode_pair(const struct tokenizer *t, struct str context, struct str continuation,
	enum tokenizer_specials specials, struct token_ids *whole, size_t *n_context, struct error *e)
{
	struct buf text = {0}; /* the two as one */
	size_t start = whole->count;
	*n_context = 0;
	buf_append_str(&text, context);
	buf_append_str(&text, continuation);
	int status = buf_check(&text, e);
	if (status == 0 && context.length > 0)
		status = encode_joined(t, utf8_rstrip(context), buf_str(&text), specials, whole, n_context, e);
	if (status == 0 && *n_context == 0) {
		whole->count = start;
		status = encode_alone(t, buf_str(&text), whole, n_context, e);
	}
	if (status < 0)
		whole->count = start;
	buf_free(&text);
	return status;
}

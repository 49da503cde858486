#include "engine/text/encode_pair.h"

#include "engine/base/utf8.h"

int32_t encode_prefix_token(const struct tokenizer *t)
{
	int32_t bos = tokenizer_bos(t);
	return bos >= 0 ? bos : tokenizer_eos(t);
}

enum tokenizer_specials encode_specials(const struct tokenizer *t, struct str text, enum tokenizer_specials specials)
{
	struct buf prefix = {0};
	int32_t id = encode_prefix_token(t);

	if (id >= 0)
		tokenizer_decode(t, &id, 1, false, &prefix);
	bool begins = prefix.length > 0 && str_starts_with(text, buf_str(&prefix));
	buf_free(&prefix);
	return begins ? TOKENIZER_PLAIN : specials;
}

static int encode_after_prefix(const struct tokenizer *t, struct str continuation, struct token_ids *whole, size_t *n_context, struct error *e)
{
	size_t before = whole->count;
	int32_t prefix = encode_prefix_token(t);

	if (prefix >= 0)
		TRY(token_ids_push(whole, prefix, e));
	TRY(tokenizer_encode(t, continuation, TOKENIZER_PLAIN, whole, e));
	*n_context = prefix >= 0 ? 1 : 0;
	if (prefix >= 0 && whole->count > before + 1 && whole->data[before + 1] == prefix) {
		memmove(whole->data + before, whole->data + before + 1, (whole->count - before - 1) * sizeof *whole->data);
		whole->count--;
	}
	return 0;
}

int encode_pair(const struct tokenizer *t, struct str context, struct str continuation, enum tokenizer_specials specials,
		struct token_ids *whole, size_t *n_context, struct error *e)
{
	struct str stripped = utf8_rstrip(context);
	struct token_ids alone = {0};
	struct buf both = {0};

	if (context.length == 0)
		return encode_after_prefix(t, continuation, whole, n_context, e);
	specials = encode_specials(t, stripped, specials);
	buf_append_str(&both, context);
	buf_append_str(&both, continuation);
	int status = buf_check(&both, e);
	if (status == 0)
		status = tokenizer_encode(t, stripped, specials, &alone, e);
	if (status == 0)
		status = tokenizer_encode(t, buf_str(&both), specials, whole, e);
	*n_context = alone.count;
	token_ids_free(&alone);
	buf_free(&both);
	return status;
}

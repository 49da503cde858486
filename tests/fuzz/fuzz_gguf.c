/* Any bytes as a GGUF file: refused with a message, or keys, tensors, a model and a tokenizer that can all be read. */
#include <stdlib.h>
#include <string.h>

#include "engine/model/gguf_model.h"
#include "engine/text/tokenizer_gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
	if (!condition)
		abort();
}

static void read_key(const struct gguf *g, const struct gguf_key *key, const uint8_t *data, size_t size)
{
	const struct gguf_value *v = &key->value;
	const uint8_t *at = v->data;
	require(v->data >= data && v->size <= size && v->data - data <= (ptrdiff_t)(size - v->size));
	for (uint64_t i = 0; v->type == GGUF_STRING && i < v->count; i++)
		gguf_next_text(&at);
	require(v->type != GGUF_STRING || at == v->data + v->size);
	if (!memchr(key->name.data, 0, key->name.length)) {
		char *name = strndup(key->name.data, key->name.length);
		require(name && gguf_find(g, name) == v);
		free(name);
	}
}

static void read_tensor(const struct gguf *g, const struct tensor *t, const uint8_t *data, size_t size)
{
	float block[256];
	require(t->data >= data && t->size <= size && t->data - data <= (ptrdiff_t)(size - t->size));
	require(gguf_tensor_find(g, t->name) == t);
	uint64_t n = tensor_type_block(t->type);
	for (uint64_t first = 0; first < t->count; first += n)
		(void)tensor_to_float(t, first, n, block);
}

static void read_rows(const struct tensor *t)
{
	if (t->rank != 2 || t->shape[1] > 4096)
		return;
	float row[4096];
	uint16_t codes[4096];
	for (int64_t i = 0; i < t->shape[0] && i < 64; i++) {
		int status = tensor_rows_to_float(t, i, 1, row);
		require(!tensor_is_bf16(t) || tensor_rows_to_bf16(t, i, 1, row, codes) == status);
	}
}

static void read_model(const struct gguf *g)
{
	static float frequencies[MODEL_MAX_HEAD_DIM];
	struct error e = {0};
	struct gguf_model m = {0};
	int status = gguf_model_read(g, &m, &e);
	require((status < 0) == (e.code != 0));
	if (status == 0) {
		require(m.config.n_heads % m.config.n_kv_heads == 0 && m.config.head_dim % 2 == 0 &&
			m.config.vocab_size > 0);
		rope_inverse_frequencies(&m.config.rope, frequencies);
		for (size_t i = 0; i < m.count; i++)
			read_rows(&m.tensors[i]);
	}
	gguf_model_free(&m);
}

static void read_tokenizer(const struct gguf *g)
{
	struct error e = {0};
	struct tokenizer *t = NULL;
	if (tokenizer_open_gguf(g, &t, &e) < 0) {
		require(e.code != 0 && t == NULL);
		return;
	}
	struct token_ids ids = {0};
	struct buf text = {0};
	require(tokenizer_encode(t, str_of("<s> It's 12345 caf\xc3\xa9!!\n"), TOKENIZER_SPECIALS, &ids, &e) == 0 ||
		e.code != 0);
	for (size_t i = 0; i < ids.count; i++)
		require(ids.data[i] >= 0 && (size_t)ids.data[i] < tokenizer_vocab_size(t));
	tokenizer_decode(t, ids.data, ids.count, true, &text);
	buf_free(&text);
	token_ids_free(&ids);
	tokenizer_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct error e = {0};
	struct gguf *g;
	int status = gguf_parse(data, size, "input", &g, &e);
	if (status < 0) {
		require(g == NULL && e.code == status && strncmp(e.message, "input: ", 7) == 0);
		return 0;
	}
	for (size_t i = 0; i < gguf_key_count(g); i++)
		read_key(g, gguf_key_at(g, i), data, size);
	for (size_t i = 0; i < gguf_tensor_count(g); i++)
		read_tensor(g, gguf_tensor_at(g, i), data, size);
	read_model(g);
	read_tokenizer(g);
	gguf_close(g);
	return 0;
}

/* Any bytes as config.json and generation_config.json: refused with a message, or a description that keeps its promises. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/model/model_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
	if (!condition)
		abort();
}

static void check_description(const struct model_config *m)
{
	static float frequencies[1 << 12];
	require(m->hidden_size > 0 && m->n_layers > 0 && m->n_layers <= MODEL_MAX_LAYERS && m->inner_size > 0);
	require(m->n_kv_heads > 0 && m->n_heads % m->n_kv_heads == 0);
	require(m->head_dim > 0 && m->head_dim % 2 == 0 && m->vocab_size > 0 && m->max_positions > 0);
	require(m->norm_eps > 0.0F && isfinite(m->norm_eps));
	require(m->n_eos_tokens >= 0 && m->n_eos_tokens <= MODEL_MAX_EOS && m->bos_token >= -1);
	for (int i = 0; i < m->n_eos_tokens; i++)
		require(m->eos_tokens[i] >= 0);
	require(m->rope.rotary_dim > 0 && m->rope.rotary_dim <= m->head_dim);
	rope_inverse_frequencies(&m->rope, frequencies);
	for (int i = 0; i < m->rope.rotary_dim / 2; i++)
		require(isfinite(frequencies[i]) && frequencies[i] >= 0.0F);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct error e = {0};
	struct json_document *document;
	struct model_config m;
	if (json_parse((struct str){(const char *)data, size}, NULL, JSON_LAST_KEY_WINS, &document, &e) < 0)
		return 0;
	int status = model_config_parse(json_root(document), "input", json_root(document), &m, &e);
	if (status < 0)
		require(e.code == status && strstr(e.message, ": ") != NULL);
	else
		check_description(&m);
	json_free(document);
	return 0;
}

/* A model folder of a few hundred bytes: one Llama layer, weights that a generator draws. */
#ifndef ASSAY_TESTS_TINY_MODEL_H
#define ASSAY_TESTS_TINY_MODEL_H

#include <stdio.h>
#include <stdlib.h>

#include "engine/base/rng.h"
#include "tests/support.h"

enum { TINY_HIDDEN = 8, TINY_INNER = 16, TINY_KV = 4 };

static const char tiny_config[] =
	"{\"model_type\": \"llama\", \"hidden_size\": 8, \"intermediate_size\": 16, \"num_hidden_layers\": 1, "
	"\"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"vocab_size\": %d, "
	"\"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-05, \"rope_theta\": 10000.0, "
	"\"tie_word_embeddings\": true, \"torch_dtype\": \"float32\"}\n";

struct tiny_writer {
	struct py_random random;
	struct buf header, data;
};

/* columns 0: a vector of ones; else values in [-scale, scale). */
static inline void tiny_tensor(struct tiny_writer *w, const char *name, int rows, int columns, double scale)
{
	size_t from = w->data.length;
	for (int i = 0; i < rows * (columns ? columns : 1); i++) {
		float value = columns ? (float)(scale * ((double)py_random_u32(&w->random) / 0x1p31 - 1)) : 1;
		buf_append(&w->data, &value, sizeof(value));
	}
	buf_printf(&w->header, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%d", w->header.length ? "," : "{", name, rows);
	if (columns)
		buf_printf(&w->header, ",%d", columns);
	buf_printf(&w->header, "],\"data_offsets\":[%zu,%zu]}", from, w->data.length);
}

static inline void tiny_write(struct tiny_writer *w)
{
	struct buf file = {0};
	buf_append_char(&w->header, '}');
	uint64_t length = w->header.length;
	buf_append(&file, &length, sizeof(length));
	buf_append_str(&file, buf_str(&w->header));
	buf_append_str(&file, buf_str(&w->data));
	test_write_file("model.safetensors", file.data, file.length);
	buf_free(&file);
	buf_free(&w->header);
	buf_free(&w->data);
}

/* favourite >= 0: whatever was read, that token is the most probable. Returns a fresh folder; it has no tokenizer. */
static inline const char *tiny_model(int vocab_size, int favourite)
{
	const char *folder = scratch_folder();
	struct tiny_writer w = {0};
	char config[sizeof(tiny_config) + 16];
	double scale = favourite >= 0 ? 0 : 0.5;
	py_random_seed(&w.random, 1);
	tiny_tensor(&w, "model.embed_tokens.weight", vocab_size, TINY_HIDDEN, 1);
	for (int id = 0; favourite >= 0 && id < vocab_size; id++) {
		/* Every token is read as the first unit vector, and the favourite has most of that. */
		const float row[TINY_HIDDEN] = {id == favourite ? 4.0f : 1.0f};
		memcpy(w.data.data + (size_t)id * sizeof(row), row, sizeof(row));
	}
	tiny_tensor(&w, "model.norm.weight", TINY_HIDDEN, 0, 0);
	tiny_tensor(&w, "model.layers.0.input_layernorm.weight", TINY_HIDDEN, 0, 0);
	tiny_tensor(&w, "model.layers.0.post_attention_layernorm.weight", TINY_HIDDEN, 0, 0);
	tiny_tensor(&w, "model.layers.0.self_attn.q_proj.weight", TINY_HIDDEN, TINY_HIDDEN, scale);
	tiny_tensor(&w, "model.layers.0.self_attn.k_proj.weight", TINY_KV, TINY_HIDDEN, scale);
	tiny_tensor(&w, "model.layers.0.self_attn.v_proj.weight", TINY_KV, TINY_HIDDEN, scale);
	tiny_tensor(&w, "model.layers.0.self_attn.o_proj.weight", TINY_HIDDEN, TINY_HIDDEN, scale);
	tiny_tensor(&w, "model.layers.0.mlp.gate_proj.weight", TINY_INNER, TINY_HIDDEN, scale);
	tiny_tensor(&w, "model.layers.0.mlp.up_proj.weight", TINY_INNER, TINY_HIDDEN, scale);
	tiny_tensor(&w, "model.layers.0.mlp.down_proj.weight", TINY_HIDDEN, TINY_INNER, scale);
	tiny_write(&w);
	int length = snprintf(config, sizeof(config), tiny_config, vocab_size);
	test_write_file("config.json", config, (size_t)length);
	return folder;
}

#endif

"""Writes llama.gguf, qwen3.gguf and models.json beside this file: two tiny random models with all block types, and what transformers and
tokenizers make of them.

    python3 make_models.py        needs gguf 0.19, tokenizers 0.23, torch and transformers 5.24

The matrices are what gguf's dequantize makes of the file's, rounded to BF16; norms stay float32; all is computed in float32.
"""
import json
import math
import os

import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from gguf import GGUFWriter, dequantize, quantize
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w", "o r", "Ġw or", "l d", "Ġwor ld", "1 2", "3 4", "12 34"]
SPECIALS = [("<|begin|>", 3), ("<|end|>", 3), ("<tool>", 4), ("[PAD0]", 5)]
TEXTS = ["hello world", "", "Hello, WORLD's 12345 6", "<|begin|>hello<|end|> <tool>12", "caf\u00e9 cafe\u0301 \u4e16\u754c", "  \n\n\t x  ",
         "[PAD0] it's 1234\u0664\u0665"]
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"


def alphabet():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(others)}


def vocabulary():
    tokens = [alphabet()[b] for b in range(256)]
    for merge in MERGES:
        tokens.append(merge.replace(" ", ""))
    tokens += ["ĠWORLD"]        # a whole piece that no merge gives: only ignore_merges finds it
    types = [1] * len(tokens)
    for text, kind in SPECIALS:
        tokens.append(text)
        types.append(kind)
    return tokens, types


def hf_tokenizer(digits, normalizer, ignore_merges, bos):
    tokens, types = vocabulary()
    t = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, [tuple(m.split(" ")) for m in MERGES], ignore_merges=ignore_merges))
    t.normalizer = normalizer
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(CL100K % digits), "isolated"),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.add_tokens([AddedToken(text, special=kind == 3, normalized=False) for text, kind in zip(tokens, types) if kind in (3, 4)])
    if bos:
        t.post_processor = processors.TemplateProcessing(single=f"{bos} $A", special_tokens=[(bos, tokens.index(bos))])
    return t


def add_tokenizer(w, pre):
    tokens, types = vocabulary()
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre(pre)
    w.add_token_list(tokens)
    w.add_token_types(types)
    w.add_token_merges(MERGES)
    w.add_bos_token_id(tokens.index("<|begin|>"))
    w.add_eos_token_id(tokens.index("<|end|>"))
    w.add_chat_template(TEMPLATE)


def k_blocks(random, kind, rows, columns):
    """Random codes with scales of a sane size: gguf cannot quantise to these types."""
    size, halves = {Type.Q4_K: (144, [0, 2]), Type.Q5_K: (176, [0, 2]), Type.Q6_K: (210, [208])}[kind]
    blocks = random.integers(0, 256, (rows, columns // 256, size), dtype=np.uint8)
    scale = {Type.Q4_K: 1.5e-4, Type.Q5_K: 8e-5, Type.Q6_K: 2e-5}[kind]
    for i, place in enumerate(halves):
        d = (scale * (1 + random.random((rows, columns // 256))) * (8 if i else 1)).astype(np.float16)
        blocks[..., place:place + 2] = d[..., None].view(np.uint8)
    return blocks.reshape(rows, -1)


class Model:
    """Collects tensors for the file and for transformers."""

    def __init__(self, name, seed):
        self.w = GGUFWriter(os.path.join(HERE, f"{name}.gguf"), name.split(".")[0])
        self.random = np.random.default_rng(seed)
        self.weights = {}

    def matrix(self, file_name, name, rows, columns, kind, pair_heads=0, size=0.6):
        if kind in (Type.Q4_K, Type.Q5_K, Type.Q6_K):
            stored = k_blocks(self.random, kind, rows, columns)
        else:
            values = (self.random.standard_normal((rows, columns)) * size / math.sqrt(columns)).astype(np.float32)
            stored = quantize(values, kind)
        self.w.add_tensor(file_name, stored, raw_dtype=kind)
        values = torch.from_numpy(dequantize(stored, kind).astype(np.float32).reshape(rows, columns).copy()).to(torch.bfloat16)
        if pair_heads:
            values = values.reshape(pair_heads, rows // pair_heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)
        self.weights[name] = values.to(torch.float32)

    def vector(self, file_name, name, count, around=1.0):
        values = (around + 0.1 * self.random.standard_normal(count)).astype(np.float32)
        self.w.add_tensor(file_name, values)
        self.weights[name] = torch.from_numpy(values)

    def golden(self, model, tokenizer):
        missing = model.load_state_dict(self.weights, strict=False)
        assert not missing.unexpected_keys and all("lm_head" in k for k in missing.missing_keys), missing
        model = model.to(torch.float32).eval()
        self.w.write_header_to_file()
        self.w.write_kv_data_to_file()
        self.w.write_tensors_to_file()
        self.w.close()
        rows = []
        for length in (1, 7, 40):
            ids = self.random.integers(0, model.config.vocab_size, length)
            with torch.no_grad():
                logits = model(torch.from_numpy(ids)[None]).logits[0, -1]
            rows.append({"ids": ids.tolist(), "logprobs": [round(v, 6) for v in torch.log_softmax(logits.double(), -1).tolist()]})
        texts = [{"text": text, "ids": tokenizer.encode(text).ids} for text in TEXTS]
        return {"template": TEMPLATE, "rows": rows, "texts": texts}


def llama():
    """Blocks of 32, F16 and F32, q and k in pairs, divisors of the rope, an untied head, BOS."""
    m = Model("llama", 1)
    vocab, hidden, heads, kv, dim, inner, theta = len(vocabulary()[0]), 64, 4, 2, 16, 96, 10000.0
    w = m.w
    w.add_block_count(2)
    w.add_context_length(128)
    w.add_embedding_length(hidden)
    w.add_feed_forward_length(inner)
    w.add_head_count(heads)
    w.add_head_count_kv(kv)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_freq_base(theta)
    w.add_rope_dimension_count(dim)
    add_tokenizer(w, "llama-bpe")
    scaling = {"rope_type": "llama3", "rope_theta": theta, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 64}
    factors = []
    for i in range(dim // 2):        # as llama.cpp's converter writes them
        wavelength = 2 * math.pi * theta ** (2 * i / dim)
        low, high = 64 / 1.0, 64 / 4.0
        smooth = (64 / wavelength - 1.0) / (4.0 - 1.0)
        factors.append(1.0 if wavelength < high else 8.0 if wavelength > low else 1 / ((1 - smooth) / 8.0 + smooth))
    w.add_tensor("rope_freqs.weight", np.array(factors, dtype=np.float32))
    m.matrix("token_embd.weight", "model.embed_tokens.weight", vocab, hidden, Type.Q8_0, size=8)
    m.matrix("output.weight", "lm_head.weight", vocab, hidden, Type.F16, size=3)
    m.vector("output_norm.weight", "model.norm.weight", hidden)
    kinds = [[Type.Q4_0, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.Q4_1, Type.Q8_0, Type.Q5_0], [Type.Q5_1, Type.Q4_1, Type.BF16, Type.F32,
             Type.Q4_0, Type.Q4_1, Type.Q8_0]]
    for l in range(2):
        k, at = kinds[l], f"model.layers.{l}."
        m.vector(f"blk.{l}.attn_norm.weight", at + "input_layernorm.weight", hidden)
        m.vector(f"blk.{l}.ffn_norm.weight", at + "post_attention_layernorm.weight", hidden)
        m.matrix(f"blk.{l}.attn_q.weight", at + "self_attn.q_proj.weight", heads * dim, hidden, k[0], heads, size=2)
        m.matrix(f"blk.{l}.attn_k.weight", at + "self_attn.k_proj.weight", kv * dim, hidden, k[1], kv, size=2)
        m.matrix(f"blk.{l}.attn_v.weight", at + "self_attn.v_proj.weight", kv * dim, hidden, k[2])
        m.matrix(f"blk.{l}.attn_output.weight", at + "self_attn.o_proj.weight", hidden, heads * dim, k[3])
        m.matrix(f"blk.{l}.ffn_gate.weight", at + "mlp.gate_proj.weight", inner, hidden, k[4])
        m.matrix(f"blk.{l}.ffn_up.weight", at + "mlp.up_proj.weight", inner, hidden, k[5])
        m.matrix(f"blk.{l}.ffn_down.weight", at + "mlp.down_proj.weight", hidden, inner, k[6])
    config = LlamaConfig(hidden_size=hidden, intermediate_size=inner, num_hidden_layers=2, num_attention_heads=heads, num_key_value_heads=kv,
                         head_dim=dim, vocab_size=vocab, max_position_embeddings=128, rms_norm_eps=1e-5, rope_parameters=scaling,
                         tie_word_embeddings=False)
    return m.golden(LlamaForCausalLM(config), hf_tokenizer("{1,3}", None, True, "<|begin|>"))


def qwen3():
    """Blocks of 256, q and k norms, heads that are not hidden / heads, a tied head."""
    m = Model("qwen3", 2)
    vocab, hidden, heads, kv, dim, inner, theta = len(vocabulary()[0]), 256, 2, 1, 32, 32, 1e6
    w = m.w
    w.add_block_count(1)
    w.add_context_length(256)
    w.add_embedding_length(hidden)
    w.add_feed_forward_length(inner)
    w.add_head_count(heads)
    w.add_head_count_kv(kv)
    w.add_key_length(dim)
    w.add_value_length(dim)
    w.add_layer_norm_rms_eps(1e-6)
    w.add_rope_freq_base(theta)
    w.add_add_bos_token(False)
    add_tokenizer(w, "qwen2")
    at = "model.layers.0."
    m.matrix("token_embd.weight", "model.embed_tokens.weight", vocab, hidden, Type.Q6_K)
    m.vector("output_norm.weight", "model.norm.weight", hidden)
    m.vector("blk.0.attn_norm.weight", at + "input_layernorm.weight", hidden)
    m.vector("blk.0.ffn_norm.weight", at + "post_attention_layernorm.weight", hidden)
    m.vector("blk.0.attn_q_norm.weight", at + "self_attn.q_norm.weight", dim)
    m.vector("blk.0.attn_k_norm.weight", at + "self_attn.k_norm.weight", dim)
    m.matrix("blk.0.attn_q.weight", at + "self_attn.q_proj.weight", heads * dim, hidden, Type.Q4_K)
    m.matrix("blk.0.attn_k.weight", at + "self_attn.k_proj.weight", kv * dim, hidden, Type.Q5_K)
    m.matrix("blk.0.attn_v.weight", at + "self_attn.v_proj.weight", kv * dim, hidden, Type.Q6_K)
    m.matrix("blk.0.attn_output.weight", at + "self_attn.o_proj.weight", hidden, heads * dim, Type.Q8_0)
    m.matrix("blk.0.ffn_gate.weight", at + "mlp.gate_proj.weight", inner, hidden, Type.Q5_K)
    m.matrix("blk.0.ffn_up.weight", at + "mlp.up_proj.weight", inner, hidden, Type.Q4_K)
    m.matrix("blk.0.ffn_down.weight", at + "mlp.down_proj.weight", hidden, inner, Type.Q5_1)
    config = Qwen3Config(hidden_size=hidden, intermediate_size=inner, num_hidden_layers=1, num_attention_heads=heads, num_key_value_heads=kv,
                         head_dim=dim, vocab_size=vocab, max_position_embeddings=256, rms_norm_eps=1e-6,
                         rope_parameters={"rope_type": "default", "rope_theta": theta}, tie_word_embeddings=True)
    return m.golden(Qwen3ForCausalLM(config), hf_tokenizer("", normalizers.NFC(), False, None))


made = {"made_by": "make_models.py, transformers 5.24.0, tokenizers 0.23.3, gguf 0.19.0", "llama": llama(), "qwen3": qwen3()}
with open(os.path.join(HERE, "models.json"), "w") as f:
    f.write("{" + ",\n ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in made.items()) + "}\n")

"""Writes config.json, model.safetensors and rows.json beside this file: a tiny random Qwen3 that eight ranks can share (16 heads, 8 kv
heads, products of 256 inputs), with a vocabulary that no two ranks divide evenly, and what transformers makes of it in float32.

    python3 make_model.py        needs torch, safetensors and transformers 5.24
"""
import json
import os

import torch
from safetensors.torch import save_file
from transformers import Qwen3Config, Qwen3ForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 16,
    "num_key_value_heads": 8, "head_dim": 16, "intermediate_size": 256, "vocab_size": 243, "max_position_embeddings": 256,
    "rope_theta": 10000.0, "rms_norm_eps": 1e-6, "hidden_act": "silu", "attention_bias": True, "tie_word_embeddings": False,
    "bos_token_id": 0, "eos_token_id": 1, "torch_dtype": "bfloat16",
}


def draw(name, shape, generator):
    values = torch.randn(shape, generator=generator)
    if name.endswith("norm.weight"):
        return 1 + 0.2 * values
    if name.endswith(".bias"):
        return 0.2 * values
    return values if name == "model.embed_tokens.weight" else values * 0.9 / shape[1] ** 0.5


def main():
    generator = torch.Generator().manual_seed(10)
    model = Qwen3ForCausalLM(Qwen3Config(**{k: v for k, v in CONFIG.items() if k not in ("architectures", "torch_dtype")},
                                         attn_implementation="eager")).to(torch.float32).eval()
    weights = {name: draw(name, tensor.shape, generator).to(torch.bfloat16) for name, tensor in sorted(model.state_dict().items())}
    model.load_state_dict({name: tensor.to(torch.float32) for name, tensor in weights.items()})
    save_file(weights, os.path.join(HERE, "model.safetensors"))
    with open(os.path.join(HERE, "config.json"), "w") as file:
        json.dump(CONFIG, file, indent=2)
        file.write("\n")
    rows = []
    for length in (1, 9, 70):
        ids = torch.randint(0, CONFIG["vocab_size"], (length,), generator=generator)
        with torch.no_grad():
            logits = model(ids[None]).logits[0, -1]
        rows.append({"ids": ids.tolist(), "logprobs": [round(v, 6) for v in torch.log_softmax(logits.double(), -1).tolist()]})
    import transformers
    with open(os.path.join(HERE, "rows.json"), "w") as file:
        json.dump({"made": f"make_model.py, transformers {transformers.__version__}, float32: log-probabilities after the last id",
                   "rows": rows}, file)
        file.write("\n")


main()

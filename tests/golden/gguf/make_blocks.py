"""Writes blocks.tsv beside this file: what the PyPI package gguf makes of blocks of every type.

    python3 make_blocks.py        needs gguf 0.19 and numpy

Lines: type, what, blocks, sha256 of the floats (little endian, every NaN as 0x7fc00000), for random blocks whose bytes come from
splitmix64(seed = line number) and for extreme ones; and type, "shown", bytes in hex, float bits in hex, for the first random block.
"""
import hashlib
import os

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize

TYPES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]
RANDOM_BYTES = 1 << 18
# Where a block keeps its half floats.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}
# Zeros, subnormals, ones, largest, infinities, NaN.
EXTREME = [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00]
FILLS = [0x00, 0xFF, 0x0F, 0xF0, 0x80, 0x7F, 0x55]


def splitmix64(seed, count):
    mask, out = (1 << 64) - 1, bytearray()
    while len(out) < count:
        seed = (seed + 0x9E3779B97F4A7C15) & mask
        z = seed
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
        out += (z ^ z >> 31).to_bytes(8, "little")
    return bytes(out[:count])


def extreme_blocks(name, size):
    """Every extreme half at every place of one, over every fill."""
    out = bytearray()
    for fill in FILLS:
        for place in HALVES[name]:
            for half in EXTREME:
                block = bytearray([fill]) * size
                for other in HALVES[name]:
                    block[other:other + 2] = (0x3C00).to_bytes(2, "little")
                block[place:place + 2] = half.to_bytes(2, "little")
                out += block
    return bytes(out)


def floats(name, data):
    size = GGML_QUANT_SIZES[GGMLQuantizationType[name]][1]
    rows = np.frombuffer(data, dtype=np.uint8).reshape(-1, size)
    with np.errstate(all="ignore"):
        bits = dequantize(rows, GGMLQuantizationType[name]).astype(np.float32).reshape(-1).view(np.uint32).copy()
    bits[(bits & 0x7FFFFFFF) > 0x7F800000] = 0x7FC00000
    return bits


def main():
    lines = ["# made by make_blocks.py with the PyPI package gguf 0.19.0"]
    for number, name in enumerate(TYPES, 1):
        size = GGML_QUANT_SIZES[GGMLQuantizationType[name]][1]
        data = splitmix64(number, RANDOM_BYTES // size * size)
        lines.append(f"{name}\trandom\t{len(data) // size}\t{hashlib.sha256(floats(name, data).tobytes()).hexdigest()}")
        if name in HALVES:
            extreme = extreme_blocks(name, size)
            lines.append(f"{name}\textreme\t{len(extreme) // size}\t{hashlib.sha256(floats(name, extreme).tobytes()).hexdigest()}")
        shown = data[:size]
        lines.append(f"{name}\tshown\t{shown.hex()}\t{floats(name, shown).astype('>u4').tobytes().hex()}")
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "blocks.tsv"), "w") as f:
        f.write("\n".join(lines) + "\n")


main()

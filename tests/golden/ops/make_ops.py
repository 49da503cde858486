#!/usr/bin/env python3
"""Makes route.tsv, experts.tsv, latent.tsv, mla.tsv and pages.tsv: the ops in float64 by NumPy, rounding to cache formats by torch.

Inputs come from a hash that the tests repeat (tests/ops_golden.h), so only results are frozen. Run in this folder."""
import sys

import numpy as np
import torch

MADE = f"# made by make_ops.py, Python {sys.version.split()[0]}, NumPy {np.__version__}, torch {torch.__version__.split('+')[0]}\n"
F32 = np.float32


def hash_at(seed, count, first=0):
    """splitmix64 of (seed << 32) + index + 1."""
    with np.errstate(over="ignore"):
        z = (np.uint64(seed) << np.uint64(32)) + np.arange(first, first + count, dtype=np.uint64) + np.uint64(1)
        z *= np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def values(seed, *shape):
    """f32 in [-1, 1), multiples of 2^-23."""
    z = hash_at(seed, int(np.prod(shape)))
    return ((z >> np.uint64(40)).astype(np.int64) - (1 << 23)).astype(F32).reshape(shape) * F32(2.0**-23)


def text(array):
    return ",".join(repr(float(x)) for x in np.asarray(array).ravel())


def ints(array):
    return ",".join(str(int(x)) for x in np.asarray(array).ravel())


def to_bf16_codes(x):
    return torch.from_numpy(np.ascontiguousarray(x, F32)).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)


def from_bf16_codes(c):
    return (c.astype(np.uint32) << np.uint32(16)).view(F32)


def to_e4m3_codes(x):
    t = torch.from_numpy(np.ascontiguousarray(x, F32)).clamp(-448.0, 448.0)
    return t.to(torch.float8_e4m3fn).view(torch.uint8).numpy()


def from_e4m3_codes(c):
    return torch.from_numpy(np.ascontiguousarray(c)).view(torch.float8_e4m3fn).to(torch.float32).numpy()


def store(x, fmt, scale):
    """Codes of x / scale, and how many were clipped."""
    y = (np.asarray(x, F32) / F32(scale)).astype(F32)
    if fmt == "f32":
        return y, 0
    if fmt == "bf16":
        return to_bf16_codes(y), 0
    return to_e4m3_codes(y), int((np.abs(y) > 448).sum())


def load(codes, fmt, scale):
    wide = codes if fmt == "f32" else from_bf16_codes(codes) if fmt == "bf16" else from_e4m3_codes(codes)
    return (wide * F32(scale)).astype(F32)


# ---- route ----

ROUTE = [
    # name, E, K, sigmoid, bias, groups, kept, normalize, scaling, seed, levels (0: no ties), tokens
    ("softmax", 8, 2, 0, 0, 1, 1, 0, 1.0, 1, 0, 4),
    ("softmax_normalized", 128, 8, 0, 0, 1, 1, 1, 1.0, 2, 0, 3),
    ("softmax_k1", 16, 1, 0, 0, 1, 1, 1, 1.0, 3, 0, 3),
    ("softmax_all", 8, 8, 0, 0, 1, 1, 0, 1.0, 4, 0, 2),
    ("softmax_ties", 60, 4, 0, 0, 1, 1, 1, 1.0, 5, 2, 4),
    ("sigmoid", 8, 3, 1, 0, 1, 1, 0, 1.0, 6, 0, 3),
    ("sigmoid_bias", 160, 8, 1, 1, 1, 1, 1, 2.5, 7, 0, 4),
    ("sigmoid_bias_raw", 32, 5, 1, 1, 1, 1, 0, 1.5, 8, 0, 4),
    ("sigmoid_ties", 48, 6, 1, 0, 1, 1, 1, 1.0, 9, 2, 4),
    ("kimi", 384, 8, 1, 1, 1, 1, 1, 2.827, 10, 0, 3),
    ("deepseek", 256, 8, 1, 1, 8, 4, 1, 2.5, 11, 0, 4),
    ("groups_tight", 16, 4, 1, 1, 4, 1, 1, 1.0, 12, 0, 4),
    ("groups_of_one", 8, 2, 1, 1, 8, 3, 1, 1.0, 13, 0, 4),
    ("groups_ties", 24, 3, 1, 0, 6, 2, 1, 1.0, 14, 1, 6),
    ("groups_negative", 16, 4, 1, 2, 4, 2, 1, 1.0, 15, 0, 4),  # bias - 2: all b < 0, so that 0.0 for dropped groups would win
]


def top(x, k):
    """Indices of the k largest, the lowest index among equals; and the gap to the next one that is no tie."""
    order = sorted(range(len(x)), key=lambda i: (-x[i], i))
    gaps = [x[order[k - 1]] - x[i] for i in order[k:] if x[i] != x[order[k - 1]]]
    return sorted(order[:k]), min(gaps, default=np.inf)


def route_one(z, bias, case):
    name, E, K, sigmoid, _, groups, kept, normalize, scaling = case[:9]
    z = z.astype(np.float64)
    weigh = 1 / (1 + np.exp(-z)) if sigmoid else np.exp(z - z.max()) / np.exp(z - z.max()).sum()
    choose = weigh + bias.astype(np.float64) if sigmoid else weigh.copy()
    if groups > 1:
        parts = choose.reshape(groups, -1)
        score = np.sort(parts, axis=1)[:, -2:].sum(axis=1)
        stay, gap = top(score, kept)
        assert gap > 1e-6, (name, "group gap", gap)
        parts[[g for g in range(groups) if g not in stay]] = -np.inf
    chosen, gap = top(choose, K)
    assert gap > 1e-6, (name, "gap", gap)
    w = weigh[chosen]
    if normalize:
        w = w / (w.sum() + (1e-20 if sigmoid else 0))
    return chosen, w * scaling


def make_route():
    lines = [MADE, "# name E K sigmoid bias n_group topk_group normalize scaling seed levels token experts weights\n"]
    for case in ROUTE:
        name, E, K, sigmoid, has_bias, groups, kept, normalize, scaling, seed, levels, tokens = case
        z = values(seed, tokens, E) * F32(4)
        if levels:
            z = np.rint(z * F32(levels)) / F32(levels)
        bias = values(seed + 1000, E) * F32(0.5) - F32(2 if has_bias == 2 else 0) if has_bias else np.zeros(E, F32)
        for t in range(tokens):
            chosen, w = route_one(z[t], bias, case)
            head = "\t".join(str(x) for x in case[:11])
            lines.append(f"{head}\t{t}\t{ints(chosen)}\t{text(w)}\n")
    open("route.tsv", "w").writelines(lines)


# ---- experts ----

def matrix(fmt, seed, rows, columns, group):
    """The exact value of every weight in float64, and the row scales of E4M3."""
    z = hash_at(seed, rows * columns)
    if fmt == "f32":
        return values(seed, rows, columns).astype(np.float64)
    if fmt == "bf16":
        return (values(seed, rows, columns).view(np.uint32) & np.uint32(0xFFFF0000)).view(F32).astype(np.float64)
    scales = (F32(1.5) + F32(0.5) * values(seed + 500, rows, (columns + group - 1) // group if group else 1)) * F32(0.03125)
    if fmt == "int4":
        q = (z & np.uint64(15)).astype(np.int64).reshape(rows, columns) - 8
        s = (scales.astype(F32).view(np.uint32) & np.uint32(0xFFFF0000)).view(F32).astype(np.float64)
        return q * np.repeat(s, group, axis=1)[:, :columns]
    codes = (z & np.uint64(0x87)) | ((np.uint64(3) + (z >> np.uint64(8)) % np.uint64(6)) << np.uint64(3))
    wide = from_e4m3_codes(codes.astype(np.uint8)).astype(np.float64).reshape(rows, columns)
    return wide * scales.astype(np.float64)


def round_input(x, w8a8):
    """W8A8: the input as its E4M3 codes times its scale."""
    if not w8a8:
        return x
    x = x.astype(F32)
    scale = F32(np.abs(x).max()) / F32(448)
    return from_e4m3_codes(to_e4m3_codes(x / scale)).astype(np.float64) * float(scale)


EXPERTS = [  # name, format, group, w8a8, T, H, I, E, K, residual, seed
    ("f32", "f32", 0, 0, 5, 24, 20, 6, 3, 0, 100),
    ("f32_residual_odd", "f32", 0, 0, 3, 7, 5, 9, 1, 1, 120),
    ("bf16", "bf16", 0, 0, 4, 24, 20, 8, 2, 1, 140),
    ("e4m3", "e4m3", 0, 0, 4, 24, 20, 4, 4, 0, 160),
    ("e4m3_w8a8", "e4m3", 0, 1, 4, 24, 20, 6, 3, 1, 180),
    ("int4", "int4", 16, 0, 4, 24, 20, 6, 3, 1, 200),
]


def make_experts():
    lines = [MADE, "# name format group w8a8 T H I E K residual seed token experts y\n"]
    for case in EXPERTS:
        name, fmt, group, w8a8, T, H, I, E, K, residual, seed = case
        x = values(seed, T, H)
        weights = F32(0.75) + F32(0.25) * values(seed + 1, T, K)
        rest = values(seed + 2, T, H)
        for t in range(T):
            order = hash_at(seed + 3, E, t * E)
            chosen = sorted(sorted(range(E), key=lambda e: order[e])[:K])
            y = np.zeros(H)
            for j, e in enumerate(chosen):
                gate_up = matrix(fmt, 10000 + seed * 100 + 2 * e, 2 * I, H, group)
                down = matrix(fmt, 10000 + seed * 100 + 2 * e + 1, H, I, group)
                g = gate_up @ round_input(x[t].astype(np.float64), w8a8)
                inner = g[:I] / (1 + np.exp(-g[:I])) * g[I:]
                y += float(weights[t, j]) * (down @ round_input(inner, w8a8))
            if residual:
                y += rest[t]
            head = "\t".join(str(v) for v in case)
            lines.append(f"{head}\t{t}\t{ints(chosen)}\t{text(y)}\n")
    open("experts.tsv", "w").writelines(lines)


# ---- latent attention ----

LATENT = [  # format, k_scale, C, Dr, N, seed
    ("f32", 1.0, 16, 8, 3, 300),
    ("f32", 0.3, 13, 6, 2, 301),
    ("bf16", 1.0, 16, 8, 3, 302),
    ("fp8", 0.0043, 16, 8, 3, 303),
    ("fp8", 0.0017, 13, 6, 2, 304),  # some values clip
]
LATENT_SCALE = 0.7


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def make_latent():
    lines = [MADE, "# format k_scale C Dr N seed length clipped out(last token)\n"]
    for fmt, scale, C, Dr, N, seed in LATENT:
        for length in (1, 63, 64, 65, 130):
            codes, clipped = store(values(seed, length, C + Dr), fmt, scale)
            rows = load(codes, fmt, scale).astype(np.float64)
            q = values(seed + 50, length, N, C + Dr)[-1].astype(np.float64) * 4
            out = np.stack([softmax(rows @ q[n] * LATENT_SCALE) @ rows[:, :C] for n in range(N)])
            lines.append(f"{fmt}\t{scale}\t{C}\t{Dr}\t{N}\t{seed}\t{length}\t{clipped}\t{text(out)}\n")
    open("latent.tsv", "w").writelines(lines)


def make_mla():
    """The naive form of MLA: keys and values of every head are unfolded by kv_b."""
    T, N, Dn, Dr, C, Dv, seed, scale = 9, 3, 8, 4, 16, 6, 400, 12**-0.5
    q = values(seed, T, N, Dn + Dr).astype(np.float64) * 2
    c = values(seed + 1, T, C).astype(np.float64)
    kpe = values(seed + 2, T, Dr).astype(np.float64)
    kv_b = values(seed + 3, N, Dn + Dv, C).astype(np.float64)
    lines = [MADE, "# T N Dn Dr C Dv seed token o\n"]
    for t in range(T):
        out = []
        for n in range(N):
            k = np.concatenate([c[: t + 1] @ kv_b[n, :Dn].T, kpe[: t + 1]], axis=1)
            v = c[: t + 1] @ kv_b[n, Dn:].T
            out.append(softmax(k @ q[t, n] * scale) @ v)
        lines.append(f"{T}\t{N}\t{Dn}\t{Dr}\t{C}\t{Dv}\t{seed}\t{t}\t{text(out)}\n")
    open("mla.tsv", "w").writelines(lines)


# ---- pages ----

def make_pages():
    """One page [G 2, page_size 8, D 3], six of its eight slots copied; k and v with scales of their own."""
    lines = [MADE, "# from k_scale v_scale to k_scale v_scale seed clipped k(hex) v(hex): codes of the copied slots, little-endian\n"]
    scales = {"f32": (1.0, 0.25), "bf16": (1.3, 1.0), "fp8": (0.0021, 0.0045)}
    seed = 500
    for source, (ks, vs) in scales.items():
        for target in scales:
            # the same format once with the same scales, once with others
            for kt, vt in {scales[target], (ks, vs * 0.5)} if source == target else {scales[target]}:
                hexes, clipped = [], 0
                for i, (s, t) in enumerate(((ks, kt), (vs, vt))):
                    codes, _ = store(values(seed + i, 2, 8, 3), source, s)
                    wide = load(codes[:, :6], source, s)
                    out, n = (codes[:, :6], 0) if source == target and F32(s) == F32(t) else store(wide, target, t)
                    hexes.append(np.ascontiguousarray(out).tobytes().hex())
                    clipped += n
                lines.append(f"{source}\t{ks}\t{vs}\t{target}\t{kt}\t{vt}\t{seed}\t{clipped}\t{hexes[0]}\t{hexes[1]}\n")
                seed += 2
    open("pages.tsv", "w").writelines(lines)


if __name__ == "__main__":
    make_route()
    make_experts()
    make_latent()
    make_mla()
    make_pages()

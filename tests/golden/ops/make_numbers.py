#!/usr/bin/env python3
"""Makes number.tsv (sha256 over blocks of conversions by torch and NumPy), int4.tsv (NumPy) and det_math.tsv (mpmath).

Inputs of number.tsv and int4.tsv come from a hash that the tests repeat (tests/ops_golden.h). Run in this folder."""
import hashlib
import sys

import mpmath
import numpy as np
import torch

from make_ops import F32, from_bf16_codes, from_e4m3_codes, hash_at, to_bf16_codes, to_e4m3_codes, values

MADE = (f"# made by make_numbers.py, Python {sys.version.split()[0]}, NumPy {np.__version__}, "
        f"torch {torch.__version__.split('+')[0]}, mpmath {mpmath.__version__}\n")


def quiet(x):
    """Every NaN as 0x7fc00000: payloads are not compared."""
    return np.where(np.isnan(x), F32(np.nan), x).astype(F32)


def digest(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


BLOCK = 65536


def floats(kind, block):
    """kind any: all bit patterns; near: exponents 2^-14 .. 2^9, around the range of E4M3."""
    z = hash_at(600 if kind == "any" else 601, BLOCK, block * BLOCK)
    bits = (z >> np.uint64(32)).astype(np.uint32)
    if kind == "near":
        exponent = (np.uint64(113) + (z & np.uint64(0xFFFF)) % np.uint64(24)).astype(np.uint32)
        bits = (bits & np.uint32(0x807FFFFF)) | (exponent << np.uint32(23))
    return bits.view(F32)


def make_number():
    lines = [MADE, "# table, block, sha256 of the little-endian results with every NaN as f32 0x7fc00000, bf16 0x7fc0, e4m3 0x7f\n"]
    every = np.arange(65536, dtype=np.uint16)
    bytes_ = np.arange(256, dtype=np.uint8)
    e5m2 = torch.from_numpy(bytes_).view(torch.float8_e5m2).to(torch.float32).numpy()
    lines.append(f"bf16_to_float\t0\t{digest(quiet(from_bf16_codes(every)))}\n")
    lines.append(f"f16_to_float\t0\t{digest(quiet(every.view(np.float16).astype(F32)))}\n")
    lines.append(f"e4m3_to_float\t0\t{digest(quiet(from_e4m3_codes(bytes_)))}\n")
    lines.append(f"e5m2_to_float\t0\t{digest(quiet(e5m2))}\n")
    for kind, blocks in (("any", 4), ("near", 12)):
        for block in range(blocks):
            x = floats(kind, block)
            nan = np.isnan(x)
            lines.append(f"float_to_bf16_{kind}\t{block}\t{digest(np.where(nan, np.uint16(0x7FC0), to_bf16_codes(x)))}\n")
            lines.append(f"float_to_e4m3_{kind}\t{block}\t{digest(np.where(nan, np.uint8(0x7F), to_e4m3_codes(x)))}\n")
    open("number.tsv", "w").writelines(lines)


def make_int4():
    lines = [MADE, "# n group seed zero_group scales(hex of each bf16) q8(one hex digit each)\n"]
    for n, group, seed, zero in ((576, 128, 700, -1), (576, 64, 701, 3), (576, 32, 702, 17), (128, 128, 703, -1), (1, 32, 704, -1),
                                 (33, 32, 705, 0), (576, 128, 706, 4)):
        x = values(seed, n) * F32(0.37)
        if zero >= 0:
            x[zero * group:(zero + 1) * group] = 0
        scales, q8 = [], []
        for start in range(0, n, group):
            part = x[start:start + group]
            code = int(to_bf16_codes(np.array([np.abs(part).max() / F32(7)], F32))[0])
            s = from_bf16_codes(np.array([code], np.uint16))[0]
            q = np.zeros(len(part)) if s == 0 else np.clip(np.rint(part / s), -8, 7)
            scales.append(f"{code:04x}")
            q8 += [f"{int(v) + 8:x}" for v in q]
        lines.append(f"{n}\t{group}\t{seed}\t{zero}\t{','.join(scales)}\t{''.join(q8)}\n")
    open("int4.tsv", "w").writelines(lines)


def unit(seed, n):
    return (hash_at(seed, n) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def row(name, exact, *arguments):
    pad = lambda v: ([float(x).hex() for x in v] + ["-"])[:2]
    return "\t".join([name] + pad(arguments) + pad(exact)) + "\n"


def make_det_math():
    mpmath.mp.prec = 400
    lines = [MADE, "# function, one or two arguments, one or two correctly rounded results (sincos: sine, cosine)\n"]
    log_at = [1.0, 2.0, 0.5, 10.0, 1e4, 1e6, 5e5, 2.0**-1022, float.fromhex("0x1.fffffffffffffp+1023"), 0.7071067811865475,
              0.7071067811865476, 1.4142135623730951, float(np.nextafter(1, 0)), float(np.nextafter(1, 2)), 1.0 + 2.0**-30,
              1.0 - 2.0**-30, 0.9, 1.1]
    log_at += [float(m * 2.0 ** int(e)) for m, e in zip(1 + unit(800, 40), unit(801, 40) * 2000 - 1000)]
    for x in log_at:
        lines.append(row("log", [mpmath.log(mpmath.mpf(x))], x))
    exp_at = [0.0, 1.0, -1.0, 0.34657359027997264, -0.34657359027997264, 0.5, 88.72, -87.3, 699.9, -699.9, 2.0**-60, -(2.0**-60)]
    exp_at += [float(x) for x in unit(802, 40) * 1399 - 699.5]
    for x in exp_at:
        lines.append(row("exp", [mpmath.exp(mpmath.mpf(x))], x))
    pow_at = [(2.0, 10.0), (10.0, -3.0), (1.0, 500.0), (5e5, 0.0), (1e4, 1.0)]
    pow_at += [(theta, -2.0 * i / 128) for theta in (1e4, 1e5, 5e5, 1e6, 8e6) for i in range(0, 64, 7)]
    pow_at += [(float(b), float(e)) for b, e in zip(unit(803, 15) * 50 + 0.01, unit(804, 15) * 200 - 100)]
    for b, e in pow_at:
        lines.append(row("pow", [mpmath.power(mpmath.mpf(b), mpmath.mpf(e))], b, e))
    sin_at = [0.0, 2.0**-40, 0.5, -0.5, 1.0, 3.141592653589793, 1.5707963267948966, -1.5707963267948966, 6.283185307179586, 1e5, 131072.0,
              1.5e6, -1.5e6, 1599999.0, 710 / 226, 355.0, 103993.0, 0.7853981633974483, 0.7853981633974484, 5.497787143782138]
    sin_at += [float(x) for x in unit(805, 40) * 3.19e6 - 1.595e6]
    # multiples of pi/2 rounded to double: the reduction cancels most
    sin_at += [float(mpmath.pi / 2 * int(k)) for k in unit(806, 20) * 1.0e6]
    # angles of RoPE: positions to 131072 times frequencies from 1 down, in float
    for k in range(40):
        position = int(hash_at(807, 1, k)[0] % np.uint64(131073)) if k else 131072
        f = F32(1.0) if k < 8 else F32(1e4 ** -float(unit(808, 1 + k)[-1]))
        sin_at.append(float(F32(position) * f))
    for x in sin_at:
        lines.append(row("sincos", [mpmath.sin(mpmath.mpf(x)), mpmath.cos(mpmath.mpf(x))], x))
    open("det_math.tsv", "w").writelines(lines)


make_number()
make_int4()
make_det_math()

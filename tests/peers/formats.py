"""Compares every number format with ml_dtypes, float16 with numpy: all codes decoded, float32 encoded, not saturating.

    formats.py FORMATS_DUMP [--long]

FORMATS_DUMP is the program of formats_dump.cc. Encoded are 2^24 patterns (one for each value of the upper 24 bits, the
low 8 random) and every tie between neighbouring values with its two float32 neighbours, both signs; with --long (or
NACRE_LONG=1) all 2^32 patterns of float16 and bfloat16. A NaN agrees with any NaN; E2M1 has none: its codes agree.
Ends with one CLAIM line; exits 1 where a code differs.
"""
import os
import subprocess
import sys

import ml_dtypes
import numpy as np

FORMATS = {
    'float16': np.float16,
    'bfloat16': ml_dtypes.bfloat16,
    'float8_e4m3fn': ml_dtypes.float8_e4m3fn,
    'float8_e5m2': ml_dtypes.float8_e5m2,
    'float8_e4m3fnuz': ml_dtypes.float8_e4m3fnuz,
    'float8_e5m2fnuz': ml_dtypes.float8_e5m2fnuz,
    'float8_e8m0fnu': ml_dtypes.float8_e8m0fnu,
    'float4_e2m1fn': ml_dtypes.float4_e2m1fn,
}
CHUNK = 1 << 24


class Dump:
    def __init__(self, program):
        self.program = program

    def decode(self, name):
        return np.frombuffer(self.run('decode', name), np.float32)

    def encode(self, name, values):
        return np.frombuffer(self.run('encode', name, input=values.tobytes()), code_type(name))

    def range(self, name, first, count):
        return np.frombuffer(self.run('range', name, str(first), str(count)), code_type(name))

    def run(self, *arguments, input=None):
        return subprocess.run([self.program, *arguments], input=input, stdout=subprocess.PIPE, check=True).stdout


def code_type(name):
    return np.uint16 if name in ('float16', 'bfloat16') else np.uint8


def code_count(name):
    return 16 if name == 'float4_e2m1fn' else 1 << 8 * np.dtype(code_type(name)).itemsize


def decoded(name, codes):
    with np.errstate(invalid='ignore'):  # signalling NaNs would warn
        return codes.view(FORMATS[name]).astype(np.float32)


def encoded(name, values):
    with np.errstate(over='ignore', invalid='ignore'):
        return values.astype(FORMATS[name]).view(code_type(name))


def codes_differ(name, ours, theirs):
    """How many codes differ, NaN equal to any NaN."""
    assert ours.shape == theirs.shape
    where = np.nonzero(ours != theirs)[0]
    if len(where) == 0:
        return 0
    both_nan = np.isnan(decoded(name, ours[where])) & np.isnan(decoded(name, theirs[where]))
    return int(np.count_nonzero(~both_nan))


def decode_differs(dump, name):
    codes = np.arange(code_count(name)).astype(code_type(name))
    ours, theirs = dump.decode(name), decoded(name, codes)
    assert ours.shape == theirs.shape
    same = (ours.view(np.uint32) == theirs.view(np.uint32)) | (np.isnan(ours) & np.isnan(theirs))
    return len(codes), int(np.count_nonzero(~same))


def samples():
    """2^24 patterns, one for each value of the upper 24 bits."""
    low = np.random.default_rng(2024).integers(0, 256, CHUNK, np.uint32)
    return ((np.arange(CHUNK, dtype=np.uint32) << np.uint32(8)) | low).view(np.float32)


def ties(name):
    """Halfway between neighbouring values, the overflow threshold included, and the float32 numbers next to these."""
    values = decoded(name, np.arange(code_count(name)).astype(code_type(name)))
    values = np.unique(np.abs(values[np.isfinite(values)])).astype(np.float64)
    largest = values[-1]
    next_up = 2 * largest if name == 'float8_e8m0fnu' else 2 * largest - values[-2]
    values = np.append(values, next_up)
    middle = ((values[:-1] + values[1:]) / 2).astype(np.float32)
    around = np.concatenate([np.nextafter(middle, np.float32(0)), middle, np.nextafter(middle, np.float32(np.inf))])
    return np.concatenate([around, -around])


def all_patterns_differ(dump, name):
    differ = 0
    low = np.arange(CHUNK, dtype=np.uint32)
    for first in range(0, 1 << 32, CHUNK):
        values = (low + np.uint32(first)).view(np.float32)
        differ += codes_differ(name, dump.range(name, first, CHUNK), encoded(name, values))
        if first % (1 << 28) == 0:
            print(f'  {name}: {first >> 28} of 16 parts, {differ} differ', file=sys.stderr, flush=True)
    return differ


def main():
    dump = Dump(sys.argv[1])
    long = '--long' in sys.argv[2:] or os.environ.get('NACRE_LONG') == '1'
    print(f'ml_dtypes {ml_dtypes.__version__}, numpy {np.__version__}')
    print(f'{"format":16} {"codes":>6} {"differ":>6} {"encoded":>11} {"of them ties":>13} {"differ":>6}')
    total_codes = total_encoded = total_differ = 0
    for name in FORMATS:
        count, differ = decode_differs(dump, name)
        tie = ties(name)
        values = np.concatenate([samples(), tie])
        wrong = codes_differ(name, dump.encode(name, values), encoded(name, values))
        number = len(values)
        if long and name in ('float16', 'bfloat16'):
            wrong += all_patterns_differ(dump, name)
            number += 1 << 32
        print(f'{name:16} {count:6} {differ:6} {number:11} {len(tie):13} {wrong:6}', flush=True)
        total_codes += count
        total_encoded += number
        total_differ += differ + wrong
    counts = (f'{len(FORMATS)} formats, {total_codes} codes decoded, {total_encoded} numbers encoded, '
              f'{total_differ} differ')
    if total_differ:
        print(f'CLAIM formats_exhaustive NOT SHOWN: {counts}')
        sys.exit(1)
    print(f'CLAIM formats_exhaustive shown: {counts}')


main()

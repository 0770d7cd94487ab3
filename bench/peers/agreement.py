"""Says how far an engine's outputs are from Nacre's, and which differences count as agreement.

int8     The unit is one code. The timed runs round like TensorFlow Lite's fixed-point kernels (--rounding double).
         XNNPACK rounds a float32 product (float_even), so a result near a tie is 1 code away. LiteRT must be at most
         1 code away on the input that is timed. On other inputs it can be more, if two classes are near a tie:
         softmax turns a difference of a few codes in the logits into tens. So Nacre also runs all inputs with
         float_even, and there LiteRT must be equal to the code. Networks with own_sums are judged otherwise. XNNPACK
         adds their codes in 20 bits of its own, which in MobileNetV2's ten sums is up to 13 codes of the logits. For
         them litert-reference is judged, on all inputs: at most 1 code. OpenVINO computes from the file's scales in
         its own way; its difference is printed, not judged.
float32  The difference is the largest one, over the largest magnitude, on every input. Sums in another order and
         another exp differ by 1e-7 to 1e-5 of it. The limit of 1e-3 leaves room for any order of float32 sums. A
         wrong operator or layout is far above the limit. bfloat16 (2e-3 for each rounding) is above it too, unless
         a softmax saturates.
hybrid   Weights are int8, activations float32. TensorFlow Lite's own kernels, and Nacre, quantize activations while
         they run (peer litert-reference is equal to Nacre to the bit); XNNPACK and OpenVINO compute more in float32.
         Both read the same file correctly. Only the timed input is judged, and only grossly: the limit is a dozen
         steps of 1/254, to which activations are quantized. The largest difference of all inputs is printed.
dynamic  Judged like hybrid: int8 weights, and activations that are quantized while the network runs.
bfloat16 Judged like hybrid: engines round at different places, by up to 1/256 each.
"""

import numpy as np

FLOAT_LIMIT = 1e-3
HYBRID_LIMIT = 0.05
LITERT = ("litert", "litert-compiled")


def codes_apart(nacre, other):
    """Returns how many codes there are, how many differ, and the largest difference."""
    apart = np.abs(np.frombuffer(nacre, np.int8).astype(int) - np.frombuffer(other, np.int8).astype(int))
    return apart.size, int((apart > 0).sum()), int(apart.max())


def relative(nacre, other):
    a, b = (np.frombuffer(x, np.float32).astype(float) for x in (nacre, other))
    return float(np.abs(a - b).max() / max(np.abs(a).max(), np.finfo(np.float32).tiny))


def over(pairs):
    found = [codes_apart(a, b) for a, b in pairs]
    return sum(f[0] for f in found), sum(f[1] for f in found), max(f[2] for f in found)


def codes_text(codes, differ, largest):
    return f"{codes - differ} of {codes} equal" + (f", at most {largest} apart" if differ else "")


def compare_codes(peer, own_sums, timed, pairs, rounded_alike):
    counts = {"timed": over([timed]), "all": over(pairs), "rounded_alike": over(rounded_alike)}
    if own_sums:
        judged = peer == "litert-reference"
        agrees = not judged or counts["all"][2] <= 1
    else:
        judged = peer in LITERT
        agrees = not judged or (counts["timed"][2] <= 1 and counts["rounded_alike"][2] == 0)
    texts = {name: codes_text(*count) for name, count in counts.items()}
    return {"agrees": agrees, "judged": judged,
            **{name: dict(zip(("codes", "differ", "largest"), count)) for name, count in counts.items()},
            "says": f"timed input: {texts['timed']}; {len(pairs)} inputs: {texts['all']}; "
                    f"with float_even: {texts['rounded_alike']}"}


def compare(peer, types, own_sums, batch, nacre, other, rounded_alike):
    """Takes lists of outputs' bytes, one for each input, the timed input first. Only the first sample of each batch
    is judged. `rounded_alike` is Nacre's list with float_even, for int8 networks. Returns `agrees` with the judged
    numbers, and `says`, the same in words."""
    pairs = list(zip(nacre, other))
    if any(len(a) != len(b) for a, b in pairs):
        return {"agrees": False, "says": f"{len(other[0])} bytes of output, Nacre has {len(nacre[0])}"}
    timed = tuple(x[:len(x) // batch] for x in pairs[0])
    if types == "int8":
        return compare_codes(peer, own_sums, timed, pairs, list(zip(rounded_alike, other)))
    apart = [relative(a, b) for a, b in pairs]
    first = relative(*timed)
    exact = types == "float32"
    judged, limit = (max(apart), FLOAT_LIMIT) if exact else (first, HYBRID_LIMIT)
    timed = "" if exact else f"timed input: {first:.1e} (limit {limit:g}), "
    end = f" (limit {limit:g})" if exact else ""
    return {"agrees": judged <= limit, "limit": limit, "timed": first, "largest": max(apart),
            "says": f"{timed}{len(pairs)} inputs: {max(apart):.1e}{end} of the largest magnitude"}

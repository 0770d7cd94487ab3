#!/usr/bin/env python3
"""Counts the right answers of digits.onnx on its test images with onnxruntime and compares with digits_expected.json.

--write updates digits_expected.json instead. Needs numpy and onnxruntime (`$(tools/peers.sh)` has both).
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

kHere = Path(__file__).resolve().parent


def main():
    images, labels, test = (np.load(kHere / f"digits_{name}.npy") for name in ("images", "labels", "test"))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(kHere / "digits.onnx", options, providers=["CPUExecutionProvider"])
    (probabilities,) = session.run(None, {"pixels": images[test].astype(np.float32)})
    wrong = np.flatnonzero(probabilities.argmax(1) != labels[test])
    # The narrowest win bounds the float error that another engine may have without changing the count.
    first, second = np.sort(probabilities, 1)[:, :-3:-1].T
    found = {
        "test_images": len(test),
        "right_onnxruntime": len(test) - len(wrong),
        "onnxruntime_version": onnxruntime.__version__,
    }
    print(f"onnxruntime {onnxruntime.__version__}: {found['right_onnxruntime']} of {len(test)} right; "
          f"wrong: images {test[wrong].tolist()}; narrowest win {(first - second).min():.4f}")

    path = kHere / "digits_expected.json"
    if sys.argv[1:] == ["--write"]:
        path.write_text(json.dumps(found) + "\n")
        return 0
    expected = json.loads(path.read_text())
    if any(found[key] != expected[key] for key in ("test_images", "right_onnxruntime")):
        print(f"{path.name} expects {expected['right_onnxruntime']} of {expected['test_images']}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

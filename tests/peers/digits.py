"""onnxruntime and Nacre on the digits network: the same count of right answers, and outputs within a derived tolerance.

    digits.py NACRE DIGITS     the two programs of a build

The largest sum has 3 * 3 * 32 = 288 products; added in another order, each of five layers may differ by about
sqrt(288) * 2^-24 of its largest term, 1e-6, and softmax maps logits of up to 20 to probabilities: 1e-5 absolute.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime

SAMPLES = pathlib.Path(__file__).resolve().parents[2] / "tools" / "samples"
TOLERANCE = 1e-5


def nacre_outputs(nacre, images, folder):
    model = folder / "digits.nacre"
    np.save(folder / "pixels.npy", images)
    run = lambda *words: subprocess.run([nacre, *map(str, words)], check=True, stdout=subprocess.DEVNULL)
    run("convert", SAMPLES / "digits.onnx", "-o", model)
    run("run", model, "--input", f"pixels={folder / 'pixels.npy'}", "--output", folder / "out")
    return model, np.load(folder / "out" / "probabilities.npy").reshape(len(images), 10)


def main():
    nacre, digits = sys.argv[1:3]
    images = np.load(SAMPLES / "digits_images.npy").astype(np.float32)
    labels, test = np.load(SAMPLES / "digits_labels.npy"), np.load(SAMPLES / "digits_test.npy")
    session = onnxruntime.InferenceSession(str(SAMPLES / "digits.onnx"), providers=["CPUExecutionProvider"])
    peer = session.run(None, {"pixels": images})[0]
    with tempfile.TemporaryDirectory() as name:
        model, ours = nacre_outputs(nacre, images, pathlib.Path(name))
        said = subprocess.run([digits, model, *(SAMPLES / f"digits_{part}.npy" for part in ("images", "labels", "test"))],
                              check=True, capture_output=True, text=True).stdout.splitlines()[0]
    right = [int((outputs[test].argmax(1) == labels[test]).sum()) for outputs in (peer, ours)]
    worst = float(np.abs(peer - ours).max())
    expected = json.loads((SAMPLES / "digits_expected.json").read_text())["right_onnxruntime"]
    shown = (right[0] == right[1] == expected and said.startswith(f"digits: {right[0]} of {len(test)} right")
             and worst <= TOLERANCE)
    print(f"CLAIM digits_match_onnxruntime {'shown' if shown else 'NOT SHOWN'}: {right[1]} of {len(test)} right, onnxruntime "
          f"{onnxruntime.__version__} {right[0]}; the demo says '{said}'; largest difference over {len(images)} images {worst:.2g}")
    return 0 if shown else 1


if __name__ == "__main__":
    sys.exit(main())

"""Writes silero_states.json: the probability of speech that silero_vad_openvino_16k.onnx gives for 50 chunks, by
onnxruntime, whose caller feeds the state of one chunk to the next.

    silero_states.py MODELS [--check]     MODELS holds silero/ and tflm/; the table stands beside this script

Chunk i is samples [512 i - 64, 512 i + 512) of yes_1000ms.wav followed by no_1000ms.wav, zeros before the first, each
divided by 32768. Needs onnxruntime and numpy.
"""

import hashlib
import json
import pathlib
import sys
from importlib import metadata

import numpy as np
import onnxruntime

CONTEXT, NEW, CHUNKS = 64, 512, 50


def main():
    models, beside = pathlib.Path(sys.argv[1]), pathlib.Path(__file__).with_name("silero_states.json")
    network = models / "silero/silero_vad_openvino_16k.onnx"
    words = [np.frombuffer((models / f"tflm/{word}_1000ms.wav").read_bytes()[44:], "<i2") for word in ("yes", "no")]
    sound = np.concatenate([np.zeros(CONTEXT), *words]).astype(np.float32) / np.float32(32768)
    session = onnxruntime.InferenceSession(str(network), providers=["CPUExecutionProvider"])
    state, speech = np.zeros((2, 1, 128), np.float32), []
    for i in range(CHUNKS):
        chunk = sound[None, i * NEW : i * NEW + CONTEXT + NEW]
        y, state = session.run(["output", "stateN"], {"input": chunk, "state": state})
        speech.append(float(str(np.float32(y.ravel()[0]))))
    table = {
        "versions": {name: metadata.version(name) for name in ("onnxruntime", "numpy")},
        "sha256": hashlib.sha256(network.read_bytes()).hexdigest(),
        "speech": speech,
    }
    if "--check" in sys.argv:
        worst = np.abs(np.array(json.loads(beside.read_text())["speech"]) - np.array(speech)).max()
        print(f"silero_states: differs by {worst:.2g}")
        sys.exit(0 if worst < 1e-5 else 1)
    beside.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()

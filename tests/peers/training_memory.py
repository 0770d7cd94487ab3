"""Writes training_memory.json: what memory JAX takes for the training steps of claim training_memory.

    training_memory.py            writes the table beside this script
    training_memory.py --check    measures again and compares with the committed table

Needs training_requirements.txt; CPU backend, float32. The networks are those of MLPerf Tiny (AD: autoencoder, KWS: DS-CNN, IC:
ResNet-8, batch norms folded as in their TensorFlow Lite files) with weights of zero: memory depends on shapes alone. A step is
loss, gradients and plain SGD in one jitted function that may write the new parameters over the old (donated). `last` trains the
last two layers: gradients are taken with respect to these only. The frozen layers of JAX are float32 in every row.

The numbers are XLA's own, of the compiled step (compiled.memory_analysis()):

    arguments   parameters, inputs, labels, learning rate
    outputs     new parameters, loss, and what they share with arguments (aliased)
    temporaries buffers of the step: activations, gradients, what convolutions make
    peak        arguments + outputs - aliased + temporaries
"""

import argparse
import json
import pathlib
import sys

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
from jax import lax

jax.config.update("jax_platforms", "cpu")
TABLE = pathlib.Path(__file__).resolve().parent / "training_memory.json"


def dense(x, p):
    return x @ p[0].T + p[1]


def conv(x, p, stride=1, groups=1):
    y = lax.conv_general_dilated(x, p[0], (stride, stride), "SAME", dimension_numbers=("NHWC", "OHWI", "NHWC"),
                                 feature_group_count=groups)
    return y + p[1]


def layer(*dims):
    return (jax.ShapeDtypeStruct(dims, jnp.float32), jax.ShapeDtypeStruct(dims[:1], jnp.float32))


AD_WIDTHS = [640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640]
AD = [layer(o, i) for i, o in zip(AD_WIDTHS, AD_WIDTHS[1:])]


def ad(p, x):
    for i, q in enumerate(p):
        x = dense(x, q)
        x = jax.nn.relu(x) if i + 1 < len(p) else x
    return x


KWS = [layer(64, 10, 4, 1)] + [l for _ in range(4) for l in (layer(64, 3, 3, 1), layer(64, 1, 1, 64))] + [layer(12, 64)]


def kws(p, x):
    x = jax.nn.relu(conv(x, p[0], 2))
    for i in range(1, 9, 2):
        x = jax.nn.relu(conv(x, p[i], groups=64))
        x = jax.nn.relu(conv(x, p[i + 1]))
    return dense(x.mean((1, 2)), p[9])


IC = [layer(16, 3, 3, 3), layer(16, 3, 3, 16), layer(16, 3, 3, 16), layer(32, 3, 3, 16), layer(32, 3, 3, 32), layer(32, 1, 1, 16),
      layer(64, 3, 3, 32), layer(64, 3, 3, 64), layer(64, 1, 1, 32), layer(10, 64)]


def ic(p, x):
    relu = jax.nn.relu
    x = relu(conv(x, p[0]))
    x = relu(x + conv(relu(conv(x, p[1])), p[2]))
    x = relu(conv(x, p[5], 2) + conv(relu(conv(x, p[3], 2)), p[4]))
    x = relu(conv(x, p[8], 2) + conv(relu(conv(x, p[6], 2)), p[7]))
    return dense(x.mean((1, 2)), p[9])


NETWORKS = {"AD": (ad, AD, (640,), None), "KWS": (kws, KWS, (49, 10, 1), 12), "IC": (ic, IC, (32, 32, 3), 10)}


def measure(name, batch, last):
    forward, layers, dims, classes = NETWORKS[name]
    # Last two layers of the file: IC's file has the convolution beside the last one (p[8]) before the dense layer.
    frozen = len(layers) - 2 if last else 0

    def loss(trained, fixed, x, t):
        y = forward(list(fixed) + list(trained), x)
        if classes is None:
            return jnp.mean((y - t) ** 2)
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(y), t[:, None], 1))

    def step(trained, fixed, x, t, rate):
        value, gradients = jax.value_and_grad(loss)(trained, fixed, x, t)
        return jax.tree.map(lambda w, g: w - rate * g, trained, gradients), value

    x = jax.ShapeDtypeStruct((batch, *dims), jnp.float32)
    t = x if classes is None else jax.ShapeDtypeStruct((batch,), jnp.int32)
    rate = jax.ShapeDtypeStruct((), jnp.float32)
    compiled = jax.jit(step, donate_argnums=0).lower(layers[frozen:], layers[:frozen], x, t, rate).compile()
    m = compiled.memory_analysis()
    trained = sum(int(np.prod(a.shape)) * 4 for l in layers[frozen:] for a in l)
    return {"network": name, "trains": "last" if last else "full", "batch": batch, "parameters": trained,
            "arguments": m.argument_size_in_bytes, "outputs": m.output_size_in_bytes, "aliased": m.alias_size_in_bytes,
            "temporaries": m.temp_size_in_bytes,
            "peak": m.argument_size_in_bytes + m.output_size_in_bytes - m.alias_size_in_bytes + m.temp_size_in_bytes}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    rows = [measure(n, b, last) for n in NETWORKS for last in (False, True) for b in (1, 16)]
    table = {"made_by": "tests/peers/training_memory.py", "jax": jax.__version__, "jaxlib": jaxlib.__version__,
             "python": ".".join(map(str, sys.version_info[:3])), "backend": "cpu", "rows": rows}
    if arguments.check:
        committed = json.loads(TABLE.read_text())["rows"]
        sys.exit(0 if committed == rows else "training_memory.json differs from what this machine measures")
    text = json.dumps({k: v for k, v in table.items() if k != "rows"}, indent=1)[:-2]
    TABLE.write_text(text + ',\n "rows": [\n  ' + ",\n  ".join(json.dumps(r) for r in rows) + "\n ]\n}\n")


if __name__ == "__main__":
    main()

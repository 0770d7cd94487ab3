"""Writes optimizers.json: what torch.optim itself computes, on the CPU, for tests/ops/optimize_peers_test.cc.

    optimizers.py            writes the table beside this script
    optimizers.py --check    computes it again and compares with the committed one

Needs optimizers_requirements.txt. foreach=False: torch's loop over one tensor, which is the definition of the others.

Every hyperparameter is a float32, given to torch as the float64 of the same value. One record per optimizer:

    name, words          the step's attributes, float32 bits: clip_value (0), weight_decay, then those of the op
    rate                 float32 bits
    float32              one step each from equal state: {step, p, m, v, g, p_new, m_new, v_new}, all float32 bits; m and v are
                         the states in the order of the step's operands, null where there is none; step: applied before
    float64              100 steps from p with states 0: g of step t is gradients[t]; p_new after steps 1, 2, 5, 10, 20, 50, 100; float64
                         bits in hexadecimal

`gradients`: the float64 gradients of all optimizers, 100 x 4.
"""
import json
import pathlib
import sys

import numpy as np
import torch

PATH = pathlib.Path(__file__).with_name("optimizers.json")
ELEMENTS = 8
STEPS = (0, 1, 2, 9, 99, 999)
SEEN = (1, 2, 5, 10, 20, 50, 100)


def f32(value):
    return float(np.float32(value))


def bits(values):
    array = np.asarray(values)
    return [int(v) for v in array.astype(np.float32).view(np.uint32).ravel()]


def hexes(values):
    return [f"{int(v):016X}" for v in np.asarray(values, dtype=np.float64).view(np.uint64).ravel()]


RATE = f32(0.05)
DECAY = f32(0.01)
MU, BETA1, BETA2, ALPHA = f32(0.9), f32(0.9), f32(0.999), f32(0.99)
EPS8, EPS3 = f32(1e-8), f32(1e-3)


def sgd(p, decay, momentum, nesterov):
    return torch.optim.SGD([p], lr=RATE, momentum=momentum, weight_decay=decay, nesterov=nesterov, foreach=False)


# name, words after clip_value and weight_decay, maker, state names of m and v
def rows():
    for decay in (0.0, DECAY):
        yield "sgd", decay, [], lambda p, d: sgd(p, d, 0, False), (None, None)
        yield "momentum", decay, [MU], lambda p, d: sgd(p, d, MU, False), ("momentum_buffer", None)
        yield "nesterov", decay, [MU], lambda p, d: sgd(p, d, MU, True), ("momentum_buffer", None)
        for eps in (EPS8, EPS3):
            yield ("adam", decay, [BETA1, BETA2, eps],
                   lambda p, d, e=eps: torch.optim.Adam([p], lr=RATE, betas=(BETA1, BETA2), eps=e, weight_decay=d, foreach=False),
                   ("exp_avg", "exp_avg_sq"))
            yield ("adamw", decay, [BETA1, BETA2, eps],
                   lambda p, d, e=eps: torch.optim.AdamW([p], lr=RATE, betas=(BETA1, BETA2), eps=e, weight_decay=d, foreach=False),
                   ("exp_avg", "exp_avg_sq"))
        yield ("rmsprop", decay, [ALPHA, EPS8],
               lambda p, d: torch.optim.RMSprop([p], lr=RATE, alpha=ALPHA, eps=EPS8, weight_decay=d, foreach=False),
               (None, "square_avg"))
        yield ("adagrad", decay, [EPS8],
               lambda p, d: torch.optim.Adagrad([p], lr=RATE, eps=EPS8, weight_decay=d, foreach=False), (None, "sum"))


def one_step(make, decay, states, step, random):
    """One step of float32 from a random state after `step` steps."""
    draw = lambda: random.standard_normal(ELEMENTS).astype(np.float32)
    p, g, m, v = draw(), draw() * np.float32(0.5), draw() * np.float32(0.3), np.abs(draw())
    g[0] = 0
    if step == 0:
        m, v = np.zeros_like(m), np.zeros_like(v)
    parameter = torch.nn.Parameter(torch.tensor(p.copy()))
    optimizer = make(parameter, decay)
    state = optimizer.state[parameter]
    if step > 0 or "sum" in state:
        for name, value in zip(states, (m, v)):
            if name is not None:
                state[name] = torch.tensor(value.copy())
        if states != ("momentum_buffer", None) and states != (None, None):
            state["step"] = torch.tensor(float(step))
    parameter.grad = torch.tensor(g.copy())
    if states == (None, "square_avg") and step > 0:
        state.setdefault("momentum_buffer", None)
    optimizer.step()
    after = [None if name is None else bits(optimizer.state[parameter][name].numpy()) for name in states]
    before = [None if name is None else bits(value) for name, value in zip(states, (m, v))]
    return {"step": step, "p": bits(p), "m": before[0], "v": before[1], "g": bits(g),
            "p_new": bits(parameter.detach().numpy()), "m_new": after[0], "v_new": after[1]}


def hundred_steps(make, decay, p, gradients):
    parameter = torch.nn.Parameter(torch.tensor(p.copy()))
    optimizer = make(parameter, decay)
    seen = []
    for t, gradient in enumerate(gradients, start=1):
        parameter.grad = torch.tensor(gradient.copy())
        optimizer.step()
        if t in SEEN:
            seen.append(hexes(parameter.detach().numpy()))
    return {"p": hexes(p), "p_new": seen}


def table():
    random = np.random.default_rng(20)
    p, gradients = random.standard_normal(4), random.standard_normal((100, 4))
    made = {"torch": torch.__version__.split("+")[0], "gradients": [hexes(g) for g in gradients], "seen": list(SEEN), "rows": []}
    for name, decay, hyper, make, states in rows():
        made["rows"].append({
            "name": name, "words": bits([0.0, decay] + hyper), "rate": bits([RATE])[0],
            "float32": [one_step(make, decay, states, step, random) for step in STEPS],
            "float64": hundred_steps(make, decay, p, gradients)})
    return made


def main():
    torch.set_num_threads(1)
    text = json.dumps(table(), indent=None, separators=(",", ":")).replace('{"name"', '\n{"name"').replace('{"step"', '\n {"step"') + "\n"
    if sys.argv[1:] == ["--check"]:
        same = PATH.read_text() == text
        print(f"optimizers.json: {'the same' if same else 'DIFFERS'} with torch {torch.__version__}")
        return 0 if same else 1
    PATH.write_text(text)
    print(f"{PATH.name}: {len(text)} bytes, torch {torch.__version__}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

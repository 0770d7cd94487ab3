"""torch on the GPU as a peer of claim cuda_speed. It runs the same networks, products and steps on request
(peer_process.h).

The first line of output names the peer and, after a tab, what it can time; or it says in one sentence why it times
nothing. The answer to `run NAME N` is the nanoseconds of N runs, ended by a synchronization, or a sentence.

    torch/eager/STEM     STEM as cuda.sh names its models: infer_mlp10, infer16_mlp10, infer64_mlp10; float32
    torch/compiled/STEM  torch.compile(mode="reduce-overhead")
    torch/graph/STEM     the eager network captured in a CUDA graph, replayed
    torch/eager, compiled/train256_mlp3_mixed_bfloat16      a step of SGD, batch 256, autocast to bfloat16
    torch/mm/product_bf16, torch/scaled_mm/product_f8, torch/int_mm/product_i8      4096^3
"""

import sys
import time

import cuda_networks

BATCHES = {"infer_mlp10": 1, "infer16_mlp10": 16, "infer64_mlp10": 64}
STEP = "train256_mlp3_mixed_bfloat16"
SIDE = 4096


def network_of(torch, name):
    widths, layers = cuda_networks.WIDTHS[name], []
    for fan_in, fan_out in zip(widths, widths[1:]):
        layers += [torch.nn.Linear(fan_in, fan_out), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1]).cuda()


def inference(torch, how, batch):
    network = network_of(torch, "mlp10").eval()
    x = torch.rand(batch, cuda_networks.WIDTHS["mlp10"][0], device="cuda") * 2 - 1
    if how == "compiled":
        network = torch.compile(network, mode="reduce-overhead")
    if how != "graph":
        return lambda: network(x)
    side = torch.cuda.Stream()  # torch asks for a warm-up on another stream before a capture
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            network(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        network(x)
    return lambda keep=(network, x): graph.replay()


def training(torch, how):
    network = network_of(torch, "mlp3")
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, fused=True)
    x = torch.rand(256, cuda_networks.WIDTHS["mlp3"][0], device="cuda") * 2 - 1
    labels = torch.randint(0, 10, (256,), device="cuda")

    def loss_of():
        with torch.autocast("cuda", torch.bfloat16):
            return torch.nn.functional.cross_entropy(network(x).float(), labels)

    loss = torch.compile(loss_of, mode="reduce-overhead") if how == "compiled" else loss_of

    def step():
        with torch.enable_grad():
            optimizer.zero_grad(set_to_none=True)
            loss().backward()
            optimizer.step()

    return step


def product(torch, kind):
    a, b = (torch.rand(SIDE, SIDE, device="cuda") * 2 - 1 for _ in range(2))
    if kind == "mm":
        a, b = a.bfloat16(), b.bfloat16()
        return lambda: torch.mm(a, b.t())
    if kind == "int_mm":
        a, b = ((m * 127).to(torch.int8) for m in (a, b))
        return lambda: torch._int_mm(a, b.t())
    a, b = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)
    one = torch.ones((), device="cuda")
    return lambda: torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=False)


def makers(torch):
    made = {f"torch/{how}/{stem}": lambda how=how, batch=batch: inference(torch, how, batch)
            for how in ("eager", "compiled", "graph") for stem, batch in BATCHES.items()}
    made |= {f"torch/{how}/{STEP}": lambda how=how: training(torch, how) for how in ("eager", "compiled")}
    products = {"mm": "product_bf16", "scaled_mm": "product_f8", "int_mm": "product_i8"}
    return made | {f"torch/{kind}/{name}": lambda kind=kind: product(torch, kind) for kind, name in products.items()}


def serve(torch, requests, answer):
    made, make = {}, makers(torch)
    answer(f"torch {torch.__version__}, {torch.cuda.get_device_name()}\t" + " ".join(make))
    for line in requests:
        try:
            _, name, count = line.split()
            with torch.no_grad():
                if name not in made:
                    made[name] = make[name]()
                torch.cuda.synchronize()
                start = time.perf_counter_ns()
                for _ in range(int(count)):
                    made[name]()
                torch.cuda.synchronize()
            answer(str(time.perf_counter_ns() - start))
        except Exception as error:  # an error in torch, of any kind: the other networks go on
            answer(" ".join(f"{type(error).__name__}: {error}".split())[:300])


def main():
    def answer(text):
        print(text, flush=True)

    try:
        import torch
    except ImportError as error:
        return answer(f"no torch on this machine ({error})")
    if not torch.cuda.is_available():
        return answer("torch sees no GPU")
    serve(torch, sys.stdin, answer)


if __name__ == "__main__":
    main()

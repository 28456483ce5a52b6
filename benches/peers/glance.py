# SPDX-License-Identifier: MIT OR Apache-2.0
"""The rows of `cargo bench --bench networks` by PyTorch, and the step of examples/train_mlp.rs: python3 glance.py [PART...]

Prints a line for each row and way: name, microseconds (the median of 30 calls; of calls without a pause the mean), and who it is:
PyTorch as it is, torch.compile, or the backend of attention. A step of training, with its batch copied in and its
loss kept, is timed by the host's clock over 2000 steps, as the example does.
"""

import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from measure import attempt, measure

PARTS = sys.argv[1:]
ELEMENTS = 1 << 26
SOFTMAX = (256, 1024, 4096, 8192, 16384, 32768, 65536)
LAYER_NORM = (1024, 4096, 8192, 16384, 32768, 65536)
CROSS_ENTROPY = ((65536, 1000), (8192, 32000), (4096, 50257))
FORWARD = (
    ((4, 16, 4096, 128), False),
    ((4, 16, 4096, 128), True),
    ((1, 16, 16384, 128), False),
    ((1, 16, 16384, 128), True),
    ((4, 16, 4096, 64), False),
)
GRADIENTS = [
    (shape, causal)
    for shape in ((4, 16, 4096, 64), (4, 16, 4096, 128), (1, 16, 16384, 64), (1, 16, 16384, 128))
    for causal in (False, True)
]
GRADIENTS_OF = (
    ("10_of_16mi", [1 << 24] * 10),
    ("100_of_4ki_to_64ki", [4096 << (0, 0, 0, 1, 2, 3, 4)[number % 7] for number in range(100)]),
)
BACKENDS = (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION)
PERIOD, CALLS, STEPS = 1.0, 8, 2000


def wanted(name):
    return not PARTS or any(part in name for part in PARTS)


def row(name, who, call):
    us = attempt(f"{name} by {who}", lambda: measure(name, who, "", 1, call)["ms_median"] * 1e3)
    if us is not None:
        print(f"{name} {us:.1f} {who}", flush=True)
    return us


def calls(call):
    """Microseconds of a call, of a period of them."""
    begin, count = time.perf_counter(), 0
    start, before, end = (torch.cuda.Event(enable_timing=True) for _ in range(3))
    start.record()
    before.record()
    while True:
        for _ in range(CALLS):
            call()
        count += CALLS
        end.record()
        if time.perf_counter() - begin > PERIOD:
            end.synchronize()
            return start.elapsed_time(end) / count * 1e3
        before.synchronize()
        before, end = end, torch.cuda.Event(enable_timing=True)


def compiled(name, function, *inputs):
    row(name, "PyTorch", lambda: function(*inputs))
    torch.compiler.reset()
    quick = torch.compile(function, dynamic=False)
    row(name, "torch.compile", lambda: quick(*inputs))


def normal(*shape):
    return torch.randn(shape, device="cuda")


def softmax(x):
    return torch.softmax(x, dim=1)


def layer_norm(x, weight, bias):
    return F.layer_norm(x, x.shape[1:], weight, bias, 1e-5)


def rows():
    if wanted("copy_rows"):
        x = normal(ELEMENTS // 1024, 1024)
        row("copy_rows", "PyTorch", lambda: x.clone())
    for columns in SOFTMAX:
        if wanted(f"softmax_{columns}"):
            compiled(f"softmax_{columns}", softmax, normal(ELEMENTS // columns, columns))
    for columns in LAYER_NORM:
        if wanted(f"layer_norm_{columns}"):
            x = normal(ELEMENTS // columns, columns)
            compiled(f"layer_norm_{columns}", layer_norm, x, normal(columns), normal(columns))
    for count, classes in CROSS_ENTROPY:
        if wanted(f"cross_entropy_{classes}"):
            cross_entropy(f"cross_entropy_{classes}", count, classes)


def cross_entropy(name, count, classes):
    """The loss and the gradient, by autograd, whose backward is compiled too."""
    x = normal(count, classes).requires_grad_()
    labels = torch.randint(classes, (count,), device="cuda")
    row(name, "PyTorch", lambda: torch.autograd.grad(F.cross_entropy(x, labels), x))
    torch.compiler.reset()
    quick = torch.compile(F.cross_entropy, dynamic=False)
    row(name, "torch.compile", lambda: torch.autograd.grad(quick(x, labels), x))


def pictures():
    for name, dtype in (("u8", torch.uint8), ("f32", torch.float32)):
        if wanted(f"filter_{name}"):
            x = torch.randint(256, (1, 1, 16384, 16384), device="cuda", dtype=torch.uint8).to(dtype)
            row(f"filter_{name}_copy", "PyTorch", lambda: x.clone())
            if dtype == torch.float32:
                weights = normal(1, 1, 3, 3)
                row(f"filter_{name}", "PyTorch", lambda: F.conv2d(x, weights, padding=1))


def random(*shape):
    return torch.rand(shape, device="cuda").mul(2).sub(1).to(torch.bfloat16)


def by_backends(name, prepare, goes_on=False):
    """A row for each backend that does such work, which a first call tells; and without a pause for the fastest."""
    if not wanted(name):
        return
    times = []
    for backend in BACKENDS:
        with sdpa_kernel(backend):
            try:
                call = prepare()
                call()
            except RuntimeError:
                continue
            us = row(name, backend.name, call)
            if us is not None:
                times.append((us, backend.name, backend, call))
    if goes_on and times:
        _, who, backend, call = min(times, key=lambda each: each[0])
        with sdpa_kernel(backend):
            calls(call)
            print(f"{name}_continuously {calls(call):.1f} {who}", flush=True)


def attention():
    attend = F.scaled_dot_product_attention
    for shape, causal in FORWARD:
        q, k, v = (random(*shape) for _ in range(3))
        by_backends(named("attention", shape, causal), lambda: lambda: attend(q, k, v, is_causal=causal), True)
    q, k, v = random(64, 8, 1, 128), random(64, 8, 8192, 128), random(64, 8, 8192, 128)
    by_backends("decode_64x8192x8x128", lambda: lambda: attend(q, k, v))
    for shape, causal in GRADIENTS:
        operands = [random(*shape).requires_grad_() for _ in range(3)]
        grad = random(*shape)

        def prepare():
            out = attend(*operands, is_causal=causal)
            return lambda: torch.autograd.grad(out, operands, grad, retain_graph=True)

        by_backends(named("gradients", shape, causal), prepare)


def named(what, shape, causal):
    return f"{what}_{'x'.join(map(str, shape))}{'_causal' if causal else ''}"


class Training:
    """784-512-10, batches of 256, gradient descent with momentum."""

    def __init__(self, compile):
        torch.compiler.reset()
        self.x = torch.zeros((256, 784), device="cuda")
        self.labels = torch.zeros(256, device="cuda", dtype=torch.int64)
        self.network = torch.nn.Sequential(torch.nn.Linear(784, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).cuda()
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.05, momentum=0.9)
        self.loss_of = lambda x, labels: F.cross_entropy(self.network(x), labels)
        self.descend = self.optimizer.step
        if compile:
            self.loss_of = torch.compile(self.loss_of)
            self.descend = torch.compile(self.optimizer.step)

    def step(self):
        loss = self.loss_of(self.x, self.labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.descend()
        return loss.detach()

    def captured(self):
        """The step as a graph, which writes the same loss each time."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(5):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = self.step()

        def replay():
            graph.replay()
            return loss

        return replay


def train(name, who, training, step):
    images, labels = normal(14592, 784), torch.randint(10, (14592,), device="cuda")
    losses = torch.zeros(STEPS, device="cuda")

    def steps(count):
        for number in range(count):
            at = number % 57 * 256
            training.x.copy_(images[at : at + 256])
            training.labels.copy_(labels[at : at + 256])
            losses[number].copy_(step())

    steps(50)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    steps(STEPS)
    torch.cuda.synchronize()
    print(f"{name} {(time.perf_counter() - begin) / STEPS * 1e6:.1f} {who}", flush=True)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(STEPS):
        step()
    torch.cuda.synchronize()
    print(f"{name}_alone {(time.perf_counter() - begin) / STEPS * 1e6:.1f} {who}", flush=True)


def networks():
    if not wanted("train_mlp"):
        return

    for compile, who in ((False, "PyTorch"), (True, "torch.compile")):
        training = Training(compile)
        attempt(who, lambda: train("train_mlp", who, training, training.step))
        training = Training(compile)
        attempt(f"{who}, a graph", lambda: train("train_mlp", f"{who}, a graph", training, training.captured()))


def optimizers():
    """What comes ahead of steps: gradients that are clipped, and looked at for what is not finite, as graphs."""
    for name, lengths in GRADIENTS_OF:
        if not any(wanted(f"{what}_{name}") for what in ("clip_norm", "loss_scale")):
            continue
        parameters = [torch.nn.Parameter(torch.zeros(length, device="cuda")) for length in lengths]
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        gradients = [parameter.grad for parameter in parameters]
        found, inverse = torch.zeros(1, device="cuda"), torch.ones(1, device="cuda")

        def clip():
            return torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)

        def look():
            torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, inverse)

        for what, call in (("clip_norm", clip), ("loss_scale", look)):
            if wanted(f"{what}_{name}"):
                row(f"{what}_{name}", "PyTorch, a graph", recorded(call))


def recorded(call):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


networks()
rows()
pictures()
attention()
optimizers()

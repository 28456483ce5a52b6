# SPDX-License-Identifier: MIT OR Apache-2.0
"""The rows of expressions in PyTorch, as it is and compiled, and in kernels that CuPy makes of C++."""

import math
import sys
import time

import cupy as cp
import torch
import torch.nn.functional as F

from measure import bench, wanted

CENTRE, EPSILON = 0.5, 1e-5


def tanh_affine(x):
    return torch.tanh(x) * 2 + 1


def chain(x):
    y = (torch.exp(torch.sin(x) * 1.5 + 0.5) - 1).abs()
    return torch.tanh(torch.log(torch.sqrt(y + 1)) * 0.25 + x)


def mixed(x, y, z, mask):
    return torch.where(mask, x + y + z, x)


def squares(x):
    return (x - CENTRE).square()


def normal(*shape, dtype=torch.float32):
    return torch.randn(shape, device="cuda", dtype=dtype)


def vectors(count):
    return lambda n: [normal(n) for _ in range(count)]


def of_mixed(n):
    integers = torch.randint(-100, 101, (n,), device="cuda", dtype=torch.int32)
    return normal(n), normal(n, dtype=torch.float16), integers, torch.rand(n, device="cuda") < 0.5


def square_row_column(n):
    side = math.isqrt(n)
    return normal(side, side), normal(side), normal(side, 1)


def two_squares(n):
    side = math.isqrt(n)
    return normal(side, side), normal(side, side)


def lines(columns, weights):
    """About n elements in rows of so many, or in one where there are fewer, and rows of weights."""

    def make(n):
        length = min(columns, n)
        return normal(n // length, length), *(normal(length) for _ in range(weights))

    return make


def softmax(x):
    return torch.softmax(x, dim=1)


def layer_norm(x, scale, shift):
    return F.layer_norm(x, x.shape[1:], scale, shift, EPSILON)


def rms_norm(x, scale):
    return F.rms_norm(x, x.shape[1:], scale, EPSILON)


# For each row how its inputs are made, the first of which has its elements, and what is computed of them.
EXPRESSIONS = {
    "expr_tanh_affine": (vectors(1), tanh_affine),
    "expr_chain": (vectors(1), chain),
    "expr_tanh_affine_f16": (lambda n: [normal(n, dtype=torch.float16)], tanh_affine),
    "expr_tanh_affine_f16_fast": (lambda n: [normal(n, dtype=torch.float16)], tanh_affine),
    "expr_mixed": (of_mixed, mixed),
    "expr_rows": (square_row_column, lambda x, row, column: x * row + column),
    "expr_transposed": (two_squares, lambda x, y: x + y.t()),
    "expr_eight": (vectors(8), lambda a, b, c, d, e, f, g, h: a * b + c * d + e * f + g * h),
    "expr_sum_squares": (vectors(1), lambda x: squares(x).sum()),
    "expr_chain_sum": (vectors(1), lambda x: chain(x).sum()),
    "expr_dot": (vectors(2), lambda x, y: (x * y).sum()),
    "expr_variance": (vectors(1), lambda x: torch.var(x, correction=0)),
    "expr_mean_variance": (vectors(1), lambda x: torch.var_mean(x, correction=0)),
    **{f"expr_softmax_{columns}": (lines(columns, 0), softmax) for columns in (256, 1024, 4096, 32768)},
    **{f"expr_layer_norm_{columns}": (lines(columns, 2), layer_norm) for columns in (1024, 4096)},
    "expr_rms_norm_4096": (lines(4096, 1), rms_norm),
    "expr_sum_axis_0": (lambda n: two_squares(n)[:1], lambda x: squares(x).sum(dim=0)),
}
# What PyTorch has a call of its own for.
EAGER = {"expr_dot": torch.dot}


def with_torch(n):
    for name, inputs, dtype in inputs_of_rows(n):
        eager = EAGER.get(name, EXPRESSIONS[name][1])
        bench(name, "PyTorch", dtype, inputs[0].numel(), lambda: eager(*inputs))
        with_compile(name, dtype, inputs, "default", "torch.compile")


def with_tuned(n):
    """The kernels that torch.compile has chosen by trying many for each expression, which takes it up to 10 s."""
    for name, inputs, dtype in inputs_of_rows(n):
        with_compile(name, dtype, inputs, "max-autotune-no-cudagraphs", "torch.compile, tuned")


def inputs_of_rows(n):
    """The name, inputs and type of each row that is wanted."""
    for name, (make, _) in EXPRESSIONS.items():
        if wanted(name):
            yield name, make(n), "f16" if "_f16" in name else "f32"


def with_compile(name, dtype, inputs, mode, peer):
    # What was compiled for other sizes would count towards the recompilations that are allowed.
    torch.compiler.reset()
    compiled = torch.compile(EXPRESSIONS[name][1], dynamic=False, mode=mode)
    before = time.perf_counter()
    compiled(*inputs)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - before
    n = inputs[0].numel()
    print(f"{name} of {n}: torch.compile, {mode}: first call {seconds:.3f} s", file=sys.stderr, flush=True)
    bench(name, peer, dtype, n, lambda: compiled(*inputs))


# In C++, of inputs that are given names. CuPy replaces those in the text of a reduction, also within other names, as x in expf.
CHAIN = "tanhf(logf(sqrtf(fabsf(expf(sinf(value) * 1.5f + 0.5f) - 1.0f) + 1.0f)) * 0.25f + value)"
ELEMENTWISE = {
    "expr_tanh_affine": ("x", "tanhf(x) * 2.0f + 1.0f"),
    "expr_chain": ("value", CHAIN),
    "expr_rows": ("x row column", "x * row + column"),
    "expr_transposed": ("x y", "x + y"),
    "expr_eight": ("a b c d e f g h", "a * b + c * d + e * f + g * h"),
}
SUMS = {
    "expr_sum_squares": ("x", f"(x - {CENTRE}f) * (x - {CENTRE}f)"),
    "expr_chain_sum": ("value", CHAIN),
    "expr_dot": ("x y", "x * y"),
}


def parameters(names):
    return ", ".join(f"float32 {name}" for name in names.split())


def with_cupy(n):
    for name, (names, text) in ELEMENTWISE.items():
        if wanted(name):
            kernel = cp.ElementwiseKernel(parameters(names), "float32 out", f"out = {text}", name)
            inputs = arrays(name, n)
            out = cp.empty_like(inputs[0])
            bench(name, "CuPy", "f32", out.size, lambda: kernel(*inputs, out))
    for name, (names, text) in SUMS.items():
        if wanted(name):
            kernel = cp.ReductionKernel(parameters(names), "float32 out", text, "a + b", "out = a", "0", name)
            inputs = arrays(name, n)
            bench(name, "CuPy", "f32", n, lambda: kernel(*inputs))
    if wanted("expr_variance"):
        x = arrays("expr_variance", n)[0]
        bench("expr_variance", "CuPy", "f32", n, lambda: cp.var(x))


def arrays(name, n):
    """PyTorch's inputs of the row, which CuPy sees as they lie."""
    inputs = list(map(cp.asarray, EXPRESSIONS[name][0](n)))
    if name == "expr_transposed":
        inputs[1] = inputs[1].T
    return inputs

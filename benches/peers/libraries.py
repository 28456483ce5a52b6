# SPDX-License-Identifier: MIT OR Apache-2.0
"""The work of `warpsmith bench` in PyTorch and CuPy: python3 libraries.py [--only PART,...] [--tuned] N [N ...]

Prints a JSON object a line, one for each row and size: name, peer, dtype, n, ms_median, ms_min, repeats. Inputs are
random; outputs are preallocated where the library lets one. A call is timed between two events, 30 times after 3. As in
`warpsmith bench`, the 30 are queued behind fills of memory that keep the GPU busy for twice as long as that takes the
host, so that the times are without the host's launching (but for calls that wait for the GPU: CuPy's bincount). What fails
is said on the standard error and told by the status, and the other rows are measured.

`--only` is that of `warpsmith bench`: the rows whose names contain one of the parts. `--tuned`: expressions alone, by
torch.compile's mode max-autotune-no-cudagraphs, where its default is the mode otherwise. How long it takes them at first is
said on the standard error.
"""

import argparse
import math
import sys

import cupy as cp
import cupyx.scipy.ndimage as ndimage
import torch

import ampere
import expressions
import networks
from measure import attempt, bench, failed, parts, wanted


def with_torch(n):
    if wanted("copy", "add", "square", "tanh_affine", "reduce_sum", "reduce_max", "scan_inclusive_sum"):
        elementwise_and_sums(n)
    if wanted("reduce_sum_i32", "reduce_sum_u8", "scan_inclusive_sum_i32", "scan_inclusive_sum_u8", "reduce_sum_axis_0_u8"):
        integers_of_torch(n)
    if wanted("reduce_sum_axes_0_2", "transpose"):
        squares_of_torch(n)
    if wanted("sort", "argsort"):
        # PyTorch finds the places in any case.
        x = torch.rand(n, device="cuda")
        bench("sort", "PyTorch", "f32", n, lambda: torch.sort(x))
        bench("argsort", "PyTorch", "f32", n, lambda: torch.argsort(x, stable=True))
    if math.isqrt(n) <= 8192:
        products(math.isqrt(n))


def elementwise_and_sums(n):
    x, y, out = (torch.rand(n, device="cuda") for _ in range(3))
    bench("copy", "PyTorch", "f32", n, lambda: out.copy_(x))
    bench("add", "PyTorch", "f32", n, lambda: torch.add(x, y, out=out))
    bench("square", "PyTorch", "f32", n, lambda: torch.mul(x, x, out=out))

    def tanh_affine(x):
        return torch.tanh(x) * 2 + 1

    bench("tanh_affine", "PyTorch", "f32", n, lambda: tanh_affine(x))
    compiled = torch.compile(tanh_affine, dynamic=False)
    bench("tanh_affine", "torch.compile", "f32", n, lambda: compiled(x))
    total = torch.empty((), device="cuda")
    bench("reduce_sum", "PyTorch", "f32", n, lambda: torch.sum(x, dim=0, out=total))
    bench("reduce_max", "PyTorch", "f32", n, lambda: torch.amax(x, dim=0, out=total))
    bench("scan_inclusive_sum", "PyTorch", "f32", n, lambda: torch.cumsum(x, dim=0, out=out))


def integers_of_torch(n):
    """Of integers in 64 bits; PyTorch has hardly any operation on u16."""
    side = math.isqrt(n)
    for dtype, name in ((torch.int32, "i32"), (torch.uint8, "u8")):
        integers = torch.randint(0, 256, (n,), device="cuda", dtype=dtype)
        total, sums = (torch.empty(shape, device="cuda", dtype=torch.int64) for shape in ((), (n,)))
        bench(f"reduce_sum_{name}", "PyTorch", name, n, lambda: torch.sum(integers, dim=0, out=total))
        bench(f"scan_inclusive_sum_{name}", "PyTorch", name, n, lambda: torch.cumsum(integers, dim=0, out=sums))
    square = integers[: side * side].view(side, side)
    column_sums = torch.empty(side, device="cuda", dtype=torch.int64)
    bench("reduce_sum_axis_0_u8", "PyTorch", "u8", side * side, lambda: torch.sum(square, dim=0, out=column_sums))


def squares_of_torch(n):
    x, out = (torch.rand(n, device="cuda") for _ in range(2))
    outer = math.isqrt(n // 64)
    cube = x[: outer * 64 * outer].view(outer, 64, outer)
    middle_sums = torch.empty(64, device="cuda")
    bench("reduce_sum_axes_0_2", "PyTorch", "f32", cube.numel(), lambda: torch.sum(cube, dim=(0, 2), out=middle_sums))
    side = math.isqrt(n)
    a, c = (t[: side * side].view(side, side) for t in (x, out))
    bench("transpose", "PyTorch", "f32", side * side, lambda: c.copy_(a.t()))


def products(side):
    """Of normal numbers, accumulated in f32: tensor cores for f32 as TF32 alone, no sum of a part of k in 16 bits.

    The rows that have our kernels for Ampere run on this GPU are held against the fastest of cuBLASLt's kernels for it.
    """
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    halves = ((torch.float16, "f16"), (torch.bfloat16, "bf16"))
    for dtype, name in ((torch.float32, "f32"), *halves, (torch.float32, "tf32")):
        names = (f"matmul_{name}",) if name == "f32" else (f"matmul_{name}", f"matmul_{name}_ampere")
        others = (f"matvec_{name}", f"matmul_{name}_bias_gelu") if name in ("f32", "bf16") else ()
        if not wanted(*names, *others):
            continue
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        a, b, out = (torch.randn((side, side), device="cuda", dtype=dtype) for _ in range(3))
        bench(names[0], "PyTorch", name, side * side, lambda: torch.mm(a, b, out=out))
        for row in names[1:]:
            before_hopper = ampere.fastest(name, a, b, out) if wanted(row) else None
            if before_hopper is not None:
                bench(row, "cuBLASLt for 8.0", name, side * side, before_hopper)
        if others:
            x, y = torch.randn(side, device="cuda", dtype=dtype), torch.empty(side, device="cuda", dtype=dtype)
            bench(f"matvec_{name}", "PyTorch", name, side * side, lambda: torch.mv(a, x, out=y))
            # With cuBLASLt's epilogue of a bias and GELU by tanh.
            bias = torch.randn(side, device="cuda", dtype=dtype)
            fused = lambda: torch._addmm_activation(bias, a, b, use_gelu=True, out=out)
            bench(f"matmul_{name}_bias_gelu", "PyTorch", name, side * side, fused)
    if wanted("matmul_grouped_bf16"):
        products_of_groups(side)
    if side % 16 == 0 and side > 16 and wanted("matmul_fp8", "matmul_fp8_fast", "matmul_int8"):
        products_of_bytes(side)


def products_of_groups(side):
    """Tokens sorted by expert, of which one has the more the higher its number is: the larger of two random ones."""
    k, columns, experts = min(side, 2048), min(side, 1408), max(min(side // 8, 64), 1)
    if not hasattr(torch, "_grouped_mm") or k % 8 or columns % 8:
        return
    tokens = side * side // k
    counts = torch.randint(experts, (2, tokens), device="cuda").amax(dim=0).bincount(minlength=experts)
    ends = counts.cumsum(0).to(torch.int32)
    x = torch.randn((tokens, k), device="cuda", dtype=torch.bfloat16)
    weights = torch.randn((experts, k, columns), device="cuda", dtype=torch.bfloat16)
    bench("matmul_grouped_bf16", "PyTorch", "bf16", tokens * k, lambda: torch._grouped_mm(x, weights, offs=ends))


def products_of_bytes(side):
    """With the right operand by columns, as cuBLASLt takes 8-bit floats; their sums rounded to bf16."""
    a, b = (torch.randn((side, side), device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    one, out = torch.ones((), device="cuda"), torch.empty((side, side), device="cuda", dtype=torch.bfloat16)
    for row, fast in (("matmul_fp8", False), ("matmul_fp8_fast", True)):
        multiply = lambda: torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=fast, out=out)
        bench(row, "PyTorch", "e4m3", side * side, multiply)
    a, b = (torch.randint(-128, 128, (side, side), device="cuda", dtype=torch.int8) for _ in range(2))
    out = torch.empty((side, side), device="cuda", dtype=torch.int32)
    bench("matmul_int8", "PyTorch", "i8", side * side, lambda: torch._int_mm(a, b.t(), out=out))


def with_cupy(n):
    if wanted("add", "square", "tanh_affine", "reduce_sum", "scan_inclusive_sum", "transpose"):
        elements_of_cupy(n)
    if wanted("sort", "argsort"):
        x = cp.random.rand(n, dtype=cp.float32)
        bench("sort", "CuPy", "f32", n, lambda: cp.sort(x))
        bench("argsort", "CuPy", "f32", n, lambda: cp.argsort(x))
    for dtype, name in ((cp.int32, "i32"), (cp.uint8, "u8"), (cp.uint16, "u16")):
        if wanted(f"reduce_sum_{name}", f"scan_inclusive_sum_{name}", f"reduce_sum_axis_0_{name}"):
            integers_of_cupy(n, dtype, name)
    if wanted("blur3x3", "blur_gaussian", "histogram_u8", "histogram_u8_equal"):
        pictures_of_cupy(n)


def elements_of_cupy(n):
    x, y = cp.random.rand(n, dtype=cp.float32), cp.random.rand(n, dtype=cp.float32)
    out = cp.empty_like(x)
    bench("add", "CuPy", "f32", n, lambda: cp.add(x, y, out=out))
    bench("square", "CuPy", "f32", n, lambda: cp.multiply(x, x, out=out))
    fused = cp.ElementwiseKernel("float32 x", "float32 y", "y = tanhf(x) * 2.0f + 1.0f", "tanh_affine")
    bench("tanh_affine", "CuPy", "f32", n, lambda: fused(x, out))
    bench("reduce_sum", "CuPy", "f32", n, lambda: cp.sum(x))
    bench("scan_inclusive_sum", "CuPy", "f32", n, lambda: cp.cumsum(x, out=out))
    side = math.isqrt(n)
    a, c = x[: side * side].reshape(side, side), out[: side * side].reshape(side, side)
    bench("transpose", "CuPy", "f32", side * side, lambda: cp.copyto(c, a.T))


def integers_of_cupy(n, dtype, name):
    integers = cp.random.randint(0, 256, n, dtype=dtype)
    bench(f"reduce_sum_{name}", "CuPy", name, n, lambda: cp.sum(integers))
    if name == "u16":
        return
    sums = cp.empty(n, dtype=cp.int64 if name == "i32" else cp.uint64)
    bench(f"scan_inclusive_sum_{name}", "CuPy", name, n, lambda: cp.cumsum(integers, dtype=sums.dtype, out=sums))
    if name == "u8":
        side = math.isqrt(n)
        square = integers[: side * side].reshape(side, side)
        bench("reduce_sum_axis_0_u8", "CuPy", "u8", side * side, lambda: cp.sum(square, axis=0))


def pictures_of_cupy(n):
    side = math.isqrt(n)
    picture = cp.random.randint(0, 256, (side, side), dtype=cp.uint8)
    blurred = cp.empty_like(picture)
    bench("blur3x3", "CuPy", "u8", side * side, lambda: ndimage.uniform_filter(picture, 3, output=blurred))
    bench("blur_gaussian", "CuPy", "u8", side * side, lambda: ndimage.gaussian_filter(picture, 2, output=blurred))
    for name, values in (("histogram_u8", picture.ravel()), ("histogram_u8_equal", cp.full(n, 42, dtype=cp.uint8))):
        bench(name, "CuPy", "u8", values.size, lambda: cp.bincount(values, minlength=256))


parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
parser.add_argument("sizes", nargs="+", type=int, metavar="N", help="elements")
parser.add_argument("--only", type=lambda text: text.split(","), default=[], metavar="PART,...", help="parts of rows' names")
parser.add_argument("--tuned", action="store_true", help="torch.compile's tuned kernels alone")
args = parser.parse_args()
parts += args.only
works = (with_torch, with_cupy, expressions.with_torch, expressions.with_cupy, networks.with_torch)
stream = torch.cuda.Stream()
with torch.cuda.stream(stream), cp.cuda.ExternalStream(stream.cuda_stream):
    for n in args.sizes:
        for work in (expressions.with_tuned,) if args.tuned else works:
            # Where arrays have no room, say: the rows of one module are lost, not those of the others.
            attempt(f"{work.__module__}.{work.__name__} of {n}", lambda: work(n))
            torch.cuda.empty_cache()
            cp.get_default_memory_pool().free_all_blocks()
if failed:
    sys.exit(f"failed: {', '.join(failed)}")

# SPDX-License-Identifier: MIT OR Apache-2.0
"""cuBLASLt's kernels for GPUs before Hopper, on whatever GPU this is: what products by `mma.sync` are held against.

On Hopper cuBLASLt takes none of them by itself. But an algorithm can be asked for by its number, its tile and its
stages, and the kernel that it is has a name, which a CUDA graph of the call tells.
"""

import ctypes
import math
import os
import statistics
import sys
from dataclasses import dataclass, replace

import torch

# What of cublasLt.h is used here.
TRANSPOSE_A, TRANSPOSE_B = 3, 4
TILE, SPLIT_K, REDUCTION, SWIZZLE, STAGES = 1, 2, 3, 4, 6
TILES, CAN_SPLIT, REDUCTIONS, CAN_SWIZZLE, STAGE_KINDS = 6, 0, 1, 2, 13
WORKSPACE = 32 << 20
# How sums are computed and scaled, and the types of operands and result.
TYPES = {
    "f16": (68, 0, 2, 2),
    "bf16": (68, 0, 14, 14),
    "tf32": (77, 0, 0, 0),
    "i8": (72, 10, 3, 10),
}
# Parts of the names of Hopper's and later GPUs' kernels.
LATER = ("sm90", "sm100", "nvjet", "gmma")
# Times the fastest of a first look from which a kernel is not looked at again.
WORTH_ANOTHER_LOOK = 1.2


class Algorithm(ctypes.Structure):
    _fields_ = [("data", ctypes.c_uint64 * 8)]


class Checked(ctypes.Structure):
    _fields_ = [
        ("algorithm", Algorithm),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    ]


class KernelNode(ctypes.Structure):
    _fields_ = [
        ("function", ctypes.c_void_p),
        ("launch", ctypes.c_uint * 7),
        ("parameters", ctypes.c_void_p * 2),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    ]


@dataclass(frozen=True)
class Choice:
    """An algorithm's number, and what of it can be chosen; 0 is its own choice."""

    number: int
    tile: int = 0
    stages: int = 0
    parts: int = 0
    reduction: int = 0
    swizzle: int = 0


def loaded_library():
    """cuBLASLt as PyTorch has it."""
    one = torch.ones((16, 16), device="cuda", dtype=torch.bfloat16)
    torch.mm(one, one)
    with open(f"/proc/{os.getpid()}/maps", encoding="utf-8") as maps:
        return ctypes.CDLL(next(line.split()[-1] for line in maps if "libcublasLt" in line))


def succeeds(what, status):
    if status != 0:
        raise RuntimeError(f"{what}: status {status}")


class Product:
    """Products of square matrices in C order by kernels of one's choice: to cuBLASLt, which has columns, `C' = B' A'`."""

    def __init__(self, dtype, side, a, b, out, b_by_columns=False):
        self.lt, self.driver = loaded_library(), ctypes.CDLL("libcuda.so.1")
        self.types, self.operands = TYPES[dtype], (b, a, out)
        compute, scale, of_operands, of_result = self.types
        self.handle, self.description = ctypes.c_void_p(), ctypes.c_void_p()
        succeeds("cublasLtCreate", self.lt.cublasLtCreate(ctypes.byref(self.handle)))
        made = self.lt.cublasLtMatmulDescCreate(ctypes.byref(self.description), compute, scale)
        succeeds("cublasLtMatmulDescCreate", made)
        transposed = ctypes.c_int32(b_by_columns)
        described = self.lt.cublasLtMatmulDescSetAttribute(
            self.description, TRANSPOSE_A, ctypes.byref(transposed), ctypes.c_size_t(4)
        )
        succeeds("cublasLtMatmulDescSetAttribute", described)
        self.layouts = [self.layout(of, side) for of in (of_operands, of_operands, of_result)]
        number = ctypes.c_int32 if dtype == "i8" else ctypes.c_float
        self.one, self.zero = number(1), number(0)
        self.workspace = torch.empty(WORKSPACE, dtype=torch.uint8, device="cuda")

    def layout(self, of, side):
        layout = ctypes.c_void_p()
        made = self.lt.cublasLtMatrixLayoutCreate(
            ctypes.byref(layout), of, ctypes.c_uint64(side), ctypes.c_uint64(side), ctypes.c_int64(side)
        )
        succeeds("cublasLtMatrixLayoutCreate", made)
        return layout

    def numbers(self):
        compute, scale, of_operands, of_result = self.types
        numbers, count = (ctypes.c_int * 500)(), ctypes.c_int()
        of = (of_operands, of_operands, of_result, of_result)
        got = self.lt.cublasLtMatmulAlgoGetIds(self.handle, compute, scale, *of, 500, numbers, ctypes.byref(count))
        succeeds("cublasLtMatmulAlgoGetIds", got)
        return list(numbers)[: count.value]

    def algorithm(self, choice):
        """The algorithm, if there is one for this product."""
        compute, scale, of_operands, of_result = self.types
        algorithm, checked = Algorithm(), Checked()
        of = (of_operands, of_operands, of_result, of_result)
        if self.lt.cublasLtMatmulAlgoInit(
            self.handle, compute, scale, *of, choice.number, ctypes.byref(algorithm)
        ):
            return None
        chosen = (
            (TILE, choice.tile),
            (STAGES, choice.stages),
            (SPLIT_K, choice.parts),
            (REDUCTION, choice.reduction),
            (SWIZZLE, choice.swizzle),
        )
        for what, value in chosen:
            word = ctypes.c_uint32(value)
            if value and self.lt.cublasLtMatmulAlgoConfigSetAttribute(
                ctypes.byref(algorithm), what, ctypes.byref(word), ctypes.c_size_t(4)
            ):
                return None
        b, a, c = self.layouts
        status = self.lt.cublasLtMatmulAlgoCheck(
            self.handle, self.description, b, a, c, c, ctypes.byref(algorithm), ctypes.byref(checked)
        )
        fits = status == 0 and checked.state == 0 and checked.workspace <= WORKSPACE
        return algorithm if fits else None

    def capabilities(self, number, what, count):
        """What the algorithm of that number can do: up to so many words."""
        algorithm, words, written = Algorithm(), (ctypes.c_uint32 * count)(), ctypes.c_size_t()
        compute, scale, of_operands, of_result = self.types
        of = (of_operands, of_operands, of_result, of_result)
        self.lt.cublasLtMatmulAlgoInit(self.handle, compute, scale, *of, number, ctypes.byref(algorithm))
        status = self.lt.cublasLtMatmulAlgoCapGetAttribute(
            ctypes.byref(algorithm), what, words, ctypes.c_size_t(4 * count), ctypes.byref(written)
        )
        return list(words)[: written.value // 4] if status == 0 else []

    def multiply(self, algorithm, stream=None):
        stream = torch.cuda.current_stream() if stream is None else stream
        b, a, c = (ctypes.c_void_p(of.data_ptr()) for of in self.operands)
        of_b, of_a, of_c = self.layouts
        return self.lt.cublasLtMatmul(
            self.handle,
            self.description,
            ctypes.byref(self.one),
            *(b, of_b, a, of_a),
            ctypes.byref(self.zero),
            *(c, of_c, c, of_c),
            ctypes.byref(algorithm),
            ctypes.c_void_p(self.workspace.data_ptr()),
            ctypes.c_size_t(WORKSPACE),
            ctypes.c_void_p(stream.cuda_stream),
        )

    def kernels(self, algorithm):
        """The names of the kernels that the algorithm launches; none, if it cannot be captured."""
        driver, stream, graph = self.driver, torch.cuda.Stream(), ctypes.c_void_p()
        relaxed = 2
        succeeds("begin", driver.cuStreamBeginCapture_v2(ctypes.c_void_p(stream.cuda_stream), relaxed))
        status = self.multiply(algorithm, stream)
        ended = driver.cuStreamEndCapture(ctypes.c_void_p(stream.cuda_stream), ctypes.byref(graph))
        if status or ended:
            return []
        count = ctypes.c_size_t()
        succeeds("count", driver.cuGraphGetNodes(graph, None, ctypes.byref(count)))
        nodes = (ctypes.c_void_p * count.value)()
        succeeds("nodes", driver.cuGraphGetNodes(graph, nodes, ctypes.byref(count)))
        names = []
        for node in nodes:
            kind, of, name = ctypes.c_int(), KernelNode(), ctypes.c_char_p()
            driver.cuGraphNodeGetType(ctypes.c_void_p(node), ctypes.byref(kind))
            if kind.value != 0:
                continue
            got = driver.cuGraphKernelNodeGetParams_v2(ctypes.c_void_p(node), ctypes.byref(of))
            succeeds("a kernel's parameters", got)
            if of.function is None or driver.cuFuncGetName(ctypes.byref(name), ctypes.c_void_p(of.function)):
                driver.cuKernelGetName(ctypes.byref(name), ctypes.c_void_p(of.kernel))
            names.append((name.value or b"").decode())
        driver.cuGraphDestroy(graph)
        return names

    def choices(self):
        """Those whose kernels are not of later GPUs."""
        for number in self.numbers():
            tiles = self.capabilities(number, TILES, 1024) or [0]
            stages = self.capabilities(number, STAGE_KINDS, 64) or [0]
            later = 0
            for choice in (Choice(number, tile, stage) for tile in tiles for stage in stages):
                algorithm = self.algorithm(choice)
                if algorithm is None:
                    continue
                names = self.kernels(algorithm)
                if any(part in name for name in names for part in LATER):
                    # Algorithms of later GPUs have hundreds of tiles.
                    later += 1
                    if later == 4:
                        break
                elif names:
                    yield choice

    def variants(self, choice):
        """The same with k in parts, and with blocks in another order."""
        number = choice.number
        if self.capabilities(number, CAN_SWIZZLE, 1) not in ([], [0]):
            yield replace(choice, swizzle=1)
        if self.capabilities(number, CAN_SPLIT, 1) in ([], [0]):
            return
        schemes = (self.capabilities(number, REDUCTIONS, 1) or [0])[0]
        for reduction in (1, 2):
            if schemes & reduction:
                yield from (replace(choice, parts=parts, reduction=reduction) for parts in (2, 3, 4))

    def first_look(self, choice):
        """Milliseconds, in a graph of several launches; none, if it cannot be launched."""
        algorithm = self.algorithm(choice)
        if algorithm is None or self.multiply(algorithm):
            return math.inf
        launches = 1 if self.operands[0].shape[0] > 2048 else 10
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(launches):
                succeeds("cublasLtMatmul", self.multiply(algorithm))
        times = []
        for _ in range(4):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end) / launches)
        return statistics.median(times[1:])

    def fastest(self):
        """The fastest of them all, if there is any."""
        times = {choice: self.first_look(choice) for choice in self.choices()}
        if not times:
            return None
        least = min(times.values())
        good = [choice for choice, time in times.items() if time < WORTH_ANOTHER_LOOK * least]
        times |= {variant: self.first_look(variant) for choice in good for variant in self.variants(choice)}
        return self.algorithm(min(times, key=times.__getitem__))


def fastest(dtype, a, b, out, b_by_columns=False):
    """A call of the fastest of the kernels for a product of square matrices, whose name is said on the standard error; none,
    if there is no kernel for them."""
    product = Product(dtype, a.shape[0], a, b, out, b_by_columns)
    algorithm = product.fastest()
    if algorithm is None:
        return None
    print(f"{dtype} {a.shape[0]}: {' '.join(product.kernels(algorithm))}", file=sys.stderr, flush=True)
    return lambda: succeeds("cublasLtMatmul", product.multiply(algorithm))

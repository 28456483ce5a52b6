# SPDX-License-Identifier: MIT OR Apache-2.0
"""PyTorch's attention by its fastest backend, for the shapes of `cargo bench --bench kernels -- attention`: python3 attention.py

Prints a line for each shape: TFLOP/s by the median of 30 calls, of 4 d operations for each pair of a query and a key that it sees.
"""

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from measure import measure

BACKENDS = (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION)


def best(q, k, v, causal):
    """The least median milliseconds of the backends that take these operands, and which it is of."""
    times = []
    for backend in BACKENDS:
        def call():
            with sdpa_kernel(backend):
                torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

        try:
            times.append((measure("attention", "PyTorch", "", q.numel(), call)["ms_median"], backend.name))
        except RuntimeError:
            continue
    return min(times)


for dtype, dim in ((torch.bfloat16, 64), (torch.bfloat16, 128), (torch.float16, 128), (torch.float32, 64)):
    for batch, heads, positions in ((4, 16, 4096), (1, 16, 16384)):
        q, k, v = (torch.rand((batch, heads, positions, dim), device="cuda").mul(2).sub(1).to(dtype) for _ in range(3))
        for causal in (False, True):
            ms, backend = best(q, k, v, causal)
            pairs = positions * (positions + 1) // 2 if causal else positions * positions
            tflops = 4 * batch * heads * dim * pairs / ms / 1e9
            print(f"{dtype} d {dim} {batch}x{heads}x{positions} causal {causal}: {ms:.3f} ms, {tflops:.0f} TFLOP/s, {backend}")

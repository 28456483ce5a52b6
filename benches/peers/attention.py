# SPDX-License-Identifier: MIT OR Apache-2.0
"""PyTorch's attention by its fastest backend, for the shapes of `cargo bench --bench kernels -- attention`: python3 attention.py

Prints a line for each shape: TFLOP/s by the median of 30 calls, of 4 d operations for each pair of a query and a key that it sees, and
of 10 d for the gradients alone; and for one query of each of 64 sequences the bytes of keys and values a second.
"""

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from measure import measure

BACKENDS = (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION)


def best(calls):
    """The least median milliseconds of the calls, one for each backend, that work, and which it is of."""
    times = []
    for backend, call in calls:
        try:
            with sdpa_kernel(backend):
                times.append((measure("attention", "PyTorch", "", 1, call)["ms_median"], backend.name))
        except RuntimeError:
            continue
    return min(times)


def forward(q, k, v, **options):
    """A call for each backend."""

    def call():
        torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)

    return [(backend, call) for backend in BACKENDS]


def gradients(q, k, v, of_bias=False, **options):
    """A call of the gradients alone for each backend, whose results they take; with that of the bias, or without."""
    wanted = [x.detach().requires_grad_() for x in (q, k, v)]
    if of_bias:
        wanted.append(options["attn_mask"].detach().requires_grad_())
        options = {**options, "attn_mask": wanted[3]}
    for backend in BACKENDS:
        try:
            with sdpa_kernel(backend):
                out = torch.nn.functional.scaled_dot_product_attention(*wanted[:3], **options)
        except RuntimeError:
            continue
        yield backend, lambda out=out: torch.autograd.grad(out, wanted, q, retain_graph=True)


LONG = ((4, 16, 4096), (1, 16, 16384))
SHORT = ((2, 8, 2048),)
KINDS = ((torch.bfloat16, 64, LONG), (torch.bfloat16, 128, LONG), (torch.float16, 128, LONG))
for dtype, dim, shapes in KINDS + tuple((torch.float32, dim, SHORT) for dim in (64, 128, 256)):
    for batch, heads, positions in shapes:
        q, k, v = (torch.rand((batch, heads, positions, dim), device="cuda").mul(2).sub(1).to(dtype) for _ in range(3))
        for causal in (False, True):
            pairs = positions * (positions + 1) // 2 if causal else positions * positions
            of = ((4, "", forward(q, k, v, is_causal=causal)), (10, "gradients ", gradients(q, k, v, is_causal=causal)))
            for operations, what, calls in of:
                ms, backend = best(calls)
                tflops = operations * batch * heads * dim * pairs / ms / 1e9
                shape = f"{dtype} d {dim} {batch}x{heads}x{positions} causal {causal}"
                print(f"{what}{shape}: {ms:.3f} ms, {tflops:.0f} TFLOP/s, {backend}")

for dim in (64, 128):
    batch, heads, positions = 4, 16, 4096
    q, k, v = (torch.rand((batch, heads, positions, dim), device="cuda").to(torch.bfloat16) for _ in range(3))
    place = torch.arange(positions, device="cuda")
    mask = torch.where(place < positions // 2, 0.0, float("-inf")).to(torch.bfloat16).expand(1, 1, positions, positions)
    lengths = torch.tensor([positions, positions * 3 // 4, positions // 2, positions // 4], device="cuda")
    seen = (place < lengths[:, None])[:, None, None, :]
    for form, given, pairs in (
        ("bias", mask.contiguous(), batch * positions),
        ("lengths", seen, int(lengths.sum())),
    ):
        ms, backend = best(forward(q, k, v, attn_mask=given))
        tflops = 4 * heads * dim * positions * pairs / ms / 1e9
        print(f"d {dim} {form} {batch}x{heads}x{positions}: {ms:.3f} ms, {tflops:.0f} TFLOP/s, {backend}")
    bias = torch.rand((1, 1, positions, positions), device="cuda").mul(2).sub(1).to(torch.bfloat16)
    for of_bias, what in ((False, "gradients"), (True, "gradients, with the bias's")):
        ms, backend = best(gradients(q, k, v, of_bias, attn_mask=bias))
        tflops = 10 * batch * heads * dim * positions**2 / ms / 1e9
        print(f"{what} d {dim} bias {batch}x{heads}x{positions}: {ms:.3f} ms, {tflops:.0f} TFLOP/s, {backend}")
    of = [torch.rand((positions // 4, heads, dim), device="cuda").to(torch.bfloat16) for _ in range(16)]
    packed = torch.nested.nested_tensor(of, layout=torch.jagged).transpose(1, 2)
    ms, backend = best(forward(packed, packed, packed))
    print(f"d {dim} packed 1x{heads}x16x{positions // 4}: {ms:.3f} ms, {4 * heads * dim * positions**2 / ms / 1e9:.0f} TFLOP/s, {backend}")

for sharing in (1, 4, 8):
    q = torch.rand((64, 8 * sharing, 1, 128), device="cuda").to(torch.bfloat16)
    k, v = (torch.rand((64, 8, 8192, 128), device="cuda").to(torch.bfloat16) for _ in range(2))
    ms, backend = best(forward(q, k, v, enable_gqa=sharing > 1))
    gigabytes = 2 * k.numel() * 2 / ms / 1e6
    print(f"decode 64x{8 * sharing}x8x8192: {ms:.3f} ms, {gigabytes:.0f} GB/s, {backend}")

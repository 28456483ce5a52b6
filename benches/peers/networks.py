# SPDX-License-Identifier: MIT OR Apache-2.0
"""What networks are made of, in PyTorch: the rows of pooling, top_k, embeddings and attention of `warpsmith bench`."""

import math

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from measure import bench, wanted

BACKENDS = {
    "cuDNN": SDPBackend.CUDNN_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}


def with_torch(n):
    if n < 2048:
        return
    if wanted("max_pool", "max_pool_gradient", "average_pool"):
        pools(n)
    if wanted("top_k"):
        x = torch.rand((n // 4096, 4096), device="cuda") if n >= 4096 else torch.rand((1, n), device="cuda")
        bench("top_k", "PyTorch", "f32", x.numel(), lambda: torch.topk(x, 32, dim=1))
    if wanted("embedding_gradient", "embedding_gradient_in_order"):
        embeddings(n)
    forms = ("", "_causal", "_window", "_bias", "_packed", "_decode", "_gradients", "_gradients_bias", "_bias_gradient")
    if wanted(*(f"attention{form}" for form in forms)):
        attentions(n)


def pools(n):
    """Of a picture whose channels lie side by side, as ours."""
    side = math.isqrt(n // 64)
    x = torch.rand((1, 64, side, side), device="cuda").contiguous(memory_format=torch.channels_last)
    bench("max_pool", "PyTorch", "f32", x.numel(), lambda: functional.max_pool2d(x, 2))
    bench("average_pool", "PyTorch", "f32", x.numel(), lambda: functional.avg_pool2d(x, 2))
    x.requires_grad_()
    out = functional.max_pool2d(x, 2)
    grad = torch.rand_like(out)
    backward = lambda: torch.autograd.grad(out, x, grad, retain_graph=True)
    bench("max_pool_gradient", "PyTorch", "f32", x.numel(), backward)


def embeddings(n):
    """Added to a table, in any order; and a table of its own, by sorted words, which are added up in one order."""
    count, words = n // 1024, min(n // 16, 50_000)
    indices = torch.randint(words, (2, count), device="cuda").amin(dim=0)
    incoming = torch.rand((count, 1024), device="cuda")
    table = torch.zeros((words, 1024), device="cuda")
    bench("embedding_gradient", "PyTorch", "f32", count * 1024, lambda: table.index_add_(0, indices, incoming))
    backward = lambda: torch.ops.aten.embedding_dense_backward(incoming, indices, words, -1, False)
    bench("embedding_gradient_in_order", "PyTorch", "f32", count * 1024, backward)


def by_each(name, n, prepare):
    """A row for each backend that does such work, which a first call tells; `prepare` makes the call, by that backend."""
    if not wanted(name):
        return
    for backend, kind in BACKENDS.items():
        with sdpa_kernel(kind):
            try:
                call = prepare()
                call()
            except RuntimeError:
                continue
            bench(name, f"PyTorch {backend}", "bf16", n, call)


def random(*shape):
    return torch.rand(shape, device="cuda").mul(2).sub(1).to(torch.bfloat16)


def attentions(n):
    heads, dim = 16, 128
    places = n // dim // heads
    positions = min(places, 4096)
    shape = (places // positions, heads, positions, dim)
    n = math.prod(shape)
    q, k, v, grad = (random(*shape) for _ in range(4))
    bias = random(1, 1, positions, positions)
    attention = functional.scaled_dot_product_attention
    by_each("attention", n, lambda: lambda: attention(q, k, v))
    by_each("attention_causal", n, lambda: lambda: attention(q, k, v, is_causal=True))
    by_each("attention_bias", n, lambda: lambda: attention(q, k, v, attn_mask=bias))

    def gradients(of_bias, mask):
        of = [x.detach().requires_grad_() for x in (q, k, v)]
        mask = mask if mask is None else mask.detach().requires_grad_(of_bias)
        out = attention(*of, attn_mask=mask)
        by = (mask,) if of_bias else of
        return lambda: torch.autograd.grad(out, by, grad, retain_graph=True)

    by_each("attention_gradients", n, lambda: gradients(False, None))
    by_each("attention_gradients_bias", n, lambda: gradients(False, bias))
    by_each("attention_bias_gradient", n, lambda: gradients(True, bias))
    if wanted("attention_window"):
        # Flash-attention's own: there is no window in what PyTorch documents. Heads lie behind positions.
        x, y, z = (t.transpose(1, 2).contiguous() for t in (q, k, v))
        window = dict(window_size_left=128, window_size_right=0)
        flash = torch.ops.aten._flash_attention_forward
        call = lambda: flash(x, y, z, None, None, positions, positions, 0.0, True, False, **window)
        bench("attention_window", "flash-attention", "bf16", n, call)
    del q, k, v, grad, bias
    if wanted("attention_packed") and places % 1024 == 0:
        of = [random(1024, heads, dim) for _ in range(places // 1024)]
        packed = torch.nested.nested_tensor(of, layout=torch.jagged).transpose(1, 2)
        by_each("attention_packed", n, lambda: lambda: attention(packed, packed, packed))
    if wanted("attention_decode"):
        key_heads = 8
        places = n // dim // key_heads
        positions = min(places, 8192)
        batch = places // positions
        k, v = (random(batch, key_heads, positions, dim) for _ in range(2))
        q = random(batch, 4 * key_heads, 1, dim)
        by_each("attention_decode", k.numel(), lambda: lambda: attention(q, k, v, enable_gqa=True))

# SPDX-License-Identifier: MIT OR Apache-2.0
"""cuDNN's convolutions by PyTorch, for the layers of `cargo bench --bench kernels -- convolve`: python3 convolve.py

Channels lie last, and cuDNN measures which of its kernels is fastest. Prints a line for each layer and direction: TFLOP/s by the
median of 30 calls, of two operations for each output, tap and channel.
"""

import torch

from measure import measure

torch.backends.cudnn.benchmark = True
torch.backends.cudnn.allow_tf32 = False

LAYERS = (
    (64, 56, 128, 128, 3, 1, 1),
    (64, 56, 64, 64, 3, 1, 1),
    (64, 14, 512, 512, 3, 1, 1),
    (64, 56, 128, 128, 3, 2, 1),
    (64, 56, 128, 128, 3, 1, 128),
)


def random(dtype, *shape):
    numbers = torch.rand(shape, device="cuda").mul(2).sub(1).to(dtype)
    return numbers.to(memory_format=torch.channels_last)


def gradients(out, x, weights, stride, padding, groups, wanted):
    torch.ops.aten.convolution_backward(
        out, x, weights, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], groups, wanted
    )


for dtype in (torch.bfloat16, torch.float32):
    for images, edge, channels, outputs, taps, stride, groups in LAYERS:
        x = random(dtype, images, channels, edge, edge)
        weights = random(dtype, outputs, channels // groups, taps, taps)
        settings = dict(stride=stride, padding=taps // 2, groups=groups)
        result = torch.nn.functional.conv2d(x, weights, **settings)
        out = random(dtype, *result.shape)
        calls = {
            "forward": lambda: torch.nn.functional.conv2d(x, weights, **settings),
            "input_gradient": lambda: gradients(out, x, weights, **settings, wanted=[True, False, False]),
            "weight_gradient": lambda: gradients(out, x, weights, **settings, wanted=[False, True, False]),
        }
        for name, call in calls.items():
            ms = measure("convolve", "PyTorch", "", x.numel(), call)["ms_median"]
            tflops = 2 * result.numel() * weights.numel() / outputs / ms / 1e9
            shape = f"{images}x{edge}x{edge}x{channels}-{outputs}_{taps}x{taps}_s{stride}_g{groups}"
            print(f"{dtype} {name} {shape}: {ms:.3f} ms, {tflops:.1f} TFLOP/s")

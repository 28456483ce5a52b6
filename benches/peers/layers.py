# SPDX-License-Identifier: MIT OR Apache-2.0
"""The convolutions of benches/layers/layers.txt and their gradients by PyTorch, in bf16: python3 layers.py [PART...]

cuDNN measures which of its kernels is fastest. Prints a line for each layer and direction: the median of 30 calls in
microseconds with channels last, and with channels in front, as PyTorch has them unless told otherwise.
"""

import sys
from pathlib import Path

import torch

from measure import measure

torch.backends.cudnn.benchmark = True
torch.backends.cudnn.benchmark_limit = 0
HERE = Path(__file__).resolve().parent
FORMATS = {"last": torch.channels_last, "front": torch.contiguous_format}


def layers():
    """Names and numbers; of one axis as of two, the first of which has one place."""
    folders = (HERE, HERE.parent / "layers")
    text = next(folder / "layers.txt" for folder in folders if (folder / "layers.txt").exists()).read_text()
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, images, places, channels, outputs, taps, stride, padding, groups = line.split()
        places, taps, stride, padding = ([int(n) for n in axes.split("x")] for axes in (places, taps, stride, padding))
        if len(places) == 1:
            places, taps, stride, padding = [1, *places], [1, *taps], [1, *stride], [0, *padding]
        yield name, int(images), places, int(channels), int(outputs), taps, stride, padding, int(groups)


def random(shape, layout):
    numbers = torch.rand(shape, device="cuda").mul(2).sub(1).to(torch.bfloat16)
    if layout == "last":
        return numbers.to(memory_format=torch.channels_last if len(shape) == 4 else torch.channels_last_3d)
    return numbers


for name, images, places, channels, outputs, taps, stride, padding, groups in layers():
    if sys.argv[1:] and not any(part in name for part in sys.argv[1:]):
        continue
    times = {}
    for layout in FORMATS:
        x = random((images, channels, *places), layout)
        weights = random((outputs, channels // groups, *taps), layout)
        settings = (stride, padding, [1] * len(places), False, [0] * len(places), groups)
        convolve = lambda: torch.ops.aten.convolution(x, weights, None, *settings)
        out = random(convolve().shape, layout)
        gradients = lambda wanted: torch.ops.aten.convolution_backward(out, x, weights, None, *settings, wanted)
        calls = {
            "forward": convolve,
            "input": lambda: gradients([True, False, False]),
            "weights": lambda: gradients([False, True, False]),
        }
        for direction, call in calls.items():
            row = measure("convolve", "PyTorch", "bf16", x.numel(), call)
            times.setdefault(direction, []).append(row["ms_median"] * 1e3)
    for direction, (last, front) in times.items():
        print(f"{name} {direction} {last:.1f} {front:.1f}", flush=True)

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Holds the program `warpsmith` against NumPy, SciPy and scikit-image, on the same .npy files and pictures.

Integers, counts and rearrangements must be equal. Floats must lie within the bound that docs/kernels.md and its pages state for the
kernel, which each comparison below names; the reference is then computed in a wider format.

    python compare.py PATH/TO/warpsmith

`cargo xtask compare` builds the program, installs the three libraries, and runs this.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy import ndimage
from skimage import color, filters, io

INTEGERS = [np.uint8, np.uint16, np.uint32, np.uint64, np.int32, np.int64]
FLOATS = [np.float32, np.float64]
ROUNDOFF = {np.float32: 2.0**-24, np.float64: 2.0**-53}

PHOTOGRAPH = Path(__file__).parents[2] / "cli/data/astronaut.png"

rng = np.random.default_rng(2026)


class Comparison:
    """Runs the program in a folder of its own, and counts what agreed."""

    def __init__(self, program, folder):
        self.program, self.folder = program, Path(folder)
        self.passed, self.failed = 0, 0

    def run(self, *arguments):
        """What the program prints; it must succeed."""
        command = [self.program, *map(str, arguments)]
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        if result.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {result.stderr.strip()}")
        return result.stdout

    def array(self, *arguments, **inputs):
        """The array that the program writes for these inputs, saved as NAME.npy."""
        for name, array in inputs.items():
            np.save(self.folder / f"{name}.npy", array)
        self.run(*arguments, "-o", "out.npy")
        return np.load(self.folder / "out.npy")

    def picture(self, command, picture, *options):
        """The picture that the program makes of this one."""
        io.imsave(self.folder / "in.png", picture, check_contrast=False)
        self.run(command, "in.png", "-o", "out.png", *options)
        return io.imread(self.folder / "out.png")

    def check(self, what, got, wanted, bound=0):
        """`got` is `wanted`, of the same shape and type where `bound` is 0; else within `bound`."""
        got, wanted, bound = np.asarray(got), np.asarray(wanted), np.asarray(bound)
        if got.shape != wanted.shape:
            return self.verdict(what, False, f"shape {got.shape}, wanted {wanted.shape}")
        if not bound.any():
            same = got.dtype == wanted.dtype and np.array_equal(got, wanted, equal_nan=got.dtype.kind == "f")
            return self.verdict(what, same, f"{got.dtype}, wanted {wanted.dtype}, {np.count_nonzero(got != wanted)} differ")
        got, wanted = got.astype(np.longdouble), wanted.astype(np.longdouble)
        within = (np.abs(got - wanted) <= bound) | (got == wanted) | (np.isnan(got) & np.isnan(wanted))
        worst = np.nanmax(np.where(within, 0, np.abs(got - wanted)), initial=0)
        return self.verdict(what, within.all(), f"off by {worst} where {np.max(bound)} is allowed")

    def verdict(self, what, good, details):
        self.passed += good
        self.failed += not good
        if not good:
            print(f"DIFFERS {what}: {details}", flush=True)


def name_of(dtype):
    return np.dtype(dtype).name


def integers(dtype, shape):
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def floats(dtype, shape):
    return rng.normal(0, 10, shape).astype(dtype)


def values(dtype, shape):
    return floats(dtype, shape) if dtype in FLOATS else integers(dtype, shape)


def ulp(x, dtype):
    return np.spacing(np.abs(x).astype(dtype)).astype(np.longdouble)


def binary(it):
    functions = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
    for dtype in INTEGERS + FLOATS:
        for shapes in [((1000,), (1000,)), ((30, 40), (40,)), ((5, 1, 7), (6, 1)), ((1,), (9,)), ((0, 3), (3,))]:
            a, b = (values(dtype, shape) for shape in shapes)
            for command, function in functions.items():
                got = it.array(command, "a.npy", "b.npy", a=a, b=b)
                it.check(f"{command} {name_of(dtype)} {shapes}", got, function(a, b))
    for dtype in FLOATS:
        a, b = floats(dtype, (50, 60)), floats(dtype, (60,))
        it.check(f"div {name_of(dtype)}", it.array("div", "a.npy", "b.npy", a=a, b=b), a / b)


def maps(it):
    # Bounds in ulp: those of cuda_std::Float, beside the reference's own half.
    functions = {
        "sqrt": (np.sqrt, {np.float32: 0.5, np.float64: 0.5}),
        "exp": (np.exp, {np.float32: 1, np.float64: 1}),
        "log": (np.log, {np.float32: 1, np.float64: 1}),
        "sin": (np.sin, {np.float32: 2, np.float64: 1}),
        "cos": (np.cos, {np.float32: 2, np.float64: 1}),
        "tanh": (np.tanh, {np.float32: 2, np.float64: 3}),
    }
    for dtype in FLOATS:
        x = np.abs(floats(dtype, 5000)) + np.finfo(dtype).tiny
        for command, (function, bounds) in functions.items():
            wanted = function(x.astype(np.longdouble))
            got = it.array("map", command, "x.npy", x=x)
            it.check(f"map {command} {name_of(dtype)}", got, wanted, (bounds[dtype] + 0.5) * ulp(wanted, dtype))
    for dtype in INTEGERS + FLOATS:
        x = values(dtype, 3000)
        it.check(f"map square {name_of(dtype)}", it.array("map", "square", "x.npy", x=x), x * x)
    for dtype in INTEGERS:
        for to in INTEGERS + FLOATS:
            short = f"{np.dtype(to).kind}{8 * np.dtype(to).itemsize}"
            x = integers(dtype, 2000)
            got = it.array("map", f"cast:{short}", "x.npy", x=x)
            it.check(f"cast {name_of(dtype)} to {short}", got, x.astype(to))


def reductions(it):
    # docs/kernels/reduce.md: no element goes through more than this many roundings in a sum of so few.
    depth = 160
    for dtype in INTEGERS + FLOATS:
        for shape, axis in [((4099,), 0), ((37, 53), 0), ((37, 53), 1), ((5, 6, 700), 1), ((3, 1000, 2), 1), ((0, 4), 0)]:
            x = values(dtype, shape)
            case = f"{name_of(dtype)} {shape} axis {axis}"
            got = it.array("reduce", "sum", "x.npy", "--axis", axis, x=x)
            if dtype in INTEGERS:
                it.check(f"sum {case}", got, np.sum(x, axis))
                got = it.array("reduce", "prod", "x.npy", "--axis", axis, x=x)
                it.check(f"prod {case}", got, np.prod(x, axis))
            else:
                wide = x.astype(np.longdouble)
                bound = depth * ROUNDOFF[dtype] * np.sum(np.abs(wide), axis) + 1e-300
                it.check(f"sum {case}", got, np.sum(wide, axis), bound)
            if 0 in shape:
                continue
            for command, function in {"min": np.min, "max": np.max}.items():
                it.check(f"{command} {case}", it.array("reduce", command, "x.npy", "--axis", axis, x=x), function(x, axis))
            for command, function in {"argmin": np.argmin, "argmax": np.argmax}.items():
                got = it.array("reduce", command, "x.npy", "--axis", axis, x=x)
                it.check(f"{command} {case}", got, function(x, axis).astype(np.uint64))
            wide = x.astype(np.longdouble)
            unit = ROUNDOFF.get(dtype, 2.0**-53)
            magnitude = np.mean(np.abs(wide), axis)
            mean = np.mean(wide, axis)
            bound = depth * 2.0**-53 * magnitude + 2 * unit * np.abs(mean)
            it.check(f"mean {case}", it.array("reduce", "mean", "x.npy", "--axis", axis, x=x), mean, bound)
            # Chan, Golub and LeVeque: the error of the parallel variance is that of the sum of squares.
            variance = np.var(wide, axis)
            bound = 4 * depth * 2.0**-53 * (variance + mean**2) + 4 * unit * variance
            it.check(f"var {case}", it.array("reduce", "var", "x.npy", "--axis", axis, x=x), variance, bound)
    x = np.array([3.0, np.nan, 1.0, np.nan])
    it.check("argmin with NaN", it.array("reduce", "argmin", "x.npy", "--axis", 0, x=x), np.uint64(np.argmin(x)))


def scans(it):
    functions = {"sum": np.cumsum, "prod": np.cumprod, "min": np.minimum.accumulate, "max": np.maximum.accumulate}
    for dtype in INTEGERS + FLOATS:
        for shape, axis in [((20011,), 0), ((37, 531), 0), ((37, 531), 1), ((5, 60, 7), 1)]:
            x = values(dtype, shape)
            for command, function in functions.items():
                if dtype in FLOATS and command == "prod":
                    continue
                wanted = function(x, axis)
                got = it.array("scan", command, "x.npy", "--axis", axis, x=x)
                case = f"scan {command} {name_of(dtype)} {shape} axis {axis}"
                if dtype in FLOATS and command == "sum":
                    wide = x.astype(np.longdouble)
                    # At worst every prefix goes through as many roundings as it has elements.
                    count = np.arange(1, shape[axis] + 1).reshape([-1 if k == axis else 1 for k in range(len(shape))])
                    bound = np.minimum(count, 400) * ROUNDOFF[dtype] * np.cumsum(np.abs(wide), axis)
                    it.check(case, got, np.cumsum(wide, axis), bound)
                else:
                    it.check(case, got, wanted)
                if dtype in INTEGERS and command == "sum":
                    got = it.array("scan", command, "x.npy", "--axis", axis, "--exclusive", x=x)
                    it.check(f"exclusive {case}", got, wanted - x)


def products(it):
    for dtype in [np.float32, np.float64, np.int32]:
        for m, k, n in [(1, 1, 1), (17, 33, 5), (64, 64, 64), (65, 100, 129), (3, 0, 4), (1, 500, 1), (200, 3, 1)]:
            for order in ["C", "F"]:
                a, b = np.asarray(values(dtype, (m, k)), order=order), values(dtype, (k, n))
                got = it.array("matmul", "a.npy", "b.npy", a=a, b=b)
                case = f"matmul {name_of(dtype)} {m} x {k} x {n} {order}"
                if dtype == np.int32:
                    it.check(case, got, np.matmul(a, b))
                    continue
                a, b = a.astype(np.longdouble), b.astype(np.longdouble)
                it.check(case, got, a @ b, k * ROUNDOFF[dtype] * (np.abs(a) @ np.abs(b)) * 1.001 + 1e-300)


def histograms(it):
    for dtype in [np.uint8, np.uint16, np.int32, np.uint32, np.float32, np.float64]:
        for bins in [1, 2, 10, 255, 256, 1000, 70000]:
            x = values(dtype, 20000)
            for low, high in [(-7.5, 12.25), (0, 256), (0.1, 0.7), (-1e6, 1e9)]:
                wanted, _ = np.histogram(x, bins, (low, high))
                got = it.array("histogram", "x.npy", "--bins", bins, f"--range={low},{high}", x=x)
                it.check(f"histogram {name_of(dtype)} {bins} bins {low} to {high}", got, wanted.astype(np.uint64))
            # NumPy computes the edges in float32 where it takes the limits from float32 data; here they are computed in
            # float64 always, and so by NumPy from limits in float64.
            limits = (float(x.min()), float(x.max()))
            wanted, _ = np.histogram(x, bins, limits)
            got = it.array("histogram", "x.npy", "--bins", bins, x=x)
            it.check(f"histogram {name_of(dtype)} {bins} bins", got, wanted.astype(np.uint64))
    x = rng.integers(0, 5, 5000).astype(np.float32) / 4
    wanted, _ = np.histogram(x, 4, (0, 1))
    got = it.array("histogram", "x.npy", "--bins", 4, "--range=0,1", x=x)
    it.check("histogram of values on the edges", got, wanted.astype(np.uint64))


def transposes(it):
    for dtype in INTEGERS + FLOATS:
        for shape, axes in [((100, 37), (1, 0)), ((1, 999), (1, 0)), ((5, 6, 7), (2, 0, 1)), ((4, 3, 5, 6), (3, 1, 0, 2))]:
            x = values(dtype, shape)
            got = it.array("transpose", "x.npy", "--axes", ",".join(map(str, axes)), x=x)
            it.check(f"transpose {name_of(dtype)} {shape} {axes}", got, np.ascontiguousarray(x.transpose(axes)))
        x = values(dtype, (33, 65))
        it.check(f"transpose {name_of(dtype)}", it.array("transpose", "x.npy", x=x), x.T)


def narrow_types(it):
    """bool, int8, int16 and float16: of the same types as NumPy's results."""
    functions = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
    for dtype in [np.bool_, np.int8, np.int16, np.float16]:
        a, b = (rng.integers(-120, 120, shape).astype(dtype) for shape in [(30, 40), (40,)])
        for command, function in functions.items():
            it.check(f"{command} {name_of(dtype)}", it.array(command, "a.npy", "b.npy", a=a, b=b), function(a, b))
        for command, function in {"min": np.min, "max": np.max, "any": np.any, "all": np.all}.items():
            for axis in [0, -1]:
                got = it.array("reduce", command, "a.npy", "--axis", axis)
                it.check(f"{command} {name_of(dtype)} axis {axis}", got, function(a, axis))
        got = it.array("transpose", "a.npy", "--axes", "-1,0")
        it.check(f"transpose {name_of(dtype)}", got, np.ascontiguousarray(a.T))
        if dtype == np.float16:
            it.check("square float16", it.array("map", "square", "a.npy"), a * a)
            x = floats(np.float64, 999) * 1000
            it.check("cast to float16", it.array("map", "cast:f16", "x.npy", x=x), x.astype(np.float16))
            continue
        for command, function in {"sum": np.sum, "prod": np.prod}.items():
            it.check(f"{command} {name_of(dtype)}", it.array("reduce", command, "a.npy", "--axis", 0), function(a, 0))
        it.check(f"scan sum {name_of(dtype)}", it.array("scan", "sum", "a.npy", "--axis", 1), np.cumsum(a, 1))
    np.savez_compressed(it.folder / "in.npz", a=a, b=b)
    it.check("npz", it.array("map", "neg", "in.npz:b"), -b)
    it.run("map", "neg", "b.npy", "-o", "out.npz")
    it.check("npz written", np.load(it.folder / "out.npz")["arr_0"], -b)


def existing_mean(channel, radius):
    """The mean over the pixels of a square that exist, exactly, halves up."""

    def sums(x):
        padded = np.pad(x, ((radius + 1, radius), (radius + 1, radius))).cumsum(0).cumsum(1)
        width = 2 * radius + 1
        return padded[width:, width:] - padded[:-width, width:] - padded[width:, :-width] + padded[:-width, :-width]

    total, count = sums(channel.astype(np.int64)), sums(np.ones(channel.shape, np.int64))
    return (total + count // 2) // count


def pictures(it):
    photograph = io.imread(PHOTOGRAPH)[:200, :301]
    alpha = integers(np.uint8, photograph.shape[:2] + (1,))
    transparent = np.concatenate([photograph, alpha], 2)
    thousandths = photograph.astype(np.int64) @ [299, 587, 114]
    it.check("grayscale", it.picture("grayscale", photograph), ((thousandths + 500) // 1000).astype(np.uint8))
    ten_thousandths = photograph.astype(np.int64) @ [2126, 7152, 722]
    got = it.picture("grayscale", photograph, "--weights", "bt709")
    it.check("grayscale bt709", got, ((ten_thousandths + 5000) // 10000).astype(np.uint8))
    # scikit-image's own weights, in floats: no more than the rounding to integers apart.
    got = it.picture("grayscale", photograph, "--weights", "0.2125,0.7154,0.0721")
    it.check("grayscale as rgb2gray", got, 255 * color.rgb2gray(photograph), 0.5 + 1e-4)

    gray = photograph[:, :, 1]
    # Pillow, which scikit-image writes with, has no 16-bit RGB.
    deep = photograph[:, :, 1].astype(np.uint16) * 255 + photograph[::-1, :, 0]
    for radius in [1, 9]:
        got = it.picture("blur", deep, "--radius", radius, "--border", "mean")
        it.check(f"box blur of 16 bits, radius {radius}", got, existing_mean(deep, radius).astype(np.uint16))

    modes = {"clamp": "nearest", "reflect": "reflect", "wrap": "wrap", "constant": "constant"}
    for picture, channels in [(gray, 0), (photograph, 3), (transparent, 3)]:

        def each_channel(function, picture=picture, channels=channels):
            if channels == 0:
                return function(picture)
            wanted = picture.astype(np.float64)
            for channel in range(channels):
                wanted[:, :, channel] = function(picture[:, :, channel])
            return wanted

        for radius in [0, 1, 2, 9, 40]:
            case = f"box blur {picture.shape} radius {radius}"
            got = it.picture("blur", picture, "--radius", radius, "--border", "mean")
            wanted = each_channel(lambda x, radius=radius: existing_mean(x, radius))
            it.check(f"{case} mean", got, wanted.astype(np.uint8))
            for border, mode in modes.items():
                got = it.picture("blur", picture, "--radius", radius, "--border", border)

                # The number of pixels is odd, so that no mean lies half way between two integers.
                def mean(x, radius=radius, mode=mode):
                    return np.floor(ndimage.uniform_filter(x.astype(np.float64), 2 * radius + 1, mode=mode) + 0.5)

                it.check(f"{case} {border}", got, each_channel(mean).astype(np.uint8))
        for sigma in [0.5, 1.0, 2.0, 7.3]:
            # In f32, each of two passes of 8 sigma + 1 products; then half of the last place for the rounding.
            bound = 0.5 + 2 * (8 * sigma + 3) * ROUNDOFF[np.float32] * 255
            for border, mode in modes.items():
                got = it.picture("blur", picture, "--sigma", sigma, "--border", border)

                def gaussian(x, sigma=sigma, mode=mode):
                    return ndimage.gaussian_filter(x.astype(np.float64), sigma, mode=mode, truncate=4.0)

                it.check(f"gaussian blur {picture.shape} sigma {sigma} {border}", got, each_channel(gaussian), bound)
    got = it.picture("blur", photograph, "--sigma", 3, "--border", "clamp")
    wanted = filters.gaussian(photograph.astype(np.float64), 3, mode="nearest", channel_axis=2, truncate=4.0)
    it.check("gaussian blur as skimage.filters.gaussian", got, wanted, 0.51)


def main():
    (program,) = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        it = Comparison(Path(program).resolve(), folder)
        for part in [binary, maps, reductions, scans, products, histograms, transposes, narrow_types, pictures]:
            before = it.passed + it.failed
            with np.errstate(all="ignore"):
                part(it)
            print(f"{part.__name__}: {it.passed + it.failed - before} comparisons", flush=True)
    print(f"{it.passed} passed, {it.failed} failed")
    sys.exit(it.failed > 0)


main()

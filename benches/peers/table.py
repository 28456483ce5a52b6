# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes docs/benchmarks.md's table, ours beside the best peer at each size, of what compare.py kept by `--out`:

    python3 benches/peers/table.py compare.json [more.json ...] [--sizes 1Mi,16Mi,256Mi] [--into docs/benchmarks.md]

`--into` replaces what stands between two lines of that page, `<!-- compare.py -->` and `<!-- end -->`; else the table is
printed. Where several files have a row of a size, that of the first one counts, with both of its sides: times of different
runs, and so perhaps of different GPUs, are never held against each other.
"""

import argparse
import math
import sys
from pathlib import Path

from compare import OURS, Failure, Key, Measured, Results, collect, parse_size, ratio, read_rows, size_name

BEGIN, END = "<!-- compare.py -->", "<!-- end -->"


def of_files(files: list[Path]) -> Results:
    """Each row by the first file that has it of both sides."""
    results: Results = {}
    for file in files:
        for key, sides in collect(read_rows(file)).items():
            if OURS in sides and len(sides) > 1:
                results.setdefault(key, sides)
    return results


def microseconds(measured: Measured) -> str:
    """With a decimal where there are less than four figures without."""
    time = 1e3 * measured.ms
    return f"{time:.1f}" if time < 999.95 else f"{time:.0f}"


def cells(sides: dict[str, Measured] | None) -> list[str]:
    """Ours, the best peer, and the ratio; bold where the peer is faster."""
    if sides is None:
        return ["", "", ""]
    best = min((who for who in sides if who != OURS), key=lambda who: sides[who].ms)
    shown = f"{ratio(sides):.2f}"
    return [microseconds(sides[OURS]), f"{best} {microseconds(sides[best])}", shown if ratio(sides) >= 1 else f"**{shown}**"]


def summary(of_size: list[dict[str, Measured]], name: str) -> str:
    """How many rows of a size are level or ahead, and their ratios' geometric mean."""
    ratios = [min(measured.ms for who, measured in sides.items() if who != OURS) / sides[OURS].ms for sides in of_size]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    level = sum(ratio(sides) >= 1 for sides in of_size)
    return f"Of {name}: {level} of {len(of_size)} rows at or above 1.00, {mean:.2f} in the geometric mean."


def table(results: Results, sizes: list[int]) -> str:
    rows = list(dict.fromkeys((key.name, key.dtype) for key in results if key.n in sizes))
    if not rows:
        raise Failure("the files have no row that both sides were measured of")
    header = ["row", *(column for size in sizes for column in (f"{size_name(size)}: ours", "best peer", "ratio"))]
    lines = [f"| {' | '.join(header)} |", "|---" + "|--:" * (len(header) - 1) + "|"]
    for name, dtype in rows:
        of_sizes = [cell for size in sizes for cell in cells(results.get(Key(size, name, dtype)))]
        lines.append(f"| {' | '.join([f'{name} ({dtype})', *of_sizes])} |")
    found = {size: [sides for key, sides in results.items() if key.n == size] for size in sizes}
    sums = [summary(of_size, size_name(size)) for size, of_size in found.items() if of_size]
    return "\n".join([*lines, "", " ".join(sums)])


def replaced(page: str, text: str) -> str:
    """The page with that text between its two marks."""
    before, begin, rest = page.partition(f"{BEGIN}\n")
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise Failure(f"the page has no lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def main() -> None:
    about = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="what compare.py kept by --out")
    parser.add_argument("--sizes", default="1Mi,16Mi,256Mi", help="elements (default: %(default)s)")
    parser.add_argument("--into", type=Path, metavar="PAGE.md", help="the page in which the table is replaced")
    args = parser.parse_args()
    try:
        text = table(of_files(args.files), [parse_size(size) for size in args.sizes.split(",")])
        if args.into is None:
            print(text)
        else:
            args.into.write_text(replaced(args.into.read_text(encoding="utf-8"), text), encoding="utf-8")
    except (Failure, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()

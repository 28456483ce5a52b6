# SPDX-License-Identifier: MIT OR Apache-2.0
"""Draws what compare.py measured (`--out`) as bars, ours above the best peer's, of the rows that move memory:

    python3 benches/peers/plot.py compare.json [more.json ...] --size 256Mi --rows add,reduce_sum,transpose --out docs/speed.svg

Of several files the first that has a row counts, as in table.py.
"""

import argparse
import sys
from html import escape
from pathlib import Path

from compare import OURS, Failure, Key, Measured, Results, best_peer, exact_ratio, parse_size
from table import of_files

WIDTH, LEFT, RIGHT = 860, 190, 190
BAR, GAP, ROW = 11, 2, 34
TOP, BOTTOM = 34, 26
OURS_COLOUR, PEER_COLOUR = "#d9480f", "#868e96"


def bars(results: Results, size: int, names: list[str]) -> list[tuple[str, float, str, float]]:
    """Of each row its label, our rate, the best peer, and its rate, in GB/s; in the order of the names."""
    found = []
    for name in names:
        keys = [key for key in results if key.n == size and key.name == name]
        if not keys:
            raise Failure(f"no row `{name}` of {size} elements is in the files")
        found += [bar(key, results[key]) for key in keys]
    return found


def bar(key: Key, sides: dict[str, Measured]) -> tuple[str, float, str, float]:
    ours = sides.get(OURS)
    if ours is None or ours.unit != "GB/s" or ours.rate is None or len(sides) == 1:
        raise Failure(f"the row `{key.name}` ({key.dtype}) has no rate of ours, or no peer")
    best = best_peer(sides)
    return f"{key.name} ({key.dtype})", ours.rate, best, ours.rate / exact_ratio(sides)


def svg(drawn: list[tuple[str, float, str, float]], title: str) -> str:
    height = TOP + ROW * len(drawn) + BOTTOM
    most = max(max(ours, theirs) for _, ours, _, theirs in drawn)
    scale = (WIDTH - LEFT - RIGHT) / most
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="13" font-weight="bold">{escape(title)}</text>',
    ]
    for number, (label, ours, best, theirs) in enumerate(drawn):
        y = TOP + ROW * number
        lines.append(f'<text x="{LEFT - 8}" y="{y + BAR + 5}" text-anchor="end">{escape(label)}</text>')
        for rate, who, colour, top in [
            (ours, "Warpsmith", OURS_COLOUR, y),
            (theirs, best, PEER_COLOUR, y + BAR + GAP),
        ]:
            end = LEFT + rate * scale
            lines.append(f'<rect x="{LEFT}" y="{top}" width="{rate * scale:.1f}" height="{BAR}" fill="{colour}"/>')
            lines.append(
                f'<text x="{end + 5:.1f}" y="{top + BAR - 1}" font-size="11" fill="{colour}">'
                f"{escape(who)} {rate:.0f}</text>"
            )
    lines.append(f'<text x="{LEFT}" y="{height - 8}" font-size="11">GB/s: each input read once, each output written once</text>')
    return "\n".join([*lines, "</svg>", ""])


def main() -> None:
    about = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="what compare.py kept by --out")
    parser.add_argument("--size", default="256Mi", help="elements (default: %(default)s)")
    parser.add_argument("--rows", required=True, help="names of rows, with commas between them")
    parser.add_argument("--title", default="On one NVIDIA H200, beside the fastest peer", help="(default: %(default)s)")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the SVG file to write")
    args = parser.parse_args()
    try:
        drawn = bars(of_files(args.files)[0], parse_size(args.size), args.rows.split(","))
        args.out.write_text(svg(drawn, args.title), encoding="utf-8")
    except (Failure, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes a page's table, ours beside the best peer at each size, of what compare.py kept by `--out`:

    python3 benches/peers/table.py compare.json [more.json ...] [--into docs/benchmarks.md] [--caption TEXT]

`--into` replaces what stands between two lines of that page, `<!-- compare.py -->` and `<!-- end -->`; else the table is
printed. Where several files have a row of a size, that of the first one counts, with both of its sides: times of different
runs, and so perhaps of different GPUs, are never held against each other. Rows without a peer are ours alone. The last
column is what ours moves in a second at the largest size, each input read once and each output written once, beside the
copy of the same file. `--rows` chooses rows by their whole names, and their order, and leaves that column out.
"""

import argparse
import math
import sys
from pathlib import Path

from compare import (
    OURS,
    Failure,
    Key,
    Measured,
    Results,
    best_peer,
    collect,
    exact_ratio,
    parse_size,
    ratio,
    read_rows,
    size_name,
)

BEGIN, END = "<!-- compare.py -->", "<!-- end -->"
COPY = "copy"
# Of a row and size, the GB/s of the copy in its file.
Copies = dict[Key, float]


def of_files(files: list[Path]) -> tuple[Results, Copies]:
    """Each row by the first file that has it of both sides, else by the first that has ours."""
    results: Results = {}
    copies: Copies = {}
    for file in files:
        found = collect(read_rows(file))
        rates = {key.n: sides[OURS].rate for key, sides in found.items() if key.name == COPY and OURS in sides}
        for key, sides in found.items():
            has_both = OURS in sides and len(sides) > 1
            is_better = has_both and len(results.get(key, {})) <= 1
            if OURS in sides and (is_better or key not in results):
                results[key] = sides
                copies.pop(key, None)
                if rate := rates.get(key.n):
                    copies[key] = rate
    return results, copies


def microseconds(measured: Measured) -> str:
    """With a decimal where there are less than four figures without."""
    time = 1e3 * measured.ms
    return f"{time:.1f}" if time < 999.95 else f"{time:.0f}"


def cells(sides: dict[str, Measured] | None) -> list[str]:
    """Ours, the best peer, and the ratio; bold where the peer is faster."""
    if sides is None:
        return ["", "", ""]
    if len(sides) == 1:
        return [microseconds(sides[OURS]), "", ""]
    best = best_peer(sides)
    shown = f"{ratio(sides):.2f}"
    return [microseconds(sides[OURS]), f"{best} {microseconds(sides[best])}", shown if ratio(sides) >= 1 else f"**{shown}**"]


def of_copy(sides: dict[str, Measured] | None, copy: float | None) -> str:
    """The part of the copy's bandwidth that ours has, in hundredths, of rows that move memory."""
    if sides is None or sides[OURS].unit != "GB/s" or sides[OURS].rate is None or copy is None:
        return ""
    return f"{100 * sides[OURS].rate / copy:.0f} %"


def summary(of_size: list[dict[str, Measured]], name: str) -> str:
    """How many rows of a size are level or ahead, and their ratios' geometric mean."""
    mean = math.exp(sum(math.log(exact_ratio(sides)) for sides in of_size) / len(of_size))
    level = sum(ratio(sides) >= 1 for sides in of_size)
    return f"Of {name}: {level} of {len(of_size)} rows with a peer at or above 1.00, {mean:.2f} in the geometric mean."


def table(results: Results, copies: Copies, sizes: list[int], chosen: list[str] | None) -> str:
    rows = list(dict.fromkeys((key.name, key.dtype) for key in results if key.n in sizes))
    if chosen is not None:
        missing = [name for name in chosen if name not in {name for name, _ in rows}]
        if missing:
            raise Failure(f"the files have no row {', '.join(missing)} of these sizes")
        rows = [row for name in chosen for row in rows if row[0] == name]
    if not rows:
        raise Failure("the files have no row of these sizes")
    largest = max(sizes)
    header = ["row", *(column for size in sizes for column in (f"{size_name(size)}: ours", "best peer", "ratio"))]
    header += [f"{size_name(largest)}: of the copy"] if chosen is None else []
    lines = [f"| {' | '.join(header)} |", "|---" + "|--:" * (len(header) - 1) + "|"]
    for name, dtype in rows:
        line = [f"{name} ({dtype})", *(cell for size in sizes for cell in cells(results.get(Key(size, name, dtype))))]
        key = Key(largest, name, dtype)
        line += [of_copy(results.get(key), copies.get(key))] if chosen is None else []
        lines.append(f"| {' | '.join(line)} |")
    if chosen is not None:
        return "\n".join(lines)
    held = {size: [sides for key, sides in results.items() if key.n == size and len(sides) > 1] for size in sizes}
    sums = [summary(of_size, size_name(size)) for size, of_size in held.items() if of_size]
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
    parser.add_argument("--rows", metavar="NAME,...", help="only these, in this order")
    parser.add_argument("--caption", metavar="TEXT", help="what stands above the table: commit, machine")
    parser.add_argument("--into", type=Path, metavar="PAGE.md", help="the page in which the table is replaced")
    args = parser.parse_args()
    try:
        sizes = [parse_size(size) for size in args.sizes.split(",")]
        text = table(*of_files(args.files), sizes, args.rows.split(",") if args.rows else None)
        text = f"{args.caption}\n\n{text}" if args.caption else text
        if args.into is None:
            print(text)
        else:
            args.into.write_text(replaced(args.into.read_text(encoding="utf-8"), text), encoding="utf-8")
    except (Failure, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()

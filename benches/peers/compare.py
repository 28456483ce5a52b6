# SPDX-License-Identifier: MIT OR Apache-2.0
"""Holds `warpsmith bench` against the same work by others, on this machine's GPU, and prints Markdown:

    python3 benches/peers/compare.py PATH/TO/warpsmith [--sizes 1Mi,16Mi,256Mi] [--only expr_,add] [--out compare.json]

One after another: ours, libraries.cu (which nvcc compiles for this GPU), libraries.py, ours again. What either side
of a run drifts by, such as the GPU's clock, so meets both of ours. At last what torch.compile makes of expressions when
it tries many kernels for each, which takes most of the time: `--untuned` leaves that out. `--only` is that of
`warpsmith bench`. `--out` keeps every row as soon as it is measured, so that a run which is cut short is not lost, and
`--from` makes the tables out of such files, without running anything. A program that fails costs the rows that it has not
measured; the others run all the same, and the status tells at the end. table.py makes docs/benchmarks.md's table of the files.
"""

import argparse
import json
import math
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
RATES = {"gb_s": "GB/s", "tflop_s": "TFLOP/s"}
OURS = ""


class Failure(Exception):
    """What the user is told."""


class Stopped(Failure):
    """After which nothing else is run."""


class Key(NamedTuple):
    """Rows with the same key did the same work."""

    n: int
    name: str
    dtype: str


@dataclass(frozen=True)
class Measured:
    """One program's time for one row, and for ours its rate; over several runs, the medians."""

    ms: float
    rate: float | None = None
    unit: str = ""


Rows = list[dict[str, Any]]
# For each row of the table: who did it (OURS or the peer's name), and how fast.
Results = dict[Key, dict[str, Measured]]


def parse_size(text: str) -> int:
    unit = UNITS.get(text[-2:], 1)
    digits = text if unit == 1 else text[:-2]
    if not (digits.isascii() and digits.isdigit()) or int(digits) == 0:
        raise Failure(f"`{text}` is not a size such as 1000, 64Ki, 16Mi or 1Gi")
    return int(digits) * unit


def run(what: str, command: list[str | Path], take: Callable[[str], None] | None = None) -> None:
    """Runs a program, and gives `take` each line of its standard output as it comes; what it says on the standard error is
    passed on."""
    print(f"{what} …", file=sys.stderr, flush=True)
    begin = time.monotonic()
    output = subprocess.DEVNULL if take is None else subprocess.PIPE
    try:
        with subprocess.Popen(command, stdout=output, text=True, errors="replace") as program:
            try:
                for line in program.stdout or ():
                    if take is not None and line.strip():
                        take(line)
                program.wait()
            except BaseException:
                program.kill()
                raise
    except OSError as error:
        raise Failure(f"{what}: {command[0]} cannot be run: {error.strerror}") from error
    if program.returncode != 0:
        raise Failure(f"{what} failed with {program.returncode}")
    print(f"{what}: {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)


def parse_rows(what: str, text: str) -> Rows:
    try:
        rows = json.loads(text)
    except json.JSONDecodeError as error:
        raise Failure(f"{what}: no JSON ({error}), but: {text[:200]!r}") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Failure(f"{what}: the JSON is not a list of objects")
    return rows


def read_rows(path: Path, what: str | None = None) -> Rows:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{what or path} cannot be read: {error}") from error
    return parse_rows(what or str(path), text)


def compile_libraries(to: Path) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        raise Failure("nvcc is not on the PATH: libraries.cu needs a CUDA toolkit, which Warpsmith itself does not")
    options = ["-O3", "-std=c++17", "-arch=native", HERE / "libraries.cu", "-lcublas", "-o", to]
    run("compiling libraries.cu", [nvcc, *options])


def measure(args: argparse.Namespace, rows: Rows, keep: Callable[[Rows], None]) -> None:
    """Ours, the peers, ours again, and what is tuned; nothing runs beside them. They are put into `rows`, which `keep` is
    given whenever there are more. What fails is told at the end, and does not keep the others from running."""
    problems: list[str] = []

    def attempt(step: Callable[[], None]) -> None:
        try:
            step()
        except Stopped:
            raise
        except Failure as failure:
            print(f"error: {failure}", file=sys.stderr, flush=True)
            problems.append(str(failure))

    warpsmith = args.warpsmith.resolve()
    numbers = [str(parse_size(size)) for size in args.sizes.split(",")]
    chosen = [] if args.only is None else ["--only", args.only]
    with tempfile.TemporaryDirectory() as folder:
        libraries = args.libraries.resolve() if args.libraries else Path(folder) / "libraries"

        def ours(which: str) -> None:
            file, what = Path(folder) / f"ours-{which}.json", f"warpsmith bench, the {which} run"
            try:
                attempt(lambda: run(what, [warpsmith, "bench", "--sizes", args.sizes, *chosen, "--json", file]))
            finally:
                # Those that were measured, where others failed, or the run was stopped.
                if file.exists():
                    rows.extend(read_rows(file, what))
                    keep(rows)

        def theirs(what: str, command: list[str | Path]) -> None:
            def take(line: str) -> None:
                rows.extend(parse_rows(what, f"[{line}]"))
                keep(rows)

            attempt(lambda: run(what, [*command, *chosen, *numbers], take))

        python: list[str | Path] = [sys.executable, HERE / "libraries.py"]
        if not libraries.exists():
            attempt(lambda: compile_libraries(libraries))
        ours("first")
        if libraries.exists():
            theirs("libraries.cu", [libraries])
        theirs("libraries.py", python)
        if not args.once:
            ours("second")
        if not args.untuned:
            theirs("libraries.py --tuned", [*python, "--tuned"])
    if problems:
        raise Failure("; ".join(problems))


def read_row(row: dict[str, Any]) -> tuple[Key, str, Measured]:
    """A row without a peer is ours. `n` may be a shape: the number of its elements counts."""
    try:
        n = row["n"]
        n = math.prod(map(int, n)) if isinstance(n, list) else int(n)
        key = Key(n, str(row["name"]), str(row["dtype"]))
        ms = float(row["ms_median"])
        field = next((field for field in RATES if row.get(field) is not None), None)
        measured = Measured(ms, float(row[field]), RATES[field]) if field else Measured(ms)
    except (KeyError, TypeError, ValueError) as error:
        raise Failure(f"the row {json.dumps(row)} is broken: {error!r}") from error
    if not ms > 0:
        raise Failure(f"the row {json.dumps(row)} took no time")
    return key, str(row.get("peer") or OURS), measured


def median(runs: list[Measured]) -> Measured:
    """The median time, and the rate that it amounts to: the work of a row is the same in every run."""
    ms = statistics.median(run.ms for run in runs)
    work = [run.rate * run.ms for run in runs if run.rate is not None]
    return Measured(ms, statistics.median(work) / ms if work else None, runs[0].unit)


def collect(rows: Rows) -> Results:
    runs: dict[Key, dict[str, list[Measured]]] = defaultdict(lambda: defaultdict(list))
    for key, who, measured in map(read_row, rows):
        runs[key][who].append(measured)
    return {key: {who: median(of) for who, of in sides.items()} for key, sides in runs.items()}


def size_name(n: int) -> str:
    unit = next((unit for unit in ("Gi", "Mi", "Ki") if n % UNITS[unit] == 0), None)
    return f"{n // UNITS[unit]}{unit}" if unit else str(n)


def best_peer(sides: dict[str, Measured]) -> str:
    return min((who for who in sides if who != OURS), key=lambda who: sides[who].ms)


def exact_ratio(sides: dict[str, Measured]) -> float:
    """How many times as long as ours the best peer takes."""
    return sides[best_peer(sides)].ms / sides[OURS].ms


def ratio(sides: dict[str, Measured]) -> float:
    """The same, cut to hundredths, so that 0.996 does not read 1.00."""
    # Not so that rounding in the division makes equal times 0.99.
    return math.floor(100 * exact_ratio(sides) + 1e-9) / 100


def table_line(key: Key, sides: dict[str, Measured], peers: list[str]) -> str:
    ours = sides[OURS]
    rate = "" if ours.rate is None else f"{ours.rate:.4g} {ours.unit}"
    best = min((who for who in peers if who in sides), key=lambda who: sides[who].ms)
    times = [f"{sides[who].ms:.4f}" if who in sides else "" for who in peers]
    shown = f"{ratio(sides):.2f}"
    shown = f"**{shown}**" if ratio(sides) < 1 else shown
    cells = [f"{key.name} ({key.dtype})", f"{ours.ms:.4f}", rate, f"{best} {sides[best].ms:.4f}", *times, shown]
    return f"| {' | '.join(cells)} |"


def table(n: int, results: Results) -> list[str]:
    """The rows that both sides have, and below them the names of the others."""
    of_size = {key: sides for key, sides in results.items() if key.n == n}
    both = {key: sides for key, sides in of_size.items() if OURS in sides and len(sides) > 1}
    lines = [f"## {size_name(n)} elements", ""]
    if both:
        peers = list(dict.fromkeys(who for sides in both.values() for who in sides if who != OURS))
        header = ["row", "ours ms", "ours rate", "best peer ms", *(f"{peer} ms" for peer in peers), "ratio"]
        lines += [f"| {' | '.join(header)} |", "|---" + "|--:" * (len(header) - 1) + "|"]
        lines += [table_line(key, sides, peers) for key, sides in both.items()] + [""]
    only_ours = [f"{key.name} ({key.dtype})" for key, sides in of_size.items() if list(sides) == [OURS]]
    only_peers = [f"{key.name} ({key.dtype}: {', '.join(sides)})" for key, sides in of_size.items() if OURS not in sides]
    lines += [f"Only ours: {', '.join(only_ours)}.", ""] if only_ours else []
    lines += [f"Only the peers': {', '.join(only_peers)}.", ""] if only_peers else []
    return lines


def markdown(results: Results, runs: str) -> str:
    lines = [
        f"Times are medians in milliseconds; ours are, row by row, the median of the medians of {runs}. The ratio is the"
        " best peer's time by ours, cut to two decimals: under 1.00 (bold) the peer is faster.",
        "",
    ]
    for n in sorted({key.n for key in results}):
        lines += table(n, results)
    ratios = [ratio(sides) for sides in results.values() if OURS in sides and len(sides) > 1]
    lines.append(f"{sum(ratio >= 1 for ratio in ratios)} of {len(ratios)} rows are at or above 1.00.")
    return "\n".join(lines)


def main() -> None:
    about = (__doc__ or "").split("\n\n", 1)[0]
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("warpsmith", nargs="?", type=Path, help="the program, built with --release")
    parser.add_argument("--sizes", default="1Mi,16Mi,256Mi", help="elements (default: %(default)s)")
    parser.add_argument("--only", metavar="PART,...", help="only the rows whose names contain one of these")
    parser.add_argument("--libraries", type=Path, metavar="FILE", help="where libraries.cu is compiled to, if it was not before")
    parser.add_argument("--untuned", action="store_true", help="without torch.compile's tuned kernels")
    parser.add_argument("--once", action="store_true", help="ours once: at large sizes its checks take most of the time")
    parser.add_argument("--out", type=Path, metavar="FILE", help="keep every row as measured")
    parser.add_argument("--from", nargs="+", type=Path, metavar="FILE", dest="files", help="read rows, run nothing")
    args = parser.parse_args()
    if (args.warpsmith is None) == (args.files is None):
        parser.error("give either the program's path or --from")

    def keep(rows: Rows) -> None:
        if args.out:
            args.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")

    def stop(number: int, _: object) -> None:
        raise Stopped(f"stopped by signal {number}")

    rows: Rows = []
    runs = "one run" if args.once else "two runs, before and after those of most peers"
    failure = None
    signal.signal(signal.SIGTERM, stop)
    try:
        if args.files:
            rows += [row for file in args.files for row in read_rows(file)]
            runs = "all runs in the files"
            keep(rows)
        else:
            measure(args, rows, keep)
    except (Failure, OSError) as error:
        failure = f"error: {error}"
    # What was measured ahead of a failure, too.
    try:
        if rows:
            print(markdown(collect(rows), runs))
    except Failure as error:
        failure = failure or f"error: {error}"
    sys.exit(failure)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT OR Apache-2.0
"""How the peers of Python are measured: which rows are wanted, and a row's time."""

import json
import math
import statistics
import sys
import time

import torch

WARM_UP, REPEATS, ATTEMPTS = 3, 30, 3
# A fill of 256 MiB takes 50 us or more, as it would at 5 TB/s.
FILL_SECONDS, LONGEST_HEAD_START = 50e-6, 20e-3
filled = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
# Parts of the names of the rows that are wanted; all are, where there are none.
parts = []
# What failed, for the status at the end.
failed = []


def wanted(*names):
    """Whether any of these rows is: else there is no need of what they take."""
    return not parts or any(part in name for part in parts for name in names)


def head_start(host_seconds):
    """Gives the GPU work for twice the time that the host needs to queue the calls that follow: fills of memory.

    A call that waits for the GPU loses the head start and no more. The fills also evict the L2 cache,
    before the first call alone, which does not move a median.
    """
    for _ in range(math.ceil(min(2 * host_seconds, LONGEST_HEAD_START) / FILL_SECONDS)):
        filled.zero_()


def measure(name, peer, dtype, n, call):
    pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(REPEATS)]

    def timed(start, end):
        start.record()
        call()
        end.record()

    # Of the fastest, when all is compiled.
    host_seconds = math.inf
    for pair in pairs[:WARM_UP]:
        before = time.perf_counter()
        timed(*pair)
        host_seconds = min(host_seconds, time.perf_counter() - before)
    attempts = []
    is_ahead = False
    while not is_ahead and len(attempts) < ATTEMPTS:
        head_start((len(attempts) + 1) * REPEATS * host_seconds)
        for pair in pairs:
            timed(*pair)
        # Else the host was held up, or the call waits for the GPU, and times are the host's in part.
        is_ahead = not pairs[0][0].query()
        torch.cuda.synchronize()
        attempts.append([start.elapsed_time(end) for start, end in pairs])
    times = attempts[-1] if is_ahead else min(attempts, key=statistics.median)
    return dict(
        name=name, peer=peer, dtype=dtype, n=n, ms_median=statistics.median(times), ms_min=min(times), repeats=REPEATS
    )


def attempt(what, work):
    """What `work` gives; nothing, where it fails, which the standard error and the status tell: the rows behind it are
    measured all the same."""
    try:
        return work()
    except Exception as error:
        first, *_ = str(error).splitlines() or [""]
        print(f"{what}: {type(error).__name__}: {first}", file=sys.stderr, flush=True)
        failed.append(what)


def bench(name, peer, dtype, n, call):
    """Prints the row at once, so that a run which is cut short is not lost."""
    if wanted(name):
        row = attempt(f"{name} of {n} by {peer}", lambda: measure(name, peer, dtype, n, call))
        if row is not None:
            print(json.dumps(row), flush=True)

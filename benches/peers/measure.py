# SPDX-License-Identifier: MIT OR Apache-2.0
"""How the peers of Python are measured: which rows are wanted, and a row's time."""

import math
import statistics
import time

import torch

WARM_UP, REPEATS = 3, 30
# A fill of 256 MiB takes 50 us or more, as it would at 5 TB/s.
FILL_SECONDS, LONGEST_HEAD_START = 50e-6, 20e-3
filled = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
rows = []
# Parts of the names of the rows that are wanted; all are, where there are none.
parts = []


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

    for pair in pairs[:WARM_UP]:
        before = time.perf_counter()
        timed(*pair)
        # That of the last one stays, when all is compiled.
        host_seconds = time.perf_counter() - before
    head_start(REPEATS * host_seconds)
    for pair in pairs:
        timed(*pair)
    torch.cuda.synchronize()
    times = [start.elapsed_time(end) for start, end in pairs]
    return dict(
        name=name, peer=peer, dtype=dtype, n=n, ms_median=statistics.median(times), ms_min=min(times), repeats=REPEATS
    )


def bench(name, peer, dtype, n, call):
    if wanted(name):
        rows.append(measure(name, peer, dtype, n, call))

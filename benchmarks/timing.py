"""Fair timing on a noisy machine: contenders take turns, and only ratios within a turn are compared."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Seconds = np.ndarray
"""One entry per round."""


def race(
    contenders: Mapping[str, Callable[[], Any]],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
    *,
    warm: bool = False,
) -> dict[str, Seconds]:
    """Seconds of every contender in each of `rounds` rounds, in which they take turns.

    One more round comes before, to warm up, unless they are `warm` already: what they run is compiled.

    On one thread, the clock `time.process_time` does not count what other processes take meanwhile. A contender
    must return only when its work is done (JAX: `block_until_ready`).
    """
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds if warm else rounds + 1):
        for name, run in contenders.items():
            began = clock()
            run()
            times[name].append(clock() - began)
    return {name: np.array(spent[-rounds:]) for name, spent in times.items()}


def spread(values: Any) -> dict[str, float]:
    """Median and quartiles."""
    low, median, high = np.percentile(np.asarray(values, float), [25, 50, 75])
    return {"median": float(median), "low": float(low), "high": float(high)}

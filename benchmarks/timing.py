"""Fair timing on a noisy machine: contenders take turns, and only ratios within a turn are compared."""

import os
import platform
import time
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

Seconds = np.ndarray
"""One entry per round."""


def race(contenders: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, Seconds]:
    """Seconds of every contender in each of `rounds` rounds, in which they take turns; one more to warm up.

    A contender must return only when its work is done (JAX: `block_until_ready`).
    """
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds + 1):
        for name, run in contenders.items():
            began = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - began)
    return {name: np.array(spent[1:]) for name, spent in times.items()}


def spread(values: Any) -> dict[str, float]:
    """Median and quartiles."""
    low, median, high = np.percentile(np.asarray(values, float), [25, 50, 75])
    return {"median": float(median), "low": float(low), "high": float(high)}


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    versions = {}
    for package in ("eqprop", "jax", "jaxlib", "numpy", "torch"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **versions,
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"

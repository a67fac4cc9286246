"""Many fits of different shapes in one process, two threads that fit at once, and a fork after use."""

import multiprocessing
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.apart import apart, one_core
from benchmarks.report import Report
from eqprop.errors import InputError
from eqprop.sklearn import EqPropClassifier

TEXT = """
`EqPropClassifier` fitted again and again, each time to data of another width with another number of hidden units, so
that every fit compiles: memory of the process, and its memory maps, of which Linux allows 65,530. Programs are
forgotten before they take too many (`eqprop.compile.make_room`). *Threads*: two fit at once what each then fits
alone; the most by which their probabilities differ. *Fork*: what a child that was forked after a fit says, or how it
ended within a minute.
"""


def run(short: bool) -> Report:
    rows = apart(f"life.measure({40 if short else 300})", one_core())
    last = rows[-1] | {"threads differ by": apart("life.threads()"), "fork": apart("life.fork()")}
    return Report("Long life in one process", TEXT, [{**dict.fromkeys(last), **row} for row in [*rows[:-1], last]])


def measure(fits: int) -> list[dict[str, Any]]:
    rows, began = [], time.process_time()
    for fit in range(fits):
        fitted(4 + fit, 3 + fit % 7)
        if fit in (0, 9, 49, 99, 199) or fit == fits - 1:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            maps = Path("/proc/self/maps").read_bytes().count(b"\n")
            seconds = time.process_time() - began
            rows.append({"fits": fit + 1, "memory, MB": pages * 4096 / 1e6, "maps": maps, "processor, s": seconds})
    return rows


def fitted(features: int, hidden: int) -> np.ndarray:
    """The probabilities for the examples themselves, after two epochs."""
    random = np.random.default_rng(features)
    X, y = random.normal(size=(90, features)), np.arange(90) % 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return EqPropClassifier(hidden_layer_sizes=(hidden,), max_iter=2, random_state=0).fit(X, y).predict_proba(X)


def threads() -> float:
    shapes = ((5, 4), (6, 3), (7, 5), (8, 2))
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda shape: fitted(*shape), shapes))
    return float(max(np.abs(a - fitted(*shape)).max() for a, shape in zip(together, shapes, strict=True)))


def fork() -> str:
    fitted(5, 4)
    context = multiprocessing.get_context("fork")
    answers: Any = context.SimpleQueue()
    child = context.Process(target=lambda: answers.put(_refusal()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX says that threads and forks do not go together
        child.start()
    child.join(60)
    if child.is_alive():
        child.kill()
        return "hangs"
    return answers.get() if child.exitcode == 0 else f"ended with {child.exitcode}"


def _refusal() -> str:
    try:
        fitted(5, 4)
    except InputError:
        return "refused in words"
    return "works"

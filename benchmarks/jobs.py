"""A search over settings of the estimator by one process and by two."""

import os
import resource
import tempfile
import time
from typing import Any

from benchmarks.apart import apart
from benchmarks.report import Report

TEXT = """
`GridSearchCV` over twelve settings of `EqPropClassifier` (4 × `beta`, 3 × `alpha`) on the digits, three folds each,
so 37 fits, with `n_jobs=1` and `n_jobs=2`. Each row is a process of its own. Seconds are those of the search;
processor time is that of the process with its workers, imports included. The first row began with no compiled
programs kept. A worker traces its programs itself, which takes about a second, and finds them compiled. With other
work on the machine, the processor time says what two free cores would: half of the second over the first.
"""


def run(short: bool) -> Report:
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as programs:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = programs  # which the workers inherit
        for jobs, kept in ((1, "no"), (1, "yes"), (2, "yes")):
            before = processor_time()
            seconds = apart(f"jobs.search({jobs}, {short})")
            row = {"n_jobs": jobs, "programs kept": kept, "seconds": seconds, "processor": processor_time() - before}
            rows.append(row | {"against one": rows[-1]["seconds"] / seconds if jobs > 1 else None})
    return Report("A grid of twelve by two processes", TEXT, rows)


def processor_time() -> float:
    """That of all processes that this one has waited for, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def search(jobs: int, short: bool) -> float:
    """Seconds of the search; its workers have ended when it returns."""
    from joblib.externals.loky import get_reusable_executor
    from sklearn.datasets import load_digits
    from sklearn.model_selection import GridSearchCV

    from eqprop.sklearn import EqPropClassifier

    X, y = load_digits(return_X_y=True)
    grid = {"beta": [0.1, 0.2, 0.3, 0.5], "alpha": [0.01, 0.03, 0.1]}
    began = time.perf_counter()
    GridSearchCV(EqPropClassifier(max_iter=10 if short else "auto", random_state=0), grid, cv=3, n_jobs=jobs).fit(X, y)
    seconds = time.perf_counter() - began
    if jobs > 1:
        get_reusable_executor().shutdown(wait=True)
    return seconds

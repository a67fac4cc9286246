"""A search over settings of the estimator by one process and by two."""

import os
import resource
import tempfile
import time
from typing import Any

from benchmarks.apart import apart
from benchmarks.report import Report

TEXT = """
`GridSearchCV` over twelve settings of `EqPropClassifier` (4 × `beta`, 3 × `alpha`) with its five folds, so 61 fits,
with `n_jobs=1` and `n_jobs=2`: on scikit-learn's digits (1,797 × 64, ten classes), and on 6,000 × 40 examples of five
classes that `make_classification` draws. Each row is a process of its own. Seconds are those of the search; processor
time is that of the process with its workers, imports included. The first row of each began with no compiled programs
kept. A worker imports all there is, and traces its programs itself, and at the end the process does so for the last
fit: three or four seconds, which two processes do not share. With other work on the machine, the processor time says
what two free cores would: half of the second over the first.
"""


def run(short: bool) -> Report:
    rows: list[dict[str, Any]] = []
    for data in ("digits", "6,000 × 40"):
        with tempfile.TemporaryDirectory() as programs:
            os.environ["JAX_COMPILATION_CACHE_DIR"] = programs  # which the workers inherit
            for jobs, kept in ((1, "no"), (1, "yes"), (2, "yes")):
                before = processor_time()
                seconds = apart(f"jobs.search({data!r}, {jobs}, {short})")
                row = {"data": data, "n_jobs": jobs, "programs kept": kept, "seconds": seconds}
                row |= {"processor": processor_time() - before}
                rows.append(row | {"against one": rows[-1]["seconds"] / seconds if jobs > 1 else None})
    return Report("A grid of twelve by two processes", TEXT, rows)


def processor_time() -> float:
    """That of all processes that this one has waited for, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def search(data: str, jobs: int, short: bool) -> float:
    """Seconds of the search; its workers have ended when it returns."""
    from joblib.externals.loky import get_reusable_executor
    from sklearn.datasets import load_digits, make_classification
    from sklearn.model_selection import GridSearchCV

    from eqprop.sklearn import EqPropClassifier

    X, y = load_digits(return_X_y=True)
    if data != "digits":
        X, y = make_classification(6000, 40, n_informative=20, n_classes=5, random_state=0)
    grid = {"beta": [0.1, 0.2, 0.3, 0.5], "alpha": [0.01, 0.03, 0.1]}
    began = time.perf_counter()
    GridSearchCV(EqPropClassifier(max_iter=10 if short else "auto", random_state=0), grid, n_jobs=jobs).fit(X, y)
    seconds = time.perf_counter() - began
    if jobs > 1:
        get_reusable_executor().shutdown(wait=True)
    return seconds

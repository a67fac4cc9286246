"""The estimators with their defaults beside scikit-learn's multilayer perceptrons with theirs."""

import multiprocessing
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.report import Report

TEXT = """
`EqPropClassifier` and `EqPropRegressor` beside scikit-learn's `MLPClassifier` and `MLPRegressor`, all with their
defaults (one hidden layer of 100 units), each behind a `StandardScaler`. Scores are accuracies, and R² for diabetes,
of five-fold cross-validation, averaged over random states. Each data set has a process of its own, in which the two fit
every fold in turns. Seconds are those of the first five folds; the first fit compiles. Mind that our defaults (initial
weights and biases, weight decay, rate, epochs, minibatches) were chosen among some twenty settings by their scores on
these same folds: they say what the defaults reach here, not what to expect of them elsewhere.
"""
SETS = ("iris", "wine", "breast_cancer", "digits", "diabetes")


def run(short: bool) -> Report:
    rows = []
    for name in SETS:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
            rows.append(fresh.submit(compare, name, 1 if short else 3).result())
    return Report("Tabular data: the scikit-learn estimators with their defaults", TEXT, rows)


def compare(name: str, states: int) -> dict[str, Any]:
    """Both contenders on one data set."""
    from eqprop.sklearn import EqPropClassifier, EqPropRegressor  # in the process that is timed

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    kinds = (EqPropRegressor, MLPRegressor) if name == "diabetes" else (EqPropClassifier, MLPClassifier)
    folds = list((KFold(5) if name == "diabetes" else StratifiedKFold(5)).split(X, y))
    scores, seconds = np.zeros((2, states, 5)), np.zeros((2, states, 5))
    for state in range(states):
        for fold, (train, test) in enumerate(folds):
            for k, kind in enumerate(kinds):
                model = make_pipeline(StandardScaler(), kind(random_state=state))
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # the perceptron has not converged after its 200 epochs
                    began = time.perf_counter()
                    model.fit(X[train], y[train])
                seconds[k, state, fold] = time.perf_counter() - began
                scores[k, state, fold] = model.score(X[test], y[test])
    ours, theirs = scores.mean((1, 2))
    spent = seconds[:, 0].mean(1)
    return {
        "data": f"{name}, {X.shape[0]} × {X.shape[1]}",
        "score": f"{ours:.3f}",
        "MLP's score": f"{theirs:.3f}",
        "first fit, s": float(seconds[0, 0, 0]),
        "mean fit, s": float(spent[0]),
        "MLP's mean fit, s": float(spent[1]),
        "ratio": float(spent[0] / spent[1]),
        "later fits, s": float(np.median(seconds[0, 0, 1:])),
    }

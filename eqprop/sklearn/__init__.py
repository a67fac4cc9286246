"""Estimators for scikit-learn: networks that settle, behind `fit` and `predict`."""

import os

if "OMP_NUM_THREADS" in os.environ:  # joblib tells its workers so how many threads are theirs; XLA reads NPROC
    os.environ.setdefault("NPROC", os.environ["OMP_NUM_THREADS"])

from eqprop.sklearn.classifier import EqPropClassifier
from eqprop.sklearn.regressor import EqPropRegressor

__all__ = ["EqPropClassifier", "EqPropRegressor"]

"""Estimators for scikit-learn: networks that settle, behind `fit` and `predict`."""

from eqprop.sklearn.classifier import EqPropClassifier
from eqprop.sklearn.regressor import EqPropRegressor

__all__ = ["EqPropClassifier", "EqPropRegressor"]

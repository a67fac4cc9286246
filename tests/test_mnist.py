"""The real thing, briefly: a network learns from MNIST."""

import os

import pytest

from eqprop import InputError, Run, data
from eqprop.study import Experiment, LearningOptions, NetworkOptions, perform


@pytest.mark.slow
def test_a_network_learns_mnist(tmp_path) -> None:
    try:
        mnist = data.load("mnist")
    except InputError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"MNIST cannot be had here: {error}")
    experiment = Experiment(
        "mnist",
        NetworkOptions(hidden=(100, 50)),
        learning=LearningOptions(epochs=2, train=10_000, learning_rate=(0.002,)),
    )
    trained = perform(experiment.build(mnist), Run.create(tmp_path / "run", experiment.to_dict()))
    assert trained.history[0]["valid_error"] < 0.15
    assert trained.result["test_error"] < 0.08
    assert trained.result["train_error"] < trained.result["test_error"]

"""The estimators: scikit-learn's conventions to the letter, weights as copies, and the network they stand for."""

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import joblib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.special import softmax
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_iris,
    make_classification,
    make_gaussian_quantiles,
    make_moons,
    make_regression,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import (
    check_estimators_dtypes,
    check_fit_score_takes_y,
    parametrize_with_checks,
)

import eqprop as ep
from eqprop.sklearn import EqPropClassifier, EqPropRegressor, auto
from eqprop.sklearn.boxed import WIDTH, Boxed
from eqprop.sklearn.excess import Excess
from eqprop.sklearn.rows import drawn, in_order, minibatches, room
from marks import slow

IRIS: Any = load_iris(return_X_y=True)
CANCER: Any = load_breast_cancer(return_X_y=True)
DIABETES: Any = load_diabetes(return_X_y=True)
QUICK: dict[str, Any] = {"max_iter": 30, "random_state": 0}


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize("check", [slow(check_estimators_dtypes), check_fit_score_takes_y])
def test_some_of_scikit_learns_own_checks(check: Any) -> None:
    check("EqPropClassifier", EqPropClassifier())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
@parametrize_with_checks([EqPropClassifier()])
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    """All of them, with none that is expected to fail."""
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
@parametrize_with_checks([EqPropRegressor()])
def test_scikit_learns_own_checks_of_the_regressor(estimator: Any, check: Any) -> None:
    """All of them as well; most go the way of the classifier's, through what the two share."""
    check(estimator)


@pytest.fixture(scope="module")
def flowers() -> EqPropClassifier:
    return EqPropClassifier(random_state=0).fit(*IRIS)


@pytest.fixture(scope="module")
def tumours() -> EqPropClassifier:
    return EqPropClassifier(**QUICK).fit(*CANCER)


# ---- examples, weights, sizes ----


@given(st.lists(st.integers(0, 4), min_size=1, max_size=20).filter(any), st.floats(0.01, 0.99))
def test_a_whole_weight_is_a_number_of_copies(weights: list[int], offset: float) -> None:
    weight = np.array(weights, float)
    positive = np.flatnonzero(weight)
    copies = positive[drawn(weight[positive], offset)]
    np.testing.assert_array_equal(copies, np.repeat(np.arange(len(weight)), weights))


@given(st.lists(st.floats(0.01, 100), min_size=2, max_size=30), st.integers(0, 2**32 - 1))
@settings(max_examples=50)
def test_other_weights_are_shares(weights: list[float], seed: int) -> None:
    weight = np.array([*weights, 0.5])
    share = len(weight) * weight / weight.sum()
    counts = [
        np.bincount(drawn(weight, offset), minlength=len(weight))
        for offset in np.random.RandomState(seed).uniform(size=9)
    ]
    for count in counts:
        assert count.sum() == len(weight)
        assert (np.abs(count - share) < 1 + 1e-9).all()


@pytest.mark.parametrize("factor", [1e308, 1e-300])
def test_weights_may_be_as_large_or_small_as_numbers_are(factor: float) -> None:
    np.testing.assert_array_equal(drawn(np.full(7, factor), 0.5), np.arange(7))


def test_drawing_is_fair() -> None:
    weight = np.array([0.3, 1.7, 2.25, 0.01])
    offsets = (np.arange(2000) + 0.5) / 2000
    counts = np.mean([np.bincount(drawn(weight, offset), minlength=4) for offset in offsets], axis=0)
    np.testing.assert_allclose(counts, 4 * weight / weight.sum(), atol=2e-3)


@given(st.integers(1, 300), st.integers(1, 50))
def test_minibatches_hold_all_examples_once(count: int, size: int) -> None:
    rows, filled = minibatches(np.arange(count), size, nobody=999)
    assert rows.shape == (room(filled), size)
    assert (rows[filled:] == 999).all()
    np.testing.assert_array_equal(np.sort(rows[rows < 999]), np.arange(count))


def test_rows_are_sorted_by_content() -> None:
    rng = np.random.RandomState(0)
    X = rng.randint(0, 2, (50, 3)).astype(float)
    shuffled = X[rng.permutation(50)]
    np.testing.assert_array_equal(X[in_order(X)], shuffled[in_order(shuffled)])


@pytest.mark.slow
def test_the_order_of_the_rows_does_not_matter(flowers: EqPropClassifier) -> None:
    X, y = IRIS
    order = np.random.RandomState(3).permutation(len(X))
    again = EqPropClassifier(**flowers.get_params()).fit(X[order], y[order])
    np.testing.assert_array_equal(again.decision_function(X), flowers.decision_function(X))


# ---- predictions ----


def test_the_outputs_are_those_of_the_network_that_it_says_it_is(flowers: EqPropClassifier) -> None:
    """By another relaxation, in the network without room to spare."""
    X, _ = IRIS
    x = np.clip((X - X.mean(0)) / X.std(0) / 3, -1, 1)
    net = flowers.network_
    F = ep.Total(net, ep.SquaredError())
    settled, info = ep.Gradient(steps=2000, tol=1e-6)(F, flowers.theta_, (x, None), 0.0, net.rest(len(x)))
    assert info.converged.all()
    np.testing.assert_allclose(flowers.decision_function(X), settled["output"], atol=1e-5)
    assert repr(net).startswith("Hopfield")


@pytest.mark.parametrize("method", ["predict", slow("predict_proba"), slow("decision_function")])
def test_a_prediction_does_not_depend_on_its_batch(tumours: EqPropClassifier, method: str) -> None:
    X, _ = CANCER
    whole = getattr(tumours, method)(X)
    assert whole.dtype == (np.int64 if method == "predict" else np.float64)
    for rows in (slice(0, 1), slice(100, 103), slice(200, 569)):
        np.testing.assert_array_equal(getattr(tumours, method)(X[rows]), whole[rows])


def test_probabilities_are_as_likely_as_a_temperature_can_make_them(flowers: EqPropClassifier) -> None:
    X, y = IRIS
    p = flowers.predict_proba(X)
    np.testing.assert_allclose(p.sum(1), 1)
    np.testing.assert_array_equal(flowers.classes_[p.argmax(1)], flowers.predict(X))
    np.testing.assert_allclose(np.exp(flowers.predict_log_proba(X)), p)
    # Where each of the 150 examples is of any class by a chance of 1 in 151.
    mixed = (150 * np.eye(3)[y] + 1 / 3) / 151
    outputs, temperatures = flowers.decision_function(X), np.exp(np.linspace(-3, 5, 2001))
    logs = [np.log(softmax(t * outputs, axis=1)) for t in temperatures]
    best = temperatures[np.argmax([np.sum(mixed * log) for log in logs])]
    assert flowers.temperature_ == pytest.approx(best, rel=5e-3)


def test_two_classes_have_one_output(tumours: EqPropClassifier) -> None:
    X, y = CANCER
    decision, p = tumours.decision_function(X), tumours.predict_proba(X)
    assert decision.shape == (len(X),)
    np.testing.assert_array_equal(decision > 0, tumours.predict(X) == 1)
    np.testing.assert_array_equal(np.argsort(decision), np.argsort(p[:, 1] - p[:, 0]))
    assert tumours.score(X, y) > 0.95


@pytest.mark.parametrize("factor", [1e-6, slow(1e6)])
def test_features_and_targets_may_come_in_any_units(factor: float) -> None:
    X, y = DIABETES
    few: Any = QUICK | {"learning_rate_init": 0.005}  # training makes more of differences in rounding at a higher rate
    usual, other = EqPropRegressor(**few).fit(X, y), EqPropRegressor(**few).fit(factor * (X + 3), factor * y - 5)
    np.testing.assert_allclose((other.predict(factor * (X + 3)) + 5) / factor, usual.predict(X), rtol=0.02, atol=3)
    assert usual.score(X, y) > 0.45


def test_a_constant_target_is_predicted_as_it_is() -> None:
    X, y = DIABETES
    found = EqPropRegressor(**QUICK).fit(X, np.stack([y, np.full(len(y), 1e-6)], axis=1)).predict(X)
    np.testing.assert_allclose(found[:, 1], 1e-6)


def test_a_target_that_is_constant_at_first_has_its_scale_from_what_varies() -> None:
    """The other target keeps the scale that it had; the features had theirs from all examples."""
    X, y = DIABETES
    constant = np.full(len(y), 0.1)  # whose mean is not 0.1 to the last digit
    model = EqPropRegressor(**QUICK).partial_fit(X, np.stack([y, constant], axis=1))
    scales = model.target_mean_[0], model.target_scale_[0]
    np.testing.assert_allclose(model.partial_fit(X, np.stack([y, constant], axis=1)).predict(X)[:, 1], 0.1)
    Y = np.stack([y, y], axis=1)
    for _ in range(15):
        model.partial_fit(X, Y)
    assert (model.target_mean_[0], model.target_scale_[0]) == scales
    assert model.score(X, Y) > 0.4


@pytest.mark.slow
def test_a_warm_start_takes_scales_from_what_varies_as_well() -> None:
    X, y = DIABETES
    model = EqPropRegressor(warm_start=True, **QUICK).fit(X, np.zeros(len(y)))
    assert (model.predict(X) == 0).all()
    assert model.fit(X, y).score(X, y) > 0.4


def test_a_class_with_one_member_can_still_be_stopped_early() -> None:
    X, y = IRIS
    y = np.append(3, y[1:])
    assert EqPropClassifier(early_stopping=True, **QUICK).fit(X, y).score(X, y) > 0.5


@pytest.mark.parametrize("architecture", [slow("skip"), "fully-connected"])
@pytest.mark.parametrize(
    "data", [IRIS, pytest.param(CANCER, marks=pytest.mark.slow)], ids=["three outputs", "one output"]
)
@pytest.mark.slow
def test_other_architectures_learn_and_are_what_they_say(architecture: str, data: Any, tmp_path: Path) -> None:
    """Another relaxation gives the outputs, in the network without room to spare."""
    X, y = data
    # Fully connected on iris, 30 epochs end in the middle of learning (0.63 and 0.95 with two seeds, 0.97 after 100).
    model = EqPropClassifier(20, architecture=architecture, max_iter=100, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
    x = np.clip((X - X.mean(0)) / X.std(0) / 3, -1, 1)
    net, outputs = model.network_, model.n_outputs_
    build = {"skip": ep.Hopfield.skip, "fully-connected": ep.Hopfield.fully_connected}[architecture]
    assert net == build(X.shape[1], 20, outputs, activation=ep.hard_tanh)
    F = ep.Total(net, ep.SquaredError())
    settled, info = ep.Gradient(steps=5000, tol=1e-6, epsilon=0.2)(F, model.theta_, (x, None), 0.0, net.rest(len(x)))
    assert info.converged.all()
    decision = model.decision_function(X).reshape(len(X), outputs)
    np.testing.assert_allclose(decision, settled["output"], atol=1e-4)

    model.set_params(architecture="layered")  # what is fitted stays what it is
    model.save(tmp_path / "model.safetensors")
    copy = EqPropClassifier.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(copy.decision_function(X).reshape(len(X), outputs), decision)
    with pytest.raises(ValueError, match=f"the network is {architecture}: fit it anew"):
        copy.set_params(warm_start=True).fit(X, y)


def test_several_targets_at_once() -> None:
    drawn_at_random: Any = make_regression(200, 5, n_targets=3, noise=1.0, random_state=0)
    X, Y = drawn_at_random
    model = EqPropRegressor(random_state=0).fit(X, Y)
    assert model.predict(X).shape == (200, 3)
    assert model.score(X, Y) > 0.95


# ---- fitting ----


@pytest.mark.slow
def test_it_keeps_the_weights_that_score_best_on_what_is_held_out() -> None:
    asked: list[Any] = []

    class Watched(EqPropClassifier):
        def _goodness(self, theta: Any, *args: Any) -> float:
            asked.append((super()._goodness(theta, *args), theta))
            return asked[-1][0]

    model = Watched(early_stopping=True, validation_fraction=0.2, random_state=0).fit(*CANCER)
    assert model.validation_scores_ == [score for score, _ in asked]
    assert model.n_iter_ == len(model.loss_curve_) == len(asked) < 100
    best = int(np.argmax(model.validation_scores_))
    assert best == model.n_iter_ - 11
    assert model.theta_ is asked[best][1]
    assert model.score(*CANCER) > 0.95

    # A warm start that finds nothing better keeps what there is.
    before = model.theta_
    model.set_params(warm_start=True, learning_rate_init=1e-9, max_iter=2).fit(*CANCER)
    assert model.theta_ is before


@pytest.mark.slow
def test_a_regressor_stops_early_too_and_needs_two_examples_to_score() -> None:
    model = EqPropRegressor(early_stopping=True, random_state=0).fit(*DIABETES)
    assert max(model.validation_scores_) == pytest.approx(sorted(model.validation_scores_)[-1])
    assert model.n_iter_ < 100 and model.score(*DIABETES) > 0.4
    with pytest.raises(ValueError, match="R² needs two"):
        EqPropRegressor(early_stopping=True).fit(DIABETES[0][:10], DIABETES[1][:10])


def test_a_rare_example_has_room_in_the_box_too() -> None:
    X, y = np.arange(20.0)[:, None], np.append(np.zeros(19), 30.0)
    weight = np.append(np.full(19, 1.3), 0.01)
    model = EqPropRegressor(**QUICK).fit(X, y, sample_weight=weight)
    assert (30 - model.target_mean_) / model.target_scale_ <= 0.8


def test_a_loss_that_does_not_fall_any_more_ends_training() -> None:
    model = EqPropClassifier(tol=1.0, n_iter_no_change=3, random_state=0).fit(*IRIS)
    assert model.n_iter_ == 4


@pytest.mark.parametrize(
    ("estimator", "data", "rate"),
    [
        (EqPropClassifier, IRIS, 0.1),
        pytest.param(EqPropClassifier, IRIS, 1.0, marks=pytest.mark.slow),
        (EqPropRegressor, DIABETES, 0.1),
    ],
)
def test_training_that_ends_at_chance_is_told(estimator: Any, data: Any, rate: float) -> None:
    model = estimator(learning_rate_init=rate, **QUICK)
    with pytest.warns(ConvergenceWarning, match=rf"learning_rate_init={rate}.*another rate"):
        assert model.fit(*data).score(*data) < 0.7
    model.set_params(max_iter=4).fit(*data)  # is too short to say


def test_a_rare_class_and_a_warm_start_are_no_chance() -> None:
    """Where nearly all are of one class, training ends early, as accuracy cannot rise, and the loss still falls."""
    X = np.random.RandomState(0).normal(size=(100, 4))
    assert EqPropClassifier(early_stopping=True, random_state=0).fit(X, np.arange(100) % 33 == 0).n_iter_ < 20
    model = EqPropClassifier(warm_start=True, random_state=0).fit(*IRIS)
    assert model.fit(*IRIS).loss_curve_[-1] < 0.3


def test_a_noisy_loss_does_not_end_training_before_the_rate_has_fallen() -> None:
    """Two moons that overlap: the loss goes up and down by more than it falls."""
    model = EqPropClassifier(random_state=3).fit(*make_moons(400, noise=0.25, random_state=102))
    assert model.n_iter_ == auto.epochs(400)


@given(st.integers(1, 10**8))
def test_automatic_settings_are_allowed_and_do_the_less_the_more_examples_there_are(n: int) -> None:
    rules = (auto.nudge, auto.decay, auto.excess, auto.epochs)
    assert 0 < auto.excess(n) <= 1
    values = {
        "beta": auto.nudge(n),
        "alpha": auto.decay(n),
        "max_iter": auto.epochs(n),
        "batch_size": auto.minibatch(n),
    }
    EqPropClassifier(**values)._validate_params()
    assert all(rule(2 * n) <= rule(n) for rule in rules)
    assert auto.minibatch(2 * n) >= auto.minibatch(n) == room(auto.minibatch(n))
    assert [auto.chosen(7, rule, n) for rule in rules] == [7, 7, 7, 7]


@given(st.floats(-1, 1), st.sampled_from([-0.5, 0.5]), st.floats(0, 1))
def test_an_output_beyond_its_target_counts_less(output: float, target: float, excess: float) -> None:
    """The squared error at an excess of 1, scikit-learn's squared hinge loss at 0, and between them in between."""
    s, y = {"output": jnp.array([output])}, jnp.array([target])
    squared = float(ep.SquaredError()({}, y, s))
    hinge = max(0.0, 0.5 - np.sign(target) * output) ** 2 / 2
    expected = excess * squared + (1 - excess) * hinge
    assert float(Excess(excess=excess)({}, y, s)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("beta", [-0.5, 0.5])
def test_an_output_beyond_its_target_bends_the_energy_no_more_than_is_said(beta: float) -> None:
    """β C bends by β on one side of a target and by β · excess on the other, by finite differences."""
    cost, step = Excess(excess=0.25), 0.05

    def energy(output: float) -> float:
        return beta * float(cost({}, jnp.array([0.5]), {"output": jnp.array([output])}))

    bends = [(energy(at + step) - 2 * energy(at) + energy(at - step)) / step**2 for at in (0.2, 0.8)]
    assert sorted(bends) == pytest.approx(sorted([beta, 0.25 * beta]), abs=1e-3)
    assert float(cost.curvature({}, beta)["output"]) == pytest.approx(max(bends), abs=1e-3)


@pytest.mark.parametrize(("features", "heard"), [(2, 0.7), (30, 0.7), (800, (2 * 800 / 1800) ** 0.5)])
def test_first_weights_drive_hidden_units_by_glorots_range_but_not_too_little(features: int, heard: float) -> None:
    rng = np.random.RandomState(0)
    W = Boxed((features, 1000, 1)).init(rng, drive=0.7)["W"]["input-hidden"]
    assert (rng.normal(size=(500, features)) / WIDTH @ W).std() == pytest.approx(heard, rel=0.1)


def test_examples_of_earlier_calls_count_for_what_is_automatic() -> None:
    """A stream in small parts has the weight decay of a large set."""
    X, y = IRIS
    automatic, fixed = (EqPropClassifier(alpha=alpha, random_state=0) for alpha in ("auto", 0.1))
    X, y = X[::5], y[::5]
    for seen in (30, 60, 90, 120):  # of four features
        automatic.partial_fit(X, y, classes=[0, 1, 2])
        fixed.partial_fit(X, y, classes=[0, 1, 2])
        same = np.array_equal(automatic.theta_["W"]["input-hidden"], fixed.theta_["W"]["input-hidden"])
        assert same == (auto.decay(seen / 4) == 0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "least"),
    [
        # Three shells around a centre: 0.70 with a nudge of one half, whatever else; the perceptron has 0.93.
        (lambda: make_gaussian_quantiles(n_samples=9000, n_features=8, n_classes=3, random_state=206), 0.8),
        (lambda: make_classification(25_000, 50, n_informative=20, n_classes=5, random_state=1), 0.9),
    ],
    ids=["shells", "5 classes"],
)
def test_defaults_hold_on_larger_data(data: Any, least: float) -> None:
    X, y = data()
    rows = 4000 if len(X) < 10_000 else 20_000
    assert EqPropClassifier(random_state=0).fit(X[:rows], y[:rows]).score(X[rows:], y[rows:]) > least


FIT = """
import jax
from sklearn.datasets import load_iris
from eqprop.sklearn import EqPropClassifier
asked = []
jax.monitoring.register_event_listener(lambda event, **_: asked.append(event) if "compile_requests" in event else None)
EqPropClassifier(random_state=0, max_iter=2).fit(*load_iris(return_X_y=True))
print(len(asked))
"""


@pytest.mark.slow
def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    """As the workers of n_jobs do: they ask for three programs, and find them."""
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(tmp_path)}
    environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    kept = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", FIT], env=environment, capture_output=True, text=True, check=True)
        assert int(done.stdout) == 3
        kept.append(sorted(path.name for path in tmp_path.glob("*-cache")))
    assert kept[0] == kept[1] and len(kept[0]) == 3


@pytest.mark.slow
def test_a_warm_start_goes_on_and_parts_add_up() -> None:
    X, y = IRIS
    model = EqPropClassifier(max_iter=5, warm_start=True, random_state=0).fit(X, y)
    first = list(model.loss_curve_)
    model.fit(X, y)
    assert model.loss_curve_[:5] == first
    assert model.n_iter_ == 10
    assert model.loss_curve_[-1] < first[-1]
    with pytest.raises(ValueError, match="fit it anew"):
        model.set_params(hidden_layer_sizes=(7,)).fit(X, y)

    parts = EqPropClassifier(random_state=0).partial_fit(X[:100], y[:100], classes=[0, 1, 2])
    for _ in range(30):
        parts.partial_fit(X, y)
    assert parts.score(X, y) > 0.9
    assert parts.n_iter_ == 31
    temperature = parts.temperature_
    parts.partial_fit(X[:1], y[:1])  # one example has little to say of it
    assert parts.temperature_ == pytest.approx(temperature, rel=0.01)


@pytest.mark.slow
def test_classes_that_weigh_more_are_predicted_more_often() -> None:
    rng = np.random.RandomState(0)
    y = rng.randint(0, 2, 300)
    X = rng.normal(size=(300, 2)) + y[:, None]
    counts = [
        EqPropClassifier(class_weight=weight, **QUICK).fit(X, y).predict(X).sum()
        for weight in ({0: 5, 1: 1}, None, {0: 0.2, 1: 1.0})
    ]
    assert counts[0] < counts[1] < counts[2]
    rare = np.flatnonzero((y == 0) | (np.cumsum(y) <= 30))
    balanced = EqPropClassifier(class_weight="balanced", **QUICK).fit(X[rare], y[rare])
    assert balanced.predict(X[rare]).sum() > EqPropClassifier(**QUICK).fit(X[rare], y[rare]).predict(X[rare]).sum()


@pytest.mark.parametrize("part", ["X", "y"])
def test_later_values_beyond_the_first_scales_are_told_once(part: str) -> None:
    X, y = DIABETES
    lowest = np.argsort(X[:, 2] if part == "X" else y)
    first, X = lowest[:100], X if part == "y" else np.tile(X[:, 2:3], 10)
    model = EqPropRegressor(**QUICK).partial_fit(X[first], y[first])
    with pytest.warns(ep.LearningWarning, match=f"^{part}: .* beyond the scale.*large, shuffled batch") as told:
        model.partial_fit(X, y)
    assert told[0].filename == __file__
    model.partial_fit(X, y)
    with pytest.warns(ep.LearningWarning):
        model.fit(X[first], y[first]).partial_fit(X, y)  # scales that are new


def test_a_shuffled_stream_is_not_told_of_its_few_far_values() -> None:
    X, y = DIABETES
    order = np.random.RandomState(0).permutation(len(X))
    model = EqPropRegressor(**QUICK).partial_fit(X[order[:100]], y[order[:100]])
    far = order[np.abs(model._scaled(X[order])).max(1) > 1]
    model.partial_fit(X[far[:1]], y[far[:1]])  # one example alone says little
    model.partial_fit(X, y)


def test_progress_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    EqPropClassifier(max_iter=2, verbose=True, early_stopping=True, random_state=0).fit(*IRIS)
    told = capsys.readouterr().err
    assert "epoch 2/2" in told
    assert "loss" in told and "validation score" in told


# ---- in people's tools ----


@pytest.mark.slow
def test_it_works_in_pipelines_and_searches() -> None:
    X, y = IRIS
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), EqPropClassifier(**QUICK))
    assert cross_val_score(pipeline, frame, names).mean() > 0.85
    search = GridSearchCV(pipeline, {"eqpropclassifier__beta": [0.2, 0.5]}, n_jobs=2, cv=2).fit(frame, names)
    best = search.best_estimator_[-1]
    assert best.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert set(best.predict(StandardScaler().set_output(transform="pandas").fit_transform(frame))) <= set(names)


def test_it_survives_pickle_and_joblib(flowers: EqPropClassifier, tmp_path: Path) -> None:
    X, _ = IRIS
    joblib.dump(flowers, tmp_path / "model.joblib")
    for copy in (pickle.loads(pickle.dumps(flowers)), joblib.load(tmp_path / "model.joblib")):
        np.testing.assert_array_equal(copy.decision_function(X), flowers.decision_function(X))


def test_it_is_exchanged_through_safetensors(tmp_path: Path) -> None:
    X, y = IRIS
    frame, names = pd.DataFrame(X, columns=list("abcd")), np.array(["one", "two", "three"])[y]
    weight = {"one": 1, "two": 2, "three": 1}
    sizes: Any = np.array([20, 10])
    model = EqPropClassifier(sizes, class_weight=weight, **QUICK).fit(frame, names)
    model.save(tmp_path / "model.safetensors")
    copy = EqPropClassifier.load(tmp_path / "model.safetensors")
    assert copy.get_params() == model.get_params() | {"hidden_layer_sizes": [20, 10]}
    np.testing.assert_array_equal(copy.predict_proba(frame), model.predict_proba(frame))
    np.testing.assert_array_equal(copy.predict(frame), model.predict(frame))
    assert copy.loss_curve_ == model.loss_curve_
    assert copy.partial_fit(frame, names).n_iter_ == model.n_iter_ + 1
    joblib.dump(model, tmp_path / "model.joblib", compress=3)
    (tmp_path / "model.pickle").write_bytes(pickle.dumps(model))
    for path in (tmp_path / "model.joblib", tmp_path / "model.pickle"):
        with pytest.raises(ep.InputError, match=r"no safetensors file.*joblib\.load"):
            EqPropClassifier.load(path)
    with pytest.raises(ep.InputError, match="holds EqPropClassifier"):
        EqPropRegressor.load(tmp_path / "model.safetensors")
    with pytest.raises(ep.InputError, match="not there"):
        model.save(tmp_path / "missing" / "model.safetensors")
    with pytest.raises(ep.InputError, match="random_state"):
        model.set_params(random_state=np.random.RandomState(0)).save(tmp_path / "other.safetensors")

    regressor = EqPropRegressor(**QUICK).fit(*DIABETES)
    regressor.save(tmp_path / "regressor.safetensors")
    copy = EqPropRegressor.load(tmp_path / "regressor.safetensors")
    np.testing.assert_array_equal(copy.predict(DIABETES[0]), regressor.predict(DIABETES[0]))


# ---- what cannot be ----


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: EqPropClassifier(beta=1.5).fit(*IRIS), "beta"),
        (lambda: EqPropClassifier(hidden_layer_sizes=(10, 0)).fit(*IRIS), "hidden_layer_sizes"),
        (lambda: EqPropClassifier(class_weight="odd").fit(*IRIS), "class_weight"),
        (lambda: EqPropClassifier().fit(csr_array(IRIS[0]), IRIS[1]), "[Ss]parse"),
        (lambda: EqPropClassifier().fit(IRIS[0], np.zeros(150)), "one class"),
        (lambda: EqPropClassifier().fit(*IRIS, sample_weight=np.zeros(150)), "at least one non-zero"),
        (lambda: EqPropClassifier().fit(*IRIS, sample_weight=-np.ones(150)), "[Nn]egative"),
        (lambda: EqPropClassifier().partial_fit(*IRIS), "classes=None"),
        (lambda: EqPropClassifier().partial_fit(*IRIS, classes=[]), "two or more"),
        (lambda: EqPropClassifier(class_weight={0: 0, 1: 0, 2: 0}).fit(*IRIS), "not all of them 0"),
        (lambda: EqPropClassifier(class_weight={0: np.nan}).fit(*IRIS), "weights of 0 or more"),
        (lambda: EqPropClassifier(learning_rate_init=3e38, max_iter=3).fit(*IRIS), "training diverged"),
        (lambda: EqPropClassifier(True).fit(*IRIS), "hidden_layer_sizes"),
        (lambda: EqPropClassifier(architecture="ring").fit(*IRIS), "architecture"),
        (lambda: EqPropClassifier((9, 9), architecture="fully-connected").fit(*IRIS), "one number of units"),
        (lambda: EqPropClassifier().fit(1e200 * IRIS[0], IRIS[1]), "too large"),
        (lambda: EqPropRegressor().fit(IRIS[0], 1e160 * IRIS[1]), "y has values too large for their variance"),
        (
            lambda: EqPropClassifier().partial_fit(*IRIS, classes=np.arange(2)),
            r"the class 2, which is not one of the classes \[0, 1\]",
        ),
        (lambda: EqPropClassifier().fit(IRIS[0], np.full(150, "a")), "the one class 'a'"),
        (lambda: EqPropClassifier(early_stopping=True).partial_fit(*IRIS, classes=[0, 1, 2]), "early_stopping=True"),
        (lambda: EqPropRegressor(early_stopping=True).partial_fit(*DIABETES), "early_stopping=False"),
        (lambda: EqPropClassifier(class_weight="balanced").partial_fit(*IRIS, classes=[0, 1, 2]), "balanced"),
        (lambda: EqPropClassifier().save("nowhere"), "not fitted"),
    ],
)
def test_bad_input_is_refused_with_the_way_out(make: Any, words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        make()


def test_later_parts_must_fit_the_first() -> None:
    model = EqPropClassifier(**QUICK).partial_fit(*IRIS, classes=[0, 1, 2])
    with pytest.raises(ValueError, match=r"classes=\[0, 1\] are not those of the first call, \[0, 1, 2\]"):
        model.partial_fit(*IRIS, classes=[0, 1])
    regressor = EqPropRegressor(**QUICK).partial_fit(IRIS[0], IRIS[0][:, :2])
    with pytest.raises(ValueError, match="1 targets"):
        regressor.partial_fit(*IRIS)

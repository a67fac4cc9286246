"""Figures show what they were given, say what it is, and refuse what they cannot show."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import sklearn.metrics
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import eqprop as ep
from eqprop import InputError, plots
from marks import nothing_missing

ROOT = Path(__file__).parent.parent
HISTORY = [{"epoch": n, "train_error": 0.5 / n, "valid_error": 0.6 / n} for n in (1, 2, 3)]
RNG = np.random.default_rng(0)
WEIGHTS = RNG.normal(size=(12, 30))
TRUE, PREDICTED = RNG.integers(0, 3, 50), RNG.integers(0, 3, 50)
BETAS = np.logspace(-1, -4, 7)
ERRORS = {"one-sided": list(2 * BETAS), "symmetric": [*(BETAS[:-1] ** 2), 0.0]}
RESIDUALS = [1e-1, 1e-2]
ROW = {"errors": {"one rate": [5.0, 4.0]}, "cosine": {"W_1": [0.5, 0.9]}, "norm": {"W_1": [0.1, 0.9]}}


def traces() -> tuple[ep.Trace, ep.Trace]:
    """Two examples that settle for 5 steps, and for 2 under a nudge; one layer is large, one small."""
    net = ep.Hopfield.layered(4, 20, 3)
    F, theta, v = ep.Total(net, ep.SquaredError()), net.init(jax.random.key(0)), (np.ones((2, 4)), np.eye(3)[:2])
    free = ep.Gradient(steps=5).trace(F, theta, v, 0.0, net.rest(2))
    return free, ep.Gradient(steps=2).trace(F, theta, v, 0.7, jax.tree.map(lambda path: path[:, -1], free.state))


FREE, NUDGED = traces()
CIRCUIT = ep.Resistive.layered(2, 4, 2)
CONDUCTANCES = CIRCUIT.init(jax.random.key(0))
VOLTS = CIRCUIT.voltages(jnp.ones(2), {"hidden": jnp.array([0.5, 0.0, -0.5, 0.0]), "output": jnp.array([0.1, -0.1])})

MAPS = {
    "input": {"image": RNG.uniform(size=(6, 6, 3))},
    "conv1": {moment: RNG.uniform(size=(3, 3, 4)) for moment in ("free 1", "nudged 1")},
    "output": {moment: RNG.uniform(size=10) for moment in ("free 1", "nudged 1")},
}
PHASES = {"hidden": RNG.normal(size=(4, 5)), "output": RNG.normal(size=(4, 2))}
HALVES = np.where(np.arange(3) < 2, RNG.uniform(size=(2, 3, 3)), np.nan)
FIGURES: dict[str, Callable[[], Figure]] = {
    "learning_curve": lambda: plots.learning_curve(HISTORY, "a run"),
    "learning_curves": lambda: plots.learning_curves({"one": [HISTORY, HISTORY[:2]], "other": [HISTORY]}),
    "weight_changes": lambda: plots.weight_changes(
        {"a net": {"input-hidden": [0.1, 0.2], "hidden-output": [0.3, 0.4]}}
    ),
    "parallel_coordinates": lambda: plots.parallel_coordinates(
        {"rate": [0.1, 0.01, 0.001], "layers": ["10", "10x10", "10"]}, [3.0, 2.0, 50.0], log=["rate"], title="a sweep"
    ),
    "rivals": lambda: plots.rivals({"digits": {"ours": {"EP": HISTORY}, "theirs": {"BP": HISTORY}}}),
    "angles": lambda: plots.angles({"a rule": [90, 45], "another": [80, 70]}),
    "modes": lambda: plots.modes({"a rule": {"cost": [2, 1], "objective": [1, 0]}, "another": {"cost": [3, 2]}}),
    "receptive_fields": lambda: plots.receptive_fields(WEIGHTS, (3, 4), count=7),
    "filters": lambda: plots.filters(RNG.normal(size=(3, 3, 1, 6))),
    "feature_maps": lambda: plots.feature_maps(MAPS),
    "circuit": lambda: plots.circuit(CIRCUIT, CONDUCTANCES, VOLTS, title="a circuit"),
    "confusion_matrix": lambda: plots.confusion_matrix(TRUE, PREDICTED, ("cat", "dog", "cow")),
    "energy": lambda: plots.energy(FREE, NUDGED, beta=0.7, example=1),
    "states": lambda: plots.states(FREE, NUDGED, target=2, epsilon=0.5),
    "settling": lambda: plots.settling(FREE, NUDGED, beta=0.7, target=2),
    "gradient_error": lambda: plots.gradient_error(BETAS, ERRORS, orders=(1, 2)),
    "against_residual": lambda: plots.against_residual(RESIDUALS, {"a nudge": ROW}),
    "spread": lambda: plots.spread(
        {"a": ("seeds", "error", {"x": {1: [1, 2, 6], 2: [3]}}), "b": ("depth", "steps", {"y": {4: [8, 9]}})},
        log={"b": "xy"},
        like=["a", "b"],
    ),
    "locking": lambda: plots.locking(PHASES, PHASES, target=1),
    "completion": lambda: plots.completion({"given": HALVES, "stored": np.ones((2, 3, 3))}, ["one", "two"]),
    "capacity": lambda: plots.capacity(
        {"itself": {"n = 2": {0.5: [0.0], 1.0: [0.01, 0.03]}}}, {"n = 2": ({50: 8.0}, {50: 7.0, 100: 14.0})}
    ),
    "tracking": lambda: plots.tracking([1, 2], {"learns": [[5, 4], [3, 2]], "frozen": [[5, 9], [3, 9]]}, onset=1),
}
FUNCTIONS = sorted(name for name in plots.__all__ if isinstance(getattr(plots, name), Callable) and name != "styled")


def curves(axes: Axes) -> dict[str, np.ndarray]:
    """The labelled lines, as (2, points)."""
    return {str(line.get_label()): np.asarray(line.get_data(), float) for line in axes.lines}


def texts(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_every_figure_is_here() -> None:
    nothing_missing(FUNCTIONS, FIGURES, "functions of eqprop.plots without a row in FIGURES")
    nothing_missing(FIGURES, FUNCTIONS, "rows of FIGURES that are not exported by eqprop.plots")
    assert plots.__all__ == sorted(plots.__all__)


@pytest.mark.parametrize("name", FIGURES)
def test_every_axis_says_what_it_shows(name: str, tmp_path: Path) -> None:
    assert getattr(plots, name).__doc__
    figure = FIGURES[name]()
    assert isinstance(figure, Figure)
    figure.savefig(tmp_path / "figure.png")  # what cannot be drawn, or warns, does so now
    for axes in figure.axes:
        if not axes.axison:  # images whose pixels have no coordinates
            continue
        # Of panels that share an axis, one says what it is.
        beside = [*axes.get_shared_y_axes().get_siblings(axes), axes]
        above = [*axes.get_shared_x_axes().get_siblings(axes), axes]
        assert any(other.get_ylabel() for other in beside)
        assert any(other.get_xlabel() for other in above) or axes.get_label() == "<colorbar>"
        for text in (axes.xaxis.label, axes.yaxis.label, axes.title, *axes.texts, *axes.get_xticklabels()):
            assert float(text.get_fontsize()) >= 8


@pytest.mark.parametrize("name", FIGURES)
def test_nothing_is_left_open_in_pyplot(name: str) -> None:
    import matplotlib.pyplot as plt

    FIGURES[name]()
    assert plt.get_fignums() == []


# ---- learning ----


def test_learning_curves_are_in_percent_and_every_seed_is_drawn() -> None:
    one, other = FIGURES["learning_curves"]().axes
    assert len(one.lines) == 4
    assert len(other.lines) == 2
    np.testing.assert_allclose(curves(other)["training, while learning"], [[1, 2, 3], [50, 25, 50 / 3]])
    np.testing.assert_allclose(curves(other)["validation"], [[1, 2, 3], [60, 30, 20]])


def test_without_validation_there_is_one_curve() -> None:
    (axes,) = plots.learning_curve([{"epoch": 1, "train_error": 0.1}]).axes
    assert list(curves(axes)) == ["training, while learning"]


@pytest.mark.parametrize("error", [0.0, 0.3])
def test_errors_that_stay_the_same_are_in_sight(error: float) -> None:
    (axes,) = plots.learning_curve([{"epoch": n, "train_error": error} for n in (1, 2)]).axes
    low, high = axes.get_ylim()
    assert low == 0
    assert 100 * error < 0.97 * high


def test_weight_changes_are_numbered_from_the_input() -> None:
    (axes,) = FIGURES["weight_changes"]().axes
    np.testing.assert_array_equal(curves(axes)["$W_2$, hidden-output"], [[1, 2], [0.3, 0.4]])
    assert next(iter(curves(axes))) == "$W_1$, input-hidden"


def test_rivals_have_the_first_method_in_every_panel() -> None:
    ours, theirs = FIGURES["rivals"]().axes
    np.testing.assert_array_equal(curves(ours)["EP"], curves(theirs)["EP"])
    assert list(curves(theirs)) == ["EP", "BP"]


def test_more_curves_than_styles_are_all_drawn() -> None:
    many = {f"rule {k}": [1.0, 2.0] for k in range(2 * len(plots.STYLES) + 1)}
    assert list(curves(plots.angles(many).axes[0])) == list(many)


def test_modes_show_each_rule_that_has_the_number() -> None:
    cost, objective = FIGURES["modes"]().axes
    np.testing.assert_array_equal(curves(cost)["another"][1], [3, 2])
    assert "another" not in curves(objective)


def test_spread_shows_medians_and_quartiles() -> None:
    one, other = FIGURES["spread"]().axes
    np.testing.assert_array_equal(curves(one)["x"], [[1, 2], [2, 3]])
    low, high = np.quantile([1, 2, 6], (0.25, 0.75))
    bars = one.collections[0].get_paths()
    np.testing.assert_allclose(np.asarray(bars[0].vertices), [[1, low], [1, high]])
    assert (other.get_xscale(), one.get_ylim()) == ("log", other.get_ylim())
    many = {float(n): [n, n + 1, n + 5] for n in range(20)}
    (band,) = plots.spread({"a": ("x", "y", {"": many})}).axes[0].collections
    edge = np.asarray(band.get_paths()[0].vertices)[:, 1]
    np.testing.assert_allclose([edge.min(), edge.max()], [0.5, 22])


# ---- the network ----


def test_receptive_fields_are_the_strongest_units_reshaped() -> None:
    axes = FIGURES["receptive_fields"]().axes[0]
    strongest = sorted(range(30), key=lambda unit: -sum(WEIGHTS[:, unit] ** 2))[:7]
    assert texts(axes) == [f"unit {unit}" for unit in strongest]
    for image, unit in zip(axes.images, strongest, strict=True):
        np.testing.assert_array_equal(image.get_array(), WEIGHTS[:, unit].reshape(3, 4))
    largest = np.abs(WEIGHTS[:, strongest]).max()
    assert {image.get_clim() for image in axes.images} == {(-largest, largest)}


def test_receptive_fields_do_not_overlap_and_are_all_in_sight() -> None:
    axes = FIGURES["receptive_fields"]().axes[0]
    boxes = [image.get_extent() for image in axes.images]
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    for k, (x0, x1, y0, y1) in enumerate(boxes):
        assert left <= x0 < x1 <= right and low <= y0 < y1 <= high
        assert all(x1 <= a0 or a1 <= x0 or y1 <= b0 or b1 <= y0 for a0, a1, b0, b1 in boxes[:k])


def test_fewer_units_than_asked_for_are_all_shown() -> None:
    assert len(plots.receptive_fields(WEIGHTS[:, :2], (3, 4)).axes[0].images) == 2


def test_filters_of_three_channels_are_in_colour_and_others_have_a_scale() -> None:
    colour, grey = plots.filters(RNG.normal(size=(3, 3, 3, 5))), plots.filters(RNG.normal(size=(3, 3, 1, 5)))
    picture = np.asarray(colour.axes[0].images[0].get_array())
    assert picture.shape == (7, 11, 3) and len(colour.axes) == 1  # 2 rows of 3 tiles, with a pixel between them
    assert len(grey.axes) == 2 and grey.axes[1].get_ylabel() == "weight"


def test_feature_maps_have_one_scale_for_all_moments_of_a_layer() -> None:
    figure = plots.feature_maps(MAPS)
    first, second = (figure.axes[2 + k].images[0] for k in range(2))
    assert first.get_clim() == second.get_clim()
    every = np.concatenate([maps.ravel() for maps in MAPS["conv1"].values()])
    assert first.get_clim() == pytest.approx((every.min(), every.max()))
    heights = [bar.get_height() for bar in figure.axes[4].patches if isinstance(bar, Rectangle)]
    np.testing.assert_allclose(heights, MAPS["output"]["free 1"])


def moments(*shape: int) -> dict[str, np.ndarray]:
    return {moment: RNG.uniform(size=shape) for moment in ("free 1", "free 5", "nudged 5")}


GREY = {"input": {"image": RNG.uniform(size=(8, 8))}}
ODD_MAPS = {
    "one channel": (GREY | {"conv1": moments(4, 4, 1)}, (4, 4), "conv1"),
    "one pixel": (GREY | {"conv1": moments(1, 1, 9)}, (3, 3), "conv1"),
    "hundreds of channels": (GREY | {"conv1": moments(3, 3, 300)}, (15, 15), "conv1\n16 of 300"),
    "all the same": (GREY | {"conv1": {moment: np.zeros((2, 2, 1)) for moment in "abc"}}, (2, 2), "conv1"),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("maps", "size", "name"), ODD_MAPS.values(), ids=ODD_MAPS)
def test_odd_layers_have_their_maps(maps: Any, size: tuple[int, int], name: str) -> None:
    figure = plots.feature_maps(maps)
    figure.canvas.draw()
    assert all(np.asarray(axes.images[0].get_array()).shape == size for axes in figure.axes[3:6])
    assert figure.axes[3].texts[0].get_text() == name
    assert [axes.get_title() for axes in figure.axes[:6]] == ["image", "", "", *maps["conv1"]]


def test_feature_maps_may_lack_an_input_and_moments() -> None:
    maps = {"conv1": moments(4, 4, 2), "output": {"free 5": np.array([-2.0, -1.0]), "nudged 5": np.array([-3.0, 0.5])}}
    figure = plots.feature_maps(maps)
    assert [axes.get_title() for axes in figure.axes] == ["free 1", "free 5", "nudged 5", "", "", ""]
    assert not figure.axes[3].patches and len(figure.axes[4].patches) == 2
    assert figure.axes[4].texts[-1].get_text() == "1"  # the number of the largest
    low, high = figure.axes[4].get_ylim()
    assert low <= -3 and high > 0.5  # all bars are seen whole


LABELS = {
    "text": np.array(["cat", "dog", "cow"]),
    "text of digits": list("012"),
    "from 1 on": np.array([1, 2, 3]),
    "in another order": [2, 0, 1],
    "bools": np.array([False, True]),
    "floats": (-1.0, 4.0, 7.0),
    "objects": pd.Series(["cat", "dog", "cow"], dtype=object),
}


@pytest.mark.parametrize("case", LABELS)
def test_the_confusion_matrix_looks_labels_up_in_the_classes(case: str) -> None:
    """The highest class is never right and seldom there, so that places taken for labels would be seen."""
    classes = np.asarray(LABELS[case])
    true, predicted = (classes[indices % (len(classes) - 1)] for indices in (TRUE, PREDICTED))
    axes = plots.confusion_matrix(true, predicted, LABELS[case]).axes[0]
    shown = {tuple(map(int, text.get_position()[::-1])): int(text.get_text()) for text in axes.texts}
    counts = sklearn.metrics.confusion_matrix(true, predicted, labels=classes)
    assert shown == {place: n for place, n in np.ndenumerate(counts) if n}
    assert [label.get_text() for label in axes.get_xticklabels()] == [str(name) for name in classes.tolist()]


def test_the_confusion_matrix_needs_a_list_of_classes() -> None:
    for classes in (3, [[1], [2, 3]], jax.random.key(0)):
        with pytest.raises(InputError, match=r"classes=.*: give the name"):
            plots.confusion_matrix(TRUE, PREDICTED, classes)


def test_the_confusion_matrix_has_the_counts_of_scikit_learn() -> None:
    axes = FIGURES["confusion_matrix"]().axes[0]
    counts = sklearn.metrics.confusion_matrix(TRUE, PREDICTED)
    shown = {tuple(map(int, text.get_position()[::-1])): int(text.get_text()) for text in axes.texts}
    assert shown == {place: n for place, n in np.ndenumerate(counts) if n}
    np.testing.assert_allclose(np.asarray(axes.images[0].get_array()).sum(axis=1), 100)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["cat", "dog", "cow"]


def test_classes_may_be_numbers_and_angles_obtuse() -> None:
    axes = plots.confusion_matrix([3, 4], [3, 3], range(3, 5)).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["3", "4"]
    assert plots.angles({"a": [170.0, 100.0]}).axes[0].get_ylim()[1] > 170


def test_rows_of_the_confusion_matrix_are_the_true_classes_and_may_be_empty() -> None:
    axes = plots.confusion_matrix([0, 0, 0], [1, 1, 0], ("cat", "dog")).axes[0]
    np.testing.assert_allclose(np.asarray(axes.images[0].get_array()), [[100 / 3, 200 / 3], [0, 0]])
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("true class", "predicted class")


# ---- settling ----


def test_the_energy_of_both_phases_meets_at_the_border() -> None:
    (axes,) = FIGURES["energy"]().axes
    free, nudged = curves(axes)["free phase, β = 0"], curves(axes)["nudged phase, β = 0.7"]
    np.testing.assert_array_equal(free, [range(6), FREE.energy[1]])
    np.testing.assert_array_equal(nudged, [range(5, 8), NUDGED.energy[1]])


def test_states_are_the_paths_of_the_layers_over_time() -> None:
    hidden, output, _ = FIGURES["states"]().axes
    paths = {layer: np.concatenate([FREE.state[layer][0], NUDGED.state[layer][0][1:]]) for layer in FREE.state}
    np.testing.assert_array_equal(np.asarray(hidden.collections[0].get_array()).reshape(20, 8), paths["hidden"].T)
    np.testing.assert_allclose(curves(output)["target, unit 2"], [0.5 * np.arange(8), paths["output"][:, 2]])


def test_the_prediction_is_what_the_free_phase_ends_with() -> None:
    wins = np.eye(3)[np.array([[0, 0, 0, 0, 0, 1], [1, 2, 2, 2, 2, 2]])]
    free, nudged = (FREE._replace(state={"output": wins[k : k + 1]}) for k in (0, 1))
    (axes,) = plots.states(free, nudged, target=2).axes
    assert {"prediction, unit 1", "target, unit 2"} < curves(axes).keys()
    assert "prediction, unit 0" not in curves(axes)


def test_settling_is_energy_above_states() -> None:
    energy, hidden, output, *_ = FIGURES["settling"]().axes
    np.testing.assert_array_equal(curves(energy)["free phase, β = 0"][1], FREE.energy[0])
    assert (hidden.get_ylabel(), output.get_ylabel()) == ("hidden units", "output units")


def test_a_state_without_layers_is_drawn_too() -> None:
    def plain(trace: ep.Trace) -> ep.Trace:
        return trace._replace(state=trace.state["output"])

    assert len(plots.settling(plain(FREE), plain(NUDGED), beta=0.7).axes) == 2


# ---- the gradient ----


def test_gradient_errors_are_drawn_beside_lines_of_their_order() -> None:
    (axes,) = FIGURES["gradient_error"]().axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    np.testing.assert_array_equal(curves(axes)["one-sided"], [BETAS, ERRORS["one-sided"]])
    np.testing.assert_array_equal(curves(axes)["symmetric"][1], [*ERRORS["symmetric"][:-1], np.nan])
    references = [np.log(np.asarray(line.get_data(), float)) for line in axes.lines[2:]]
    slopes = [(y[1] - y[0]) / (x[1] - x[0]) for x, y in references]
    np.testing.assert_allclose(slopes, [1, 2])
    low, high = np.log(axes.get_ylim())
    assert all(low - 1e-9 <= y.min() and y.max() <= high for _, y in references)
    assert len(texts(axes)) == 2


def test_lines_of_an_order_begin_where_there_is_an_error() -> None:
    (axes,) = plots.gradient_error([1.0, 0.1, 0.01], {"a": [0.0, 0.2, 0.1], "b": [0.0, 0.3, 0.0]}, orders=[1]).axes
    reference = np.asarray(axes.lines[-1].get_data(), float)
    assert reference[:, -1].tolist() == [0.1, 0.3]


def test_the_panels_over_the_residual_have_what_they_were_given() -> None:
    given = [("one rate", [5, 4]), ("$W_1$", [0.5, 0.9]), ("$W_1$", [0.1, 0.9])]
    for axes, (name, values) in zip(FIGURES["against_residual"]().axes, given, strict=True):
        np.testing.assert_array_equal(curves(axes)[name], [RESIDUALS, values])


# ---- what is refused, and in what words ----

ELSEWHERE = NUDGED._replace(state={layer: path + 0.5 for layer, path in NUDGED.state.items()})
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no epochs": (lambda: plots.learning_curve([]), "metrics="),
    "no errors": (lambda: plots.learning_curve([{"epoch": 1, "train_cost": 0.1}]), "metrics="),
    "no titles": (lambda: plots.learning_curves({}), "at least one title"),
    "no seeds": (lambda: plots.learning_curves({"a net": []}), "'a net'"),
    "no validation": (lambda: plots.rivals({"a": {"b": {"EP": [{"epoch": 1}]}}}), "'EP' has no valid_error"),
    "no families": (lambda: plots.rivals({}), "at least one title"),
    "no methods": (lambda: plots.rivals({"a": {"b": {}}}), "a family with a method"),
    "no image": (lambda: plots.receptive_fields(WEIGHTS, (12,)), r"shape=\(12,\)"),
    "transposed": (lambda: plots.receptive_fields(WEIGHTS.T, (3, 4)), r"\(30, 12\).*\(12, units\).*transpose"),
    "other pixels": (lambda: plots.receptive_fields(WEIGHTS, (5, 5)), r"\(25, units\)"),
    "not finite": (lambda: plots.receptive_fields(WEIGHTS * np.nan, (3, 4)), "finite"),
    "no units": (lambda: plots.receptive_fields(WEIGHTS[:, :0], (3, 4)), "none"),
    "count": (lambda: plots.receptive_fields(WEIGHTS, (3, 4), count=0), "count=0"),
    "a matrix as kernel": (lambda: plots.filters(WEIGHTS), r"kernel of shape \(12, 30\)"),
    "maps of several images": (
        lambda: plots.feature_maps({"conv1": moments(5, 4, 4, 2)}),
        r"'conv1' has a state of shape \(5, 4, 4, 2\).*one at a time",
    ),
    "maps that are no numbers": (lambda: plots.feature_maps({"a": {"b": np.full(3, np.nan)}}), "finite"),
    "maps of no channel": (lambda: plots.feature_maps(MAPS, channels=0), "channels=0"),
    "no maps": (lambda: plots.feature_maps({}), "path is empty"),
    "one-hot": (lambda: plots.confusion_matrix(np.eye(3), np.eye(3), list("abc")), r"true has shape \(3, 3\)"),
    "lengths": (lambda: plots.confusion_matrix([0, 1], [0], ["a", "b"]), "2 examples, predicted 1"),
    "no such class": (lambda: plots.confusion_matrix([0, 1], [0, 2], ["a", "b"]), "predicted has the class 2.* 0 to 1"),
    "below": (lambda: plots.confusion_matrix([-1, 1], [0, 1], ["a", "b"]), "true has the class -1.* 0 to 1"),
    "no such label": (lambda: plots.confusion_matrix(["a"], ["c"], ["a", "b"]), r"the class 'c'.*classes=\['a', 'b'\]"),
    "places of numbers": (lambda: plots.confusion_matrix([0, 1], [1, 1], [1, 2]), r"the class 0.*classes=\[1, 2\]"),
    "a class twice": (lambda: plots.confusion_matrix(["a"], ["a"], ["a", "a"]), "twice"),
    "ragged": (lambda: plots.confusion_matrix([[1], [1, 2]], [1, 1], [1, 2]), "give a class for each example"),
    "labels that are lists": (lambda: plots.confusion_matrix(np.array([{}]), [1], [1]), "neither text nor numbers"),
    "no examples": (lambda: plots.confusion_matrix([], [], ["a", "b"]), "true has shape"),
    "example": (lambda: plots.energy(FREE, NUDGED, beta=1, example=2), "example=2.*0 to 1"),
    "target": (lambda: plots.states(FREE, NUDGED, target=3), "target=3.*0 to 2"),
    "elsewhere": (lambda: plots.settling(FREE, ELSEWHERE, beta=1), "begin where free ends"),
    "other layers": (lambda: plots.states(FREE, NUDGED._replace(state=NUDGED.state["output"])), "same layers"),
    "β = 0": (lambda: plots.gradient_error([0.1, 0.0], {"a": [1, 1]}), "betas="),
    "number of errors": (lambda: plots.gradient_error(BETAS, {"a": [1, 1]}), "'a' has 2 values for 7 betas"),
    "no nudges": (lambda: plots.gradient_error(BETAS, {}), "errors is empty"),
    "order 0": (lambda: plots.gradient_error(BETAS, ERRORS, orders=[0]), r"orders=\[0\]"),
    "residuals": (lambda: plots.against_residual([0.1], {"a": ROW}), "2 values for 1 residuals"),
    "nothing measured": (lambda: plots.spread({"a": ("x", "y", {"b": {1: []}})}), "'b' in 'a' has nothing measured"),
    "no panels": (lambda: plots.spread({}), "at least one title"),
    "no rows": (lambda: plots.against_residual([0.1], {}), "rows is empty"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused(case: str) -> None:
    draw, words = REFUSED[case]
    with pytest.raises(InputError, match=words):
        draw()


# ---- circuits ----


def test_a_circuit_has_a_line_for_every_resistor_a_dot_for_every_node_and_an_arrow_for_every_diode() -> None:
    axes = FIGURES["circuit"]().axes[0]
    lines = [part for part in axes.collections if isinstance(part, LineCollection)]
    nodes = [part for part in axes.collections if part not in lines]
    assert sum(len(part.get_paths()) for part in lines) == CIRCUIT.parameters
    assert [len(np.asarray(part.get_offsets())) for part in nodes] == [6, 4, 2]
    assert [words for words in texts(axes) if words in "▲▼"].count("▲") == 2
    widths = np.asarray(lines[0].get_linewidth())
    assert widths.argmax() == np.argmax(CONDUCTANCES["W"]["input-hidden"])


def test_a_crowded_circuit_is_refused() -> None:
    crowded = ep.Resistive.layered(64, 100, 10)
    with pytest.raises(InputError, match="told apart"):
        plots.circuit(crowded, None)


# ---- oscillators, memories, streams ----


def test_phases_are_in_half_turns_and_go_on_under_the_nudge() -> None:
    output = FIGURES["locking"]().axes[1]
    target = np.concatenate([PHASES["output"][:, 1], PHASES["output"][1:, 1]]) / np.pi
    np.testing.assert_allclose(np.asarray(output.lines[-2].get_ydata(), float), target)  # then the line of the nudge
    with pytest.raises(InputError, match="same layers"):
        plots.locking(PHASES, {"hidden": PHASES["hidden"]})


def test_means_of_wrong_units_are_in_percent() -> None:
    loads, recalled = FIGURES["capacity"]().axes
    np.testing.assert_allclose(curves(loads)["n = 2"], [[0.5, 1.0], [0.0, 2.0]])
    np.testing.assert_allclose(curves(recalled)["n = 2"], [[50], [8]])
    with pytest.raises(InputError, match="nothing to draw"):
        plots.capacity({}, {})


def test_what_is_not_given_is_told_from_what_is_dark() -> None:
    given = FIGURES["completion"]().axes[0].images[0]
    shown = given.to_rgba(np.ma.masked_invalid(HALVES[0]))[0]
    assert (
        shown[2].tolist() == pytest.approx(given.get_cmap().get_bad().tolist()) and (shown[0, :3] == shown[0, 0]).all()
    )
    with pytest.raises(InputError, match="all alike"):
        plots.completion({"given": HALVES, "stored": HALVES[:1]})
    with pytest.raises(InputError, match="3 captions"):
        plots.completion({"given": HALVES}, ["a", "b", "c"])


def test_a_stream_shows_the_mean_of_its_seeds() -> None:
    (axes,) = FIGURES["tracking"]().axes
    np.testing.assert_allclose(curves(axes)["learns"], [[1, 2], [4, 3]])
    with pytest.raises(InputError, match="2 times"):
        plots.tracking([1, 2], {"learns": [[1]]})


# ---- the gallery ----


def test_the_gallery_shows_every_figure_and_names_the_rest() -> None:
    page = (ROOT / "docs" / "gallery.md").read_text()
    nothing_missing([f"](gallery/{name}.png)" for name in FUNCTIONS], page, "pictures not in docs/gallery.md")
    nothing_missing([f"plots.{name}(" for name in FUNCTIONS], page, "calls not in docs/gallery.md")
    for name in FUNCTIONS:
        assert (ROOT / "docs" / "gallery" / f"{name}.png").read_bytes().startswith(b"\x89PNG"), name
    nothing_missing(plots.__all__, re.findall(r"\w+", page), "names of eqprop.plots that are not in docs/gallery.md")


def test_the_calls_in_the_gallery_are_those_that_made_it() -> None:
    page, program = ((ROOT / path).read_text() for path in ("docs/gallery.md", "examples/gallery.py"))
    calls = re.findall(r"^plots\.\w+\(.*\)$", page, flags=re.MULTILINE)
    assert len(calls) == len(FUNCTIONS)
    nothing_missing(calls, program, "calls of docs/gallery.md that examples/gallery.py does not make")

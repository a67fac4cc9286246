"""Data and networks of one's own: what is understood as it comes, what is refused, and what is kept in a file."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pandas as pd
import pytest

import eqprop as ep
from eqprop.store import checkpoint

NET = ep.Hopfield.layered(4, 3, 2)
F = ep.Total(NET, ep.SquaredError())
CONV = ep.Hopfield.convolutional((4, 4, 1), (2,))
READ = ep.Total(CONV, ep.SoftmaxReadout.of(CONV, 3))
THETA = NET.init(jax.random.key(0), gain=1.0)
TRAINER = ep.Trainer(F, ep.EquilibriumPropagation(ep.Symmetric(0.25), ep.Block(5), ep.Block(5)), optax.sgd(0.1))
PIXELS = np.arange(0, 12 * 21, 21, dtype=np.uint8).reshape(3, 2, 2)
LABELS = [1, 0, 1]
ROWS = PIXELS.reshape(3, 4).astype(np.float32) / 255
ONE_HOT = np.array([[0, 1], [1, 0], [0, 1]], np.float32)


class Foreign:
    """A tensor of another library, of which only its memory can be read."""

    def __init__(self, array: np.ndarray):
        self.array = array

    def __dlpack__(self, *, stream: Any = None, **how: Any) -> Any:
        return self.array.__dlpack__(**how)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (PIXELS, LABELS),
        (ROWS, ONE_HOT),
        (jnp.asarray(ROWS), jnp.array(LABELS)),
        (pd.DataFrame(ROWS), pd.Series(LABELS)),
        (Foreign(PIXELS), Foreign(np.array(LABELS))),
        (ROWS.tolist(), LABELS),
        (list(PIXELS), list(np.array(LABELS))),
        (tuple(map(Foreign, PIXELS)), LABELS),
        (ROWS.reshape(3, 2, 2), np.array(LABELS, bool)),
    ],
    ids=[
        "bytes and labels",
        "as they are",
        "JAX",
        "pandas",
        "DLPack",
        "lists",
        "list of images",
        "tuple of tensors",
        "images",
    ],
)
def test_data_are_understood_as_they_come(x: Any, y: Any) -> None:
    taken = ep.examples(F, x, y)
    np.testing.assert_array_equal(taken[0], ROWS)
    np.testing.assert_array_equal(taken[1], ONE_HOT)


def test_inputs_may_be_whole_numbers() -> None:
    black_and_white = (ROWS > 0.5).astype(int)
    np.testing.assert_array_equal(ep.examples(F, black_and_white, LABELS)[0], black_and_white)
    np.testing.assert_array_equal(
        ep.predict(TRAINER, THETA, black_and_white), ep.predict(TRAINER, THETA, black_and_white.astype(np.float32))
    )


@pytest.mark.parametrize("shape", [(2, 4, 4), (2, 16), (2, 1, 4, 4), (2, 4, 4, 1)])
def test_images_get_the_axes_that_the_network_has(shape: tuple[int, ...]) -> None:
    pixels = np.arange(32, dtype=np.uint8)
    x, y = ep.examples(READ, pixels.reshape(shape), [0, 2])
    np.testing.assert_array_equal(x, (pixels.astype(np.float32) / 255).reshape(2, 4, 4, 1))
    np.testing.assert_array_equal(y, np.eye(3)[[0, 2]])


def test_an_energy_of_ones_own_takes_bytes_and_a_cost_of_ones_own_no_labels() -> None:
    """By default: one that says `take` takes what it wants."""
    own = ep.Total(lambda theta, x, s: jnp.sum((s - x) ** 2), lambda theta, y, s: jnp.sum((s - y) ** 2))
    x, _ = ep.examples(own, {"left": PIXELS, "right": ROWS})
    np.testing.assert_allclose(x["left"], PIXELS / 255, rtol=1e-6)
    np.testing.assert_array_equal(x["right"], ROWS)
    with pytest.raises(ep.InputError, match="`take`"):
        ep.examples(own, ROWS, LABELS)
    assert ep.examples(own, ROWS, np.array(LABELS, np.float32))[1].tolist() == LABELS


def test_a_single_output_takes_a_column_of_numbers() -> None:
    single = ep.Total(ep.Hopfield.layered(4, 1), ep.SquaredError())
    assert ep.examples(single, ROWS, [0.5, 0.2, 0.1])[1].shape == (3, 1)
    assert ep.examples(lambda theta, v, beta, s: s, ROWS, LABELS)[1].tolist() == LABELS  # of which nothing is known


@pytest.mark.parametrize(
    ("x", "y", "word"),
    [
        (ROWS, [1, 0, 2], "label 2, where labels go from 0 to 1"),
        (ROWS, ["cat", "dog", "cat"], "return_inverse"),
        (ROWS, [[1], [0], [1]], r"give y\.ravel\(\)"),
        ([PIXELS[0], PIXELS[0][:1]], None, r"2 shapes, \(2, 2\), \(1, 2\)"),
        (None, LABELS, "give one array"),
        (ROWS, [1, 0], "3 inputs and 2 targets"),
        (PIXELS.astype(float), LABELS, "x / 255"),
        (PIXELS.tolist(), LABELS, "x / 255"),
        (ROWS - 0.5, LABELS, r"hears nothing outside of \[0, 1\]"),
        (PIXELS[0], None, r"one example: give x\[None\]"),
        ((row for row in ROWS), None, "Iterated"),
        (np.full((3, 4), np.nan), None, "not finite"),
        (ep.data.Split(ROWS, ONE_HOT), None, "data.Split"),
    ],
    ids=[
        "label",
        "words",
        "column",
        "images of several sizes",
        "nothing",
        "lengths",
        "bytes as floats",
        "bytes as whole numbers",
        "range",
        "one",
        "generator",
        "nan",
        "split",
    ],
)
def test_data_that_cannot_be_meant_are_refused_with_the_way_out(x: Any, y: Any, word: str) -> None:
    with pytest.raises(ep.InputError, match=word):
        ep.examples(F, x, y)


def test_what_a_feed_is_given_may_come_from_elsewhere_and_what_does_not_fit_is_named() -> None:
    feed = ep.Shuffled((pd.DataFrame(ROWS), pd.DataFrame(ONE_HOT)), 3)
    start = TRAINER.init(THETA, feed, jax.random.key(1))
    ep.fit(TRAINER, start, feed, (ROWS.tolist(), Foreign(ONE_HOT)), epochs=1)
    for v, word in (
        ((ROWS, np.array(LABELS)), "one-hot"),
        ((ROWS.reshape(3, 2, 2), ONE_HOT), "flatten"),
        ((255 * ROWS, ONE_HOT), "scale them"),
    ):
        with pytest.raises(ep.InputError, match=word):
            ep.fit(TRAINER, start, ep.Shuffled(v, 3), epochs=1)


def test_inputs_that_no_activation_limits_may_be_of_any_size() -> None:
    for energy in (ep.Feedforward(NET), ep.Resistive.layered(4, 3, 2), ep.Hopfield.layered(4, 2, activation="tanh")):
        ep.examples(ep.Total(energy, ep.SquaredError()), 5 * ROWS - 3, LABELS)


def test_an_activation_has_a_name() -> None:
    assert ep.Hopfield.layered(4, 2, activation="tanh") == ep.Hopfield.layered(4, 2, activation=ep.tanh)
    for wrong in ("tan", jnp.tanh):
        with pytest.raises(ep.InputError, match=r"activation=.*hard_sigmoid, hard_tanh"):
            ep.Hopfield.layered(4, 2, activation=wrong)  # pyright: ignore[reportArgumentType]


def output(theta: Any, tol: float | None) -> jax.Array:
    settled, _ = ep.Block(5, tol=tol)(F, theta, (ROWS, None), 0.0, NET.rest(3))
    return jnp.sum(settled["output"])


def test_derivatives_go_back_through_a_fixed_number_of_steps_only_and_that_is_said() -> None:
    with pytest.raises(RuntimeError, match=r"tol=None.*ImplicitGradient"):
        jax.grad(output)(THETA, 1e-4)
    slope = jax.jvp(lambda theta: output(theta, 0.0), (THETA,), (THETA,))[1]
    back = jax.grad(output)(THETA, None)
    np.testing.assert_allclose(slope, optax.tree.vdot(back, THETA), rtol=1e-5)


# ---- in a file ----


def test_a_network_is_the_same_after_a_file(tmp_path: Path) -> None:
    ep.save(tmp_path / "net.safetensors", TRAINER, THETA, {"by": "me"})
    trainer, theta = ep.load(tmp_path / "net.safetensors")
    assert isinstance(trainer.F, ep.Total) and trainer.F.energy == NET
    assert eqx.tree_equal(trainer.F.cost, F.cost) and trainer.rule == TRAINER.rule
    assert jax.tree.all(jax.tree.map(lambda a, b: (a == b).all(), theta, THETA))
    np.testing.assert_array_equal(ep.predict(trainer, theta, PIXELS), TRAINER.predict(THETA, (ROWS, None)))
    assert checkpoint.read(tmp_path / "net.safetensors")[1]["notes"] == {"by": "me"}
    with pytest.raises(ep.InputError, match="no optimizer"):
        trainer.init(theta, ep.Shuffled((ROWS, ONE_HOT)), jax.random.key(0))


@pytest.mark.parametrize(
    "energy",
    [ep.Resistive.layered(4, 3, 2), ep.XieSeung(NET), ep.Feedforward(NET), ep.Hopfield.skip(4, 3, 2), CONV],
    ids=lambda energy: type(energy).__name__,
)
def test_every_kind_of_network_is_described(energy: Any) -> None:
    from eqprop.store.spec import described, rebuilt

    told = json.loads(json.dumps(described(energy)))
    assert rebuilt(told) == energy and hash(rebuilt(told)) == hash(energy)


def test_a_field_that_is_newer_than_a_file_has_its_default() -> None:
    from eqprop.store.spec import described, rebuilt

    told = described(F.cost)
    del told["values"]["high"]
    assert eqx.tree_equal(rebuilt(told), F.cost)
    told = described(NET)
    del told["values"]["clamped"]  # which has none
    with pytest.raises(ep.InputError, match="'clamped' of Hopfield is unknown or missing"):
        rebuilt(told)


@pytest.mark.parametrize(
    ("energy", "place", "value", "word"),
    [
        (NET, ("activations", "tuple", 0, "tuple", 0), "x", "activation for the layers x, hidden, output: 'input'"),
        (NET, ("clamped",), "x", "clamped='x' is not a layer"),
        (NET, ("layers", "tuple", 0, "tuple", 0), "a-b", "layer name 'a-b'"),
        (NET, ("synapses", "tuple", 0, "values", "pre"), "output", "synapse"),
        (CONV, ("synapses", "tuple", 0, "values", "stride"), 0, "stride=0: give a positive"),
        (ep.Resistive.layered(4, 3, 2), ("gain",), -1.0, "gain=-1.0: give a positive number"),
    ],
    ids=["activations", "clamped", "a layer's name", "synapses", "strides", "a circuit's gain"],
)
def test_what_a_file_says_of_a_network_is_checked_as_what_is_given(
    energy: Any, place: tuple[Any, ...], value: Any, word: str
) -> None:
    from eqprop.store.spec import described, rebuilt

    told = described(energy)
    *way, last = place
    part = told["values"]
    for name in way:
        part = part[name]
    part[last] = value
    with pytest.raises(ep.InputError, match=re.escape(word)):
        rebuilt(told)


def own(theta: Any, v: Any, beta: Any, s: jax.Array) -> jax.Array:
    return jnp.sum((s - theta["A"][0] * v[0]) ** 2) / 2 + beta * jnp.sum(s)


def test_an_energy_of_ones_own_leaves_its_weights_and_is_asked_for(tmp_path: Path) -> None:
    system = ep.system(own, space=ep.Space((4,)), predict=lambda theta, v, s: s)
    steps = ep.Gradient(40)
    trainer = ep.Trainer(system, ep.EquilibriumPropagation(ep.Symmetric(0.1), steps, steps), optax.sgd(0.1))
    theta = {"A": [jnp.array(2.0)]}
    ep.save(tmp_path / "own.safetensors", trainer, theta)
    with pytest.raises(ep.InputError, match=r"'own'.*load\(path, trainer\)"):
        ep.load(tmp_path / "own.safetensors")
    _, again = ep.load(tmp_path / "own.safetensors", trainer)
    np.testing.assert_allclose(ep.predict(trainer, again, ROWS), 2 * ROWS, rtol=1e-5)


def test_weights_may_have_numbers_for_names(tmp_path: Path) -> None:
    theta = {"layers": {0: jnp.ones(2), 10: jnp.zeros(3), 2: jnp.ones(())}}
    ep.save(tmp_path / "numbered.safetensors", TRAINER, theta)
    _, again = ep.load(tmp_path / "numbered.safetensors")
    assert jax.tree.structure(again) == jax.tree.structure(theta)
    assert jax.tree.map(jnp.shape, again) == jax.tree.map(jnp.shape, theta)
    with pytest.raises(ep.InputError, match="which are no texts or whole numbers"):
        ep.save(tmp_path / "odd.safetensors", TRAINER, {(0, 1): jnp.ones(2)})


def test_weights_may_be_one_number(tmp_path: Path) -> None:
    ep.save(tmp_path / "one.safetensors", TRAINER, {"gain": 3.5})
    assert ep.load(tmp_path / "one.safetensors")[1] == {"gain": jnp.float32(3.5)}


def test_an_energy_that_needs_a_target_says_so_when_it_is_to_predict() -> None:
    def pulled(theta: Any, v: Any, beta: Any, s: Any) -> Any:
        x, y = v
        return (s[0] - theta * x[0]) ** 2 / 2 + beta * jnp.sum((s - y) ** 2)

    steps = ep.Gradient(40)
    system = ep.system(pulled, space=ep.Space((1,)), predict=lambda theta, v, s: s)
    trainer = ep.Trainer(system, ep.EquilibriumPropagation(ep.Symmetric(0.1), steps, steps), optax.sgd(0.1))
    theta, x = jnp.array(2.0), np.array([[0.5], [1.0]], np.float32)
    with pytest.raises(ep.InputError, match=r"does not do without a target.*trainer\.predict\(theta, \(x, y\)\)"):
        ep.predict(trainer, theta, x)
    np.testing.assert_allclose(trainer.predict(theta, (x, np.zeros_like(x))), 2 * x, rtol=1e-5)


def change(notes: dict[str, Any], how: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    how(notes)
    return notes


@pytest.mark.parametrize(
    ("how", "word"),
    [
        (lambda told: told["trainer"]["F"].update({"class": "os:system"}), "no class of this version"),
        (lambda told: told["trainer"]["F"].update({"class": "eqprop.store.atomic:os"}), "no class of this version"),
        (lambda told: told["trainer"]["F"]["values"].update({"more": 1}), "another version"),
        (lambda told: told.pop("trainer"), "does not say what the network is"),
        (lambda told: told.pop("theta"), "not a network that eqprop.save kept"),
    ],
    ids=["code", "no class", "another version", "weights alone", "another file"],
)
def test_a_file_that_names_anything_else_is_refused(how: Callable[..., None], word: str, tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    ep.save(path, TRAINER, THETA)
    checkpoint.save(path, THETA, change(checkpoint.read(path)[1], how))
    with pytest.raises(ep.InputError, match=word):
        ep.load(path)


def test_a_file_in_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ep.InputError, match="no folder"):
        ep.save(tmp_path / "none" / "net.safetensors", TRAINER, THETA)
    with pytest.raises(ep.InputError, match="give the Trainer"):
        ep.save(tmp_path / "net.safetensors", F, THETA)  # pyright: ignore[reportArgumentType]


# ---- records for others ----


class Kept:
    """What all three kinds of sinks have in common: they keep what they are told."""

    def __init__(self) -> None:
        self.told: list[tuple[int, dict[str, float]]] = []


class Writer(Kept):
    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.told.append((step, {name: value}))


class Wandb(Kept):
    def log(self, data: dict[str, float], step: int) -> None:
        self.told.append((step, data))


class Mlflow(Kept):
    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        self.told.append((step, metrics))


@pytest.mark.parametrize("sink", [Writer(), Wandb(), Mlflow()], ids=lambda sink: type(sink).__name__)
def test_records_reach_whatever_keeps_track_of_experiments(sink: Kept) -> None:
    observe, records = ep.track(sink), [{"epoch": n, "train_cost": 1 / n, "seconds": 0.5} for n in (1, 2)]
    state = TRAINER.init(THETA, ep.Shuffled((ROWS, ONE_HOT)), jax.random.key(0))
    for record in (None, *records):  # pieces of an epoch have none
        observe(ep.Progress(state, 1, {}, 0.1, record))
    joined = {step: {k: v for at, told in sink.told if at == step for k, v in told.items()} for step, _ in sink.told}
    assert joined == {1: {"train_cost": 1.0, "seconds": 0.5}, 2: {"train_cost": 0.5, "seconds": 0.5}}


def test_a_sink_that_keeps_nothing_is_refused() -> None:
    with pytest.raises(ep.InputError, match="SummaryWriter"):
        ep.track(print)


def test_a_folder_is_no_file_to_save_in(tmp_path: Path) -> None:
    with pytest.raises(ep.InputError, match="is a folder"):
        ep.save(tmp_path, TRAINER, THETA)

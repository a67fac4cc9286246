"""What is handed over from outside fits the annotations, or is refused in words that name it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
import pytest

import eqprop as ep
from eqprop import boundary, data, device, plots, spice

NET = ep.Hopfield.layered(3, 4, 2)
F = ep.Total(NET, ep.SquaredError())
THETA = NET.init(jax.random.key(0))
X, Y = np.full((4, 3), 0.5, np.float32), np.eye(2, dtype=np.float32)[[0, 1, 0, 1]]
BLOCK = ep.Block(5)
TRAINER = ep.Trainer(F, ep.EquilibriumPropagation(free=BLOCK), optax.sgd(0.1))


def settle(theta: Any = THETA, v: Any = (X, Y), beta: Any = 0.0, s: Any = None) -> Any:
    return BLOCK(F, theta, v, beta, NET.rest(4) if s is None else s)


def flow(beta: Any = 0.5, times: Any = None) -> Any:
    return ep.Flow(2.0).trace(F, THETA, (X, Y), beta, NET.rest(4), times=times)


class Own(ep.Energy, ep.Blockwise, eqx.Module):
    """An energy of one layer, whose bound on its curvature is what it is given."""

    bound: Any = None

    @property
    def space(self) -> ep.Space:
        return ep.Space({"output": 2})

    @property
    def blocks(self) -> tuple[tuple[str, ...], ...]:
        return (("output",),)

    def __call__(self, theta: Any, x: Any, s: Any) -> Any:
        return jnp.sum((s["output"] - theta["A"] @ x) ** 2) / 2

    def curvature(self, theta: Any, x: Any, s: Any, block: tuple[str, ...]) -> Any:
        return self.bound


class Device(ep.System):
    """A system that is measured."""

    traceable = False

    def __call__(self, theta: Any, v: Any, beta: Any, s: Any) -> Any:
        raise NotImplementedError

    @property
    def space(self) -> ep.Space:
        return ep.Space((2,))


def whole(theta: Any, v: Any, beta: Any, s: Any) -> Any:
    return jnp.sum((s - theta["A"] @ v[0]) ** 2) / 2 + beta * jnp.sum((s - v[1]) ** 2)


OWN = {"A": jnp.ones((2, 3))}


def trainer_of(F: Any) -> ep.Trainer:
    settle = ep.Gradient(3)
    return ep.Trainer(F, ep.EquilibriumPropagation(ep.Symmetric(), settle, settle), optax.sgd(0.1))


def fit_own(F: Any, theta: Any = OWN) -> Any:
    trainer, feed = trainer_of(F), ep.Shuffled((X, Y), 2)
    return ep.fit(trainer, trainer.init(theta, feed, jax.random.key(0)), feed, epochs=1)


def settle_own(bound: Any) -> Any:
    F = ep.Total(Own(bound), ep.SquaredError())
    return ep.Block(3)(F, OWN, (X, Y), 0.0, F.space.rest(4))


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a text for a number": (lambda: ep.Gradient(epsilon="x"), "Gradient: epsilon='x' is not a finite number"),  # pyright: ignore
    "a dict for a number": (lambda: ep.SquaredError(l2={}), "SquaredError: l2={} is not a finite number"),  # pyright: ignore
    "a truth for a number": (lambda: ep.Gradient(epsilon=True), "epsilon=True is not a finite number"),
    "not a number": (lambda: ep.Gradient(epsilon=float("nan")), "epsilon=nan is not a finite number"),
    "a whole number beyond all": (lambda: ep.Gradient(epsilon=10**30), "is not a finite number"),
    "a part of a whole": (lambda: ep.Block(2.5), "Block: steps=2.5 is not a whole number"),  # pyright: ignore
    "a nudge by words": (lambda: ep.Symmetric("strong"), "Symmetric: beta='strong' is not a finite number"),
    "no choice": (lambda: ep.Block(order="up"), "order='up' is not one of 'forward', 'backward', 'both'"),  # pyright: ignore
    "sizes of a network": (lambda: ep.Hopfield.layered(3, "4"), "layer 'output' has size '4'"),  # pyright: ignore
    "no function": (lambda: BLOCK(3, THETA, (X, Y), 0.0, NET.rest(4)), "Relaxation: F=3 is not a function"),  # pyright: ignore
    "another kind of thing": (lambda: ep.Trainer(F, BLOCK, optax.sgd(0.1)), "rule=(of type Block) is not eqprop.Rule"),  # pyright: ignore
    "no key": (lambda: NET.init(0), "Graph.init: key=0 is no key: give one, as jax.random.key(0)"),  # pyright: ignore
    "weights of words": (lambda: settle({"W": "x"}), "theta={'W': 'x'} has ['W'] of type str, which is no number"),
    "weights that are whole": (
        lambda: settle(jax.tree.map(lambda w: np.ones(w.shape, int), THETA)),
        "of type int64, which are whole numbers",
    ),
    "weights that are not finite": (
        lambda: settle(jax.tree.map(lambda w: w * jnp.nan, THETA)),
        "theta=(of type dict) has ['W']['hidden-output'] of type float32 with values that are not finite",
    ),
    "data too large to be squared": (
        lambda: settle(v=(X, 1e30 * Y)),
        "the data hold a value that is as large as 1e+30, first in example 0",
    ),
    "one number for inputs": (lambda: ep.examples(F, jnp.array(jnp.nan)), "x=Array(nan, dtype=float32"),
    "one number for targets": (lambda: ep.examples(F, X, np.array(1)), "y=array(1) is one number"),
    "inputs in a dict": (lambda: ep.predict(TRAINER, THETA, {"input": X}), "is no array: give one"),
    "numbers in the place of arrays": (lambda: ep.Shuffled([X, np.float32(1)]), "the data"),
    "a key for a list": (lambda: ep.Graph({"input": 3, "output": 2}, jax.random.key(0)), "is not a list"),  # pyright: ignore
    "resistors in an array of no axes": (
        lambda: ep.Resistive({"input": 3, "output": 2}, np.array(0.5)),  # pyright: ignore
        "Resistive: resistors=array(0.5) is not",
    ),
    "a schedule of no number": (lambda: ep.Cosine(1.0, np.array([3.0, np.nan])), "Cosine: steps="),  # pyright: ignore
    "a key for a picture": (lambda: plots.filters(jax.random.key(0)), "filters: kernel="),
    "lists of unlike lengths for a picture": (lambda: plots.filters([[1.0], 2.0]), "is no array of numbers: give one"),
    "weights in no dict": (lambda: settle(jnp.ones(3)), "instead of a dict: make it with init"),
    "states in no dict": (lambda: settle(s=jnp.zeros((4, 2))), "instead of a dict with ['hidden', 'output']"),
    "examples in a list": (lambda: settle(v=(X.tolist(), Y.tolist())), "v has the single number"),
    "states without an axis": (lambda: settle(s=jnp.float32(0)), "the first axis counts examples"),
    "a function of two numbers": (
        lambda: ep.Gradient(3)(lambda theta, v, beta, s: s, THETA, (X, Y), 0.0, jnp.zeros((4, 2))),
        "gave (an array of shape (2,) and type float32) for one example: it must give one number",
    ),
    "weights of other examples": (
        lambda: ep.EquilibriumPropagation()(F, THETA, (X, Y), NET.rest(4), weight=jnp.ones(3)),
        "weight has the shape (3,): give one number for each of 4 examples",
    ),
    "weights of no example": (
        lambda: ep.EquilibriumPropagation()(F, THETA, (X, Y), NET.rest(4), weight=jnp.zeros(4)),
        "not 0 for all",
    ),
    "more than memory has": (lambda: NET.rest(2**31 - 1), "states of 2147483647 examples would take"),
    "a batch of less than none": (lambda: NET.rest(-1), "batch=-1 is out of range"),
    "a name that is none": (lambda: data.load(3), "load: name=3 is not a text"),  # pyright: ignore
    "a bound of words": (lambda: ep.Space(3, low="x"), "low='x': a bound is a number"),
    "a circuit of another form": (lambda: ep.Resistive.skip(3, 4, 2), "Resistive.skip: circuits are made by layered"),
    "a function of other values": (
        lambda: ep.Gradient(3)(BLOCK, THETA, (X, Y), 0.0, NET.rest(4)),  # pyright: ignore
        "cannot be called as",
    ),
    "a class for a function": (lambda: ep.Gradient(3)(int, THETA, (X, Y), 0.0, NET.rest(4)), "is a class"),  # pyright: ignore
    "complex weights": (lambda: settle(jax.tree.map(lambda w: w + 0j, THETA)), "which are complex numbers: give real"),
    "complex weights, or a state": (
        lambda: ep.predict(TRAINER, jax.tree.map(lambda w: w + 0j, THETA), X),
        "predict: theta=(of type dict) has ['W']['hidden-output'] of type complex64",
    ),
    "complex targets": (lambda: settle(v=(X, Y + 0j)), "the targets are complex numbers"),
    "complex inputs": (lambda: settle(v=(X + 0j, Y)), "the inputs are complex numbers"),
    "a state that is complex in parts": (
        lambda: settle(s=NET.rest(4) | {"output": jnp.zeros((4, 2), complex)}),
        "is complex in parts: give real numbers",
    ),
    "a whole number beyond 32 bits": (lambda: settle(beta=2**31), "beta=2147483648 is beyond the whole numbers of JAX"),
    "a masked array": (lambda: ep.relu6(np.ma.masked_array([1.0], [True])), "u=(a masked array of shape (1,)"),  # pyright: ignore
    "data that are masked": (lambda: ep.examples(F, np.ma.masked_array(X, X > 0)), "the data are a masked array"),
    "a key among the data": (lambda: ep.examples(F, jax.random.key(0)), "the data hold a key of jax.random"),
    "synapses that are none": (lambda: ep.Hopfield({"input": 3, "output": 2}, 7), "synapses=7 is not a list"),  # pyright: ignore
    "synapses to no name": (
        lambda: ep.Hopfield({"input": 3, "output": 2}, [("input", np.ones(2))]),  # pyright: ignore
        "is not a pair of layer names",
    ),
    "no pieces": (lambda: data.Split.from_pieces([], 2), "there are no pieces: give at least one"),
    "rows of nothing": (lambda: ep.OnDisk(abs), "v has <built-in function abs>, which has no rows"),
    "times in a square": (lambda: flow(times=jnp.ones((2, 2))), "are not points of time in a row"),
    "times that fall": (lambda: flow(times=jnp.array([0.0, 2.0, 1.0])), "times must begin at 0 and rise"),
    "noise in half precision": (
        lambda: ep.Langevin()(F, THETA, (X, Y), 0.0, jax.tree.map(lambda u: u.astype(jnp.bfloat16), NET.rest(4))),
        "Langevin draws no noise for states of type bfloat16",
    ),
    "a field that would not be heard": (
        lambda: type("Silent", (Own,), {"field": lambda self, theta, x, s: s}),
        "Silent gives a `field`, and its states settle along it only where it also says `conservative = False`",
    ),
    "a field of a system that would not be heard": (
        lambda: type("Mute", (ep.System,), {"field": lambda self, theta, v, beta, s: s}),
        "Mute gives a `field`",
    ),
    "a class for a cost": (
        lambda: ep.Total(Own(), ep.SquaredError),
        "cost=SquaredError is a class: give SquaredError()",
    ),
    "outputs of other arguments": (
        lambda: ep.system(whole, predict=lambda theta, s: s),  # pyright: ignore
        "cannot be called as (theta, v, s)",
    ),
    "a projection of other arguments": (lambda: ep.system(whole, project=lambda: None), "called as (theta)"),  # pyright: ignore
    "a projection to nothing": (
        lambda: fit_own(ep.system(whole, space=ep.Space((2,)), project=lambda theta: None)),
        "project gave : 0 numbers for θ, which is A 2×3: 6 numbers",
    ),
    "weights that lack a part": (
        lambda: fit_own(ep.system(whole, space=ep.Space((2,))), {"B": jnp.ones((2, 3))}),
        "F finds no 'A' in θ (B 2×3: 6 numbers)",
    ),
    "a curvature in no dict": (
        lambda: settle_own(1.0),
        "curvature of the energy gave no dict of layers: it must",
    ),
    "a curvature of other layers": (
        lambda: settle_own({"hidden": 1.0}),
        "curvature of the energy gave ['hidden'] without 'output'",
    ),
    "a device to fit": (
        lambda: fit_own(Device()),
        "F=Device is not traceable: what is measured learns by eqprop.update",
    ),
    "a device to predict": (lambda: trainer_of(Device()).predict(OWN, (X, None)), "F=Device is not traceable"),
    "an order of complex numbers": (lambda: ep.relu6(jnp.ones(2, complex)), "relu6 of complex numbers"),
}


@pytest.mark.parametrize(("call", "says"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(call: Callable[[], Any], says: str) -> None:
    with pytest.raises(ep.InputError) as caught:
        call()
    assert says in str(caught.value)


def test_numbers_of_other_libraries_do_as_well() -> None:
    usual = settle(beta=0.5)[0]["output"]
    halves: tuple[Any, ...] = (
        np.float32(0.5),
        np.float64(0.5),
        jnp.float32(0.5),
        np.array(0.5),
        ml_dtypes.bfloat16(0.5),
    )
    for half in halves:
        # Half precision meets single: products with such a β are rounded to 8 bits.
        np.testing.assert_allclose(settle(beta=half)[0]["output"], usual, atol=1e-4)
        assert ep.Symmetric(half).beta == 0.5 and ep.Gradient(epsilon=half).epsilon == 0.5
    doubles = jax.tree.map(lambda w: np.asarray(w, np.float64), THETA)
    np.testing.assert_array_equal(settle(doubles, (X.astype(np.float64), Y), 0.5)[0]["output"], usual)
    rounded = jax.tree.map(lambda w: w.astype(jnp.bfloat16), THETA)
    np.testing.assert_allclose(settle(rounded, beta=0.5)[0]["output"], usual, atol=0.02)
    trainer = ep.Trainer(F, ep.EquilibriumPropagation(free=BLOCK), optax.sgd(0.1))
    lists = trainer.measure(THETA, (X.tolist(), Y.tolist()))
    assert lists == pytest.approx(trainer.measure(THETA, (X, Y)))


def test_a_flow_takes_a_beta_for_each_example() -> None:
    betas = jnp.array([0.0, 0.5, 0.0, -0.5])
    together = flow(betas).energy
    for k, beta in enumerate(betas):
        np.testing.assert_allclose(together[k], flow(beta).energy[k], rtol=1e-5)


def test_whole_numbers_of_numpy_are_counts_and_sizes() -> None:
    two: Any = np.int64(2)
    three: Any = np.array([0, 2, 1]).max() + 1
    net = ep.Hopfield.layered(two, 3, three)
    assert net.free == {"hidden": 3, "output": 3} and type(net.shapes["output"][0]) is int
    assert type(ep.Block(three).steps) is int and type(ep.Power(two).n) is int
    assert ep.Shuffled((X, Y), batch_size=two).batches == 2
    assert ep.Space({"a": three, "b": (two, 2)}).shapes == {"a": (3,), "b": (2, 2)}


def test_only_the_outermost_call_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []
    check = boundary._check
    monkeypatch.setattr(boundary, "_check", lambda name, *rest: (checked.append(name), check(name, *rest))[1])
    trainer = ep.Trainer(F, ep.EquilibriumPropagation(free=BLOCK), optax.sgd(0.1))
    feed = ep.Shuffled((X, Y), batch_size=2)
    state = trainer.init(THETA, feed, jax.random.key(0))
    checked.clear()
    ep.fit(trainer, state, feed, epochs=1)
    assert checked == ["fit"]


def test_values_that_are_not_known_yet_pass() -> None:
    @jax.jit
    def program(theta: Any, beta: Any) -> Any:
        return BLOCK(F, theta, (X, Y), beta, NET.rest(4))[0]

    assert program(THETA, 0.5)["output"].shape == (4, 2)


@pytest.mark.parametrize("module", [ep, data, device, plots, spice], ids=lambda module: module.__name__)
def test_everything_public_is_guarded(module: Any) -> None:
    for name in module.__all__:
        value = getattr(module, name)
        if (
            isinstance(value, type)
            and value.__module__.startswith("eqprop")
            and not issubclass(value, Exception | tuple)
        ):
            assert "_guarded" in vars(value), name
        elif type(value).__name__ == "function" and name not in ("live", "verify"):
            assert hasattr(value, "entrance"), name


def test_a_whole_number_that_is_too_small_is_refused_in_the_same_words() -> None:
    boundary.require_whole(1, steps=1, samples=5)
    for value in (0, -3, 1.0, True, "3", np.int64(2), None):
        with pytest.raises(ep.InputError, match=r"^samples=.*: give a whole number of 1 or more$"):
            boundary.require_whole(1, steps=1, samples=value)


def test_a_space_says_whether_its_layers_have_names() -> None:
    assert ep.Space({"a": 3}).named
    assert not any(space.named for space in (ep.Space(), ep.Space(3), ep.Space((2, 2)), ep.Space(())))


@jax.tree_util.register_pytree_node_class
class Bare:
    """θ of a class that does not say when two are equal."""

    def __init__(self, A: Any) -> None:
        self.A = A

    def tree_flatten(self) -> tuple[Any, None]:
        return (self.A,), None

    @classmethod
    def tree_unflatten(cls, _: None, parts: Any) -> "Bare":
        return cls(*parts)


def test_theta_may_be_of_a_class_of_ones_own() -> None:
    F = ep.system(lambda theta, v, beta, s: whole({"A": theta.A}, v, beta, s), space=ep.Space((2,)))
    assert fit_own(F, Bare(jnp.ones((2, 3))))[1]


class Named(NamedTuple):
    theta: Any


def test_theta_may_have_a_part_named_theta() -> None:
    F = ep.system(lambda theta, v, beta, s: whole({"A": theta.theta}, v, beta, s), space=ep.Space((2,)))
    assert trainer_of(F).measure(Named(jnp.ones((2, 3))), (X, Y)) == trainer_of(
        ep.system(whole, space=ep.Space((2,)))
    ).measure(OWN, (X, Y))


def test_an_energy_may_have_a_number_called_field() -> None:
    assert vars(type("Ising", (Own,), {"field": 0.5}))["field"] == 0.5


def test_bytes_of_0_and_1_are_refused_for_an_energy_of_ones_own() -> None:
    with pytest.raises(ep.InputError, match="bytes of 0 and 1"):
        ep.examples(ep.Total(Own(), ep.SquaredError()), np.eye(3, dtype=np.uint8))


def test_how_a_phase_ended_is_printed_of_shapes_alone() -> None:
    shapes = jax.eval_shape(lambda: settle_own({"output": 1.0}))
    assert repr(shapes[1]) == "<Info: 4 settlings>"

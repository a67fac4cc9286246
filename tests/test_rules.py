"""What every rule must do, whatever its algorithm: one test for a table of all of them."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import eqprop as ep
import eqprop.rule
from eqprop.rule import base
from eqprop.study import METHODS, Method
from eqprop.study.methods import Phases
from eqprop.train import trainer as module
from marks import nothing_missing, slow, slow_but

NETS = {
    "layered": ep.Hopfield.layered(4, 6, 3),
    "deep, skip connection, tanh": ep.Hopfield(
        {"input": 4, "hidden1": 5, "hidden2": 6, "output": 3},
        [("input", "hidden1"), ("hidden1", "hidden2"), ("hidden2", "output"), ("hidden1", "output")],
        activation=ep.tanh,
    ),
}
SETTLING = Phases(ep.Block(12, omega=1.0), ep.Block(8, omega=1.0, order="backward"), ep.Symmetric(0.25))


class Row(NamedTuple):
    """A rule, and from the layers the energy that it is for."""

    rule: Any
    network: Callable[[ep.Hopfield], Any] = lambda net: net


def settling(method: Method) -> Phases:
    """What its phases are made of, where it is not block descent."""
    if method.noise:
        return SETTLING._replace(free=ep.Langevin(0.01, burn_in=4, samples=3, thin=1))
    return SETTLING._replace(second=ep.Gradient(8)) if method.path else SETTLING


RULES = {name: Row(method.rule(settling(method)), method.network) for name, method in METHODS.items()}
RULES |= {
    "likelihood": Row(ep.BoltzmannLikelihood(), ep.BoltzmannMachine),
    "implicit": Row(ep.ImplicitGradient(ep.Block(12, omega=1.0))),
}


def of_the_guide() -> ep.Rule:
    """The rule that docs/extending.md adds, which has to pass as those of the library do."""
    page = (Path(__file__).parent.parent / "docs" / "extending.md").read_text()
    first, *more = re.findall(r"^```python\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    for code in (first, next(code for code in more if "class Pulled" in code)):
        exec(compile(code, "extending.md", "exec"), names)
    return names["Pulled"]()


GUIDE = "the guide's"
RULES[GUIDE] = Row(of_the_guide())
QUICK = ("equilibrium", "implicit", "vector-field", "coupled", "contrastive-divergence", GUIDE)
CASES = [(name, net) if net == "layered" and name in QUICK else slow(name, net) for name in RULES for net in NETS]


class Setup(NamedTuple):
    F: Any
    theta: Any
    v: Any
    rest: Any


def setup(rule: str, net: str, seed: int = 0) -> Setup:
    energy = RULES[rule].network(NETS[net])
    keys = jax.random.split(jax.random.key(seed), 2)
    x, y = jax.random.uniform(keys[0], (3, 4)), jnp.eye(3)
    theta = energy.init(keys[1])
    theta["b"] = jax.tree.map(lambda b: b + 0.3, theta["b"])
    return Setup(ep.Total(energy, ep.SquaredError()), theta, (x, y), energy.rest(3))


def same(a: Any, b: Any) -> bool:
    return all(np.array_equal(u, w) for u, w in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def compilations() -> int:
    return base._learn.run._cache_size()  # pyright: ignore[reportFunctionMemberAccess]


def programs() -> int:
    return module._advance.run._cache_size()  # pyright: ignore[reportFunctionMemberAccess]


def shapes(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), tree)


@pytest.mark.parametrize(("name", "net"), CASES)
def test_every_rule_keeps_the_protocol(name: str, net: str) -> None:
    rule, (F, theta, v, rest) = RULES[name].rule, setup(name, net)
    key, weight = jax.random.key(1), jnp.array([1.0, 2.0, 0.0])
    learned = rule(F, theta, v, rest, key, weight)
    gradient, s, told, measured = learned
    assert shapes(gradient) == shapes(theta)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((gradient, s)))
    assert any(np.any(leaf != 0) for leaf in jax.tree.leaves(gradient))
    assert shapes(s) == shapes(rest)
    assert "free" in told
    assert all(phase.steps.shape[-1:] == (3,) for phase in told.values())
    assert set(measured) == set(rule.measures)
    assert all(measure.shape == (3,) for measure in measured.values())
    assert same(rule(F, theta, v, rest, key, weight)[:2], (gradient, s))

    # An example of no weight has no say; neither other numbers nor other keys compile anything.
    before = compilations()
    other = jax.tree.map(lambda a: a.at[2].set(a[1]), v)
    ours = rule(F, theta, v, rest, jax.random.key(2), weight).gradient
    theirs = rule(F, theta, other, rest, jax.random.key(2), weight).gradient
    # Not bit for bit: the implicit gradient solves for all examples at once, to a precision of 1e-6.
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6)
    assert compilations() == before


@pytest.mark.parametrize("name", slow_but(RULES, *QUICK))
def test_every_rule_trains_through_the_same_loop(name: str) -> None:
    F, theta, v, _ = setup(name, "layered")
    persistent = name in METHODS and METHODS[name].persistent
    trainer, feed = ep.Trainer(F, RULES[name].rule, optax.sgd(0.1), persistent=persistent), ep.Shuffled(v, 2)
    state = trainer.advance(trainer.init(theta, feed, jax.random.key(0)), feed, 1)
    before = programs()
    state = trainer.advance(state, feed, 1)
    assert programs() == before
    assert not same(state.theta, theta)
    assert set(state.sums["metrics"]) == {"cost", *trainer.rule.measures}
    assert np.isfinite(trainer.measure(state.theta, v)["cost"])


def test_the_table_has_every_rule() -> None:
    there = {getattr(eqprop.rule, name) for name in eqprop.rule.__all__}
    rules = {kind.__name__ for kind in there if issubclass(kind, ep.Rule) and kind is not ep.Rule}
    tested = {type(row.rule).__name__ for name, row in RULES.items() if name != GUIDE}
    nothing_missing(rules, tested, "rules without a row in METHODS or RULES")
    nothing_missing(tested, rules, "rules that eqprop/rule/__init__.py does not export")


# ---- what a rule cannot do, it refuses when it is built ----

NET = NETS["layered"]
LATERAL = ep.Hopfield.fully_connected(4, 5, 3)
LARGE = ep.BoltzmannMachine(ep.Hopfield.layered(4, 20, 30, 3))
REFUSED: list[tuple[str, Callable[[], Any], str]] = [
    ("cross-entropy has no outputs to clamp", lambda: train(ep.ContrastiveHebbian(), cost=ep.CrossEntropy()), "clamp"),
    ("nor for a part of the way", lambda: train(ep.CoupledLearning(), cost=ep.CrossEntropy()), "clamp"),
    ("an F of one's own", lambda: train(ep.ContrastiveHebbian(), F=lambda theta, v, beta, s: 0.0), "SquaredError"),
    ("blocks that F does not say", lambda: train(ep.EquilibriumPropagation(), F=lambda *_: 0.0), "Gradient"),
    (
        "a penalty that clamping would not see",
        lambda: train(ep.ContrastiveHebbian(), cost=ep.SquaredError(l2=0.1)),
        "l2",
    ),
    ("clamped outputs in a vector field", lambda: train(ep.ContrastiveHebbian(), ep.Directed(NET)), "VectorField"),
    ("noise in a vector field", lambda: train(ep.StochasticEquilibriumPropagation(), ep.Directed(NET)), "VectorField"),
    ("an energy without a cost", lambda: ep.EquilibriumPropagation()(*bare()), "Total"),
    ("no forward pass", lambda: train(ep.Backpropagation()), "Feedforward"),
    ("a solve for symmetric Jacobians", lambda: train(ep.ImplicitGradient(), ep.Directed(NET)), "Recurrent"),
    ("a nudge that needs a smooth energy", lambda: train(ep.VectorField(ep.Holomorphic())), "smooth"),
    ("accelerated steps", lambda: ep.BackpropagationThroughTime(ep.Block(accelerate=True)), "accelerate"),
    ("no machine to sample", lambda: train(ep.ContrastiveDivergence()), "BoltzmannMachine"),
    ("nor by the two-phase rule", lambda: train(ep.BoltzmannLearning()), "BoltzmannMachine"),
    ("too many states to go through", lambda: train(ep.BoltzmannLikelihood(), LARGE), "23 units"),
    ("η beyond the target", lambda: ep.CoupledLearning(1.5), "eta=1.5"),
    ("η of nothing", lambda: ep.CoupledLearning(0.0), "eta=0.0"),
    ("γ of nothing", lambda: ep.XieSeung(NET, 0.0), "gamma=0.0"),
    ("lateral synapses lead nowhere", lambda: ep.XieSeung(LATERAL), "hidden-hidden"),
    ("nor in a feed-forward network", lambda: ep.Feedforward(LATERAL), "hidden-hidden"),
    ("nor with feedback weights", lambda: ep.Directed(LATERAL), "hidden-hidden"),
]


def bare() -> tuple[Any, ...]:
    _, theta, v, rest = setup("equilibrium", "layered")
    return NET, theta, v, rest, jax.random.key(0)


def train(rule: Any, energy: Any = NET, cost: Any = None, F: Any = None) -> ep.Trainer:
    return ep.Trainer(F or ep.Total(energy, cost or ep.SquaredError()), rule, optax.sgd(0.1))


@pytest.mark.parametrize(("what", "build", "word"), REFUSED, ids=[what for what, _, _ in REFUSED])
def test_what_a_rule_cannot_do_is_refused_when_it_is_built(what: str, build: Callable[[], Any], word: str) -> None:
    with pytest.raises(ep.InputError, match=word):
        build()

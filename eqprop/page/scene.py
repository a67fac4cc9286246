"""What there is to watch: a system with its weights, examples to settle, and what can be chosen."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, prod
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from eqprop import data
from eqprop.errors import InputError
from eqprop.nudge import Nudge, Symmetric
from eqprop.page.choices import (
    ABOUT_RULES,
    Choice,
    Pair,
    nudges_for,
    phases_for,
    relaxations_for,
    rules_for,
)
from eqprop.page.held import Named, bounds_of
from eqprop.relax import Relaxation
from eqprop.rule import Rule
from eqprop.store import Run
from eqprop.study import Experiment, Setup, experiment_of, preset, weights_of
from eqprop.study.methods import Phases
from eqprop.total import System, TotalEnergy, system
from eqprop.train import Feed, Shuffled, Trainer, TrainState, fit
from eqprop.types import Shape, Theta

MOST_EXAMPLES = 10_000


@dataclass(frozen=True, eq=False)
class Scene:
    """All that a page shows and asks for.

    title: the name of the network.
    F, theta: the system, whose state has named layers, and its weights.
    shape, low, high: of an input as it is drawn.
    encode: from such an input to the x of F.
    pixels, targets: examples to choose from, as they are drawn and as F takes their targets; there may be none.
    labels: the name of each class; empty where nothing is predicted.
    layer: the layer of the state that is predicted, if it is one.
    relaxations, nudges, rules: what can be chosen, the default first; the first relaxation is that of all learning.
    watch: the relaxation that the page shows at first.
    beta: the strength of the nudge at first.
    trainer, begin, feed: what the page trains with, the state where that begins, and the minibatches.
    fresh: random weights for a seed.
    code: the Python code that makes F, theta and the examples.
    updates: the minibatches learned before.
    """

    title: str
    F: System
    theta: Theta
    shape: Shape
    encode: Callable[[np.ndarray], np.ndarray]
    pixels: np.ndarray
    targets: np.ndarray
    labels: tuple[str, ...]
    layer: str | None
    relaxations: Mapping[str, Choice[Pair]]
    nudges: Mapping[str, Choice[Callable[[float], Nudge]]]
    rules: Mapping[str, Choice[Callable[[Phases], Rule]]]
    watch: str = ""
    beta: float = 0.5
    low: float = 0.0
    high: float = 1.0
    dreams: bool = False
    trainer: Trainer | None = None
    feed: Feed | None = None
    fresh: Callable[[int], Theta] | None = None
    code: str = ""
    updates: int = 0
    bounds: tuple[Any, Any] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", bounds_of(self.F.space))

    @cached_property
    def rate(self) -> float:
        """A learning rate at which one example, taught as another class, changes the weights by about a hundredth."""
        if not self.rules or not self.labels:
            return 0.1
        wrong = (int(self.targets[0].argmax()) + 1) % len(self.labels)  # what is right already teaches nothing
        v = (self.encode(self.pixels[0])[None], self.target(wrong)[None])
        rule = self.rule(next(iter(self.rules)), next(iter(self.nudges)), self.beta)
        gradient = rule(self.F, self.theta, v, self.F.space.rest(1), jax.random.key(0)).gradient
        size, slope = (float(optax.tree.norm(tree)) for tree in (self.theta, gradient))
        return float(f"{0.01 * size / slope:.0e}") if 0 < slope < inf and size else 0.1

    def rule(self, name: str, nudge: str, beta: float) -> Rule:
        """A rule that learns by the first of the relaxations."""
        pair, make = next(iter(self.relaxations.values())).made, self.rules[name].made
        phases = Phases(pair.free, pair.nudged, self.nudges[nudge].made(beta or self.beta))  # β = 0 teaches nothing
        return make(phases_for(make, phases))

    @property
    def classes(self) -> list[int]:
        """The class of each example: the largest of its targets."""
        return np.argmax(self.targets, axis=1).tolist() if self.labels else []

    def target(self, label: int | None) -> np.ndarray:
        """The target of a class, as F takes it; without one, that of the first, which β = 0 leaves without effect."""
        return np.eye(len(self.labels) or self.targets.shape[1], dtype=np.float32)[label or 0]

    def state(self, theta: Theta, seed: int = 0) -> TrainState:
        """Where training with these weights begins."""
        assert self.trainer is not None and self.feed is not None
        return self.trainer.init(theta, self.feed, jax.random.key(seed))


def scene_of_run(folder: Path, data_dir: Path | None = None, say: Callable[[str], None] = print) -> Scene:
    """The network of a run folder, with its trained weights."""
    run = Run.open(folder)
    experiment = experiment_of(run)
    raw = data.load(experiment.dataset, data_dir, experiment.learning.valid, say)
    setup = experiment.build(raw)
    theta, epochs = weights_of(setup, run)
    return _scene(raw, setup, theta, setup.feed.batches * epochs, RUN_CODE.format(folder=str(folder)))


def scene_of_data(
    name: str, data_dir: Path | None = None, say: Callable[[str], None] = print, *, updates: int | None = None
) -> Scene:
    """The network that `eqprop train` trains on a data set, after `updates` minibatches from random weights.

    updates: None: as many as take a few seconds.
    """
    if name not in data.NAMES:
        raise InputError(f"{name!r} is neither the folder of a run nor a data set: choose {', '.join(data.NAMES)}")
    experiment = preset(name)
    raw = data.load(name, data_dir, experiment.learning.valid, say)
    setup = experiment.build(raw)
    updates = min(0 if experiment.convolves else 500, setup.feed.batches) if updates is None else updates
    if updates:
        say(f"learning from {updates} minibatches first …")
    epochs, batches = divmod(updates, setup.feed.batches)
    state, _ = fit(setup.trainer, setup.state, setup.feed, epochs=epochs)
    state = setup.trainer.advance(state, setup.feed, batches)
    return _scene(raw, setup, state.theta, updates, DATA_CODE.format(name=name, epochs=epochs, batches=batches))


RUN_CODE = """\
from eqprop.study import experiment_of

run = ep.Run.open({folder!r})
experiment = experiment_of(run)
setup = experiment.build(ep.data.load(experiment.dataset))
F, theta = setup.trainer.F, run.load_weights(setup.state.theta)[0]
x, y = setup.data.test.v
"""
DATA_CODE = """\
from eqprop.study import preset

setup = preset({name!r}).build(ep.data.load({name!r}))
state, _ = ep.fit(setup.trainer, setup.state, setup.feed, epochs={epochs})
state = setup.trainer.advance(state, setup.feed, {batches})
F, theta = setup.trainer.F, state.theta
x, y = setup.data.test.v
"""


def _scene(raw: data.Dataset, setup: Setup, theta: Theta, updates: int, code: str) -> Scene:
    experiment, F = setup.experiment, setup.trainer.F
    phases, method = experiment.phases, experiment.learning.method
    trained = Choice(
        "As in training", "Settles as its training does, often cut short.", Pair(phases.free, phases.second)
    )
    rule = Choice(experiment.method.title, ABOUT_RULES.get(method, "The rule of its training."), experiment.method.rule)
    test, reads_out = raw.test[:MOST_EXAMPLES], experiment.reads_out
    return Scene(
        title=f"{raw.name}, {setup.name}",
        F=F,
        theta=theta,
        shape=raw.shape,
        encode=_encoder(experiment, raw),
        pixels=test.x.reshape(-1, *raw.shape),
        targets=test.y,
        labels=raw.classes,
        layer=None if reads_out else F.cost.layer,  # pyright: ignore[reportAttributeAccessIssue]  (a Total)
        relaxations=relaxations_for(F, {"trained": trained}),
        nudges=nudges_for(F, experiment.settling.nudge),
        rules=rules_for(F, phases, {method: rule}),
        watch="block" if experiment.convolves or experiment.resists else "gradient",
        beta=float(phases.nudge.at(0).beta),
        dreams=F.conservative and not (reads_out or experiment.resists or experiment.images.normalise),
        trainer=replace(setup.trainer, persistent=False),
        feed=setup.feed,
        fresh=lambda seed: replace(experiment, learning=replace(experiment.learning, seed=seed)).build(raw).state.theta,
        code=code,
        updates=updates,
    )


def _encoder(experiment: Experiment, raw: data.Dataset) -> Callable[[np.ndarray], np.ndarray]:
    """What makes of an image what the network takes: a vector, or an image that may be normalised."""
    if not experiment.convolves:
        return np.ravel
    mean, unit = 0.0, 1.0
    if experiment.images.normalise:
        mean, deviation = experiment.training_part(raw).colours(raw.image)
        unit = deviation * experiment.images.deviations
    return lambda pixels: (pixels.reshape(raw.image) - mean) / unit


def scene_of(
    F: TotalEnergy,
    theta: Theta,
    v: tuple[Any, Any],
    *,
    title: str = "your energy",
    shape: Shape | None = None,
    labels: tuple[str, ...] | None = None,
    beta: float = 0.5,
    relaxations: Mapping[str, Pair | tuple[Relaxation, Relaxation] | Relaxation] | None = None,
    nudges: Mapping[str, Callable[[float], Nudge]] | None = None,
    rules: Mapping[str, Callable[[Phases], Rule]] | None = None,
    optimizer: optax.GradientTransformation | None = None,
) -> Scene:
    """A system of one's own: see `eqprop.live`."""
    F = system(F)
    if F.space.layers is None:
        raise InputError(
            "F does not say what its state is: give eqprop.system(F, space=eqprop.Space(10)) for a state of 10 "
            "numbers, or Space({'hidden': 20, 'output': 10}) for layers by name"
        )
    if F.space.layers and not F.space.named:
        F = Named(F)
    x, y = _examples(v)
    _try_out(F, theta, x, y)
    shape = x.shape[1:] if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
    if prod(shape) != prod(x.shape[1:]):
        raise InputError(f"shape={shape}: an input has {prod(x.shape[1:])} numbers, which do not fill it")
    labels, layer = _outputs(F, theta, x, y, labels)
    _check_own("relaxations", relaxations, "a relaxation, e.g. {'mine': eqprop.Gradient(100)}", lambda given: True)
    _check_own("nudges", nudges, "a function of β, e.g. {'mine': eqprop.OneSided}", _makes)
    _check_own("rules", rules, "a function of the phases (free, second, nudge) that returns a rule", _makes)
    if optimizer is not None and not isinstance(optimizer, optax.GradientTransformation):
        raise InputError(f"optimizer={optimizer!r}: give one of optax, e.g. optax.sgd(0.1)")
    if not isinstance(beta, int | float | np.number | jax.Array):
        raise InputError(f"beta={beta!r}: give the number that is the strength of the nudge, e.g. 0.5")
    mine = {name: Choice(name, "Your own.", _pair(name, given)) for name, given in (relaxations or {}).items()}
    offered = relaxations_for(F, mine)
    phases = Phases(*next(iter(offered.values())).made, Symmetric(beta))
    own_rules = {name: Choice(name, "Your own.", rule) for name, rule in (rules or {}).items()}
    usual = rules_for(F, phases, own_rules)
    trainer, feed = None, None
    if usual and labels:
        rule = next(iter(usual.values())).made
        trainer = Trainer(F, rule(phases_for(rule, phases)), optimizer or optax.sgd(0.1))
        feed = Shuffled((x, y), batch_size=min(20, len(x)))
    return Scene(
        title=title,
        F=F,
        theta=theta,
        shape=shape,
        encode=lambda pixels: pixels.reshape(x.shape[1:]),
        pixels=x[:MOST_EXAMPLES].reshape(-1, *shape),
        targets=y[:MOST_EXAMPLES],
        labels=labels,
        layer=layer,
        relaxations=offered,
        nudges=nudges_for(F, None, {name: Choice(name, "Your own.", nudge) for name, nudge in (nudges or {}).items()}),
        rules=usual,
        beta=beta,
        low=float(min(x.min(), 0.0)),
        high=float(max(x.max(), 1.0)),
        dreams=F.conservative and layer is not None and x.ndim == 2,
        trainer=trainer,
        feed=feed,
        code="F, theta, (x, y) = ...  # your energy, its weights, your examples\n",
    )


def _examples(v: Any) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(v, tuple | list) or len(v) != 2:
        raise InputError(f"v is {type(v).__name__}: give (inputs, targets), arrays whose first axis counts examples")
    x, y = (np.asarray(part, np.float32) for part in v)
    if y.ndim == 1 and len(x) == len(y) and x.ndim > 1:
        raise InputError(f"v has targets of shape {y.shape}: give a row for each example, e.g. jax.nn.one_hot(y, 10)")
    if x.ndim < 2 or y.ndim != 2 or len(x) != len(y) or not len(x):
        raise InputError(f"v has shapes {x.shape} and {y.shape}: give at least one row of each, and as many of both")
    return x, y


def _try_out(F: System, theta: Theta, x: np.ndarray, y: np.ndarray) -> None:
    """Refuses what does not fit together here, and not in the midst of a settling."""
    s = jax.tree.map(lambda u: u[0], F.space.rest(1))
    try:
        energy = jax.eval_shape(F, theta, (x[0], y[0]), 0.0, s)
    except Exception as error:  # F is anybody's: what it raises cannot be foreseen
        shapes = {layer: jnp.shape(u) for layer, u in s.items()}
        raise InputError(
            f"F(theta, (x, y), 0.0, s) fails for one example, with x of shape {x.shape[1:]}, y of shape {y.shape[1:]} "
            f"and a state of {shapes}: {error}"
        ) from error
    if F.conservative and energy.shape != ():
        raise InputError(f"F(theta, v, beta, s) has the shape {energy.shape}: return one number, e.g. by jnp.sum")


def _check_own(what: str, given: Any, remedy: str, fits: Callable[[Any], bool]) -> None:
    """Refuses what is not a dict by name, and the parts of it that do not fit."""
    if given is None:
        return
    if not isinstance(given, Mapping):
        raise InputError(f"{what}={given!r}: give a dict by name, each {remedy}")
    for name, each in given.items():
        if not fits(each):
            raise InputError(f"{what}[{name!r}] is {each!r}: give {remedy}")


def _makes(given: Any) -> bool:
    """Whether it makes a nudge or a rule, and is not one already."""
    return callable(given) and not isinstance(given, Nudge | Rule)


def _outputs(
    F: System, theta: Theta, x: np.ndarray, y: np.ndarray, labels: tuple[str, ...] | None
) -> tuple[tuple[str, ...], str | None]:
    """The name of each output, and the layer that has them; none where F does not say what it predicts."""
    try:
        predicted = F.predict(theta, (x[0], y[0]), jax.tree.map(lambda u: u[0], F.space.rest(1)))
    except InputError as error:
        if labels is None:
            return (), None
        raise InputError(
            "labels are names of outputs, and F does not say what it predicts: give eqprop.system(F, space=…, "
            "predict=lambda theta, v, s: …), which returns as many numbers as a target has"
        ) from error
    count = y.shape[1]
    if jnp.shape(predicted) != (count,):
        raise InputError(f"F predicts an array of shape {jnp.shape(predicted)}, and targets have {count} numbers")
    if labels is not None and len(labels) != count:
        raise InputError(f"labels={labels!r}: give one for each of the {count} outputs")
    layers = [layer for layer, size in F.space.shapes.items() if size == (count,)]
    return tuple(map(str, range(count) if labels is None else labels)), layers[-1] if layers else None


def _pair(name: str, given: Any) -> Pair:
    pair = (given, given) if isinstance(given, Relaxation) else given
    if not isinstance(pair, tuple | list) or len(pair) != 2 or not all(isinstance(each, Relaxation) for each in pair):
        raise InputError(
            f"relaxations[{name!r}] is {given!r}: give a relaxation, or two, for the free and nudged phase"
        )
    return Pair(*pair)

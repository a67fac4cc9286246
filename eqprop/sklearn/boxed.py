"""The network on scaled data: its size, its first weights, how it learns and how it predicts."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import numpy as np
import optax

from eqprop.compile import compiled
from eqprop.energy import ARCHITECTURES, Hopfield, Lateral, Synapse, hard_tanh
from eqprop.nudge import Symmetric
from eqprop.relax import Block, Gradient, Relaxation
from eqprop.rule import EquilibriumPropagation
from eqprop.sklearn.excess import Excess
from eqprop.sklearn.rows import minibatches, padded, room
from eqprop.total import Total
from eqprop.train import Arrays, Trainer, TrainState

WIDTH = 3.0  # standard deviations of a feature that reach the ends of the box
EPSILON = 0.5  # of gradient steps
ROWS = 256  # a prediction always settles this many examples at a time, so that one program suffices
SETTLED = Block(steps=500, tol=1e-9)
SETTLED_BY_GRADIENT = Gradient(steps=2000, tol=1e-9, epsilon=EPSILON, accelerate=True)
# The rate and the weight decay are numbers in the optimizer's state, so that changing them compiles nothing.
OPTIMIZER = optax.inject_hyperparams(optax.adamw, static_args=("b1", "b2", "eps", "eps_root", "nesterov"))(
    learning_rate=0.0, weight_decay=0.0
)

Theta = dict[str, dict[str, np.ndarray]]


@dataclass(frozen=True)
class Boxed:
    """A Hopfield network whose units are in [−1, 1] (`hard_tanh`); `sizes` are the units of each layer, inputs first.

    The network that runs has a few more inputs and outputs, so that data of different widths share a compiled program.
    The added units have no inputs and no targets. They and their weights stay at 0, and change nothing.
    """

    sizes: tuple[int, ...]
    architecture: str = "layered"

    @property
    def net(self) -> Hopfield:
        """The network as it is."""
        return _network(self.architecture, *self.sizes)

    @property
    def roomy(self) -> Hopfield:
        """The network that runs."""
        first, *hidden, last = self.sizes
        return _network(self.architecture, room(first, 8), *hidden, room(last, 4))

    def F(self, excess: float = 1.0) -> Total:
        """The network that runs, with half the squared error as its cost; `excess` weighs what goes beyond a target."""
        return Total(self.roomy, Excess(excess=excess))

    def init(self, rng: np.random.RandomState, drive: float) -> Theta:
        """Weights in half of Glorot & Bengio's range; those of the inputs in three times the range, or more.

        The inputs are standard deviations divided by three, which three times the range makes up for.

        drive: with independent features, what the inputs give a unit has at least this standard deviation, however few
            they are.

        Hidden biases are in (−1, 1). So for any input some hidden units are at an end of the box: between its ends the
        network is linear.
        """
        theta: Theta = {"W": {}, "b": {}}
        for synapse in self.net.synapses:
            before, after = (self.net.sizes[layer] for layer in (synapse.pre, synapse.post))
            limit = np.sqrt(6 / (before + after))
            if synapse.pre == "input":  # weights within ±limit have a standard deviation of limit/√3
                limit = WIDTH * max(limit, drive * np.sqrt(3 / before))
            else:
                limit *= 0.5
            theta["W"][synapse.name] = rng.uniform(-limit, limit, synapse.shape).astype(np.float32)
        for layer, size in self.net.free.items():
            bias = rng.uniform(-1, 1, size) if layer != "output" else np.zeros(size)
            theta["b"][layer] = bias.astype(np.float32)
        return theta

    def trainer(self, beta: float, excess: float = 1.0) -> Trainer:
        """Equilibrium Propagation with a symmetric nudge and AdamW."""
        depth = len(self.sizes) - 1
        free, nudged = Block(steps=2 * depth + 2), Block(steps=depth + 1, order="backward")
        if self._lateral:
            free, nudged = (Gradient(steps=round(time / EPSILON), epsilon=EPSILON) for time in (7 * depth, depth))
        rule = EquilibriumPropagation(Symmetric(float(beta)), free, nudged)
        return Trainer(self.F(excess), rule, OPTIMIZER)

    def grown(self, theta: Theta) -> Theta:
        """θ of the network that runs."""
        return _fitted(theta, self.net, self.roomy)

    def cut(self, theta: Any) -> Theta:
        """θ of the network as it is."""
        return _fitted(theta, self.roomy, self.net)

    @property
    def _lateral(self) -> bool:
        """Whether units within a layer are joined, where block descent would take short steps."""
        return any(isinstance(synapse, Lateral) for synapse in self.roomy.synapses)

    @property
    def _ends(self) -> tuple[int, int]:
        """The numbers of inputs and outputs of the network that runs."""
        sizes = list(self.roomy.sizes.values())
        return sizes[0], sizes[-1]

    def course(
        self,
        theta: Theta,
        optimizer: Any,
        v: tuple[np.ndarray, np.ndarray],
        epochs: Iterable[tuple[float, np.ndarray]],
        *,
        beta: float,
        excess: float,
        batch_size: int,
        alpha: float,
    ) -> Iterator[tuple[TrainState, float]]:
        """Train, and give the state and the mean cost after each epoch.

        optimizer: the state of an earlier training to go on with, or None.
        v: inputs and targets.
        epochs: for each epoch, the learning rate and the numbers of its examples in order.
        """
        rows, trainer = room(len(v[0])), self.trainer(beta, excess)
        x, y = (padded(a.astype(np.float32), (rows, layer)) for a, layer in zip(v, self._ends, strict=True))
        feed = Drawn(jax.device_put((x, y)), batch_size)
        begin = state = _begin(trainer, self.grown(theta))
        if optimizer is not None:
            state = state._replace(optimizer=optimizer)
        for rate, examples in epochs:
            feed.draw(examples)
            state = state._replace(batch=begin.batch, sums=begin.sums)
            state.optimizer.hyperparams.update(learning_rate=np.float32(rate), weight_decay=np.float32(alpha))
            state = trainer.advance(state, feed, feed.batches)
            yield state, float(state.sums["metrics"]["cost"]) / len(examples)

    def answer(self, theta: Theta, x: np.ndarray) -> np.ndarray:
        """The outputs at the free fixed points, in double precision."""
        found, settled = [], SETTLED_BY_GRADIENT if self._lateral else SETTLED
        with jax.enable_x64(True):
            grown = jax.tree.map(lambda a: a.astype(float), self.grown(theta))
            for first in range(0, len(x), ROWS):
                part = padded(x[first : first + ROWS].astype(float), (ROWS, self._ends[0]))
                found.append(np.asarray(_settled(settled, self.F(), grown, part)))
        return np.concatenate(found)[: len(x), : self.sizes[-1]]


class Drawn(Arrays):
    """Arrays in memory, in an order that is drawn outside and may be another one in each epoch."""

    def draw(self, examples: np.ndarray) -> None:
        """Say which examples come next, and in which order; they fill the minibatches of an epoch."""
        self._order, self.batches = minibatches(examples, self.batch_size, nobody=self.examples)

    def order(self, key: Any, epoch: int) -> Any:
        return self._order


# Each of these is one program: operation by operation, a new process would compile dozens of small ones.


@compiled
def _begin(trainer: Trainer, theta: Any) -> TrainState:
    """The state before the first minibatch; nothing in it depends on the examples."""
    return trainer.init(theta, Drawn(np.zeros((1, 1))), jax.random.key(0))


@compiled
def _settled(relaxation: Relaxation, F: Total, theta: Any, x: Any) -> Any:
    """The outputs at the free fixed points."""
    s, _ = relaxation.settle(F, theta, (x, None), 0.0, F.space.rest(len(x)))
    return F.predict(theta, (x, None), s)


@lru_cache(maxsize=64, typed=True)
def _network(architecture: str, *sizes: int) -> Hopfield:
    """The network; it is built once, as every epoch asks for it, and its checks trace each synapse."""
    return ARCHITECTURES[architecture](*sizes, activation=hard_tanh)


def _fitted(theta: Any, old: Hopfield, new: Hopfield) -> Theta:
    """θ of the network `old` in one with more or fewer inputs and outputs; new units have weights of 0."""
    sizes, none = old.sizes, np.zeros(0, np.float32)  # a layer of one unit has no lateral weights
    return {
        "W": {
            key: _resized(np.asarray(theta["W"].get(key, none)), sizes[synapse.pre], synapse)
            for key, synapse in ((synapse.name, synapse) for synapse in new.synapses)
        },
        "b": {layer: _cropped(np.asarray(theta["b"][layer]), (size,)) for layer, size in new.free.items()},
    }


def _resized(W: np.ndarray, size: int, new: Synapse) -> np.ndarray:
    """The weights W, cut or filled up with zeros to the shape of the synapse `new`.

    Lateral weights are the upper triangle of a square matrix, which had `size` rows before.
    """
    if not isinstance(new, Lateral):
        return _cropped(W, new.shape)
    square = np.zeros((size, size), W.dtype)
    square[np.triu_indices(size, k=1)] = W
    return _cropped(square, (new.size, new.size))[np.triu_indices(new.size, k=1)]


def _cropped(array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """The array, cut or filled up with zeros to `shape`."""
    there = tuple(slice(min(*sizes)) for sizes in zip(array.shape, shape, strict=True))
    fitted = np.zeros(shape, array.dtype)
    fitted[there] = array[there]
    return fitted

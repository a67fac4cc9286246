"""A device in the place of an energy: what is read instead of computed, and how it is asked."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.core import Tracer

from eqprop.bench.device import Drive, Kind
from eqprop.bench.session import Session
from eqprop.compile import compiled
from eqprop.errors import InputError
from eqprop.nudge import Nudge
from eqprop.relax import Info, Relaxation
from eqprop.rule import CoupledLearning, EquilibriumPropagation
from eqprop.state import Space
from eqprop.total import Outputs, System, Total, need
from eqprop.total.base import Ability
from eqprop.train import Trainer
from eqprop.types import Array, Data, Key, Layers, Metric, Number, Scalar, State, Theta, Weight


class OnBench(System):
    """A device that settles, in a session, and the formula F by which its parameters learn.

    F = E + βC is asked for two things only: ∂F/∂θ at states that were read, which each element of the device could
    measure by itself (½ (v_i − v_j)² of a resistor), and ∂C/∂s at the outputs. Nothing settles by it. So F need not be
    right about what holds the state where it is: diodes, sources and wires may differ.

    θ is what the optimizer wishes. ∂F/∂θ is taken at what the device has reached, as that is where the states were
    read. The wish is kept beside it: what is reached has few digits and noise, and if it replaced the wish, steps
    smaller than half of the distance between two states of the device would be lost every time.
    """

    F: Total
    session: Session = eqx.field(static=True)
    traceable: ClassVar[bool] = False

    def __check_init__(self) -> None:
        if not isinstance(self.F, Total):
            raise InputError(f"F={self.F!r}: give Total(energy, cost), whose energy says what a parameter sees")
        about, shapes = self.session.description, self.F.space.shapes
        if (read := {layer: tuple(shape) for layer, shape in about.readings.items()}) != shapes:
            raise InputError(f"the {about.name} reads {read}, and the states of F are {shapes}: make them the same")

    def __call__(self, theta: Theta, v: Data, beta: Number, s: State) -> Scalar:
        return self.F(theta, v, beta, s)

    @property
    def space(self) -> Space:
        """The layers that are read; a reading has no bounds but those of its range."""
        return Space(self.F.space.shapes)

    def cost_at(self, theta: Theta, v: Data, s: State) -> Scalar:
        """The cost of what was read."""
        return self.F.cost(theta, v[1], s)

    def contrast(
        self, theta: Theta, v: Data, beta: Array, w: Array, states: State, weight: Weight | None = None
    ) -> Theta:
        """Σ_k w_k ∂F/∂θ at the states that were read, and at the θ that was reached; this alone is compiled."""
        return _contrast(self.F, self.reached(theta), v, beta, w, states, weight)

    def reached(self, theta: Theta) -> Theta:
        """What the device has made of θ, which must be what was written last; with the derivative of θ itself."""
        if not self.session.holds(theta):
            raise InputError("theta is not what the device was set to last: settle with it first")
        return jax.tree.map(lambda g, w: jnp.asarray(g, jnp.result_type(w)), self.session.reached, theta)

    def predict(self, theta: Theta, v: Data, s: State) -> Array:
        """What the cost compares with the target."""
        return self.F.predict(theta, v, s)

    def check_data(self, v: Data) -> None:
        """Refuse what F refuses."""
        self.F.check_data(v)

    def project(self, theta: Theta) -> Theta:
        """The nearest θ that F allows and the device can take."""
        ends = self.session.description.theta_range
        return jax.tree.map(lambda w: jnp.clip(w, ends.low, ends.high), self.F.project(theta))

    def offer(self, ability: type[Ability]) -> Ability | None:
        """The outputs, if the cost says where it is least; what settles energies is not offered."""
        if ability is not Outputs:
            return super().offer(ability)
        outputs = self.F.offer(Outputs)
        return None if outputs is None else BenchOutputs(self, outputs)  # pyright: ignore[reportReturnType]


class BenchOutputs(eqx.Module, Outputs):
    """Outputs that a device clamps."""

    F: OnBench
    outputs: Any

    def clamp(self, v: Data) -> Layers:
        return self.outputs.clamp(v)

    def clamped(self, layers: tuple[str, ...]) -> System:
        return Clamped(self.F, layers)

    def energy_at(self, theta: Theta, v: Data, s: Layers) -> Scalar:
        return self.outputs.energy_at(theta, v, s)

    def require_no_penalty(self, rule: str) -> None:
        self.outputs.require_no_penalty(rule)


class Clamped(System):
    """The device with some layers clamped, v = ((x, y), values); the state is what remains."""

    F: OnBench
    layers: tuple[str, ...] = eqx.field(static=True)
    traceable: ClassVar[bool] = False

    def __call__(self, theta: Theta, v: Data, beta: Number, s: Layers) -> Scalar:
        (x, _), held = v
        return self.F.F.energy(theta, x, s | held)

    @property
    def space(self) -> Space:
        """The layers that are not clamped."""
        return Space({layer: shape for layer, shape in self.F.space.shapes.items() if layer not in self.layers})


class Asked(Relaxation):
    """Asks the device, which settles as it does: θ is written if it is new, then inputs and push are applied and read.

    kind: how outputs are pushed at a β other than 0. A "current" is −β ∂C/∂s at the state from which the phase begins,
    the free reading; a "spring" joins each output to its target by the conductance β, which is the squared error.
    """

    kind: Kind = eqx.field(default="current", static=True)

    def check(self, F: System) -> None:
        """Refuse what is no device, and a push that the device cannot do."""
        about = _bench(F).session.description
        if self.kind not in about.nudges:
            able = ", ".join(about.nudges) or "none"
            raise InputError(f"kind={self.kind!r}: the {about.name} cannot do that; of pushes it can do: {able}")
        if self.kind == "spring":
            need(F, Outputs, "a spring pulls at the outputs towards where the cost is least", "take SquaredError()")

    def settle(
        self, F: System, theta: Theta, v: Data, beta: Number, s: State, key: Key | None = None
    ) -> tuple[State, Info]:
        """Ask once, for all examples."""
        if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((theta, v, beta))):
            raise InputError(
                "a device cannot be part of a compiled program: use eqprop.bench.fit and eqprop.bench.measure"
            )
        bench = _bench(F)
        bench.session.write(theta)
        x, drive = self._drive(F, theta, v, float(jnp.real(beta)), s)
        readings = bench.session.settle(np.asarray(x), drive)
        count = len(jax.tree.leaves(v)[0])
        state = {layer: jnp.asarray(readings[layer]) for layer in F.space.shapes}
        return state, Info(jnp.full(count, jnp.nan), jnp.zeros(count, int), jnp.full(count, True))

    def settle_each(self, F: System, theta: Theta, v: Data, betas: Array, s: State) -> tuple[State, Info]:
        """One β after the other."""
        phases = [self.settle(F, theta, v, beta, s) for beta in betas]
        return jax.tree.map(lambda *parts: jnp.stack(parts), *phases)

    def _drive(self, F: System, theta: Theta, v: Data, beta: float, s: State) -> tuple[Any, Drive | None]:
        if isinstance(F, Clamped):
            (x, _), held = v
            return x, Drive("clamp", 1.0, {layer: np.asarray(u, np.float32) for layer, u in held.items()})
        x, y = v
        if beta == 0:
            return x, None
        if self.kind == "spring":
            return x, Drive("spring", beta, targets_of(_bench(F), v))
        return x, Drive("current", beta, pushes_of(_bench(F), theta, y, s, beta))


def trainer(
    session: Session,
    F: Total,
    optimizer: optax.GradientTransformation,
    nudge: Nudge | None = None,
    *,
    kind: Kind | None = None,
    eta: float | None = None,
    metrics: dict[str, Metric] | None = None,
) -> Trainer:
    """A trainer whose device settles: by Equilibrium Propagation with a `nudge`, or by coupled learning with `eta`.

    kind: how outputs are pushed by a nudge, of what the device can do; None: a current, or else a spring.
    eta: clamp the outputs this part of the way to their targets, for a device that can clamp.
    """
    if (nudge is None) == (eta is None):
        raise InputError(f"nudge={nudge!r}, eta={eta!r}: give one, a nudge or the part η of the way to the target")
    if eta is not None and kind is not None:
        raise InputError(
            f"kind={kind!r} with eta={eta!r}, which clamps the outputs and does not push them: leave kind out"
        )
    system, able = OnBench(F, session), session.description.nudges
    if eta is not None:
        rule = CoupledLearning(eta, Asked("clamp"), Asked("clamp"))
    else:
        asked = Asked(kind or ("spring" if "current" not in able and "spring" in able else "current"))
        rule = EquilibriumPropagation(nudge, asked, asked)  # pyright: ignore[reportArgumentType]  (a nudge is given)
    return Trainer(system, rule, optimizer, metrics=metrics or {})


def _bench(F: System) -> OnBench:
    bench = F.F if isinstance(F, Clamped) else F
    if not isinstance(bench, OnBench):
        raise InputError(f"F={type(F).__name__} is no device: give eqprop.bench.OnBench(F, session)")
    return bench


@compiled
def _contrast(F: Total, theta: Theta, v: Data, beta: Array, w: Array, states: State, weight: Weight | None) -> Theta:
    return F.contrast(theta, v, beta, w, states, weight)


@compiled
def _pull(cost: Any, theta: Theta, y: Data, s: State) -> State:
    """∂C/∂s of each example."""
    return jax.vmap(jax.grad(cost, argnums=2), in_axes=(None, 0, 0))(theta, y, s)


def pushes_of(bench: OnBench, theta: Theta, y: Data, s: State, beta: float) -> dict[str, np.ndarray]:
    """The currents −β ∂C/∂s into the outputs; a cost that looks at what cannot be pushed is refused."""
    output = bench.session.description.output
    pull = _pull(bench.F.cost, theta, y, s)
    for layer, u in pull.items():
        if layer != output and np.any(u):
            raise InputError(f"the cost pulls at layer {layer!r}, and the device can be pushed at {output!r} only")
    return {output: np.asarray(-beta * pull[output], np.float32)}


def targets_of(bench: OnBench, v: Data) -> dict[str, np.ndarray]:
    """Where the cost is least, of each example."""
    remedy = "take SquaredError(), or push by a current"
    outputs = need(bench, Outputs, "a spring or a clamp goes to where the cost is least", remedy)
    return {layer: np.asarray(u, np.float32) for layer, u in jax.vmap(outputs.clamp)(v).items()}

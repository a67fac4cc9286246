"""The dynamics: downhill, to a minimum, and within the bounds."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from optax.tree_utils import tree_norm

from eqprop.energy import Hopfield, hard_sigmoid
from eqprop.relax import Flow, Gradient, Stepwise
from eqprop.relax.flow import velocity
from eqprop.total import System
from eqprop.types import Data, Number, Scalar, State, Theta
from eqprop.verification.base import Check, Claim, Finding, Subject, at_most
from eqprop.verification.calculus import is_smooth
from eqprop.verification.health import checkup

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Dynamics(Claim):
    """ds/dt = −∂F/∂s  ⇒  dF/dt = −‖ds/dt‖² ≤ 0, until ∂F/∂s = 0 at a minimum   (section 2.2).

    dF/dt is found by differences in time along the flow. A unit at a bound has ds/dt = 0 while the force points
    outwards, and the equation holds all the same. Clipped steps with a small ε follow this flow (section 5.1). The clip
    keeps s within the bounds; without it, a unit of the hard sigmoid that has gone below 0 never comes back, whatever
    its input, as ρ' = 0 there.
    """

    name = "dynamics"
    section = "2.2"
    flow: Flow = field(default=Flow(tol=1e-9))
    steps: Stepwise = field(default=Gradient(steps=300))

    def check(self, subject: Subject) -> Finding:
        checks = [*checkup(subject)]
        if not checks[-1].passed:
            return self.found(subject, checks)
        times = np.linspace(0, 12, 61)
        close = np.sort(np.concatenate([times, times[1:] - 1e-3, times[1:] + 1e-3]))
        # It starts beside s, as s may be the fixed point already.
        start = subject.F.space.project(jax.tree.map(lambda u: np.asarray(u) + 0.1, subject.s))
        trace = self.flow.trace(subject.F, subject.theta, subject.v, 0.0, start, times=jnp.asarray(close))
        trace = jax.tree.map(np.asarray, trace)
        falling = (trace.energy[:, 3::3] - trace.energy[:, 1::3]) / 2e-3
        before, middle, after = (jax.tree.map(lambda u, k=k: u[:, k::3], trace.state) for k in (1, 2, 3))
        speeds = jax.vmap(jax.vmap(lambda v, s: self.speed(subject, v, s), (None, 0)))
        speed = np.asarray(jax.jit(speeds)(subject.v, middle))
        # Where a unit reaches or leaves a bound in between, the speed jumps, and there is no derivative.
        jumps = [
            np.any(a != b, axis=-1) for a, b in zip(self.held(subject, before), self.held(subject, after), strict=True)
        ]
        gap = np.where(np.any(jumps, axis=0), 0, np.abs(falling + speed))
        advice = "the flow does not follow −∂F/∂s: does F, at fixed β, depend on anything but s?"
        wanted = "dF/dt + ‖ds/dt‖² along the flow, relative to its largest"
        checks.append(at_most(wanted, np.max(gap) / np.max(speed), 1e-4, advice))
        if not is_smooth(subject):
            checks += self.bounds(subject)
        return self.found(subject, checks, times=times[1:], falling=falling, speed=speed)

    def speed(self, subject: Subject, v: Data, s: State) -> Scalar:
        """‖ds/dt‖² of one state."""
        return tree_norm(velocity(subject.F, subject.theta, v, 0.0, s), squared=True)

    def held(self, subject: Subject, s: State) -> list[np.ndarray]:
        """Which units are at a bound: a row for each time of each example."""
        free = jax.tree.leaves(subject.F.space.inside(s))
        return [~np.reshape(leaf, (*leaf.shape[:2], -1)) for leaf in free]

    def bounds(self, subject: Subject) -> list[Check]:
        """Clipped and unclipped steps from the same start."""
        F, given = subject.F, (subject.theta, subject.v, 0.0)
        path = jax.tree.map(np.asarray, self.steps.trace(F, *given, subject.s).state)
        gaps = jax.tree.map(lambda u, inner: float(np.max(np.abs(u - inner))), path, F.space.project(path))
        out = max(jax.tree.leaves(gaps))
        checks = [at_most("how far clipped steps leave the box", out, 0.0, "states must be clipped")]
        net = F.offer(Hopfield)
        if net is not None and set(net.rho.values()) == {hard_sigmoid}:
            below = jax.tree.map(lambda u: np.full_like(u, -0.1), subject.s)
            unclipped, clipped = (
                jax.tree.map(lambda u: u[:, -1], jax.tree.map(np.asarray, self.steps.trace(G, *given, below).state))
                for G in (Unbounded(F), F)
            )
            active, with_clip, without = (
                sum(int(np.sum(np.asarray(u) > 0)) for u in s.values()) for s in (subject.free[0], clipped, unclipped)
            )
            what = "units that come back from below 0"
            checks.append(Check(f"{what} without the clip, of {active}", without, "= 0", without == 0))
            checks.append(Check(f"{what} with it, of {active}", with_clip, "> 0", with_clip > 0 or not active))
        return checks

    def picture(self, finding: Finding) -> "Figure | None":
        if not finding.curves:
            return None
        from eqprop.plots.dynamics import downhill

        title = f"The network goes downhill as fast as it moves. {finding.subject}"
        return downhill(**finding.curves, title=title)


class Unbounded(System):
    """F without the bounds of its states."""

    F: System

    def __call__(self, theta: Theta, v: Data, beta: Number, s: State) -> Scalar:
        return self.F(theta, v, beta, s)

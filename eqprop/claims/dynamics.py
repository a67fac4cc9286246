"""The dynamics: downhill, to a minimum, and inside the box."""

from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from optax.tree_utils import tree_norm

from eqprop.claims.base import Check, Claim, Finding, Subject, at_most
from eqprop.claims.calculus import is_smooth
from eqprop.claims.health import checkup
from eqprop.energy import Hopfield, hard_sigmoid
from eqprop.relax import Flow, Gradient
from eqprop.relax.box import inside, project
from eqprop.relax.flow import velocity


@dataclass(frozen=True)
class Dynamics(Claim):
    """ds/dt = −∂F/∂s  ⇒  dF/dt = −‖ds/dt‖² ≤ 0, until ∂F/∂s = 0 at a minimum   (section 2.2).

    Along the flow, dF/dt by differences in time. In a box a unit at an end of it has ds/dt = 0 while the force points
    outwards, and the equation holds all the same. Clipped steps with a small ε follow this flow (section 5.1). The clip
    keeps s in the box; without it, a unit of the hard sigmoid that has gone below 0 never comes back, whatever its
    input, for ρ' = 0 there.
    """

    name = "dynamics"
    section = "2.2"
    flow: Flow = field(default=Flow(tol=1e-9))
    steps: Gradient = field(default=Gradient(steps=300))

    def check(self, subject: Subject) -> Finding:
        checks = [*checkup(subject)]
        if not checks[-1].passed:
            return self.found(subject, checks)
        times = np.linspace(0, 12, 61)
        close = np.sort(np.concatenate([times, times[1:] - 1e-3, times[1:] + 1e-3]))
        # From beside the start, lest that be where it comes to rest.
        start = project(subject.F, jax.tree.map(lambda u: u + 0.1, subject.s))
        trace = self.flow.trace(subject.F, subject.theta, subject.v, 0.0, start, jnp.asarray(close))
        falling = (trace.energy[:, 3::3] - trace.energy[:, 1::3]) / 2e-3
        before, middle, after = (jax.tree.map(lambda u, k=k: u[:, k::3], trace.state) for k in (1, 2, 3))
        speeds = jax.vmap(jax.vmap(lambda v, s: self.speed(subject, v, s), (None, 0)))
        speed = jax.jit(speeds)(subject.v, middle)
        # Where a unit reaches or leaves an end of the box in between, the speed jumps, and there is no derivative.
        jumps = [
            np.any(a != b, axis=-1) for a, b in zip(self.held(subject, before), self.held(subject, after), strict=True)
        ]
        gap = np.where(np.any(jumps, axis=0), 0, np.abs(falling + speed))
        advice = "the flow does not follow −∂F/∂s: does F, at fixed β, depend on anything but s?"
        wanted = "dF/dt + ‖ds/dt‖² along the flow, relative to its largest"
        checks.append(at_most(wanted, np.max(gap) / np.max(speed), 1e-4, advice))
        if not is_smooth(subject):
            checks += self.box(subject)
        return self.found(subject, checks, times=times[1:], falling=np.asarray(falling), speed=np.asarray(speed))

    def speed(self, subject: Subject, v: Any, s: Any) -> Any:
        """‖ds/dt‖² of one state."""
        return tree_norm(velocity(subject.F, subject.theta, v, 0.0, s), squared=True)

    def held(self, subject: Subject, s: Any) -> list[np.ndarray]:
        """Which units are at an end of the box: a row for each time of each example."""
        free = jax.tree.leaves(inside(subject.F, s))
        return [~np.reshape(leaf, (*leaf.shape[:2], -1)) for leaf in free]

    def box(self, subject: Subject) -> list[Check]:
        """Clipped and unclipped steps from the same start."""
        low, high = subject.F.box  # pyright: ignore[reportAttributeAccessIssue]  (it is not smooth, so there is one)
        trace = self.steps.trace(subject.F, subject.theta, subject.v, 0.0, subject.s)
        out = [float(jnp.max(jnp.maximum(low - u, u - high))) for u in jax.tree.leaves(trace.state)]
        checks = [at_most("how far clipped steps leave the box", max(*out, 0.0), 0.0, "states must be clipped")]
        energy = getattr(subject.F, "energy", None)
        if isinstance(energy, Hopfield) and energy.activation == hard_sigmoid:
            below = replace(subject, s=jax.tree.map(lambda u: jnp.full_like(u, -0.1), subject.s))
            unclipped, _ = self.steps(_Boxless(subject.F), subject.theta, subject.v, 0.0, below.s)
            clipped, _ = self.steps(subject.F, subject.theta, subject.v, 0.0, below.s)
            rest, _ = subject.free()
            active, with_clip, without = (
                sum(int(np.sum(u > 0)) for u in s.values()) for s in (rest, clipped, unclipped)
            )
            what = "units that come back from below 0"
            checks.append(Check(f"{what} without the clip, of {active}", without, "= 0", without == 0))
            checks.append(Check(f"{what} with it, of {active}", with_clip, "> 0", with_clip > 0 or not active))
        return checks

    def picture(self, finding: Finding) -> Any:
        if "times" not in finding.curves:
            return None
        from matplotlib.figure import Figure

        from eqprop.plots import FIRST, SECOND

        figure = Figure(figsize=(7, 4.2), layout="constrained")
        axes = figure.subplots()
        times, falling, speed = (finding.curves[key] for key in ("times", "falling", "speed"))
        axes.semilogy(times, speed[0], label="‖ds/dt‖²", **FIRST)
        axes.semilogy(times, np.maximum(-falling[0], 1e-300), "o", markersize=4, color=SECOND["color"], label="−dF/dt")
        axes.set(
            xlabel="time (time constants of a unit)",
            ylabel="energy lost per time constant",
            ylim=(max(float(speed[0].min()), 1e-14) / 3, None),
            title=f"The network goes downhill as fast as it moves. {finding.subject}",
        )
        axes.grid(alpha=0.3)
        axes.legend()
        return figure


@dataclass(frozen=True)
class _Boxless:
    """F without its box."""

    F: Any

    def __call__(self, theta: Any, v: Any, beta: Any, s: Any) -> Any:
        return self.F(theta, v, beta, s)

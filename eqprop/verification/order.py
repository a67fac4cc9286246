"""Theorem 1 has a limit in it: how fast each nudge comes near it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from eqprop.compile import compiled
from eqprop.nudge import Holomorphic, Nudge, OneSided, Symmetric
from eqprop.relax import Relaxation
from eqprop.total import System
from eqprop.types import Array, Data, State, Theta
from eqprop.verification.base import SMALL, Check, Claim, Finding, Subject, at_most, flat, order, relative, rows
from eqprop.verification.calculus import implicit, is_smooth
from eqprop.verification.health import explained

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BETAS = np.logspace(-0.4, -7.6, 37)
NUDGES = {
    "one-sided": (OneSided(), 1),
    "symmetric": (Symmetric(), 2),
    "holomorphic, 4 points": (Holomorphic(points=4), 4),
    "holomorphic, 6 points": (Holomorphic(points=6), 6),
}


@dataclass(frozen=True)
class Order(Claim):
    """‖Σ_k w_k ∂F/∂θ(β_k, s^{β_k}) − ∂J/∂θ‖ = O(β^p): p = 1 one-sided, 2 symmetric, N with N points on a circle.

    p is the slope on logarithmic axes, over those β for which the error is small, but still well above the error that
    the residual of the fixed points causes, which grows as 1/β. `nudges` are the nudges to measure by name, with the p
    that each should have; None: all that suit the subject.
    """

    name: ClassVar[str] = "order of the nudges"
    section: ClassVar[str] = "3.3"
    nudges: Mapping[str, tuple[Nudge, int]] | None = None

    def applies(self, subject: Subject) -> bool:
        return is_smooth(subject)

    def check(self, subject: Subject) -> Finding:
        s, info = subject.free
        exact = flat(implicit(subject))
        noise = max(float(info.residual.max()), 1e-15) / max(np.linalg.norm(exact), SMALL)
        errors = self.errors(subject, s, exact)
        checks = []
        for name, (_, p) in self.asked(subject).items():
            clear = [(b, e) for b, e in zip(BETAS, errors[name], strict=True) if 100 * noise / b < e < 3e-3]
            if len(clear) > 2:
                slope = order(*zip(*clear, strict=True))
                passed = slope >= p - 0.15  # some F have no term of order p
                checks.append(Check(f"slope of the error of the {name} nudge", slope, f"{p} ± 0.15, or more", passed))
            else:
                least = min(errors[name])
                checks.append(at_most(f"least error of the {name} nudge, which is none or of no order", least, 1e-8))
        why = "The error of a nudge should fall with its order: are its β_k and w_k right?"
        orders = [p for _, p in self.asked(subject).values()]
        return self.found(subject, explained(subject, checks, why), betas=BETAS, errors=errors, orders=orders)

    def asked(self, subject: Subject) -> Mapping[str, tuple[Nudge, int]]:
        """The nudges to measure; those in the complex plane only if the subject's own nudge is one."""
        analytic = isinstance(subject.rule.nudge, Holomorphic)
        usual = {name: pair for name, pair in NUDGES.items() if analytic or not isinstance(pair[0], Holomorphic)}
        return usual if self.nudges is None else self.nudges

    def errors(self, subject: Subject, s: State, exact: np.ndarray) -> dict[str, list[float]]:
        """The relative error of each nudge at each β; the phases of all of them settle at once."""
        points = {
            name: [tuple(map(np.asarray, replace(nudge, beta=float(b))(jax.random.key(0)))) for b in BETAS]
            for name, (nudge, _) in self.asked(subject).items()
        }
        betas = np.concatenate([beta for some in points.values() for beta, _ in some])
        slopes = iter(rows(slopes_at(subject.rule.nudged, subject.F, subject.theta, subject.v, s, jnp.asarray(betas))))
        return {
            name: [relative(sum(w_k * next(slopes) for w_k in w).real, exact) for _, w in some]
            for name, some in points.items()
        }

    def picture(self, finding: Finding) -> "Figure":
        from eqprop.plots import gradient_error

        slopes = [check.value for check in finding.checks]
        errors = {
            f"{name}: slope {slope:.2f}" if slope > 0.1 else name: values
            for slope, (name, values) in zip(slopes, finding.curves["errors"].items(), strict=False)
        }
        title = f"How near Theorem 1's limit? {finding.subject}"
        curves = finding.curves
        return gradient_error(curves["betas"], errors, orders=curves["orders"], title=title)


@compiled
def slopes_at(relaxation: Relaxation, F: System, theta: Theta, v: Data, s: State, betas: Array) -> Theta:
    """∂F/∂θ(θ, v, β, s^β), averaged over the examples, at each β."""

    def at(beta: Array) -> Theta:
        start = jax.tree.map(lambda u: u.astype(beta.dtype), s)
        settled, _ = relaxation.settle(F, theta, v, beta, start)

        def part(theta: Theta, which: Callable[..., Array]) -> Array:
            return jnp.mean(which(jax.vmap(F, in_axes=(None, 0, None, 0))(theta, v, beta, settled)))

        real, imaginary = (jax.grad(part)(theta, which) for which in (jnp.real, jnp.imag))
        return jax.tree.map(lambda a, b: a + 1j * b, real, imaginary)

    return jax.vmap(at)(betas)

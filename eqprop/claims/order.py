"""Theorem 1 has a limit in it: how fast each nudge comes near it."""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from eqprop.claims.base import SMALL, Check, Claim, Finding, Subject, at_most, flat, order, relative, rows
from eqprop.claims.calculus import is_smooth
from eqprop.claims.health import explained
from eqprop.compile import compiled
from eqprop.nudge import Holomorphic, Nudge, OneSided, Symmetric
from eqprop.rule import ImplicitGradient

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

    The slope on logarithmic axes, over those β for which the error is small but still well above what the fixed points'
    own residual, divided by β, makes of it. `nudges` are what is measured, with the p that each should have.
    """

    name = "order of the nudges"
    section = "3.3"
    nudges: Any = None

    def applies(self, subject: Subject) -> bool:
        return is_smooth(subject)

    def check(self, subject: Subject) -> Finding:
        s, info = subject.free()
        exact, _, _ = ImplicitGradient(subject.rule.free, tol=1e-13)(subject.F, subject.theta, subject.v, s)
        noise = max(float(info.residual.max()), 1e-15) / max(np.linalg.norm(flat(exact)), SMALL)
        errors = self.errors(subject, s, flat(exact))
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

    def asked(self, subject: Subject) -> dict[str, tuple[Nudge, int]]:
        """The nudges to measure; without those in the complex plane, where the subject's own rule has none."""
        analytic = isinstance(subject.rule.nudge, Holomorphic)
        usual = {name: pair for name, pair in NUDGES.items() if analytic or not isinstance(pair[0], Holomorphic)}
        return usual if self.nudges is None else self.nudges

    def errors(self, subject: Subject, s: Any, exact: np.ndarray) -> dict[str, list[float]]:
        """The relative error of each nudge at each β: all their points are settled to at once."""
        points = {
            name: [tuple(map(np.asarray, replace(nudge, beta=float(b))(jax.random.key(0)))) for b in BETAS]
            for name, (nudge, _) in self.asked(subject).items()
        }
        betas = np.concatenate([beta for some in points.values() for beta, _ in some])
        slopes = iter(rows(slopes_at(subject.rule.nudged, subject.F, subject.theta, subject.v, s, betas)))
        return {
            name: [relative(sum(w_k * next(slopes) for w_k in w).real, exact) for _, w in some]
            for name, some in points.items()
        }

    def picture(self, finding: Finding) -> Any:
        from eqprop.plots import gradient_error

        slopes = [check.value for check in finding.checks]
        errors = {
            f"{name}: slope {slope:.2f}" if slope > 0.1 else name: values
            for slope, (name, values) in zip(slopes, finding.curves["errors"].items(), strict=False)
        }
        return gradient_error(
            finding.curves["betas"],
            errors,
            orders=finding.curves["orders"],
            title=f"How near Theorem 1's limit? {finding.subject}",
        )


@compiled
def slopes_at(relaxation: Any, F: Any, theta: Any, v: Any, s: Any, betas: Any) -> Any:
    """∂F/∂θ(θ, v, β, s^β), averaged over the examples, at each β."""

    def at(beta: Array) -> Any:
        start = jax.tree.map(lambda u: u.astype(beta.dtype), s)
        settled, _ = relaxation(F, theta, v, beta, start)

        def part(theta: Any, which: Any) -> Array:
            return jnp.mean(which(jax.vmap(F, in_axes=(None, 0, None, 0))(theta, v, beta, settled)))

        real, imaginary = (jax.grad(part)(theta, which) for which in (jnp.real, jnp.imag))
        return jax.tree.map(lambda a, b: a + 1j * b, real, imaginary)

    return jax.vmap(at)(betas)

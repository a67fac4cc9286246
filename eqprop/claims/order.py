"""Theorem 1 has a limit in it: how fast each nudge comes near it."""

from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from eqprop.claims.base import Claim, Finding, Subject, near, order, relative
from eqprop.claims.calculus import is_smooth
from eqprop.claims.health import explained
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

    name = "order in β"
    section = "3.3"
    nudges: Any = None

    def applies(self, subject: Subject) -> bool:
        return is_smooth(subject)

    def check(self, subject: Subject) -> Finding:
        s, info = subject.free()
        exact, _, _ = ImplicitGradient(subject.rule.free, tol=1e-13)(subject.F, subject.theta, subject.v, s)
        noise = max(float(info.residual.max()), 1e-15)
        checks, errors = [], {}
        for name, (nudge, p) in (self.nudges or NUDGES).items():
            errors[name] = [self.error(subject, s, replace(nudge, beta=float(beta)), exact) for beta in BETAS]
            clear = [(b, e) for b, e in zip(BETAS, errors[name], strict=True) if 100 * noise / b < e < 3e-3]
            slope = order(*zip(*clear, strict=True)) if len(clear) > 2 else float("nan")
            checks.append(near(f"slope of the error of the {name} nudge", slope, p, 0.15))
        why = "The error of a nudge should fall with its order: are its β_k and w_k right?"
        return self.found(subject, explained(subject, checks, why), betas=BETAS, errors=errors)

    def error(self, subject: Subject, s: Any, nudge: Nudge, exact: Any) -> float:
        rule = replace(subject.rule, nudge=nudge)
        return relative(rule(subject.F, subject.theta, subject.v, s, jax.random.key(0))[0], exact)

    def picture(self, finding: Finding) -> Any:
        from matplotlib.figure import Figure

        from eqprop.plots import STYLES

        figure = Figure(figsize=(7, 4.6), layout="constrained")
        axes = figure.subplots()
        betas = finding.curves["betas"]
        slopes = [check.value for check in finding.checks]
        for style, slope, (name, errors) in zip(STYLES, slopes, finding.curves["errors"].items(), strict=False):
            axes.loglog(betas, errors, marker="o", markersize=3, label=f"{name}: slope {slope:.2f}", **style)
        axes.set(
            xlabel="strength of the nudge β",
            ylabel="relative distance to the exact gradient",
            title=f"How near Theorem 1's limit? {finding.subject}",
        )
        axes.grid(alpha=0.3)
        axes.legend(loc="lower right")
        return figure

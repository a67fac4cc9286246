"""The lemma of Appendix C: derivatives of the partition function are expectations."""

from collections.abc import Callable

import jax
import numpy as np

from eqprop.types import Number, PyTree, Scalar, Theta
from eqprop.verification.base import Claim, Finding, Subject, at_most, relative
from eqprop.verification.boltzmann import Boltzmann, boltzmann
from eqprop.verification.calculus import along, derivative, differences, parts, unit
from eqprop.verification.health import explained
from eqprop.verification.lemma import BETA

T = 1.0


class StochasticLemma(Claim):
    """(d/dθ E^β[∂F/∂β])ᵀ = d/dβ E^β[∂F/∂θ], as ∂ ln Z/∂β = −E^β[∂F/∂β] and ∂ ln Z/∂θ = −E^β[∂F/∂θ]   (Appendix C)

    where Z = ∫ e^{−F} ds and p^β = e^{−F}/Z. Nothing is drawn: Z and the expectations are sums over a grid for up to
    two units, or the closed forms of a Gaussian for a quadratic F. Derivatives of them are differences.
    """

    name = "stochastic lemma"
    section = "Appendix C"

    def applies(self, subject: Subject) -> bool:
        return boltzmann(subject, T, (0.0, 2 * BETA)) is not None

    def check(self, subject: Subject) -> Finding:
        known, theta, beta = boltzmann(subject, T, (0.0, 2 * BETA)), subject.theta, BETA * unit(subject)
        assert known is not None  # as it applies

        def both(theta: Theta, beta: Number, mean: Callable[..., PyTree]) -> dict[str, PyTree]:
            return {"ln Z": known.log_partition(theta, beta), "mean": mean(known, theta, beta)}

        by_theta = differences(subject, lambda theta: both(theta, beta, self.by_beta), theta)
        by_beta = derivative(subject, jax.jit(lambda beta: both(theta, beta, self.by_theta)), beta)
        mean, right = (along(tree) for tree in (self.by_theta(known, theta, beta), by_beta["mean"]))
        pairs = {
            "d/dθ E[∂F/∂β] beside d/dβ E[∂F/∂θ]": (by_theta["mean"], right),
            "∂ ln Z/∂θ beside −E[∂F/∂θ]": (by_theta["ln Z"], -np.asarray(mean)),
        }
        checks = [
            at_most("∂ ln Z/∂β beside −E[∂F/∂β]", relative(by_beta["ln Z"], -self.by_beta(known, theta, beta)), 1e-6)
        ]
        checks += [
            at_most(f"{name}: {what}", relative(a[part], b[part]), 1e-6)
            for name, part in parts(theta).items()
            for what, (a, b) in pairs.items()
        ]
        return self.found(subject, explained(subject, checks, "are expectations those of e^{−F}/Z at the same β?"))

    def by_theta(self, known: Boltzmann, theta: Theta, beta: Number) -> Theta:
        """E^β[∂F/∂θ]."""
        return known.by_theta(theta, beta)

    def by_beta(self, known: Boltzmann, theta: Theta, beta: Number) -> Scalar:
        """E^β[∂F/∂β]."""
        return known.by_beta(theta, beta)

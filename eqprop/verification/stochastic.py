"""Appendix C: settling with noise, and learning from the distributions it leads to.

Checked at T = 1, as the appendix has it, on the first example of subjects whose distribution e^{−F/T}/Z is known
exactly. Samples come from many independent chains. Each chain gives one value of the quantity that is estimated: its
average over the chain. So standard errors need no model of the correlations within a chain. All the intervals of a
claim hold together with a probability of 99 % (Bonferroni): a claim that is true fails on one seed of a hundred.
"""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from eqprop.compile import compiled
from eqprop.errors import InputError
from eqprop.nudge import Nudge, Symmetric
from eqprop.relax import Langevin
from eqprop.rule import StochasticEquilibriumPropagation
from eqprop.types import Array, Number, PyTree, Theta
from eqprop.verification.base import Check, Claim, Finding, Subject, at_most, flat, near, relative, rows
from eqprop.verification.boltzmann import Boltzmann, boltzmann

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = 1.0
SAMPLER = Langevin(T, dt=0.02, burn_in=500, samples=40, thin=25)
NUDGE = 0.2
SYMMETRIC = Symmetric(NUDGE)
LEVELS = np.array([NormalDist().cdf(z) for z in np.linspace(-4, 4, 401)])
TESTED = slice(100, 301, 10)  # of those levels: 2.3 % to 97.7 %
MEND = "see that the sampler's dt is short and its burn-in long for this F; one seed of a hundred fails by chance"


@dataclass(frozen=True)
class _Sampled(Claim):
    """A claim about p^β, from chains of a sampler that a test may replace."""

    sampler: Langevin = SAMPLER
    chains: int = 1000
    seed: int = 0
    betas: ClassVar[tuple[float, ...]] = (-NUDGE, 0.0, NUDGE)
    section: ClassVar[str] = "Appendix C"

    def applies(self, subject: Subject) -> bool:
        return boltzmann(subject, T, self.betas) is not None

    def exact(self, subject: Subject) -> Boltzmann:
        if (known := boltzmann(subject, T, self.betas)) is None:
            raise InputError(f"the distribution of {subject.name!r} is not known exactly: ask `applies` first")
        return known

    def draw(self, subject: Subject, beta: float) -> np.ndarray:
        """States as vectors, with axes (chains, samples, units); for every β from the same noise."""
        v, s = jax.tree.map(lambda a: jnp.broadcast_to(a, (self.chains, *a.shape)), subject.one())
        states = self.sampler.sample(subject.F, subject.theta, v, beta, s, jax.random.key(self.seed))
        leaves = [u.reshape(*u.shape[:2], -1) for u in jax.tree.leaves(states)]
        return np.asarray(jnp.concatenate(leaves, axis=-1))


class Stationary(_Sampled):
    """ds = −∂F/∂s dt + √(2T) dB converges to the Boltzmann distribution p^β(s) = e^{−F(θ, v, β, s)/T}/Z."""

    name: ClassVar[str] = "stationary distribution"
    betas: ClassVar[tuple[float, ...]] = (0.0, 1.0)

    def check(self, subject: Subject) -> Finding:
        exact = self.exact(subject)
        checks: list[Check] = []
        curves: dict[str, Any] = {}
        for beta in self.betas:
            x, (mean, cov, places) = self.draw(subject, beta), map(np.asarray, _moments(exact, subject.theta, beta))
            checks += self._compare(beta, x, mean, cov, places[TESTED])
            curves[f"{beta:g}"] = _density(x[..., 0], places[:, 0])
        return self.found(subject, checks, densities=curves)

    def _compare(
        self, beta: float, x: np.ndarray, mean: np.ndarray, cov: np.ndarray, places: np.ndarray
    ) -> list[Check]:
        """Mean, covariance and distribution function of the units."""
        spread = x - mean
        products = np.einsum("csi,csj->cij", spread, spread) / x.shape[1]
        below = np.stack([np.mean(x <= place, axis=1) for place in places], axis=1)
        levels = np.broadcast_to(LEVELS[TESTED, None], places.shape)
        # The number of independent draws that would give E[s] as precisely, for the unit with the least precise mean.
        ess = np.min(np.diag(cov) / _standard_error(x.mean(1)) ** 2)
        numbers = len(self.betas) * (mean.size + cov.size + levels.size)
        return [
            _within(f"E[s] at β = {beta:g} (effective sample size {ess:,.0f})", x.mean(1), mean, numbers),
            _within(f"Cov[s] at β = {beta:g}", products, cov, numbers),
            _within(f"P(s ≤ its exact quantile) at β = {beta:g}", below, levels, numbers),
        ]

    def picture(self, finding: Finding) -> "Figure":
        from eqprop.plots.sampling import densities

        return densities(**finding.curves, title=f"{finding.subject}, T = {T:g}")


@dataclass(frozen=True)
class ExpectedGradient(_Sampled):
    """Theorem 2: ∂J̃/∂θ = lim_{β→0} 1/β (E^β[∂F/∂θ(θ, v, β, s)] − E⁰[∂F/∂θ(θ, v, 0, s)]) with J̃ = E⁰[C].

    The estimate of the rule at a finite β is compared with the exact value of the same symmetric difference, so that
    its bias of O(β²) is no part of the error. Another check sees that the exact value tends to ∂J̃/∂θ.
    """

    chains: int = 2000
    nudge: Nudge = SYMMETRIC
    name: ClassVar[str] = "theorem 2"

    def check(self, subject: Subject) -> Finding:
        exact, theta = self.exact(subject), subject.theta
        found, wanted = self._estimates(subject), flat(_difference(exact.by_theta, theta, NUDGE))
        widest = np.max(_reach(found, wanted.size)) / np.max(np.abs(wanted))
        gradient = jax.grad(exact.expected_cost)(theta, 0.0)
        limit = relative(_difference(exact.by_theta, theta, 1e-3), gradient)
        return self.found(
            subject,
            [
                _within(f"∂J̃/∂θ of {self.chains:,} chains at β = ±{NUDGE:g}", found, wanted, wanted.size),
                at_most("half the widest of those intervals / the largest ∂J̃/∂θ", widest, 0.5, "take more chains"),
                at_most("exact difference at β = ±0.001 from exact ∂J̃/∂θ, relative", limit, 1e-4, "is F smooth?"),
            ],
        )

    def _estimates(self, subject: Subject) -> np.ndarray:
        """The estimates of the rule from one chain at a time; axes (chains, parameters)."""
        rule = StochasticEquilibriumPropagation(self.nudge, self.sampler)
        v, s = jax.tree.map(lambda a: a[:1], (subject.v, subject.s))
        keys = jax.random.split(jax.random.key(self.seed), self.chains)
        return rows(jax.vmap(lambda key: rule(subject.F, subject.theta, v, s, key).gradient)(keys))


class NudgedCost(_Sampled):
    """Proposition 2: β ↦ E^β[C] has the slope −Var⁰[C]/T ≤ 0 at β = 0, so that a small nudge lowers the cost."""

    name: ClassVar[str] = "proposition 2"

    def check(self, subject: Subject) -> Finding:
        exact, theta = self.exact(subject), subject.theta
        free, up, down = (np.asarray(_costs(exact, theta, self.draw(subject, beta))) for beta in (0.0, NUDGE, -NUDGE))
        slopes = (up - down).mean(1) / (2 * NUDGE)
        spreads = -((free - free.mean()) ** 2).mean(1) / T
        wanted = _difference(exact.expected_cost, theta, NUDGE)
        slope, spread = jax.grad(exact.expected_cost, argnums=1)(theta, 0.0), -exact.cost_variance(theta, 0.0) / T
        return self.found(
            subject,
            [
                _within(f"slope of E[C] between β = ±{NUDGE:g}", slopes, wanted, 2),
                at_most("upper end of its interval", slopes.mean() + _reach(slopes, 2), 0.0, MEND),
                _within("−Var[C]/T at β = 0", spreads, spread, 2),
                at_most("exact slope at β = 0 from exact −Var[C]/T, relative", relative(slope, spread), 1e-6),
            ],
        )


def _difference(f: Callable[[Theta, Number], PyTree], theta: Theta, beta: float) -> PyTree:
    """(f(θ, β) − f(θ, −β)) / 2β."""
    return jax.tree.map(lambda a, b: (a - b) / (2 * beta), f(theta, beta), f(theta, -beta))


def _standard_error(values: np.ndarray) -> np.ndarray:
    """Of the average over chains, the first axis."""
    return np.std(values, axis=0, ddof=1) / np.sqrt(len(values))


def _reach(values: np.ndarray, numbers: int) -> np.ndarray:
    """Half the width of intervals of which `numbers` hold together with a probability of 99 %."""
    return NormalDist().inv_cdf(1 - 0.01 / (2 * numbers)) * _standard_error(values)


def _within(what: str, values: np.ndarray, exact: Array | np.ndarray, numbers: int) -> Check:
    """Whether the averages over chains, the first axis, agree with the exact values; of the one that agrees least."""
    mean, wanted = np.ravel(values.mean(0)), np.ravel(np.asarray(exact))
    reach = np.ravel(_reach(values, numbers)) + 1e-9 * (1 + np.abs(wanted))  # for numbers that do not fluctuate
    worst = int(np.argmax(np.abs(mean - wanted) / reach))
    named = f"{what}, the worst of {mean.size}" if mean.size > 1 else what
    return near(named, mean[worst], float(wanted[worst]), float(reach[worst]), MEND)


@compiled
def _costs(exact: Boltzmann, theta: Theta, x: np.ndarray) -> Array:
    """C of every sample; axes (chains, samples)."""
    return jax.vmap(jax.vmap(lambda x: exact.cost(theta, x)))(x)


@compiled
def _moments(exact: Boltzmann, theta: Theta, beta: Number) -> tuple[Array, Array, Array]:
    """Mean, covariance and quantiles of the units."""
    mean = exact.expect(lambda x: x, theta, beta)
    cov = exact.expect(lambda x: jnp.outer(x - mean, x - mean), theta, beta)
    return mean, cov, exact.quantiles(jnp.asarray(LEVELS), theta, beta)


def _density(x: np.ndarray, quantiles: np.ndarray) -> dict[str, np.ndarray]:
    """The histogram of samples, and the density dp/ds that has those quantiles."""
    share, edges = np.histogram(x, bins=60, density=True)
    return {"share": share, "edges": edges, "s": quantiles, "density": np.gradient(LEVELS, quantiles)}

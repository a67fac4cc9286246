"""Boltzmann distributions that are known exactly: what samples must agree with."""

import abc
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from eqprop.compile import compiled
from eqprop.total import System
from eqprop.types import Data, Number, State, Theta
from eqprop.verification.base import Subject
from eqprop.verification.calculus import is_smooth

LARGEST = 16  # units: the claims estimate all their covariances from thousands of samples
POINTS = {1: 4001, 2: 401}  # number of units → points of the grid along each


class Energy(eqx.Module):
    """F(θ, β, x) of one example v, whose state is the vector x instead of a tree like s."""

    F: System
    v: Data
    s: State

    def __call__(self, theta: Theta, beta: Number, x: Array) -> Array:
        return jnp.asarray(self.F(theta, self.v, beta, ravel_pytree(self.s)[1](x)))


class Boltzmann(eqx.Module):
    """p(x) ∝ e^{−F(θ, β, x)/T}; JAX can differentiate all its results with respect to θ and β."""

    F: Energy
    T: float

    @abc.abstractmethod
    def log_partition(self, theta: Theta, beta: Number) -> Array:
        """ln Z with Z = ∫ e^{−F/T} dx."""

    @abc.abstractmethod
    def expect(self, q: Callable[[Array], Array], theta: Theta, beta: Number) -> Array:
        """E[q(x)], of any shape that q has."""

    @abc.abstractmethod
    def variance(self, q: Callable[[Array], Array], theta: Theta, beta: Number) -> Array:
        """Var[q(x)], number by number."""

    @abc.abstractmethod
    def quantiles(self, p: Array, theta: Theta, beta: Number) -> Array:
        """Where each unit lies below with probability p; axes (p, units)."""

    def cost(self, theta: Theta, x: Array) -> Array:
        """C := ∂F/∂β at β = 0 (section 3.4)."""
        return jax.grad(self.F, argnums=1)(theta, 0.0, x)

    @compiled
    def expected_cost(self, theta: Theta, beta: Number) -> Array:
        """E^β[C], which at β = 0 is J̃."""
        return self.expect(lambda x: self.cost(theta, x), theta, beta)

    @compiled
    def cost_variance(self, theta: Theta, beta: Number) -> Array:
        """Var^β[C]."""
        return self.variance(lambda x: self.cost(theta, x), theta, beta)

    @compiled
    def by_beta(self, theta: Theta, beta: Number) -> Array:
        """E^β[∂F/∂β]."""
        return self.expect(lambda x: jax.grad(self.F, argnums=1)(theta, beta, x), theta, beta)

    @compiled
    def by_theta(self, theta: Theta, beta: Number) -> Theta:
        """E^β[∂F/∂θ], shaped like θ."""
        return jax.grad(lambda other: self.expect(lambda x: self.F(other, beta, x), theta, beta))(theta)


class OnGrid(Boltzmann):
    """One unit or two: sums over a grid, at whose edges F is so high that the probability beyond is negligible.

    For a smooth density that falls off to 0, such sums err by less than any power of the spacing. The rows of `axes`
    are the values of each unit.
    """

    axes: Array

    @property
    def grid(self) -> Array:
        """All points; axes (points, units)."""
        return jnp.stack(jnp.meshgrid(*self.axes, indexing="ij"), axis=-1).reshape(-1, len(self.axes))

    def heights(self, theta: Theta, beta: Number) -> Array:
        """−F/T at all points."""
        return -jax.vmap(lambda x: self.F(theta, beta, x))(self.grid) / self.T

    def weights(self, theta: Theta, beta: Number) -> Array:
        return jax.nn.softmax(self.heights(theta, beta))

    def log_partition(self, theta: Theta, beta: Number) -> Array:
        spacings = self.axes[:, 1] - self.axes[:, 0]
        return jax.nn.logsumexp(self.heights(theta, beta)) + jnp.sum(jnp.log(spacings))

    def expect(self, q: Callable[[Array], Array], theta: Theta, beta: Number) -> Array:
        return jnp.tensordot(self.weights(theta, beta), jax.vmap(q)(self.grid), 1)

    def variance(self, q: Callable[[Array], Array], theta: Theta, beta: Number) -> Array:
        mean = self.expect(q, theta, beta)
        return self.expect(lambda x: (q(x) - mean) ** 2, theta, beta)

    def quantiles(self, p: Array, theta: Theta, beta: Number) -> Array:
        units, points = self.axes.shape
        weights = self.weights(theta, beta).reshape((points,) * units)
        found = []
        for unit, values in enumerate(self.axes):
            own = jnp.sum(weights, axis=tuple({*range(units)} - {unit}))
            below = jnp.cumsum(own) - own / 2  # half of a point's weight lies on either side of it
            found.append(jnp.interp(p, below, values))
        return jnp.stack(found, axis=-1)


class Gaussian(Boltzmann):
    """F quadratic in x: N(m, T H⁻¹) with H = ∂²F/∂x². Expectations are of q that are quadratic, as ∂F/∂θ and C are."""

    start: Array

    def moments(self, theta: Theta, beta: Number) -> tuple[Array, Array]:
        """m, at which ∂F/∂x = 0, and the covariance T H⁻¹."""
        g, H = (d(self.F, argnums=2)(theta, beta, self.start) for d in (jax.grad, jax.hessian))
        return self.start - jnp.linalg.solve(H, g), self.T * jnp.linalg.inv(H)

    def log_partition(self, theta: Theta, beta: Number) -> Array:
        """−F(m)/T + ½ ln det(2πΣ)."""
        m, cov = self.moments(theta, beta)
        return -self.F(theta, beta, m) / self.T + jnp.linalg.slogdet(2 * jnp.pi * cov)[1] / 2

    def expect(self, q: Callable[[Array], Array], theta: Theta, beta: Number) -> Array:
        """q(m) + ½ tr(q'' Σ)."""
        m, cov = self.moments(theta, beta)
        return q(m) + jnp.einsum("...ij,ij->...", jax.hessian(q)(m), cov) / 2

    def variance(self, q: Callable[[Array], Array], theta: Theta, beta: Number) -> Array:
        """q'ᵀ Σ q' + ½ tr(q'' Σ q'' Σ)."""
        m, cov = self.moments(theta, beta)
        g, H = jax.jacfwd(q)(m), jax.hessian(q)(m) @ cov
        return jnp.einsum("...i,ij,...j->...", g, cov, g) + jnp.einsum("...ij,...ji->...", H, H) / 2

    def quantiles(self, p: Array, theta: Theta, beta: Number) -> Array:
        m, cov = self.moments(theta, beta)
        return m + jax.scipy.stats.norm.ppf(p)[:, None] * jnp.sqrt(jnp.diag(cov))


def boltzmann(subject: Subject, T: float, betas: Sequence[float]) -> Boltzmann | None:
    """The distribution of the subject's first example, if it is known exactly and exists at every β.

    It is known for up to two units without bounds, and for more units if F is quadratic.
    """
    if not is_smooth(subject):
        return None
    v, s = subject.one()
    start, F = ravel_pytree(s)[0], Energy(subject.F, v, s)
    if len(start) in POINTS:
        return _on_grid(F, subject.theta, start, T, betas)
    if len(start) <= LARGEST and all(_bowl(F, subject.theta, start, beta) for beta in betas):
        return Gaussian(F, T, start)
    return None


def _on_grid(F: Energy, theta: Theta, start: Array, T: float, betas: Sequence[float]) -> OnGrid | None:
    """A grid around the start, out to where e^{−F/T} is below 1e-17 of its largest; None if F does not rise so far."""
    units, points = len(start), POINTS[len(start)]
    for reach in 2.0 ** np.arange(1, 10):
        found = OnGrid(F, T, start[:, None] + reach * jnp.linspace(-1, 1, points))
        heights = [np.asarray(_heights(found, theta, beta)).reshape((points,) * units) for beta in betas]
        edges = [np.take(h, [0, -1], axis=unit).max() - h.max() for h in heights for unit in range(units)]
        if max(edges) < -40:
            return found
    return None


def _bowl(F: Energy, theta: Theta, start: Array, beta: float) -> bool:
    """Whether F has a positive Hessian by which ∂F/∂x changes near and far; with weights beside θ too."""
    moves = np.random.default_rng(0).normal(size=(8, len(start))) * np.repeat([0.1, 10.0], 4)[:, None]
    for weights in (theta, jax.tree.map(lambda w: w + 0.01, theta)):  # for ∂F/∂θ is to be quadratic as well
        H, g, there = map(np.asarray, _expansion(F, weights, beta, start, start + moves))
        bent = np.abs(there - g - moves @ H).max()
        if not (bent <= 1e-4 * np.abs(moves @ H).max() and np.linalg.eigvalsh(H)[0] > 1e-6 * np.abs(H).max()):
            return False
    return True


@compiled
def _heights(on_grid: OnGrid, theta: Theta, beta: Number) -> Array:
    return on_grid.heights(theta, beta)


@compiled
def _expansion(F: Energy, theta: Theta, beta: Number, x: Array, others: Array) -> tuple[Array, Array, Array]:
    """∂²F/∂x² and ∂F/∂x at x, and ∂F/∂x at the others."""
    force = jax.grad(F, argnums=2)
    there = jax.vmap(force, in_axes=(None, None, 0))(theta, beta, others)
    return jax.hessian(F, argnums=2)(theta, beta, x), force(theta, beta, x), there

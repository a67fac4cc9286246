"""Boltzmann machine learning: the gradient of the log-likelihood, from samples with the target clamped and without
(section 4.2)."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from eqprop.compile import compiled
from eqprop.energy.boltzmann import BoltzmannMachine, machine_of
from eqprop.energy.hopfield import State, Theta
from eqprop.energy.total import Total, TotalEnergy
from eqprop.errors import InputError
from eqprop.relax import Gibbs, Info


class Sampled(NamedTuple):
    """The sweeps that each phase took; `negative` that of contrastive divergence, which is not free."""

    free: Info
    clamped: Info | None = None
    negative: Info | None = None


class _Likelihood(eqx.Module):
    """What rules for −log p(y | x) have in common: they do not see the cost, only which layer its target is for."""

    def check(self, F: TotalEnergy) -> None:
        """Refuse an F whose likelihood is not defined, or whose cost asks for more than the likelihood."""
        machine_of(F)
        cost = getattr(F, "cost", None)
        if not hasattr(cost, "layer"):
            raise InputError(f"cost={cost!r} does not say by `layer` what the target is for: take SquaredError()")
        for penalty in ("l1", "l2"):
            if value := getattr(cost, penalty, 0):
                raise InputError(
                    f"{penalty}={value!r}: the likelihood does not see the cost and its penalties; "
                    "take weight decay in the optimizer, e.g. optax.adamw"
                )


class BoltzmannLearning(_Likelihood):
    """−∂ log p(y | x)/∂θ = E[∂E/∂θ | x, y] − E[∂E/∂θ | x], averaged over the batch (section 4.2).

    Two independent chains from the state given: `clamped` draws with the target held, the positive phase, and `chain`
    without it, the negative phase. Both must be long enough to forget their start. If instead the state given is where
    the chain of the same example last ended (`Trainer(persistent=True)`), a `chain` of few sweeps will do: persistent
    contrastive divergence (Tieleman, 2008). `free` predicts.
    """

    free: Gibbs = Gibbs()
    clamped: Gibbs = Gibbs(burn_in=50, samples=10, thin=5)
    chain: Gibbs = Gibbs(burn_in=50, samples=10, thin=5)

    @compiled
    def __call__(
        self, F: Total, theta: Theta, v: tuple[Any, Any], s: State, key: Array, weight: Array | None = None
    ) -> tuple[Theta, State, Sampled]:
        """The gradient, shaped like θ; the last states of the negative chains, which are binary; and the sweeps.

        In v and s the first axis counts examples; `weight` gives each its share in the average.
        """
        self.check(F)
        clamped_key, free_key = jax.random.split(key)
        positive, _ = self.clamped.sample(F, theta, v, s, clamped_key, {F.cost.layer: v[1]})
        negative, last = self.chain.sample(F, theta, v, s, free_key)
        gradient = _contrast(F.energy, theta, v[0], positive, negative, weight)
        examples = len(v[0])
        return gradient, last, Sampled(self.chain.info(examples), self.clamped.info(examples))


class ContrastiveDivergence(_Likelihood):
    """CD-k: E[∂E/∂θ | x, y] − E[∂E/∂θ after k sweeps without the target], averaged over the batch (section 4.2).

    The negative chain starts where the positive one ends, which `clamped` draws with the target held. After so few
    sweeps it still remembers the target: the estimate of −∂ log p(y | x)/∂θ is biased. With one hidden layer a single
    clamped sweep is exact; deeper machines need more. `free` predicts.
    """

    k: int = eqx.field(default=1, static=True)
    free: Gibbs = Gibbs()
    clamped: Gibbs = Gibbs(burn_in=9, samples=1)

    def __check_init__(self) -> None:
        if not isinstance(self.k, int) or self.k < 1:
            raise InputError(f"k={self.k!r}: give a positive whole number of sweeps")

    @compiled
    def __call__(
        self, F: Total, theta: Theta, v: tuple[Any, Any], s: State, key: Array, weight: Array | None = None
    ) -> tuple[Theta, State, Sampled]:
        """The gradient, shaped like θ; what `free` predicts from the state given; and the sweeps.

        In v and s the first axis counts examples; `weight` gives each its share in the average.
        """
        self.check(F)
        clamped_key, negative_key, free_key = jax.random.split(key, 3)
        chain = Gibbs(burn_in=self.k - 1, samples=1)
        positive, start = self.clamped.sample(F, theta, v, s, clamped_key, {F.cost.layer: v[1]})
        negative, _ = chain.sample(F, theta, v, start, negative_key)
        gradient = _contrast(F.energy, theta, v[0], positive, negative, weight)
        s_free, free = self.free(F, theta, v, 0.0, s, free_key)
        examples = len(v[0])
        return gradient, s_free, Sampled(free, self.clamped.info(examples), chain.info(examples))


class BoltzmannLikelihood(_Likelihood):
    """−∂ log p(y | x)/∂θ, averaged over the batch: exact, for machines whose states can be gone through.

    `free` predicts.
    """

    free: Gibbs = Gibbs()

    def check(self, F: TotalEnergy) -> None:
        """Refuse an F whose likelihood is not defined or has too many terms."""
        super().check(F)
        machine_of(F).require_enumerable()

    @compiled
    def __call__(
        self, F: Total, theta: Theta, v: tuple[Any, Any], s: State, key: Array, weight: Array | None = None
    ) -> tuple[Theta, State, Sampled]:
        """The gradient, shaped like θ; what `free` predicts from the state given; and the sweeps.

        In v and s the first axis counts examples; `weight` gives each its share in the average.
        """
        self.check(F)

        def loss(theta: Theta) -> Array:
            likelihoods = jax.vmap(lambda x, y: F.energy.log_likelihood(theta, x, y, F.cost.layer))(*v)
            return -jnp.average(likelihoods, weights=weight)

        s_free, free = self.free(F, theta, v, 0.0, s, key)
        return jax.grad(loss)(theta), s_free, Sampled(free)


def _contrast(
    machine: BoltzmannMachine, theta: Theta, x: Array, positive: State, negative: State, weight: Array | None
) -> Theta:
    """The difference of ∂E/∂θ between the samples of two chains."""

    def mean(theta: Theta, states: State) -> Array:
        energies = jax.vmap(jax.vmap(machine, (None, None, 0)), (None, 0, 0))(theta, x, states)
        return jnp.average(jnp.mean(energies, axis=1), weights=weight)

    return jax.grad(lambda theta: mean(theta, positive) - mean(theta, negative))(theta)

"""Boltzmann machine learning: the gradient of the log-likelihood, from samples with the target clamped and without
(section 4.2)."""

import equinox as eqx
import jax
import jax.numpy as jnp

from eqprop.boundary import require_whole
from eqprop.energy.base import Binary
from eqprop.relax import Gibbs
from eqprop.relax.gibbs import machine_of
from eqprop.rule.base import Learned, Rule
from eqprop.total import Outputs, System, need
from eqprop.types import Array, Data, Key, Layers, Theta, Weight


class _Likelihood(Rule):
    """What rules for −log p(y | x) have in common: they do not see the cost, only which layer its target is for."""

    def check(self, F: System) -> None:
        """Refuse an F whose likelihood is not defined, or whose cost asks for more than the likelihood."""
        _outputs(F).require_no_penalty(type(self).__name__)
        super().check(F)


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

    def learn(self, F: System, theta: Theta, v: Data, s: Layers, key: Key, weight: Weight | None = None) -> Learned:
        """The gradient, and the last states of the negative chains, which are binary."""
        clamped_key, free_key = jax.random.split(key)
        positive, _ = self.clamped.draw(F, theta, v, s, clamped_key, _targets(F, v))
        negative, last = self.chain.draw(F, theta, v, s, free_key)
        examples = len(v[0])
        phases = {"free": self.chain.info(examples), "clamped": self.clamped.info(examples)}
        return Learned(_contrast(machine_of(F), theta, v[0], positive, negative, weight), last, phases, {})


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
        require_whole(1, k=self.k)

    def learn(self, F: System, theta: Theta, v: Data, s: Layers, key: Key, weight: Weight | None = None) -> Learned:
        """The gradient, and what `free` predicts from the state given."""
        clamped_key, negative_key, free_key = jax.random.split(key, 3)
        chain = Gibbs(burn_in=self.k - 1, samples=1)
        positive, start = self.clamped.draw(F, theta, v, s, clamped_key, _targets(F, v))
        negative, _ = chain.draw(F, theta, v, start, negative_key)
        gradient = _contrast(machine_of(F), theta, v[0], positive, negative, weight)
        s_free, free = self.free.settle(F, theta, v, 0.0, s, free_key)
        examples = len(v[0])
        phases = {"free": free, "clamped": self.clamped.info(examples), "negative": chain.info(examples)}
        return Learned(gradient, s_free, phases, {})


class BoltzmannLikelihood(_Likelihood):
    """−∂ log p(y | x)/∂θ, averaged over the batch: exact, for machines whose states can be gone through.

    `free` predicts.
    """

    free: Gibbs = Gibbs()

    def check(self, F: System) -> None:
        """Refuse an F whose likelihood is not defined or has too many terms."""
        super().check(F)
        machine_of(F).require_enumerable()

    def learn(self, F: System, theta: Theta, v: Data, s: Layers, key: Key, weight: Weight | None = None) -> Learned:
        """The gradient, and what `free` predicts from the state given."""
        machine = machine_of(F)
        ((layer, y),) = _targets(F, v).items()

        def loss(theta: Theta) -> Array:
            likelihoods = jax.vmap(lambda x, y: machine.log_likelihood(theta, x, y, layer))(v[0], y)
            return -jnp.average(likelihoods, weights=weight)

        s_free, free = self.free.settle(F, theta, v, 0.0, s, key)
        return Learned(jax.grad(loss)(theta), s_free, {"free": free}, {})


def _outputs(F: System) -> Outputs:
    remedy = "a readout is no part of the state; take SquaredError(), whose outputs can be clamped"
    return need(F, Outputs, "The likelihood is that of outputs, which are held at their targets", remedy)


def _targets(F: System, v: Data) -> Layers:
    """The outputs by layer, held at the zeros and ones of a batch."""
    (layer,) = jax.eval_shape(jax.vmap(_outputs(F).clamp), v)
    return {layer: v[1]}


def _contrast(
    machine: Binary, theta: Theta, x: Data, positive: Layers, negative: Layers, weight: Weight | None
) -> Theta:
    """The difference of ∂E/∂θ between the samples of two chains."""

    def mean(theta: Theta, states: Layers) -> Array:
        energies = jax.vmap(jax.vmap(machine, (None, None, 0)), (None, 0, 0))(theta, x, states)
        return jnp.average(jnp.mean(energies, axis=1), weights=weight)

    return jax.grad(lambda theta: mean(theta, positive) - mean(theta, negative))(theta)

"""Contrastive divergence: CD-1 descends nothing (section 4.2)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from eqprop.compile import compiled
from eqprop.energy import BoltzmannMachine, Hopfield
from eqprop.errors import InputError
from eqprop.types import Any, Array, Scalar, Theta
from eqprop.verification.base import Check, Claim, Finding, Subject, at_most, relative
from eqprop.verification.calculus import output_cost

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGEST = 8  # units, over all of whose states the claim sums
SWEEPS = 30


@dataclass(frozen=True)
class GradientOfNothing(Claim):
    """∂g_i/∂θ_j = ∂g_j/∂θ_i for every gradient g = ∂J/∂θ; the expected update of CD-1 does not obey it   (section 4.2)

    g_k = E⁺[∂E/∂θ] − E_k[∂E/∂θ] is the update of CD-k on average: E⁺ is with the target clamped, E_k after k sweeps of
    Gibbs sampling that begin there and draw the layers from the output to the first. Its Jacobian by θ is not
    symmetric, so it is the gradient of nothing. In the limit of many sweeps it is −∂ log p(y | x)/∂θ, whose Jacobian is
    symmetric. All are sums over every state of the Boltzmann machine on the layers of the network, for one example.
    """

    name: ClassVar[str] = "contrastive divergence"
    section: ClassVar[str] = "4.2"
    k: int = 1

    def applies(self, subject: Subject) -> bool:
        """To small networks with a hidden layer and no synapses within layers."""
        net = subject.F.offer(Hopfield)
        if net is None or output_cost(subject) is None:
            return False
        lateral = any(synapse.pre == synapse.post for synapse in net.synapses)
        return len(net.free) > 1 and sum(net.free.values()) <= LARGEST and not lateral

    def check(self, subject: Subject) -> Finding:
        (x, y), _ = subject.one()
        net, cost = subject.F.offer(Hopfield), output_cost(subject)
        if net is None or cost is None:
            raise InputError(f"{subject.name!r} is no network with an output layer: ask `applies` first")
        given = (BoltzmannMachine(net), subject.theta, x, jnp.round(y), cost.layer)
        updates, jacobians, likelihood = map(np.asarray, _updates(*given))
        asymmetry = [np.linalg.norm(J - J.T) / np.linalg.norm(J + J.T) for J in jacobians]
        ours, bias = asymmetry[self.k - 1], relative(updates[self.k - 1], likelihood)
        checks = [
            Check(f"asymmetry ‖J − Jᵀ‖ / ‖J + Jᵀ‖ of CD-{self.k}", float(ours), "> 0.001", bool(ours > 1e-3)),
            Check(f"distance of CD-{self.k} from −∂ log p/∂θ, relative", bias, "> 0.001", bias > 1e-3),
            at_most("asymmetry of the exact gradient", asymmetry[-1], 1e-10),
            at_most("exact update beside −∂ log p/∂θ", relative(updates[-1], likelihood), 1e-10),
        ]
        return self.found(subject, checks, asymmetry=np.array(asymmetry))

    def picture(self, finding: Finding) -> "Figure":
        from eqprop.plots.sampling import asymmetry

        return asymmetry(**finding.curves, title=f"The Jacobian J of CD-1's update is not symmetric. {finding.subject}")


@compiled
def _updates(machine: BoltzmannMachine, theta: Theta, x: Array, y: Array, layer: str) -> tuple[Array, Array, Array]:
    """g_k for k = 1, …, SWEEPS and, as the last, for p(s | x) itself; their Jacobians by θ; and −∂ log p(y | x)/∂θ."""
    flat, restore = ravel_pytree(theta)
    sizes = machine.free
    bits = {k: (jnp.arange(2**n)[:, None] >> jnp.arange(n) & 1).astype(flat.dtype) for k, n in sizes.items()}

    def table(theta: Array) -> Array:
        """−E of every state, with an axis for each layer."""

        def one(*states: Array) -> Scalar:
            return -machine(restore(theta), x, dict(zip(sizes, states, strict=True)))

        values: Callable[..., Any] = one
        for axis in reversed(range(len(sizes))):
            values = jax.vmap(values, in_axes=[0 if k == axis else None for k in range(len(sizes))])
        return values(*bits.values())

    def all_updates(theta: Array) -> Array:
        phi = table(theta)
        held = jnp.all(bits[layer] == y, axis=1)
        held = held.reshape([-1 if k == layer else 1 for k in sizes])
        positive = jax.nn.softmax(jnp.where(held, phi, -jnp.inf), axis=range(phi.ndim))

        def sweep(p: Array, _: None) -> tuple[Array, Array]:
            for axis in reversed(range(phi.ndim)):  # each layer anew, given the others
                p = jnp.sum(p, axis, keepdims=True) * jax.nn.softmax(phi, axis)
            return p, p

        _, after = jax.lax.scan(sweep, positive, None, SWEEPS)
        negatives = jnp.concatenate([after, jax.nn.softmax(phi, axis=range(phi.ndim))[None]])

        def update(negative: Array) -> Array:
            return jax.grad(lambda theta: jnp.sum((negative - positive) * table(theta)))(theta)

        return jax.vmap(update)(negatives)

    likelihood = jax.grad(lambda theta: -machine.log_likelihood(restore(theta), x, y, layer))(flat)
    return all_updates(flat), jax.jacfwd(all_updates)(flat), likelihood

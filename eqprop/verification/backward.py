"""In the second phase, errors travel backwards (section 2.3)."""

from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import comb, factorial
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from eqprop.compile import compiled
from eqprop.energy import Dense, Hopfield
from eqprop.errors import InputError
from eqprop.relax import Gradient
from eqprop.total import System
from eqprop.tree import named
from eqprop.types import Array, Data, Layers, Number, PyTree, State, Theta
from eqprop.verification.base import Check, Claim, Finding, Subject, at_most, cosine, near, order
from eqprop.verification.calculus import unit

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class ErrorsTravelBackwards(Claim):
    """s_k(t) − s_k⁰ → −β t^{k+1}/(k+1)! δ_k for small t, in the k-th layer counted from the output (k = 0).

    δ_k is what backpropagation sends to the layer: δ_0 = ∂C/∂s_0, δ_{k+1} = ρ'(s_{k+1}) ⊙ W (ρ'(s_k) ⊙ δ_k), and 0
    for units that rest at a bound. The reason: z = ∂s/∂β at β = 0 obeys ż = −H z − ∂C/∂s, z(0) = 0, with H the Hessian
    of E at the free fixed point. So ż_0 = −δ_0 at first; and as ∂C/∂s_{k+1} = 0 and H joins neighbours only, by
    −ρ'(s_{k+1}) W ρ'(s_k), layer k + 1 follows layer k: ż_{k+1} = ρ'(s_{k+1}) ⊙ W (ρ'(s_k) ⊙ z_k) + … (Bengio &
    Fischer 2015; here z is differentiated through the steps of the nudged phase.)

    path: the steps of the nudged phase, taken once as they are and once shortened to the share `early`.
    """

    name: ClassVar[str] = "errors travel backwards"
    section: ClassVar[str] = "2.3"

    path: Gradient = field(default=Gradient(steps=2000, epsilon=0.005))
    early: float = 0.05

    def applies(self, subject: Subject) -> bool:
        """To layered networks of vectors with a hidden layer, and neither skip nor lateral synapses."""
        net = subject.F.offer(Hopfield)
        if net is None or len(net.layers) < 3 or any(len(shape) != 1 for _, shape in net.layers):
            return False
        layers = [layer for layer, _ in net.layers]
        in_a_row = [(syn.pre, syn.post) for syn in net.synapses if isinstance(syn, Dense)] == [*pairwise(layers)]
        return layers[0] == net.clamped and in_a_row and len(net.synapses) == len(layers) - 1

    def check(self, subject: Subject) -> Finding:
        s, _ = subject.free
        if (net := subject.F.offer(Hopfield)) is None:
            raise InputError(f"{subject.name!r} is no layered network: ask `applies` first")
        found = _backpropagated(subject.F, net, subject.theta, subject.v, s)
        errors = dict(zip(reversed(net.free), found, strict=True))
        first = replace(self.path, epsilon=self.early * self.path.epsilon)
        times, moves = self._moves(subject, s, first)
        at = np.geomspace(len(times) // 25, len(times) // 5, 9).astype(int)  # after enough steps that ε matters little
        checks: list[Check] = []
        advice = "see that all synapses are symmetric, and that the free phase has settled"
        for k, (layer, error) in enumerate(errors.items()):
            z = np.asarray(moves[layer])
            # After n steps of size ε, t^{k+1}/(k+1)! is the binomial coefficient of n and k + 1, times ε^{k+1}.
            law = comb(int(at[0]), k + 1) * first.epsilon ** (k + 1) * np.linalg.norm(error)
            sizes = _sizes(z)
            checks += [
                near(f"{layer} moves as a power of t", order(times[at], sizes[at]), k + 1, 0.15, advice),
                at_most(f"1 − cosine of {layer} with −δ_{k}", 1 - cosine(z[:, at[0]], -error), 1e-3, advice),
                near(f"{layer} relative to t^{k + 1}/{k + 1}! δ_{k}", sizes[at[0]] / law, 1, 0.1, advice),
            ]
        return self.found(subject, checks, **self._course(subject, s, errors, times, moves))

    def _course(self, subject: Subject, s: State, errors: Layers, early: np.ndarray, moves: Layers) -> dict[str, Any]:
        """How far each layer has come over the whole nudged phase, and how far by the law, as shares of its way."""
        times, ways = self._moves(subject, s, self.path)
        later = times > early[-1]
        times = np.concatenate([early[1:], times[later]])
        shares, laws = {}, {}
        for k, (layer, error) in enumerate(errors.items()):
            sizes, whole = _sizes(moves[layer]), _sizes(ways[layer])
            shares[layer] = np.concatenate([sizes[1:], whole[later]]) / whole[-1]
            laws[layer] = times ** (k + 1) / factorial(k + 1) * np.linalg.norm(error) / whole[-1]
        return {"times": times, "shares": shares, "laws": laws}

    def _moves(self, subject: Subject, s: State, path: Gradient) -> tuple[np.ndarray, Layers]:
        """Times, and z = ∂s/∂β at β = 0 at each of them, with axes (examples, times, units)."""

        def states(beta: Number) -> Layers:
            return path.trace(subject.F, subject.theta, subject.v, beta, s).state

        return path.epsilon * np.arange(path.steps + 1), jax.jvp(states, (0.0,), (1.0,))[1]

    def picture(self, finding: Finding) -> "Figure":
        from eqprop.plots.dynamics import errors_backwards

        return errors_backwards(**finding.curves, title=f"errors travel backwards: {finding.subject}")


@compiled
def _backpropagated(F: System, net: Hopfield, theta: Theta, v: Data, s: Layers) -> list[Array]:
    """δ_k of each layer from the output on, for all examples."""
    slopes = {layer: jax.jvp(net.rho[layer], (u,), (jnp.ones_like(u),))[1] for layer, u in s.items()}
    free = F.space.inside(s)
    layers = [*net.free][::-1]
    by_s = jax.vmap(jax.grad(F.cost_at, argnums=2), in_axes=(None, 0, 0))(theta, v, s)
    errors = {layers[0]: jnp.where(free[layers[0]], by_s[layers[0]], 0)}
    for above, below in pairwise(layers):
        sent = (slopes[above] * errors[above]) @ theta["W"][f"{below}-{above}"].T
        errors[below] = jnp.where(free[below], slopes[below] * sent, 0)
    return [*errors.values()]  # a list, as a compiled function returns the keys of a dict sorted


def _sizes(z: Array | np.ndarray) -> np.ndarray:
    """The norm over examples and units at each time."""
    return np.linalg.norm(z, axis=(0, 2))


@dataclass(frozen=True)
class BackpropagationThroughTime(Claim):
    """1/β (∂F/∂θ(s_{t+1}^β) − ∂F/∂θ(s_t^β)) = ∂C_T/∂θ_{T−t−1} and (s_{t+1}^β − s_t^β)/β = −ε ∂C_T/∂s_{T−t}, β → 0.

    Each step of the second phase adds to the gradient as much as backpropagation through time finds one step further
    back in the free phase (Ernoult et al. 2019). Let T steps s ← s − ε ∂F/∂s begin at the free fixed point, where
    they stay, each with a copy θ_t of θ, and C_T be the cost after the last. Then ∂C_T/∂s_{T−t} = (1 − εH)^t ∂C/∂s,
    while z_t = (s_t^β − s⁰)/β moves on by z_{t+1} − z_t = −ε (1 − εH)^t ∂C/∂s: the same, as H is symmetric. For θ,
    ∂C_T/∂θ_{T−t−1} = −ε ∂²F/∂θ∂s ∂C_T/∂s_{T−t}. Units at a bound stay there.
    """

    name: ClassVar[str] = "backpropagation through time"
    section: ClassVar[str] = "2.3"

    path: Gradient = field(default=Gradient(steps=40, epsilon=0.2))
    betas: tuple[float, float] = (1e-4, -1e-4)  # two, as their mean is within O(β²) of the limit

    def check(self, subject: Subject) -> Finding:
        given = (subject.F, subject.theta, subject.v, subject.free[0])
        betas = [b * unit(subject) for b in self.betas]
        both = (jax.tree.map(np.asarray, _steps(self.path, b, *given)) for b in betas)
        found = jax.tree.map(lambda up, down: (up + down) / 2, *both)
        expected = jax.tree.map(np.asarray, _through_time(self.path, *given))
        checks, curves = [], {}
        advice = "see that the free phase has settled, and that all synapses are symmetric"
        for name, bptt in named(expected).items():
            ep = named(found)[name].reshape(self.path.steps, -1)
            bptt = bptt.reshape(self.path.steps, -1)
            scale = np.max(np.linalg.norm(bptt, axis=1)) or 1.0
            error = np.max(np.linalg.norm(ep - bptt, axis=1)) / scale
            checks.append(at_most(f"error of the steps of {name}, relative to the largest", error, 1e-3, advice))
            # The figure shows the components of both along the sum of the steps of backpropagation.
            along = np.sum(bptt, axis=0)
            curves[name] = tuple(a @ along / (np.linalg.norm(along) or 1) for a in (ep, bptt))
        return self.found(subject, checks, steps=curves, epsilon=self.path.epsilon)

    def picture(self, finding: Finding) -> "Figure":
        from eqprop.plots.dynamics import steps_back

        return steps_back(**finding.curves)


@compiled
def _steps(path: Gradient, beta: Number, F: System, theta: Theta, v: Data, s: State) -> dict[str, Any]:
    """(s_{t+1}^β − s_t^β)/β of every example, and 1/β (∂F/∂θ(s_{t+1}^β) − ∂F/∂θ(s_t^β)) summed over them."""

    def energy(theta: Theta, s: State) -> Array:
        return jnp.sum(jax.vmap(F, in_axes=(None, 0, None, 0))(theta, v, beta, s))

    states = jax.tree.map(lambda u: jnp.moveaxis(u, 1, 0), path.trace(F, theta, v, beta, s).state)
    slopes = jax.lax.map(lambda s: jax.grad(energy)(theta, s), states)
    return jax.tree.map(lambda a: (a[1:] - a[:-1]) / beta, {"s": states, "theta": slopes})


@compiled
def _through_time(path: Gradient, F: System, theta: Theta, v: Data, s: State) -> dict[str, Any]:
    """−ε ∂C_T/∂s_{T−t} of every example and ∂C_T/∂θ_{T−t−1} summed over them, for t = 0, 1, …"""

    def repeated(tree: PyTree) -> PyTree:
        return jax.tree.map(lambda a: jnp.stack([a] * path.steps), tree)

    def cost(copies: Theta, kicks: State) -> Array:
        def step(s: State, given: tuple[Theta, State]) -> tuple[State, None]:
            theta_t, kick = given
            moved = path.step(F, theta_t, v, 0.0, path.init(s)).s
            return jax.tree.map(jnp.add, moved, kick), None

        end, _ = jax.lax.scan(step, s, (copies, kicks))
        return jnp.sum(jax.vmap(F.cost_at, in_axes=(None, 0, 0))(theta, v, end))

    # A kick after step t moves s_{t+1}: its derivative is that by s_{t+1}.
    kicks = repeated(jax.tree.map(jnp.zeros_like, s))
    by_theta, by_s = jax.grad(cost, argnums=(0, 1))(repeated(theta), kicks)
    by_s = jax.tree.map(lambda d, here: jnp.where(here, -path.epsilon * d, 0), by_s, F.space.inside(s))
    return jax.tree.map(lambda d: d[::-1], {"s": by_s, "theta": by_theta})

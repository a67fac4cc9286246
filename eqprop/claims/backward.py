"""In the second phase, errors travel backwards (section 2.3)."""

from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import comb, factorial
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from eqprop.claims.base import Check, Claim, Finding, Subject, at_most, cosine, near, order
from eqprop.claims.calculus import unit
from eqprop.compile import compiled
from eqprop.energy import Hopfield, cost_of
from eqprop.relax import Gradient
from eqprop.relax.box import inside
from eqprop.train.naming import named

if TYPE_CHECKING:
    from matplotlib.figure import Figure


DOTTED = (0, (2, 2))


@dataclass(frozen=True)
class ErrorsTravelBackwards(Claim):
    """s_k(t) − s_k⁰ → −β t^{k+1}/(k+1)! δ_k for small t, in the k-th layer counted from the output (k = 0).

    δ_k is what backpropagation sends to the layer: δ_0 = ∂C/∂s_0, δ_{k+1} = ρ'(s_{k+1}) ⊙ W (ρ'(s_k) ⊙ δ_k), and 0
    for units that rest at an end of the box. For z = ∂s/∂β at β = 0 obeys ż = −H z − ∂C/∂s, z(0) = 0, with H the
    Hessian of E at the free fixed point. So ż_0 = −δ_0 at first; and as ∂C/∂s_{k+1} = 0 and H joins neighbours only,
    by −ρ'(s_{k+1}) W ρ'(s_k), ż_{k+1} = ρ'(s_{k+1}) ⊙ W (ρ'(s_k) ⊙ z_k) + … carries on what z_k began. (Bengio &
    Fischer 2015; here z is differentiated through the steps of the nudged phase.)

    path: the steps of the nudged phase, taken once as they are and once shortened to the share `early`.
    """

    name: ClassVar[str] = "errors travel backwards"
    section: ClassVar[str] = "2.3"

    path: Gradient = field(default=Gradient(steps=2000, epsilon=0.005))
    early: float = 0.05

    def applies(self, subject: Subject) -> bool:
        """To layered networks with a hidden layer, and neither skip nor lateral synapses."""
        net = getattr(subject.F, "energy", None)
        if not isinstance(net, Hopfield) or len(net.layers) < 3:
            return False
        layers = [layer for layer, _ in net.layers]
        return layers[0] == net.clamped and [(syn.pre, syn.post) for syn in net.synapses] == [*pairwise(layers)]

    def check(self, subject: Subject) -> Finding:
        s, _ = subject.free()
        layers = [*subject.F.energy.free][::-1]  # pyright: ignore[reportAttributeAccessIssue]  (a Total, as it applies)
        errors = dict(zip(layers, _backpropagated(subject.F, subject.theta, subject.v, s), strict=True))
        first = replace(self.path, epsilon=self.early * self.path.epsilon)
        times, moves = self._moves(subject, s, first)
        at = np.geomspace(len(times) // 25, len(times) // 5, 9).astype(int)  # of so many steps that ε hardly counts
        checks: list[Check] = []
        advice = "see that all synapses are symmetric, and that the free phase has settled"
        for k, (layer, error) in enumerate(errors.items()):
            z = np.asarray(moves[layer])
            # For steps of size ε, t^{k+1}/(k+1)! is that much after n of them.
            law = comb(int(at[0]), k + 1) * first.epsilon ** (k + 1) * np.linalg.norm(error)
            sizes = _sizes(z)
            checks += [
                near(f"{layer} moves as a power of t", order(times[at], sizes[at]), k + 1, 0.15, advice),
                at_most(f"1 − cosine of {layer} with −δ_{k}", 1 - cosine(z[:, at[0]], -error), 1e-3, advice),
                near(f"{layer} relative to t^{k + 1}/{k + 1}! δ_{k}", sizes[at[0]] / law, 1, 0.1, advice),
            ]
        return self.found(subject, checks, **self._course(subject, s, errors, times, moves))

    def _course(self, subject: Subject, s: Any, errors: Any, early: np.ndarray, moves: Any) -> dict[str, Any]:
        """Over the whole nudged phase, how far each layer has come and what the law says, as shares of its way."""
        times, ways = self._moves(subject, s, self.path)
        later = times > early[-1]
        times = np.concatenate([early[1:], times[later]])
        shares, laws = {}, {}
        for k, (layer, error) in enumerate(errors.items()):
            sizes, whole = _sizes(moves[layer]), _sizes(ways[layer])
            shares[layer] = np.concatenate([sizes[1:], whole[later]]) / whole[-1]
            laws[layer] = times ** (k + 1) / factorial(k + 1) * np.linalg.norm(error) / whole[-1]
        return {"times": times, "shares": shares, "laws": laws}

    def _moves(self, subject: Subject, s: Any, path: Gradient) -> tuple[np.ndarray, Any]:
        """Times, and z = ∂s/∂β at β = 0 at each of them: examples, times and units are its axes."""

        def states(beta: Any) -> Any:
            return path.trace(subject.F, subject.theta, subject.v, beta, s).state

        return path.epsilon * np.arange(path.steps + 1), jax.jvp(states, (0.0,), (1.0,))[1]

    def picture(self, finding: Finding) -> "Figure":
        from matplotlib.figure import Figure

        from eqprop.plots import STYLES

        times = finding.curves["times"]
        figure = Figure(figsize=(7, 4.2), layout="constrained")
        axes = figure.subplots()
        shown = times >= 0.02  # of so many steps that ε hardly counts
        for k, (layer, share) in enumerate(finding.curves["shares"].items()):
            style, law = STYLES[k % len(STYLES)], finding.curves["laws"][layer]
            axes.plot(times[shown], share[shown], label=layer, linewidth=2, **style)
            axes.plot(times[shown & (law < 1)], law[shown & (law < 1)], color="black", linewidth=1, linestyle=DOTTED)
            power = "t" if k == 0 else f"t^{k + 1}"
            axes.annotate(f"${power}$", (0.05, np.interp(0.05, times, law)), (-8, 6), textcoords="offset points")
        axes.plot([], [], color="black", linewidth=1, linestyle=DOTTED, label=r"$t^{k+1}/(k+1)!\;\|\delta_k\|$")
        axes.set(xscale="log", yscale="log", ylim=(None, 2), title=f"errors travel backwards: {finding.subject}")
        axes.set(xlabel="time since the nudge (time constants of a unit)", ylabel="distance moved / where it ends")
        axes.grid(alpha=0.3)
        axes.legend(loc="lower right")
        return figure


@compiled
def _backpropagated(F: Any, theta: Any, v: Any, s: Any) -> list[Array]:
    """δ_k of each layer from the output on, for all examples."""
    net: Hopfield = F.energy
    slopes = {layer: jax.jvp(net.activation, (u,), (jnp.ones_like(u),))[1] for layer, u in s.items()}
    free = inside(F, s)
    layers = [*net.free][::-1]
    by_s = jax.vmap(jax.grad(cost_of(F), argnums=2), in_axes=(None, 0, 0))(theta, v, s)
    errors = {layers[0]: jnp.where(free[layers[0]], by_s[layers[0]], 0)}
    for above, below in pairwise(layers):
        sent = (slopes[above] * errors[above]) @ theta["W"][f"{below}-{above}"].T
        errors[below] = jnp.where(free[below], slopes[below] * sent, 0)
    return [*errors.values()]  # in order, which a dict loses on its way out of a compiled function


def _sizes(z: Any) -> np.ndarray:
    """The norm over examples and units at each time."""
    return np.linalg.norm(z, axis=(0, 2))


@dataclass(frozen=True)
class BackpropagationThroughTime(Claim):
    """1/β (∂F/∂θ(s_{t+1}^β) − ∂F/∂θ(s_t^β)) = ∂C_T/∂θ_{T−t−1} and (s_{t+1}^β − s_t^β)/β = −ε ∂C_T/∂s_{T−t}, β → 0.

    What a step of the second phase adds to the gradient is what backpropagation through time finds one step further
    back in the free phase (Ernoult et al. 2019). Let T steps s ← s − ε ∂F/∂s begin at the free fixed point, where
    they stay, each with a copy θ_t of θ, and C_T be the cost after the last. Then ∂C_T/∂s_{T−t} = (1 − εH)^t ∂C/∂s,
    while z_t = (s_t^β − s⁰)/β moves on by z_{t+1} − z_t = −ε (1 − εH)^t ∂C/∂s: the same, as H is symmetric. For θ,
    ∂C_T/∂θ_{T−t−1} = −ε ∂²F/∂θ∂s ∂C_T/∂s_{T−t}. Units at an end of the box stay there.
    """

    name: ClassVar[str] = "backpropagation through time"
    section: ClassVar[str] = "2.3"

    path: Gradient = field(default=Gradient(steps=40, epsilon=0.2))
    betas: tuple[float, float] = (1e-4, -1e-4)  # two, for their mean has the limit up to O(β²)

    def check(self, subject: Subject) -> Finding:
        s, _ = subject.free()
        given = (subject.F, subject.theta, subject.v, s)
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
            # As lines, the parts of both along the sum of what backpropagation finds.
            along = np.sum(bptt, axis=0)
            curves[name] = tuple(a @ along / (np.linalg.norm(along) or 1) for a in (ep, bptt))
        return self.found(subject, checks, curves=curves, epsilon=self.path.epsilon)

    def picture(self, finding: Finding) -> "Figure":
        from matplotlib.figure import Figure

        from eqprop.plots import STYLES

        curves = finding.curves["curves"]
        kinds = {"s": "states", "theta/W": "weights"} if any("theta/W" in name for name in curves) else {"": "parts"}
        figure = Figure(figsize=(5 * len(kinds), 3.8), layout="constrained")
        for axes, (kind, title) in zip(figure.subplots(1, len(kinds), squeeze=False)[0], kinds.items(), strict=True):
            parts = [(name, *values) for name, values in curves.items() if name.startswith(kind)]
            parts.sort(key=lambda part: np.abs(part[2]).argmax())  # as the error reaches them
            for k, (name, ep, bptt) in enumerate(parts):
                style = STYLES[k % len(STYLES)]
                axes.plot(bptt / np.abs(bptt).max(), label=name.removeprefix(f"{kind}/"), **style)
                axes.plot(ep / np.abs(bptt).max(), "o", color=style["color"], markersize=3.5)
            axes.axhline(0, color="grey", linewidth=0.8)
            axes.set(xlabel=f"step t (of ε = {finding.curves['epsilon']:g} time constants)", title=title)
            axes.set(ylabel="update, relative to its largest")
            axes.legend(loc="upper right")
        figure.suptitle("dots: steps of the second phase;  lines: backpropagation through time")
        return figure


@compiled
def _steps(path: Gradient, beta: Any, F: Any, theta: Any, v: Any, s: Any) -> dict[str, Any]:
    """(s_{t+1}^β − s_t^β)/β of every example, and 1/β (∂F/∂θ(s_{t+1}^β) − ∂F/∂θ(s_t^β)) summed over them."""

    def energy(theta: Any, s: Any) -> Array:
        return jnp.sum(jax.vmap(F, in_axes=(None, 0, None, 0))(theta, v, beta, s))

    states = jax.tree.map(lambda u: jnp.moveaxis(u, 1, 0), path.trace(F, theta, v, beta, s).state)
    slopes = jax.lax.map(lambda s: jax.grad(energy)(theta, s), states)
    return jax.tree.map(lambda a: (a[1:] - a[:-1]) / beta, {"s": states, "theta": slopes})


@compiled
def _through_time(path: Gradient, F: Any, theta: Any, v: Any, s: Any) -> dict[str, Any]:
    """−ε ∂C_T/∂s_{T−t} of every example and ∂C_T/∂θ_{T−t−1} summed over them, for t = 0, 1, …"""

    def repeated(tree: Any) -> Any:
        return jax.tree.map(lambda a: jnp.stack([a] * path.steps), tree)

    def cost(copies: Any, kicks: Any) -> Array:
        def step(s: Any, given: Any) -> tuple[Any, None]:
            theta_t, kick = given
            moved, _ = jax.vmap(lambda v, s: path.step(F, theta_t, v, 0.0, s, 0))(v, s)
            return jax.tree.map(jnp.add, moved, kick), None

        end, _ = jax.lax.scan(step, s, (copies, kicks))
        return jnp.sum(jax.vmap(cost_of(F), in_axes=(None, 0, 0))(theta, v, end))

    # A kick after step t moves s_{t+1}: its derivative is that by s_{t+1}.
    kicks = repeated(jax.tree.map(jnp.zeros_like, s))
    by_theta, by_s = jax.grad(cost, argnums=(0, 1))(repeated(theta), kicks)
    by_s = jax.tree.map(lambda d, here: jnp.where(here, -path.epsilon * d, 0), by_s, inside(F, s))
    return jax.tree.map(lambda d: d[::-1], {"s": by_s, "theta": by_theta})

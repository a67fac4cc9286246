"""Learning by spike-timing dependent plasticity is Equilibrium Propagation (section 2.4)."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from eqprop.compile import compiled
from eqprop.energy import Hopfield
from eqprop.errors import InputError
from eqprop.nudge import OneSided
from eqprop.relax import Gradient
from eqprop.rule import STDP
from eqprop.rule.stdp import Plasticity
from eqprop.total import System
from eqprop.types import Array, Data, Layers, State, Theta
from eqprop.verification.base import Claim, Finding, Subject, at_most, near, order, relative

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class ChainedPlasticity(Plasticity):
    """dρ(u_j)/dt written as ρ'(u_j) du_j/dt."""

    def activity(self, s: Layers, new: Layers) -> tuple[Layers, Layers]:
        move = jax.tree.map(jnp.subtract, new, s)
        return jax.jvp(lambda s: self.units.rates(self.v[0], s), (s,), (move,))


class ChainRule(STDP):
    """The rule with dρ(u_j)/dt written as ρ'(u_j) du_j/dt."""

    plasticity: ClassVar[type[Plasticity]] = ChainedPlasticity


RESTED = 1e-6
"""A residual at which a path counts as complete: cut short at 4e-6, an error of 2.33e-4 was found to be 2.32e-4."""

# One step is enough for the free phase, which begins at the fixed point.
PATH: dict[str, Any] = {"nudge": OneSided(0.1), "free": Gradient(steps=1), "nudged": Gradient(steps=2000)}


@dataclass(frozen=True)
class PathIntegral(Claim):
    """∫ (ρ(u_i) dρ(u_j)/dt + ρ(u_j) dρ(u_i)/dt) dt = ρ(u_i^β) ρ(u_j^β) − ρ(u_i⁰) ρ(u_j⁰), from u⁰ to u^β.

    The integral is a causal sum over the steps of the nudged phase, so it is short of the contrastive update by
    O(ε): halving ε halves the error. All paths have the same number of steps, ten times as many where the one with the
    smallest ε is still on its way after them: the slower the slowest mode of the network, the longer it takes.
    `chain` has ρ'(u_j) du_j/dt in place of dρ(u_j)/dt, and the same limit. `plain` lacks the factor ρ'(u_j) and has
    another limit where ρ' is not the same everywhere: the figure shows it, and no check asks for it.
    """

    name: ClassVar[str] = "STDP path integral"
    section: ClassVar[str] = "2.4"

    rule: STDP = field(default=STDP(**PATH))
    chain: STDP = field(default=ChainRule(**PATH))
    plain: STDP = field(default=STDP(**PATH, of="u"))
    epsilons: tuple[float, ...] = (0.2, 0.1, 0.05, 0.025)

    def applies(self, subject: Subject) -> bool:
        """To networks in which a synapse joins units that move; where one end is clamped, the sum is exact."""
        net = subject.F.offer(Hopfield)
        return net is not None and any(net.clamped not in (syn.pre, syn.post) for syn in net.synapses)

    def check(self, subject: Subject) -> Finding:
        s, _ = subject.free
        beta: Any = self.rule.nudge.beta
        contrast = _contrast(subject.F, subject.theta, subject.v, beta, s, subject.nudged(beta))

        given = (subject.F, subject.theta, subject.v, s)
        rules = {"ρ dρ": self.rule, "ρ ρ' du": self.chain}
        if any(rho.bend for rho in _net(subject).rho.values()):
            rules["ρ du"] = self.plain
        found, left = {}, {}
        for name, rule in rules.items():
            gradients, left[name] = _paths(rule, jnp.asarray(self.epsilons), *given)
            if left[name] > RESTED:
                longer = replace(rule, nudged=replace(rule.nudged, steps=10 * rule.nudged.steps))
                gradients, left[name] = _paths(longer, jnp.asarray(self.epsilons), *given)
            found[name] = [relative(gradient, contrast) for gradient in gradients]
        checks = []
        for name in ("ρ dρ", "ρ ρ' du"):
            advice = "see that both directions, ρ' and 1/β are in the rule"
            if left[name] > RESTED:
                advice = (
                    f"The path ends before it rests, where the residual is still {left[name]:.1e}: F is so flat in "
                    "some direction that the nudge takes longer; raise the steps of `rule` and `chain`"
                )
            checks += [
                near(f"order in ε of the error of ∫ {name}", order(self.epsilons, found[name]), 1, 0.15, advice),
                at_most(f"relative error of ∫ {name} at ε = {self.epsilons[-1]:g}", found[name][-1], 1e-3, advice),
            ]
        return self.found(subject, checks, epsilons=self.epsilons, errors=found)

    def picture(self, finding: Finding) -> "Figure":
        from eqprop.plots.stdp import path_integral

        return path_integral(**finding.curves, title=finding.subject)


def _net(subject: Subject) -> Hopfield:
    if (net := subject.F.offer(Hopfield)) is None:
        raise InputError(f"{subject.name!r} is no Hopfield network: ask `applies` first")
    return net


def _paths(rule: STDP, epsilons: Array, F: System, theta: Theta, v: Data, s: State) -> tuple[list[Theta], float]:
    """What is learned along the path of each ε, and the largest residual at the end of any of them."""
    rule.check(F)
    learned, residual = jax.tree.map(np.asarray, _learned(rule, epsilons, F, theta, v, s))
    each = [jax.tree.map(lambda g, k=k: g[k], learned) for k in range(len(epsilons))]
    return each, float(residual)


@compiled
def _learned(rule: STDP, epsilons: Array, F: System, theta: Theta, v: Data, s: State) -> tuple[Theta, Array]:
    def path(epsilon: Array) -> tuple[Theta, Array]:
        one = eqx.tree_at(lambda rule: rule.nudged.epsilon, rule, epsilon)
        learned = one.learn(F, theta, v, s, jax.random.key(0))
        return learned.gradient, jnp.max(learned.phases["nudged"].residual)

    learned, residuals = jax.vmap(path)(epsilons)  # at once: such small arrays take no longer together
    return learned, jnp.max(residuals)


@compiled
def _contrast(F: System, theta: Theta, v: Data, beta: float, s: State, nudged: State) -> Theta:
    """−1/β (ρ(u_i^β) ρ(u_j^β) − ρ(u_i⁰) ρ(u_j⁰)), and the same for all of θ, by ∂F/∂θ at the two fixed points."""

    def contrast(theta: Theta) -> Array:
        energy = jax.vmap(F, in_axes=(None, 0, None, 0))
        return jnp.mean(energy(theta, v, beta, nudged) - energy(theta, v, 0.0, s)) / beta

    return jax.grad(contrast)(theta)


@dataclass(frozen=True)
class TimingCurve(Claim):
    """∫ ρ(u_i) du_j/dt dt = ½ sign(Δ) e^{−|Δ|} after one pulse to either unit, the second to u_j a time Δ later.

    A pulse of area 1 makes a leaky unit jump to 1, from which it decays: u(t) = e^{−(t−t₀)}, in units of its time
    constant, with ρ(u) = u between the bounds. If u_j comes second (Δ > 0), its jump meets u_i = e^{−Δ}, and its decay
    takes back ∫_Δ^∞ e^{−t} e^{−(t−Δ)} dt = ½ e^{−Δ} of that: +½ e^{−Δ} is left. If it comes first, u_i is still
    silent at its jump and meets only its decay: −½ e^{−|Δ|}. At Δ = 0 it is ½ [u²] = 0. So the synapse grows
    when the presynaptic unit comes first and shrinks when it comes last, as Bi & Poo (2001) found in neurons.
    Pulses here last 1/W, for an input of 1 through a weight W, and are integrated by the small steps `path`.
    """

    name: ClassVar[str] = "STDP curve"
    section: ClassVar[str] = "2.4"

    path: Gradient = field(default=Gradient(epsilon=5e-4))
    reach: float = 4.0  # the longest delay
    delays: int = 33

    def applies(self, subject: Subject) -> bool:
        """To two units, each with a strong input of its own, and no synapse between them: the zoo's `pair`."""
        net = subject.F.offer(Hopfield)
        if net is None or [shape for _, shape in net.layers] != [(2,), (2,)] or len(net.synapses) != 1:
            return False
        (weights,) = subject.theta["W"].values()
        return bool(weights[0, 0] >= 10 and np.allclose(weights, weights[0, 0] * np.eye(2)))

    def plasticity(self, rho: Array, change: Array) -> Array:
        """ρ(u_i) Δu_j, with i = 0 the presynaptic unit and j = 1 the postsynaptic one."""
        return rho[0] * change[1]

    def check(self, subject: Subject) -> Finding:
        if (net := subject.F.offer(Hopfield)) is None:
            raise InputError(f"{subject.name!r} is no pair of units: ask `applies` first")
        (weights,) = subject.theta["W"].values()
        width, epsilon = 1 / weights[0, 0], self.path.epsilon
        delays = np.linspace(-self.reach, self.reach, self.delays)
        onsets = self.reach + np.stack([np.zeros_like(delays), delays], axis=1)
        # Eight time constants after the last pulse nothing is left.
        times = epsilon * np.arange(round((2 * self.reach + 8) / epsilon))
        given = (subject.F, net, subject.theta, jnp.asarray(onsets), width, jnp.asarray(times))
        units, learned = _pulsed(self.path, self.plasticity, *given)
        found, expected = np.asarray(learned[:, -1]), np.sign(delays) * np.exp(-np.abs(delays)) / 2
        apart = np.abs(delays) > width
        checks = [
            at_most("delays with the wrong sign", np.sum(apart & (np.sign(found) != np.sign(delays))), 0),
            at_most("|change| at no delay", abs(found[delays == 0][0]), 0.01, "take smaller steps ε"),
            at_most("distance to ½ sign(Δ) e^{−|Δ|}, relative", relative(found[apart], expected[apart]), 0.01),
        ]
        for side, here in (("pre before post", delays > width), ("post before pre", delays < -width)):
            rate = np.polyfit(np.abs(delays[here]), np.log(np.abs(found[here])), 1)[0]
            checks.append(near(f"time constant, {side}", -1 / rate, 1, 0.02))
        shown = int(np.argmin(np.abs(delays - 1)))
        one = {"onsets": onsets[shown], "times": times, "units": units[shown], "learned": learned[shown]}
        return self.found(subject, checks, delays=delays, found=found, one=one)

    def picture(self, finding: Finding) -> "Figure":
        from eqprop.plots.stdp import timing_curve

        return timing_curve(**finding.curves)


@compiled
def _pulsed(
    path: Gradient,
    plasticity: Callable[[Array, Array], Array],
    F: System,
    net: Hopfield,
    theta: Theta,
    onsets: Array,
    width: Array,
    times: Array,
) -> tuple[Array, Array]:
    """u(t) of the two units and the change of their synapse until t, for pulses at each row of `onsets`."""
    (layer,) = net.free

    def one(onset: Array) -> tuple[Array, Array]:
        def step(carry: tuple[Layers, Array], t: Array) -> tuple[tuple[Layers, Array], tuple[Array, Array]]:
            s, learned = carry
            # Half a step is added, as times and onsets are multiples of ε up to rounding.
            since = t - onset + path.epsilon / 2
            x = jnp.where((since > 0) & (since < width), 1.0, 0.0)
            new, _ = path.move(F, theta, (x, None), 0.0, s, t)
            learned += plasticity(net.rho[layer](s[layer]), new[layer] - s[layer])
            return (new, learned), (s[layer], learned)

        return jax.lax.scan(step, ({layer: jnp.zeros(2)}, jnp.zeros(())), times)[1]

    return jax.vmap(one)(onsets)

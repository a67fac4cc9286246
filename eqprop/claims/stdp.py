"""Learning by spike-timing dependent plasticity is Equilibrium Propagation (section 2.4)."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from eqprop.claims.base import Claim, Finding, Subject, at_most, near, order, relative
from eqprop.compile import compiled
from eqprop.energy import Hopfield
from eqprop.nudge import OneSided
from eqprop.relax import Gradient
from eqprop.rule import STDP

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class ChainRule(STDP):
    """The rule with dρ(u_j)/dt written as ρ'(u_j) du_j/dt."""

    def activity(self, net: Hopfield, x: Array, s: Any, new: Any) -> tuple[Any, Any]:
        return jax.jvp(lambda s: net.rates(x, s), (s,), (jax.tree.map(jnp.subtract, new, s),))


# They are given free fixed points, at which a step leads nowhere.
PATH: dict[str, Any] = {"nudge": OneSided(0.1), "free": Gradient(steps=1), "nudged": Gradient(steps=2000)}


@dataclass(frozen=True)
class PathIntegral(Claim):
    """∫ (ρ(u_i) dρ(u_j)/dt + ρ(u_j) dρ(u_i)/dt) dt = ρ(u_i^β) ρ(u_j^β) − ρ(u_i⁰) ρ(u_j⁰), from u⁰ to u^β.

    The integral is a causal sum over the steps of the nudged phase, so it is short of the contrastive update by
    O(ε): halving ε halves the error. All paths have the same number of steps, enough for the shortest to arrive.
    `chain` has ρ'(u_j) du_j/dt in place of dρ(u_j)/dt, and the same limit; `plain` lacks the factor ρ'(u_j), so
    that its limit is another unless ρ' = 1: it is shown and not checked.
    """

    name: ClassVar[str] = "STDP path integral"
    section: ClassVar[str] = "2.4"

    rule: STDP = field(default=STDP(**PATH))
    chain: STDP = field(default=ChainRule(**PATH))
    plain: STDP = field(default=STDP(**PATH, of="u"))
    epsilons: tuple[float, ...] = (0.2, 0.1, 0.05, 0.025)

    def applies(self, subject: Subject) -> bool:
        """To networks in which a synapse joins units that move; where one end is clamped, the sum is exact."""
        net = getattr(subject.F, "energy", None)
        return isinstance(net, Hopfield) and any(net.clamped not in (syn.pre, syn.post) for syn in net.synapses)

    def check(self, subject: Subject) -> Finding:
        s, _ = subject.free()
        nudged, _ = subject.rule.nudged(subject.F, subject.theta, subject.v, beta := self.rule.nudge.beta, s)
        contrast = _contrast(subject.F, subject.theta, subject.v, beta, s, nudged)

        def errors(rule: STDP) -> list[float]:
            paths = [replace(rule, nudged=replace(rule.nudged, epsilon=e)) for e in self.epsilons]
            given: Any = (subject.F, subject.theta, subject.v, s, jax.random.key(0))
            return [relative(path(*given)[0], contrast) for path in paths]

        found = {"ρ dρ": errors(self.rule), "ρ ρ' du": errors(self.chain), "ρ du": errors(self.plain)}
        advice = "see that the path ends at u^β (more steps), and that both directions, ρ' and 1/β are in the rule"
        checks = []
        for rule in ("ρ dρ", "ρ ρ' du"):
            checks += [
                near(f"order in ε of the error of ∫ {rule}", order(self.epsilons, found[rule]), 1, 0.15, advice),
                at_most(f"relative error of ∫ {rule} at ε = {self.epsilons[-1]:g}", found[rule][-1], 1e-3, advice),
            ]
        return self.found(subject, checks, epsilons=self.epsilons, errors=found)

    def picture(self, finding: Finding) -> "Figure":
        from matplotlib.figure import Figure

        from eqprop.plots import STYLES

        labels = {
            "ρ dρ": r"$\rho(u_i)\,d\rho(u_j)$, both directions",
            "ρ ρ' du": r"$\rho(u_i)\,\rho'(u_j)\,du_j$, both directions",
            "ρ du": r"$\rho(u_i)\,du_j$: without the factor $\rho'(u_j)$",
        }
        epsilons, errors = finding.curves["epsilons"], finding.curves["errors"]
        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.subplots()
        for style, marker, (rule, values) in zip(STYLES, "os^", errors.items(), strict=False):
            axes.plot(epsilons, values, marker=marker, label=labels[rule], **style)
        line = np.array(epsilons) * errors["ρ dρ"][-1] / epsilons[-1]
        axes.plot(epsilons, line / 2, color="grey", linewidth=1, label="proportional to ε")
        axes.set(xscale="log", yscale="log", xlabel="step ε (time constants of a unit)")
        axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
        axes.set_xticks([], minor=True)
        axes.set(ylabel="distance to the contrastive update, relative", title=finding.subject)
        axes.grid(alpha=0.3, which="both")
        axes.legend()
        return figure


@compiled
def _contrast(F: Any, theta: Any, v: Any, beta: float, s: Any, nudged: Any) -> Any:
    """−1/β (ρ(u_i^β) ρ(u_j^β) − ρ(u_i⁰) ρ(u_j⁰)) and its like for all of θ, by ∂F/∂θ at the two fixed points."""

    def contrast(theta: Any) -> Array:
        energy = jax.vmap(F, in_axes=(None, 0, None, 0))
        return jnp.mean(energy(theta, v, beta, nudged) - energy(theta, v, 0.0, s)) / beta

    return jax.grad(contrast)(theta)


@dataclass(frozen=True)
class TimingCurve(Claim):
    """∫ ρ(u_i) du_j/dt dt = ½ sign(Δ) e^{−|Δ|} after one pulse to either unit, the second to u_j a time Δ later.

    A pulse of area 1 makes a leaky unit jump to 1, from which it decays: u(t) = e^{−(t−t₀)}, in units of its time
    constant, with ρ(u) = u in the box. If u_j comes second (Δ > 0), its jump meets u_i = e^{−Δ}, and its decay
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
        net = getattr(subject.F, "energy", None)
        if not isinstance(net, Hopfield) or [size for _, size in net.layers] != [2, 2] or len(net.synapses) != 1:
            return False
        (weights,) = subject.theta["W"].values()
        return bool(weights[0, 0] >= 10 and np.allclose(weights, weights[0, 0] * np.eye(2)))

    def plasticity(self, rho: Array, change: Array) -> Array:
        """ρ(u_i) Δu_j, with i = 0 the presynaptic unit and j = 1 the postsynaptic one."""
        return rho[0] * change[1]

    def check(self, subject: Subject) -> Finding:
        (weights,) = subject.theta["W"].values()
        width, epsilon = 1 / weights[0, 0], self.path.epsilon
        delays = np.linspace(-self.reach, self.reach, self.delays)
        onsets = self.reach + np.stack([np.zeros_like(delays), delays], axis=1)
        # Eight time constants after the last pulse nothing is left.
        times = epsilon * np.arange(round((2 * self.reach + 8) / epsilon))
        units, learned = _pulsed(self.path, self.plasticity, subject.F, subject.theta, onsets, width, times)
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
        from matplotlib.figure import Figure

        figure = Figure(figsize=(10, 4), layout="constrained")
        axes = figure.subplot_mosaic([["curve", "units"], ["curve", "learned"]], width_ratios=[3, 2])
        _draw_curve(axes["curve"], finding.curves["delays"], finding.curves["found"])
        _draw_pulses(axes["units"], axes["learned"], **finding.curves["one"])
        return figure


@compiled
def _pulsed(
    path: Gradient, plasticity: Any, F: Any, theta: Any, onsets: Any, width: Any, times: Any
) -> tuple[Array, Array]:
    """u(t) of the two units and the change of their synapse until t, for pulses at each row of `onsets`."""
    (layer,) = F.energy.free

    def one(onset: Array) -> tuple[Array, Array]:
        def step(carry: tuple[Any, Array], t: Array) -> tuple[Any, tuple[Array, Array]]:
            s, learned = carry
            # Half a step off, for times and onsets are sums of ε up to rounding.
            since = t - onset + path.epsilon / 2
            x = jnp.where((since > 0) & (since < width), 1.0, 0.0)
            new, _ = path.step(F, theta, (x, None), 0.0, s, t)
            learned += plasticity(F.energy.activation(s[layer]), new[layer] - s[layer])
            return (new, learned), (s[layer], learned)

        return jax.lax.scan(step, ({layer: jnp.zeros(2)}, jnp.zeros(())), times)[1]

    return jax.vmap(one)(onsets)


def _draw_curve(axes: "Axes", delays: np.ndarray, found: np.ndarray) -> None:
    from eqprop.plots import FIRST, SECOND

    sides = {"potentiation": (1, FIRST, "pre before post"), "depression": (-1, SECOND, "post before pre")}
    for what, (sign, style, when) in sides.items():
        delay = sign * np.linspace(0, np.max(delays), 200)
        axes.plot(delay, sign * np.exp(-np.abs(delay)) / 2, **style)
        axes.fill_between(delay, 0, sign * np.exp(-np.abs(delay)) / 2, color=style["color"], alpha=0.12)
        axes.text(sign * 2.6, sign * 0.2, f"{what}:\n{when}", ha="center", va="center", color=style["color"])
    axes.plot([], [], color="black", label=r"$\frac{1}{2}\,\mathrm{sign}(\Delta)\,e^{-|\Delta|}$")
    axes.plot(delays, found, "o", color="black", markersize=4, label="two leaky units")
    axes.axhline(0, color="grey", linewidth=0.8)
    axes.axvline(0, color="grey", linewidth=0.8)
    axes.set(xlabel=r"delay $\Delta = t_\mathrm{post} - t_\mathrm{pre}$ (time constants)")
    axes.set(ylabel=r"change of the synapse, $\int \rho(u_i)\,\dot u_j\,dt$", title="the STDP curve")
    axes.legend(loc="upper left")


def _draw_pulses(above: "Axes", below: "Axes", onsets: Any, times: Any, units: Any, learned: Any) -> None:
    from eqprop.plots import FIRST, SECOND

    shift = times - onsets[0]
    shown = (shift > -0.5) & (shift < 5)
    for k, (style, label) in enumerate([(FIRST, "presynaptic $u_i$"), (SECOND, "postsynaptic $u_j$")]):
        above.plot(shift[shown], np.asarray(units)[shown, k], label=label, **style)
    above.set(ylabel="state", title=rf"pulses at a delay of $\Delta$ = {onsets[1] - onsets[0]:g}")
    above.tick_params(labelbottom=False)
    above.legend()
    below.plot(shift[shown], np.asarray(learned)[shown], color="black")
    below.axhline(0, color="grey", linewidth=0.8)
    below.set(xlabel="time since the first pulse (time constants)", ylabel="change\nso far")

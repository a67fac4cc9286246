"""How the phases of a method settle, and by what they are nudged, as the settings say."""

from math import ceil, inf
from typing import Any, Literal

from eqprop.errors import InputError
from eqprop.nudge import Asymmetric, Holomorphic, Nudge, OneSided, RandomSign, Symmetric
from eqprop.relax import Block, Gradient, Langevin, Relaxation, Spiking
from eqprop.store.ranges import MOST_STEPS
from eqprop.study.methods import Method, Phases
from eqprop.study.options import SettlingOptions

NUDGES: dict[str, type[Nudge]] = {
    "one-sided": OneSided,
    "random-sign": RandomSign,
    "symmetric": Symmetric,
    "holomorphic": Holomorphic,
}


def phases(chosen: SettlingOptions, method: Method, depth: int) -> Phases:
    """How a network of N = `depth` layers settles, and how it is nudged in the first epoch."""
    nudge = _nudge(chosen, method, depth)
    if chosen.relaxation == "spiking":
        free = _spiking(chosen, chosen.free_steps, depth)
        return Phases(free, _spiking(chosen, chosen.nudged_steps or free.steps, depth), nudge)
    if method.noise:
        steps = chosen.free_steps or _iterations(7 * depth, chosen.epsilon)
        noisy = Langevin(chosen.temperature, chosen.epsilon, burn_in=steps // 2, samples=steps - steps // 2, thin=1)
        return Phases(noisy, noisy, nudge)
    kind = "gradient" if method.path else chosen.nudged_relaxation
    if method.moving:  # in each of all steps
        kind = kind or chosen.relaxation
    shared = {"tol": chosen.tol, "accelerate": chosen.accelerate}
    # Sweeps by block descent, and the time nε by gradient steps, unless a number is chosen.
    free = _relaxation(chosen, chosen.relaxation, chosen.free_steps, (2 * depth, 7 * depth), shared, chosen.order)
    shared = {} if kind else shared
    kind = kind or chosen.relaxation
    nudged = _relaxation(chosen, kind, chosen.nudged_steps, (depth, depth), shared, "backward")
    return Phases(free, nudged, nudge)


def _nudge(chosen: SettlingOptions, method: Method, depth: int) -> Nudge:
    usual = 1 / depth
    beta = (method.beta or usual) if chosen.beta is None else chosen.beta
    if chosen.nudge == "asymmetric":
        return Asymmetric(beta, push=usual)
    return NUDGES[chosen.nudge](beta)


def _spiking(chosen: SettlingOptions, steps: int | None, depth: int) -> Spiking:
    steps = steps or _iterations(7 * depth, chosen.epsilon)
    return Spiking(chosen.epsilon, burn_in=steps // 2, samples=steps - steps // 2)


def _relaxation(
    chosen: SettlingOptions,
    kind: str,
    steps: int | None,
    usual: tuple[int, int],
    shared: dict[str, Any],
    order: Literal["forward", "backward", "both"],
) -> Relaxation:
    sweeps, time = usual
    shared = shared | {"precision": None if chosen.precision == "float32" else chosen.precision}
    if kind == "block":
        return Block(steps or sweeps, **shared, omega=chosen.omega, order=order)
    return Gradient(steps or _iterations(time, chosen.epsilon), **shared, epsilon=chosen.epsilon)


def _iterations(time: float, epsilon: float) -> int:
    """n = Δt/ε, rounded up: the number of steps of size ε that take the time Δt (section 5.1)."""
    if not 0 < epsilon < inf:
        return 1  # the relaxation refuses such an ε, in words
    if time / epsilon > MOST_STEPS:
        raise InputError(
            f"epsilon={epsilon:g}: a phase would take {time / epsilon:.3g} steps; give a larger one, or --free-steps "
            f"and --nudged-steps up to {MOST_STEPS:,}"
        )
    return ceil(round(time / epsilon, 6))

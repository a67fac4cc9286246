"""How near the converged gradient each schedule comes on a trained convolutional network, and how long it takes."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import eqprop as ep
from benchmarks.apart import apart, one_core
from benchmarks.colours import TwoColours
from benchmarks.report import Report
from benchmarks.timing import race, spread
from eqprop.relax import Relaxation
from eqprop.study import preset
from eqprop.tree import named

BATCH, WANTED, TOL = 128, 0.99, 1e-10
TEXT = """
The network of `eqprop train cifar10` (convolutions {net}, strides in place of pooling) after {updates} updates; {batch}
training images, β = ±{beta}. *Cosine*: with the gradient of phases that have converged (residual {tol:.0e}, in float64)
at the same β, the least of all kernels and the readout. *Time*: processor time of an update on one thread; ours in
turns, three times each. *Synchronous* and *two colours* are the schedules of Laborieux et al. (2021) and of Scellier et
al. (2023), taken by our code, which is quicker than PyTorch at them ([an update](#networks-for-images-an-update)).
*Both* goes forward and back in one sweep; `eqprop train cifar10` takes {usual} of these.

{which} is *{quickest}* ({cosine:.4f}). Two colours take {b:.1f} times as long, and synchronous steps {a:.1f} times.
"""


class Schedule(NamedTuple):
    """The relaxations of both phases; `colours` for every other layer at once."""

    free: Relaxation
    nudged: Relaxation
    colours: bool = False


def both(free: int, nudged: int, omega: float = 1.0, *, accelerate: bool = False) -> Schedule:
    there = ep.Block(free, omega=omega, order="both", accelerate=accelerate)
    return Schedule(there, ep.Block(nudged, omega=omega, order="backward", accelerate=accelerate))


PUBLISHED = ("synchronous, 250 + 2 × 30", "two colours, 60 + 2 × 20")
SCHEDULES = {
    PUBLISHED[0]: Schedule(ep.Gradient(250, epsilon=1.0), ep.Gradient(30, epsilon=1.0)),
    PUBLISHED[1]: Schedule(ep.Block(60, omega=1.0), ep.Block(20, omega=1.0), colours=True),
    **{f"both, {f} + 2 × {n}": both(f, n) for f, n in ((2, 1), (3, 1), (3, 2), (4, 2), (4, 3), (5, 3), (6, 4))},
    "both, 4 + 2 × 3, ω = 1.2": both(4, 3, 1.2),
    "both, 4 + 2 × 3, accelerated": both(4, 3, accelerate=True),
    "forward, 6 + 2 × 3": Schedule(ep.Block(6, omega=1.0), ep.Block(3, omega=1.0, order="backward")),
}


def trained(updates: int) -> tuple[Any, Any, Any, float]:
    """The network, its θ after some updates, and images to compare gradients on."""
    experiment = preset("cifar10", architecture="conv")
    setup = experiment.build(ep.data.load("cifar10"))
    state = setup.trainer.advance(setup.state, setup.feed, updates)
    v = jax.tree.map(lambda a: jnp.asarray(a[:BATCH]), setup.train.v)
    return setup.trainer.F, state.theta, v, experiment.phases.nudge.beta


def gradient(F: Any, theta: Any, v: Any, beta: float, schedule: Schedule) -> Callable[[], Any]:
    net = F.energy
    if schedule.colours:
        net = TwoColours(dict(net.layers), net.synapses, activation=net.rho)
    rule = ep.EquilibriumPropagation(ep.Symmetric(beta), schedule.free, schedule.nudged)
    rest = jax.tree.map(lambda u: u.astype(v[0].dtype), net.rest(len(v[0])))
    total = ep.Total(net, F.cost)
    return lambda: jax.block_until_ready(rule(total, theta, v, rest).gradient)


def converged(F: Any, theta: Any, v: Any, beta: float, tol: float) -> dict[str, np.ndarray]:
    """The gradient of phases that have converged, in double precision."""
    with jax.enable_x64(True):
        theta, v = jax.tree.map(lambda a: jnp.asarray(np.asarray(a), jnp.float64), (theta, v))
        free, nudged = (ep.Block(400, tol=tol, omega=1.0, order=order) for order in ("both", "backward"))
        schedule = Schedule(free, nudged)
        return {name: np.asarray(g) for name, g in named(gradient(F, theta, v, beta, schedule)()).items()}


def least_cosine(found: Any, true: dict[str, np.ndarray]) -> float:
    """Over all kernels and the readout; biases go with them."""
    pairs = [(np.ravel(g), np.ravel(true[name])) for name, g in named(found).items() if np.ndim(g) > 1]
    return float(min(a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in pairs))


def measure(updates: int) -> dict[str, Any]:
    """The cosine of each schedule and the seconds that it takes; to be called in a process of one thread."""
    print(f"  training, {updates} updates", flush=True)
    F, theta, v, beta = trained(updates)
    print(f"  the converged gradient, to a residual of {TOL:.0e}", flush=True)
    true = converged(F, theta, v, beta, TOL)
    turns = {name: gradient(F, theta, v, beta, schedule) for name, schedule in SCHEDULES.items()}
    cosines: dict[str, float] = {}
    for name, turn in turns.items():
        cosines[name] = least_cosine(turn(), true)
        print(f"  {name}: cosine {cosines[name]:.4f}", flush=True)
    ours = {name: turn for name, turn in turns.items() if name not in PUBLISHED}
    times = race({name: turns[name] for name in PUBLISHED}, 1, time.process_time, warm=True)  # hundreds of steps each
    times |= race(ours, 3, time.process_time, warm=True)
    return {"beta": beta, "cosines": cosines, "times": {name: spent.tolist() for name, spent in times.items()}}


def run(short: bool) -> Report:
    updates = 30 if short else 300
    ep.data.load("cifar10", on_event=print)  # here already, so that missing data are told as such
    found = apart(f"sweeps.measure({updates})", one_core())
    cosines, seconds = found["cosines"], {name: spread(spent) for name, spent in found["times"].items()}
    ours = [name for name in SCHEDULES if name not in PUBLISHED]
    enough = [name for name in ours if cosines[name] >= WANTED]
    which = f"The quickest schedule with a cosine of {WANTED} or more"
    if not enough:
        enough = [max(ours, key=lambda name: cosines[name])]
        which = f"No schedule has a cosine of {WANTED}; the nearest to it"
    quickest = min(enough, key=lambda name: seconds[name]["median"])
    ratio = {name: seconds[name]["median"] / seconds[quickest]["median"] for name in SCHEDULES}
    rows = [
        {"schedule": name, "cosine": f"{cosines[name]:.4f}", "time, s": seconds[name], "time / quickest": ratio[name]}
        for name in SCHEDULES
    ]
    usual = preset("cifar10", architecture="conv")
    text = TEXT.format(
        net="-".join(map(str, usual.network.hidden)),
        updates=updates,
        batch=BATCH,
        beta=found["beta"],
        tol=TOL,
        which=which,
        quickest=quickest,
        cosine=cosines[quickest],
        a=ratio[PUBLISHED[0]],
        b=ratio[PUBLISHED[1]],
        usual=f"{usual.settling.free_steps} + 2 × {usual.settling.nudged_steps}",
    )
    return Report("Networks for images: the gradient by sweeps", text, rows)

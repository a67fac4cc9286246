"""How many products a relaxation needs to come to rest, on trained networks of growing depth."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import eqprop as ep
from benchmarks.nets import trained
from benchmarks.report import Report
from eqprop.types import Array, Layers, Scalar, Theta

TOLERANCES = (1e-2, 1e-4, 1e-6)
SYNCHRONOUS, DEFAULT = "synchronous", "block, accelerated"

TEXT = """
Free phase from rest, {examples} MNIST test images, networks of 500 units a layer trained by the default recipe. A step
of every relaxation here costs the same: two products per synapse between layers that move (the input's product is
computed once for all). *Synchronous* is the paper's step, ε = 0.5; *ω* is the over-relaxation of block descent, where
*auto* rises from 1.2 to 1.5 for examples that are still moving after six sweeps; *accelerated* adds Anderson's
extrapolation of depth one. The residual is that of the state itself, max |s − Π(s − ∂F/∂s)|, in float32; – means not
within {most} steps of the synchronous or a quarter as many of the others.
"""


def relaxations(most: int, quick: int) -> dict[str, ep.Stepwise]:
    return {
        SYNCHRONOUS: ep.Gradient(steps=most),
        "synchronous, accelerated": ep.Gradient(steps=most, accelerate=True),
        "block, ω = 1": ep.Block(steps=quick, omega=1.0),
        "block, ω = 1.2": ep.Block(steps=quick, omega=1.2),
        "block, ω = 1.5": ep.Block(steps=quick, omega=1.5),
        "block, ω auto": ep.Block(steps=quick),
        "block, ω = 1.2, accelerated": ep.Block(steps=quick, omega=1.2, accelerate=True),
        DEFAULT: ep.Block(steps=quick, accelerate=True),
    }


def run(short: bool) -> Report:
    depths = (1, 2, 3) if short else (1, 2, 3, 4, 5, 6)
    examples, most = (100, 400) if short else (500, 600)
    rows = []
    for hidden in depths:
        net, trainer, theta, data = trained(hidden, short=short)
        x = jnp.asarray(data.test.v[0][:examples])
        for name, relaxation in relaxations(most, most // 4).items():
            met = residuals(relaxation, trainer.F, theta, x, net)
            row: dict[str, Any] = {"hidden layers": hidden, "relaxation": name}
            for tolerance in TOLERANCES:
                needed = steps_to(tolerance, met)
                row |= {f"{tolerance:.0e}, median": middle(needed), f"{tolerance:.0e}, slowest": top(needed)}
            products = 2 * hidden * row["1e-04, median"] if row["1e-04, median"] is not None else None
            rows.append(row | {"products to 1e-04": products})
            print(f"  {hidden} hidden, {name}: {row}", flush=True)
    return Report("Settling: steps to a residual", TEXT.format(most=most, examples=examples), rows, lambda: draw(rows))


def residuals(relaxation: ep.Stepwise, F: ep.System, theta: Theta, x: Array, net: ep.Hopfield) -> np.ndarray:
    """The residual of every example (first axis) after 0, 1, … steps."""

    def distance(x: Array, s: Layers) -> Scalar:
        return F.space.residual(s, F.force(theta, (x, None), 0.0, s))

    @jax.jit
    def path(x: Array) -> Array:
        trace = relaxation.trace(F, theta, (x, None), 0.0, net.rest(len(x)))
        # One time after the other: all at once would hold every product of the way.
        along = jax.tree.map(lambda u: jnp.moveaxis(u, 1, 0), trace.state)
        return jax.lax.map(lambda s: jax.vmap(distance)(x, s), along).T

    return np.concatenate([np.asarray(path(x[i : i + 50])) for i in range(0, len(x), 50)])


def steps_to(tolerance: float, met: np.ndarray) -> np.ndarray:
    """The first step after which the residual is within the tolerance: infinite if there is none."""
    within = met <= tolerance
    return np.where(within.any(1), within.argmax(1), np.inf)


def middle(needed: np.ndarray) -> float | None:
    value = float(np.median(needed))
    return value if np.isfinite(value) else None


def top(needed: np.ndarray) -> int | None:
    return int(needed.max()) if np.isfinite(needed.max()) else None


def draw(rows: list[dict[str, Any]]) -> Figure:
    figure = Figure(figsize=(8, 3.5), layout="constrained")
    styles = {SYNCHRONOUS: ("#D55E00", "--"), "block, ω = 1": ("#999999", ":"), DEFAULT: ("#0072B2", "-")}
    for axes, which in zip(figure.subplots(1, 2, sharey=True), ("median", "slowest"), strict=True):
        for name, (colour, line) in styles.items():
            points = [(row["hidden layers"], row[f"1e-04, {which}"]) for row in rows if row["relaxation"] == name]
            axes.plot(*zip(*points, strict=True), color=colour, linestyle=line, marker="o", label=name)
        axes.set(xlabel="hidden layers", yscale="log", title=f"{which} example")
        axes.grid(alpha=0.3, which="both")
        axes.legend()
    figure.axes[0].set_ylabel("steps to a residual of 1e-4")
    return figure

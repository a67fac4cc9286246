"""Peak memory of a gradient as the network settles longer: Equilibrium Propagation and backpropagation through time."""

import resource
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import eqprop as ep
from benchmarks.apart import apart
from benchmarks.report import Report
from eqprop.plots import FIRST, SECOND

SIZES, EXAMPLES, NUDGED = (784, 500, 500, 10), 20, 10
STEPS = (20, 100, 500, 2000)

TEXT = """
One gradient on a minibatch of {examples}, network {net}; the free phase takes steps of `Gradient`. *Ours* is
`EquilibriumPropagation` (two nudged phases of {nudged} steps follow the free one); *BPTT* is `jax.grad` through the
same free phase, a `lax.scan`, to the mean cost: it must keep every state on the way. *Temporary* is what XLA
says the compiled program needs beside its arguments and results; *peak* is the greatest resident memory of a fresh
process, Python, JAX and compilation included.

From {first:,} to {last:,} steps, temporary memory of ours changes by {ours_temporary:+.1f} % and its peak by
{ours_peak:+.1f} %; those of BPTT by {bptt_temporary:+,.0f} % and {bptt_peak:+,.0f} %.
"""


def ours(F: ep.Total, theta: Any, v: Any, s: Any, *, steps: int) -> Any:
    """The gradient by Equilibrium Propagation."""
    rule = ep.EquilibriumPropagation(ep.Symmetric(0.1), ep.Gradient(steps=steps), ep.Gradient(steps=NUDGED))
    return rule(F, theta, v, s, jax.random.key(0)).gradient


def bptt(F: ep.Total, theta: Any, v: Any, s: Any, *, steps: int) -> Any:
    """The gradient by differentiating through all steps of the free phase."""
    relaxation = ep.Gradient(steps=1)

    def objective(theta: Any) -> jax.Array:
        settled, _ = jax.lax.scan(lambda s, _: (relaxation(F, theta, v, 0.0, s)[0], None), s, length=steps)
        return jnp.mean(jax.vmap(F.cost_at, in_axes=(None, 0, 0))(theta, v, settled))

    return jax.grad(objective)(theta)


WAYS: dict[str, Callable[..., Any]] = {"ours": ours, "BPTT": bptt}


def measure(way: str, steps: int) -> dict[str, float]:
    """Megabytes that one gradient takes; to be called in a fresh process."""
    net = ep.Hopfield.layered(*SIZES)
    theta, random = net.init(jax.random.key(0)), np.random.default_rng(0)
    v = tuple(jnp.asarray(random.random((EXAMPLES, size), np.float32)) for size in (SIZES[0], SIZES[-1]))
    gradient = jax.jit(partial(WAYS[way], ep.Total(net, ep.SquaredError()), steps=steps))
    program = gradient.lower(theta, v, net.rest(EXAMPLES)).compile()
    jax.block_until_ready(program(theta, v, net.rest(EXAMPLES)))
    analysis: Any = program.memory_analysis()
    return {"temporary": analysis.temp_size_in_bytes / 1e6, "peak": peak() / 1e6}


def peak() -> int:
    """The greatest resident memory of this process so far, in bytes."""
    # On Linux getrusage counts what the parent used when it forked as well; VmHWM does not.
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return 1024 * int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def run(short: bool) -> Report:
    """Measure both ways at every number of steps; it takes a minute at most, so `short` changes nothing."""
    rows: list[dict[str, Any]] = []
    for steps in STEPS:
        found = {way: apart(f"memory.measure({way!r}, {steps})") for way in WAYS}
        columns = {f"{way}, {what} MB": megabytes for way in WAYS for what, megabytes in found[way].items()}
        rows.append({"steps": steps} | columns)
    percent = {
        f"{way.lower()}_{what}": 100 * (rows[-1][f"{way}, {what} MB"] / rows[0][f"{way}, {what} MB"] - 1)
        for way in WAYS
        for what in ("temporary", "peak")
    }
    net = "-".join(map(str, SIZES))
    text = TEXT.format(examples=EXAMPLES, net=net, nudged=NUDGED, first=STEPS[0], last=STEPS[-1], **percent)
    return Report("Memory against settling steps", text, rows, lambda: draw(rows))


def draw(rows: list[dict[str, Any]]) -> Figure:
    """Megabytes over steps: what the program asks for, and what the process took."""
    figure = Figure(figsize=(8, 3.4), layout="constrained")
    titles = {"temporary": "temporary memory of the program", "peak": "peak of the process"}
    for axes, (what, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
        for way, style in zip(WAYS, (FIRST, SECOND), strict=True):
            axes.semilogx(STEPS, [row[f"{way}, {what} MB"] for row in rows], marker="o", label=way, **style)
        axes.set(title=title, xlabel="steps of the free phase", ylabel="memory (MB)")
        axes.set_xticks(STEPS, [f"{steps:,}" for steps in STEPS])
        axes.xaxis.minorticks_off()
        if what == "temporary":  # from half a megabyte to hundreds
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend()
    return figure

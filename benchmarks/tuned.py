"""The β that `tune_nudge` chooses beside fixed ones: how far the gradient is from the exact one."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from matplotlib.figure import Figure

import eqprop as ep
from benchmarks.report import Report
from eqprop.data import load
from eqprop.device import Readings

FIXED = (0.5, 0.0625, 0.0078125)
NOISES = (None, 1e-4, 1e-3, 1e-2)
TOLERANCES = (1e-6, 1e-3)
TEXT = """
The relative distance of the gradient from the exact one (by the implicit function theorem, in float64), in float32 on
{examples} training digits, for 64-100-10 networks after {epochs} epochs of `EquilibriumPropagation()`, with the
symmetric nudge. *Noise* is what is added to each state that is read, *residual* what the phases are run to. *Chosen*
is the β of `tune_nudge`, which knows nothing of the exact gradient; *best* is the least error over the same β. Errors
are root mean squares over three drawings of the noise.
"""


def run(short: bool) -> Report:
    examples, epochs = (50, 1) if short else (200, 5)
    rows: list[dict[str, Any]] = []
    curves: dict[str, Any] = {}
    for rho in (ep.hard_sigmoid, ep.tanh):
        net = ep.Hopfield.layered(64, 100, 10, activation=rho)
        F = ep.Total(net, ep.SquaredError(low=0.2, high=0.8))
        data = load("digits")
        trainer = ep.Trainer(F, ep.EquilibriumPropagation(), optax.adam(0.002))
        feed = ep.Shuffled(data.train.v, batch_size=20)
        begin = trainer.init(net.init(jax.random.key(0)), feed, jax.random.key(1))
        theta = ep.fit(trainer, begin, feed, epochs=epochs)[0].theta
        v, rest = data.train[:examples].v, net.rest(examples)
        exact = truth(F, theta, v, rest)
        for noise in NOISES:
            for tol in TOLERANCES if noise is None else TOLERANCES[:1]:
                reading = ep.EquilibriumPropagation().reading if noise is None else Readings(noise=noise)
                settle = ep.Block(500, tol), ep.Block(500, tol, order="backward")
                rule = ep.EquilibriumPropagation(ep.Symmetric(0.5), *settle, reading=reading)
                tuned = ep.tune_nudge(rule, F, theta, v, rest)
                errors = [distance(rule, F, theta, v, rest, beta, exact) for beta in tuned.betas]
                at = dict(zip(tuned.betas.tolist(), errors, strict=True))
                rows.append(
                    {
                        "activation": rho.name,
                        "noise": "none" if noise is None else f"{noise:g}",
                        "residual": f"{tol:g}",
                        "chosen β": f"{tuned.beta:.2g}",
                        "estimated": f"{tuned.error.min():.2g}",
                        "chosen": f"{at[tuned.beta]:.2g}",
                        "best": f"{np.nanmin(errors):.2g}",
                    }
                    | {f"β = {beta:g}": f"{at[beta]:.2g}" for beta in FIXED}
                )
                print(f"  {rows[-1]}", flush=True)
                curves[f"{rho.name}, noise {rows[-1]['noise']}, residual {tol:g}"] = tuned, errors
    text = TEXT.format(examples=examples, epochs=epochs)
    return Report("Which β: chosen from what is measured, or fixed", text, rows, lambda: draw(curves))


def truth(F: ep.Total, theta: Any, v: Any, rest: Any) -> np.ndarray:
    with jax.enable_x64(True):
        theta, v, rest = jax.tree.map(lambda a: jnp.asarray(a, jnp.float64), (theta, v, rest))
        exact = ep.ImplicitGradient(ep.Block(3000, 1e-11, omega=1.0), tol=1e-11)
        return np.asarray(ravel_pytree(exact(F, theta, v, rest).gradient)[0])


def distance(rule: Any, F: Any, theta: Any, v: Any, rest: Any, beta: float, exact: np.ndarray) -> float:
    nudged = eqx.tree_at(lambda rule: rule.nudge.beta, rule, float(beta))
    squares = []
    for seed in range(3):
        found = ravel_pytree(nudged(F, theta, v, rest, jax.random.key(seed)).gradient)[0]
        squares.append(np.sum((np.asarray(found, float) - exact) ** 2))
    return float(np.sqrt(np.mean(squares)) / np.linalg.norm(exact))


def draw(curves: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(10, 6), layout="constrained")
    half = len(curves) // 2
    for axes, (title, (tuned, errors)) in zip(figure.subplots(2, half).ravel(), curves.items(), strict=True):
        axes.plot(tuned.betas, errors, color="#0072B2", marker="o", markersize=3, label="measured")
        axes.plot(tuned.betas, tuned.error, color="#D55E00", linestyle="--", label="estimated")
        axes.axvline(tuned.beta, color="#999999", linewidth=0.8, label="chosen")
        axes.set(xscale="log", yscale="log", xlabel="β", title=title.replace(", residual", ",\nresidual"))
        axes.title.set_fontsize(8)
        axes.grid(alpha=0.3)
    figure.axes[0].legend(fontsize="x-small")
    for axes in (figure.axes[0], figure.axes[half]):
        axes.set_ylabel("relative error of the gradient")
    return figure

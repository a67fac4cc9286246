"""How the nudge and the length of the phases turn and shrink the gradient, layer by layer, on trained networks."""

from typing import Any

import jax
import jax.numpy as jnp
from matplotlib.figure import Figure

import eqprop as ep
from benchmarks.nets import Trained, trained
from benchmarks.report import Report
from eqprop.tree import cosine

BETAS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0)
SWEEPS = (1, 2, 3, 4, 6, 8, 12, 16)
NEAR_ZERO = 0.001
TEXT = """
The gradient of the weights on {examples} training images, of networks trained by the default recipe, in float64, with
the symmetric nudge. *β*: both phases converged (residual 1e-8); compared with β = {near}, small enough to stand for the
exact gradient. *Sweeps*: β = 1/N for N hidden and output layers as in `eqprop train`, the free phase cut off after 2 k
sweeps and the nudged ones after k; compared with the same nudge, converged. `eqprop train` takes k = N: truncated on
purpose, as the paper's are. *Default*: `EquilibriumPropagation()` with β = 0.5, compared with the same, converged.
Each cell has the cosine with the reference and, in brackets, the ratio of the norms; layers are counted from the input.

Large nudges push units over the kinks of the hard sigmoid, or an example into another minimum. A nudged phase cut
short shrinks the gradient. A free phase cut short turns it: examples that are not yet at rest go on drifting while
nudged, and few of them weigh much in a trained network, whose other examples have next to no gradient.
"""


def run(short: bool) -> Report:
    examples = 50 if short else 200
    rows = []
    for hidden in (1, 2, 3):
        network = trained(hidden, short=short)
        with jax.enable_x64(True):
            rows += compare(hidden, network, examples)
    text = TEXT.format(examples=examples, near=NEAR_ZERO)
    return Report("The gradient over β and sweeps", text, [words(row) for row in rows], lambda: draw(rows))


def compare(hidden: int, network: Trained, examples: int) -> list[dict[str, Any]]:
    """For each setting, the cosine and the ratio of norms of each layer's weight gradient."""
    net, trainer, theta, data = network
    v = jax.tree.map(lambda a: jnp.asarray(a[:examples], float), data.train.v)
    theta = jax.tree.map(lambda w: jnp.asarray(w, float), theta)
    rest = jax.tree.map(lambda u: u.astype(float), net.rest(examples))
    exact = ep.Block(steps=3000, tol=1e-8, accelerate=True)

    def gradient(rule: ep.EquilibriumPropagation) -> tuple[list[Any], bool]:
        """The gradient of each layer's weights, and whether all examples came to rest."""
        found = rule(trainer.F, theta, v, rest, jax.random.key(0))
        settled = all(bool(phase.converged.all()) for phase in found.phases.values())
        return [found.gradient["W"][synapse.name] for synapse in net.synapses], settled

    def converged(beta: float) -> list[Any]:
        found, settled = gradient(ep.EquilibriumPropagation(ep.Symmetric(beta), exact, exact))
        if not settled:
            print(f"  {hidden} hidden, β = {beta}: some examples did not come to rest", flush=True)
        return found

    def row(varied: str, value: Any, found: list[Any], reference: list[Any]) -> dict[str, Any]:
        layers = [
            (float(cosine(a, b)), float(jnp.linalg.norm(a) / jnp.linalg.norm(b)))
            for a, b in zip(found, reference, strict=True)
        ]
        print(f"  {hidden} hidden, {varied} {value}: {layers}", flush=True)
        return {"hidden": hidden, "varied": varied, "value": value, "layers": layers}

    truth = converged(NEAR_ZERO)
    rows = [row("β", beta, converged(beta), truth) for beta in BETAS]
    own = 1 / len(net.free)
    same = converged(own)
    for k in SWEEPS:
        cut = ep.EquilibriumPropagation(ep.Symmetric(own), ep.Block(steps=2 * k), ep.Block(steps=k, order="backward"))
        rows.append(row("sweeps", k, gradient(cut)[0], same))
    return [*rows, row("default", 0.5, gradient(ep.EquilibriumPropagation())[0], converged(0.5))]


def words(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the table: layers from the input on, – where there are fewer."""
    cells = [f"{turn:.3f} ({size:.2f})" for turn, size in row["layers"]] + ["–"] * (4 - len(row["layers"]))
    setting = {"hidden layers": row["hidden"], "varied": row["varied"], "value": str(row["value"])}
    return setting | {f"layer {k}": cell for k, cell in enumerate(cells, 1)}


def draw(rows: list[dict[str, Any]]) -> Figure:
    """For three hidden layers: cosine and norm over β (left) and over sweeps (right)."""
    figure = Figure(figsize=(9, 6), layout="constrained")
    grid = figure.subplots(2, 2, sharey="row")
    colours = ("#0072B2", "#009E73", "#E69F00", "#D55E00")
    for column, (varied, label) in enumerate((("β", "β"), ("sweeps", "k: 2 k free and k nudged sweeps"))):
        chosen = [row for row in rows if row["hidden"] == 3 and row["varied"] == varied]
        for which, quantity in enumerate(("cosine", "ratio of norms")):
            axes = grid[which, column]
            for layer, colour in enumerate(colours):
                points = [row["layers"][layer][which] for row in chosen]
                axes.plot(
                    [row["value"] for row in chosen], points, marker="o", color=colour, label=f"layer {layer + 1}"
                )
            axes.set(xlabel=label, xscale="log" if varied == "β" else "linear")
            axes.axhline(1, color="#999999", linewidth=0.6)
            axes.grid(alpha=0.3)
            if column == 0:
                axes.set_ylabel(quantity)
    grid[0, 1].legend()
    figure.suptitle("784-500-500-500-10: the gradient of each layer's weights")
    return figure

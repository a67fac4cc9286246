"""Every figure of `eqprop.plots`, from small networks that learn the digits: the pictures of docs/gallery.md.

python examples/gallery.py [NAME …] [--out FOLDER]
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from matplotlib.figure import Figure

import eqprop as ep
from eqprop import plots
from eqprop.study import preset, settling_maps
from eqprop.study.diagnosis import measure
from eqprop.study.memory import Question as Capacities
from eqprop.study.modes import different_modes
from eqprop.study.stream import Turning

parser = argparse.ArgumentParser(description="Draw the pictures of docs/gallery.md.")
parser.add_argument("names", nargs="*", metavar="NAME", help="figures to keep, as `energy`; none: all")
parser.add_argument("--out", type=Path, default=Path("docs/gallery"), help="folder for the pictures")
asked = parser.parse_args()
names = [name for name in plots.__all__ if name.islower() and name != "styled"]
if unknown := [name for name in asked.names if name not in names]:
    parser.error(f"there is no figure {unknown[0]!r}: choose among {', '.join(names)}")
asked.out.mkdir(parents=True, exist_ok=True)

HIDDEN, EPOCHS = 60, 6
digits = ep.data.load("digits")
net = ep.Hopfield.layered(64, HIDDEN, 10)
F = ep.Total(net, ep.SquaredError())
error = {"error": F.cost.misclassified}
rule = ep.EquilibriumPropagation(ep.Symmetric(0.5), ep.Block(steps=6), ep.Block(steps=4, order="backward"))
adam = optax.adam(0.002)
feed = ep.Shuffled(digits.train.v, batch_size=20)


def learn(trainer: ep.Trainer, energy: Any = net, seed: int = 0) -> tuple[Any, list[dict[str, float]]]:
    """The weights, and the history."""
    start = trainer.init(energy.init(jax.random.key(seed)), feed, jax.random.key(seed + 1))
    state, history = ep.fit(trainer, start, feed, digits.valid.v, epochs=EPOCHS)
    return state.theta, history


def convolutional() -> tuple[Any, dict[str, Any]]:
    """The kernel of a convolutional network, and its layers while a digit settles and is nudged to its class."""
    setup = preset("digits", architecture="conv").build(digits)
    state, _ = ep.fit(setup.trainer, setup.state, setup.feed, epochs=EPOCHS)
    return state.theta["W"]["input-conv1"], settling_maps(setup, state.theta)


def circuit() -> tuple[ep.Resistive, Any, Any]:
    """A small circuit, its conductances, and the voltages of one example at rest."""
    bench = ep.Resistive.layered(3, 8, 4, 2, gain=5.0)
    conductances = bench.init(jax.random.key(0), 1.0)
    x = jnp.array([[0.2, 0.9, -0.5]])
    at_rest, _ = ep.Block(50)(ep.Total(bench, ep.SquaredError()), conductances, (x, None), 0.0, bench.rest(1))
    return bench, conductances, bench.voltages(x[0], jax.tree.map(lambda u: u[0], at_rest))


def figures() -> Iterator[tuple[str, Figure]]:
    """By the name of the function that makes them."""
    trainer = ep.Trainer(F, rule, adam, metrics=error, changes=True)
    runs = [learn(trainer, seed=seed) for seed in range(3)]
    (theta, history), histories = runs[0], [history for _, history in runs]
    yield "learning_curve", plots.learning_curve(history, "digits, 64-60-10")
    deep = replace(trainer, F=ep.Total(deeper := ep.Hopfield.layered(64, HIDDEN, HIDDEN, 10), F.cost))
    _, deep_history = learn(deep, deeper)
    nets = {"64-60-10, three seeds": histories, "64-60-60-10": [deep_history]}
    yield "learning_curves", plots.learning_curves(nets)
    seeds = {float(n + 1): [100 * history[n]["valid_error"] for history in histories] for n in range(EPOCHS)}
    yield "spread", plots.spread({"three seeds": ("epoch", "validation error (%)", {"64-60-10": seeds})})
    tried = trials(trainer)
    yield "parallel_coordinates", plots.parallel_coordinates(*tried, log=["learning rate"])
    ratios = {"64-60-10": changes(net, history), "64-60-60-10": changes(deeper, deep_history)}
    yield "weight_changes", plots.weight_changes(ratios)

    yield "receptive_fields", plots.receptive_fields(theta["W"]["input-hidden"], digits.shape)
    kernel, maps = convolutional()
    yield "filters", plots.filters(kernel)
    yield "feature_maps", plots.feature_maps(maps)
    outputs = np.asarray(trainer.predict(theta, digits.test.v))
    predicted = outputs.argmax(1)
    yield "confusion_matrix", plots.confusion_matrix(digits.test.labels, predicted, digits.classes)

    # The test digit whose output is farthest from its target has the most to be nudged.
    x, y = digits.test.v
    hardest = int(((outputs - y) ** 2).sum(1).argmax())
    v = (x[hardest : hardest + 1], y[hardest : hardest + 1])
    slowly, beta, label = ep.Gradient(steps=30, epsilon=0.2), 0.5, int(digits.test.labels[hardest])
    free = slowly.trace(F, theta, v, 0.0, net.rest(1))
    nudged = slowly.trace(F, theta, v, beta, jax.tree.map(lambda path: path[:, -1], free.state))
    yield "energy", plots.energy(free, nudged, beta=beta, epsilon=slowly.epsilon)
    yield "states", plots.states(free, nudged, target=label, epsilon=slowly.epsilon)
    yield "settling", plots.settling(free, nudged, beta=beta, target=label, epsilon=slowly.epsilon)

    bench, conductances, volts = circuit()
    yield "circuit", plots.circuit(bench, conductances, volts)

    free_phases, nudged_phases = oscillators()
    yield "locking", plots.locking(free_phases, nudged_phases, target=4)
    pictures, labels = completed()
    yield "completion", plots.completion(pictures, labels)
    wrong, recalled = memories()
    yield "capacity", plots.capacity(wrong, recalled)
    times, errors_over_time = following()
    yield "tracking", plots.tracking(times, errors_over_time, onset=500)

    betas, errors = gradient_errors()
    yield "gradient_error", plots.gradient_error(betas, errors, orders=(1, 2))
    residuals, row = precision()
    yield "against_residual", plots.against_residual(residuals, {"digits, 64-60-10": row})

    forward = ep.Feedforward(net)
    _, through = learn(ep.Trainer(ep.Total(forward, F.cost), ep.Backpropagation(), adam, metrics=error), forward)
    _, clamped = learn(replace(trainer, rule=ep.ContrastiveHebbian(rule.free, rule.nudged), changes=False))
    families = {
        "nudged or clamped": {"Equilibrium Propagation": history, "Contrastive Hebbian": clamped},
        "derivatives travel back": {"Backpropagation": through},
    }
    yield "rivals", plots.rivals({"digits": families})
    directed = ep.Directed(net)
    field = ep.VectorField(rule.nudge, rule.free, rule.nudged)
    _, followed = learn(ep.Trainer(ep.Total(directed, F.cost), field, adam, watch={"angle": directed.angle}), directed)
    angles = {"EP in a vector field": [record["angle"] for record in followed]}
    yield "angles", plots.angles(angles)
    yield "modes", plots.modes(different_modes())


def oscillators() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The phases of a network of oscillators while a 4 settles, and while it is nudged to its class."""
    xy = ep.Oscillators(ep.Hopfield.layered(64, HIDDEN, 10))
    G = ep.Total(xy, ep.PhaseError())
    learned = ep.EquilibriumPropagation(ep.Symmetric(0.1), ep.Block(12), ep.Block(8, order="backward"))
    theta, _ = learn(ep.Trainer(G, learned, optax.adam(0.005), metrics=error), xy)
    x, y = digits.test.v
    four = int(np.flatnonzero(np.asarray(digits.test.labels) == 4)[0])
    v, slowly = (x[four : four + 1], y[four : four + 1]), ep.Gradient(60, epsilon=0.1)
    free = slowly.trace(G, theta, v, 0.0, xy.rest(1))
    nudged = slowly.trace(G, theta, v, 1.0, jax.tree.map(lambda path: path[:, -1], free.state))
    first, second = ({k: np.asarray(u[0]) for k, u in trace.state.items()} for trace in (free, nudged))
    return first, second


def completed() -> tuple[dict[str, np.ndarray], list[str]]:
    """Digits that are stored, the part of each that is given, and what attention makes of it, with its label."""
    x, y = digits.train[:100].v
    mean = x.mean(0)
    size = np.linalg.norm(x - mean, axis=1, keepdims=True)
    memory = ep.Memory({"pixels": 64, "label": 10}, ep.LogSumExp(20.0))
    theta = memory.store({"pixels": (x - mean) / size, "label": y})
    given = np.concatenate([np.arange(64) < 32, np.arange(64) % 8 >= 4, np.arange(64) % 3 == 0]).reshape(3, 64)
    which = given[np.arange(9) % 3]
    G, v = (
        ep.Hold(ep.Total(memory, ep.SquaredError("label"))),
        ((None, None), {"pixels": ((x - mean)[:9] / size[:9], which)}),
    )
    found, _ = ep.Gradient(100, 1e-5, epsilon=1.0)(G, theta, v, 0.0, memory.rest(9))
    rows = {"given": np.where(which, x[:9], np.nan), "recalled": found["pixels"] * size[:9] + mean, "stored": x[:9]}
    return {name: np.reshape(row, (9, 8, 8)) for name, row in rows.items()}, [str(k) for k in found["label"].argmax(1)]


def memories() -> Any:
    """What the short form of `eqprop reproduce memory` draws, without the attention."""
    study = Capacities(loads=(0.5, 1.0, 1.5, 2.0), classical=(50, 100), cubic=(20, 40), quartic=(12, 24), draws=1)
    kinds = list(study.sizes)[:3]
    runs = [run for run in study.runs() if run[0] in kinds]
    entries = [{"run": list(run)} | study.carry_out(run, digits) for run in runs]
    return study.curves(entries, kinds)


def following() -> tuple[list[int], dict[str, list[list[float]]]]:
    """The error on a stream of digits that turn by 90° between the times 500 and 2500."""
    feed = ep.Stream(digits.train.v, lanes=20, dwell=2, move=Turning(500, 90 / 2000, side=8), batches=50)
    follows = replace(rule, free=ep.Block(2), nudged=ep.Block(1, order="backward"))
    curves = {}
    for name in ("learns on the fly", "frozen"):
        trainer = ep.Trainer(F, follows, adam, persistent=True, metrics=error)
        state = trainer.init(net.init(jax.random.key(0)), feed, jax.random.key(1))
        state, before = ep.fit(trainer, state, feed, epochs=10)
        if name == "frozen":
            trainer = replace(trainer, optimizer=optax.set_to_zero())
            state = state._replace(optimizer=trainer.optimizer.init(state.theta))
        _, after = ep.fit(trainer, state, feed, epochs=50)
        curves[name] = [[100 * record["train_error"] for record in before + after]]
    return [50 * (k + 1) for k in range(50)], curves


def trials(trainer: ep.Trainer) -> tuple[dict[str, list[float]], list[float]]:
    """Learning rates and nudges by chance, and the validation errors after two epochs."""
    draw, settings, errors, unit = np.random.default_rng(0), {"learning rate": [], "β": []}, [], optax.adam(1.0)
    for _ in range(12):
        rate, beta = float(10 ** draw.uniform(-4, -1.5)), float(draw.uniform(0.1, 1))
        one = replace(trainer, rule=replace(rule, nudge=ep.Symmetric(beta)), optimizer=ep.Rated(unit, rate))
        start = one.init(net.init(jax.random.key(0)), feed, jax.random.key(1))
        _, history = ep.fit(one, start, feed, digits.valid.v, epochs=2)
        settings["learning rate"].append(rate)
        settings["β"].append(beta)
        errors.append(100 * history[-1]["valid_error"])
    return settings, errors


def changes(which: ep.Hopfield, history: list[dict[str, float]]) -> dict[str, list[float]]:
    """‖ΔW_k‖/‖W_k‖ over epochs, by synapse from the input to the output."""
    names = [synapse.name for synapse in which.synapses]
    return {name: [record[f"change W/{name}"] for record in history] for name in names}


def gradient_errors() -> tuple[np.ndarray, dict[str, list[float]]]:
    """The relative error of the gradient with two nudges, over β, of a smooth network in double precision."""
    smooth = ep.Hopfield.layered(64, HIDDEN, 10, activation=ep.sigmoid)
    G, betas, errors = ep.Total(smooth, ep.SquaredError()), np.logspace(-0.3, -6, 16), {}
    given = smooth.init(jax.random.key(0)), digits.train[:10].v
    with jax.enable_x64(True):
        precise = ep.Block(steps=1000, tol=1e-13)
        theta, v = jax.tree.map(lambda a: jnp.asarray(a, float), given)
        start, key = smooth.rest(10), jax.random.key(0)
        exact = ep.ImplicitGradient(precise, tol=1e-13)(G, theta, v, start).gradient
        for nudge in (ep.OneSided, ep.Symmetric):
            rules = [ep.EquilibriumPropagation(nudge(b), precise, precise) for b in betas]
            errors[nudge.__name__] = [distance(one(G, theta, v, start, key).gradient, exact) for one in rules]
    return betas, errors


def distance(found: Any, exact: Any) -> float:
    """‖found − exact‖ / ‖exact‖ over all of θ."""
    a, b = (np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(gradient)]) for gradient in (found, exact))
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def precision() -> tuple[list[float], dict[str, dict[str, list[float]]]]:
    """How well a network learns, and how its gradient lies to the exact one, with phases of several precisions."""
    residuals, layers = [0.3, 0.1, 1e-2, 1e-3], {"W_1": "hidden", "W_2": "output"}
    inside = ep.Total(net, ep.SquaredError(low=0.2, high=0.8))  # outputs at an end of the box would feel no nudge
    trained, measured = [], []
    for residual in residuals:
        settle = ep.Block(steps=200, tol=residual)
        coarse = ep.EquilibriumPropagation(ep.Symmetric(0.05), settle, replace(settle, order="backward"))
        trainer = ep.Trainer(inside, coarse, adam, metrics=error)
        theta, history = learn(trainer)
        trained.append(100 * history[-1]["valid_error"])
        with jax.enable_x64(True):
            doubled = jax.tree.map(lambda a: jnp.asarray(a, float), (theta, digits.train[:200].v, net.rest(200)))
            measured.append(measure(net, trainer, *doubled))
    row = {"errors": {"validation": trained}}
    for key in ("cosine", "norm"):
        row[key] = {W: [found[key][layer] for found in measured] for W, layer in layers.items()}
    return residuals, row


for name, figure in figures():
    if name in (asked.names or [name]):
        figure.savefig(asked.out / f"{name}.png", dpi=110, metadata={"Software": None})
        print(asked.out / f"{name}.png", flush=True)

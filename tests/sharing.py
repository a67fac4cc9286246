"""A program for test_parallel.py: what several devices or processes learn together, beside what one learns alone.

    python tests/sharing.py OUT --cases … --counts 1 2 4 8 [--x64] [--join HOST:PORT PROCESSES ID]

It writes to OUT, as JSON, and prints the largest differences of each case and number of devices; with `--join`, each
process has one device, and the first one writes.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import eqprop as ep
from eqprop.cluster import Place, Watch, join
from eqprop.device import Readings
from eqprop.store import checkpoint
from eqprop.train.layout import whole

FORWARD, BACKWARD = ep.Block(6), ep.Block(6, order="backward")
NET, SMOOTH = ep.Hopfield.layered(6, 8, 4), ep.Hopfield.layered(6, 8, 4, activation=ep.tanh)
F, SMOOTH_F = ep.Total(NET, ep.SquaredError()), ep.Total(SMOOTH, ep.SquaredError())
MACHINE = ep.Total(ep.BoltzmannMachine(NET), ep.SquaredError())
READ = Readings(noise=0.01)
# Without a tolerance: by rounding alone, an example near it may take a step more.
CASES: dict[str, tuple[ep.Total, ep.Rule, bool]] = {
    "equilibrium": (F, ep.EquilibriumPropagation(ep.RandomSign(0.5), FORWARD, BACKWARD), False),
    "particles": (F, ep.EquilibriumPropagation(ep.RandomSign(0.5), ep.Block(2), ep.Block(1)), True),
    "holomorphic": (SMOOTH_F, ep.EquilibriumPropagation(ep.Holomorphic(0.4), FORWARD, ep.Gradient(6)), False),
    "coupled": (F, ep.CoupledLearning(0.1, FORWARD, BACKWARD), False),
    "divergence": (MACHINE, ep.ContrastiveDivergence(), False),
    "noise": (SMOOTH_F, ep.StochasticEquilibriumPropagation(free=ep.Langevin(0.01, 0.1, 3, 2, 2)), False),
    "readings": (F, ep.EquilibriumPropagation(ep.Symmetric(0.5), FORWARD, BACKWARD, READ), False),
    "recurrent": (F, ep.RecurrentBackpropagation(FORWARD, ep.Gradient(6)), False),
    "disk": (F, ep.EquilibriumPropagation(ep.RandomSign(0.5), FORWARD, BACKWARD), False),
    "stdp": (F, ep.STDP(ep.OneSided(0.5), FORWARD, ep.Gradient(6)), False),
    "backpropagation": (ep.Total(ep.Feedforward(NET), ep.SquaredError()), ep.Backpropagation(), False),
}


def examples(count: int = 32) -> tuple[jax.Array, jax.Array]:
    """Inputs and binary targets; in minibatches of 12, the last is short, and 8 devices must fill them up."""
    drawn = np.random.default_rng(0)
    return jnp.asarray(drawn.random((count, 6))), jnp.asarray(drawn.integers(0, 2, (count, 4)).astype(float))


LAST = optax.GradientTransformation(
    lambda params: jax.tree.map(jnp.zeros_like, params), lambda updates, state, params=None: (updates, updates)
)
"""An optimizer's part that does nothing but keep the last gradient."""


def begin(case: str, mesh: Any, feed: ep.Feed) -> tuple[ep.Trainer, ep.TrainState]:
    """A trainer with a learning rate of 1, by which the change of θ is the sum of its gradients."""
    G, rule, persistent = CASES[case]
    trainer = ep.Trainer(G, rule, optax.chain(LAST, optax.sgd(1.0)), persistent=persistent, mesh=mesh)
    return trainer, trainer.init(G.energy.init(jax.random.key(0)), feed, jax.random.key(1))


def trained(case: str, mesh: Any) -> tuple[Any, ep.TrainState, dict[str, float]]:
    """The gradient of the first minibatch, when θ is the same everywhere; the state after three, and its measures."""
    feed = ep.OnDisk(examples(), batch_size=12) if case == "disk" else ep.Shuffled(examples(), batch_size=12)
    trainer, state = begin(case, mesh, feed)
    state = trainer.advance(state, feed, 1)
    gradient = state.optimizer[0]
    state = trainer.advance(state, feed, 2)
    return gradient, state, trainer.measure(state.theta, examples(13), block=5)


def distance(a: Any, b: Any) -> float:
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return max((float(np.abs(whole(one) - whole(other)).max()) for one, other in pairs), default=0.0)


def averages(state: ep.TrainState) -> Any:
    """What was summed over the examples, by their number."""
    return jax.tree.map(lambda total: whole(total) / whole(state.sums["count"]), state.sums)


def differences(cases: list[str], counts: Sequence[int | None]) -> Iterator[tuple[str, dict[str, float]]]:
    """Of a gradient, as a part of its largest number; of θ and particles; of what was measured on the way and after."""
    for case in cases:
        gradient, alone, measured = trained(case, None)
        largest = max(float(np.abs(leaf).max()) for leaf in jax.tree.leaves(gradient))
        for count in counts:
            found_gradient, state, found = trained(case, ep.mesh(count))
            yield (
                f"{case} on {count or jax.device_count()}",
                {
                    "gradient": distance(found_gradient, gradient) / largest,
                    "theta": distance(state.theta, alone.theta),
                    "particles": distance(state.particles, alone.particles),
                    "averages": distance(averages(state), averages(alone)),
                    "measured": distance(found, measured),
                },
            )


def resumed(folder: Path) -> float:
    """From a checkpoint of two devices on four, on one, and on two again; the last must be the same bits."""
    feed = ep.Shuffled(examples(29), batch_size=12)  # whose particles two devices cannot divide
    trainer, start = begin("particles", ep.mesh(2), feed)
    through = trainer.advance(start, feed, 3)
    checkpoint.save(folder / "state", trainer.advance(start, feed, 2), {})
    far = []
    for mesh in (ep.mesh(4), None, ep.mesh(2)):
        trainer, like = begin("particles", mesh, feed)
        state, _ = checkpoint.load(folder / "state", like)
        state = trainer.advance(state, feed, 1)
        far.append(distance((state.theta, state.particles), (through.theta, through.particles)))
    assert far[-1] == 0, far
    return max(far)


def divided(limit: int) -> dict[str, float]:
    """A wide network, of which no device may have more than `limit` bytes: on four devices, beside one that has all."""
    net = ep.Hopfield.layered(6, 512, 256, 4)
    G, rule = ep.Total(net, ep.SquaredError()), ep.EquilibriumPropagation(ep.Symmetric(0.5), FORWARD, BACKWARD)
    feed, found = ep.Shuffled(examples(), batch_size=12), []
    for mesh in (None, ep.mesh(4, units=4), ep.mesh(4, units=2)):
        trainer = ep.Trainer(G, rule, optax.sgd(0.1, momentum=0.9), mesh=mesh)
        theta = net.init(jax.random.key(0))
        if mesh is not None:  # drawn where it will lie
            theta = jax.jit(net.init, out_shardings=ep.shardings(theta, mesh))(jax.random.key(0))
        state = trainer.advance(trainer.init(theta, feed, jax.random.key(1)), feed, 3)
        parts = [part for leaf in jax.tree.leaves((state.theta, state.optimizer)) for part in leaf.addressable_shards]
        most = max(sum(part.data.nbytes for part in parts if part.device == device) for device in jax.devices())
        found.append((state, most))
    (alone, all_of_it), *spread = found
    assert all_of_it > limit > spread[0][1], (all_of_it, limit, spread[0][1])
    return {f"divided by {n}": distance(state.theta, alone.theta) for n, (state, _) in zip((4, 2), spread, strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--cases", nargs="*", default=list(CASES))
    parser.add_argument("--counts", nargs="*", type=int, default=[1, 2, 4, 8])
    parser.add_argument("--x64", action="store_true")
    parser.add_argument("--more", action="store_true")
    parser.add_argument("--join", nargs=3)
    chosen = parser.parse_args()
    jax.config.update("jax_enable_x64", chosen.x64)
    place, counts = None, list[int | None](chosen.counts)
    if chosen.join:
        place, counts = Place(chosen.join[0], int(chosen.join[1]), int(chosen.join[2])), [None]
        join(place)
    else:
        jax.config.update("jax_num_cpu_devices", max(chosen.counts))
    with nullcontext() if place is None else Watch(place, print):
        result: dict[str, Any] = {}
        for case, found in differences(chosen.cases, counts):
            result[case] = found
            if jax.process_index() == 0:
                print(f"{case:24}", *(f"{what} {value:.1e}" for what, value in found.items()), sep="  ")
        if chosen.more:
            result |= {"resumed": resumed(chosen.out.parent), "divided": divided(limit=500_000)}
        if jax.process_index() == 0:
            chosen.out.write_text(json.dumps(result))


if __name__ == "__main__":
    main()

"""The default training step beside the bare matrix products that it cannot do without."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.nets import recipe
from benchmarks.report import Report
from benchmarks.timing import race, spread
from eqprop.relax import Stepwise
from eqprop.train import Feed, Shuffled, Trainer, TrainState

TEXT = """
A minibatch of 100 of the default recipe (gathering, both phases, gradient, Adam, metrics) against a compiled program
that does nothing but its matrix products: the input drive once, two products per synapse and sweep (the two nudged
copies as one batch), one per synapse for the gradient; same shapes, same count, each waiting for the one before.
"""
BATCH = 100


def run(short: bool) -> Report:
    minibatches, rounds = (5, 5) if short else (20, 15)
    rows = []
    for hidden in (1, 2, 3):
        experiment = recipe(hidden, batch_size=BATCH)
        net, trainer = experiment.assemble(784, 10, minibatches)
        theta = net.init(jax.random.key(0))
        x = jax.random.uniform(jax.random.key(1), (minibatches * BATCH, 784))
        y = jax.nn.one_hot(jnp.arange(len(x)) % 10, 10)
        feed = Shuffled((x, y), BATCH)
        state = trainer.init(theta, feed, jax.random.key(2))
        sizes = (784, *experiment.network.hidden, 10)
        free, nudged, *_ = experiment.phases
        assert isinstance(free, Stepwise) and isinstance(nudged, Stepwise)
        bare = products(sizes, free.steps, nudged.steps, minibatches)

        def ours(trainer: Trainer = trainer, state: TrainState = state, feed: Feed = feed) -> None:
            jax.block_until_ready(trainer.advance(state, feed, minibatches))

        times = race({"ours": ours, "bare": bare}, rounds)
        rows.append(
            {
                "network": "-".join(map(str, sizes)),
                "sweeps": f"{free.steps} free, 2 × {nudged.steps} nudged",
                "products, ms": spread(1000 * times["bare"] / minibatches),
                "training step, ms": spread(1000 * times["ours"] / minibatches),
                "ratio": spread(times["ours"] / times["bare"]),
            }
        )
    return Report("Floor: the training step against its matrix products", TEXT, rows)


def products(sizes: tuple[int, ...], free: int, nudged: int, minibatches: int) -> Callable[[], None]:
    """The matrix products of a number of minibatches, and nothing else."""
    keys = jax.random.split(jax.random.key(0), len(sizes))
    # Of norm 1, so that products of products neither overflow nor become denormal, which would be slow.
    weights = [jax.random.normal(k, shape) for k, shape in zip(keys, pairwise(sizes), strict=False)]
    weights = [w / jnp.linalg.norm(w, 2) for w in weights]
    x = jax.random.normal(keys[-1], (BATCH, sizes[0]))

    def sweep(_: int, s: list[Any], weights: list[Any]) -> list[Any]:
        s = list(s)
        for k in range(1, len(s)):
            s[k] = s[k - 1] @ weights[k]
        for k in reversed(range(1, len(s))):
            s[k - 1] = s[k] @ weights[k].T
        return s

    @jax.jit
    def all_of_them(weights: list[Any], x: Any) -> Any:
        def minibatch(_: int, carry: Any) -> Any:
            x, weights = carry
            s = [x @ weights[0]] + [jnp.ones((BATCH, size)) for size in sizes[2:]]
            s = jax.lax.fori_loop(0, free, lambda i, s: sweep(i, s, weights), s)
            both = [jnp.concatenate([u, u]) for u in s]
            both = jax.lax.fori_loop(0, nudged, lambda i, s: sweep(i, s, weights), both)
            gradients = [x.T @ both[0][:BATCH]] + [a.T @ b for a, b in pairwise(both)]
            # The next minibatch waits for this one: a touch of the gradients goes into its weights.
            return x, [w + 1e-20 * g for w, g in zip(weights, gradients, strict=True)]

        return jax.lax.fori_loop(0, minibatches, minibatch, (x, weights))

    return lambda: jax.block_until_ready(all_of_them(weights, x))

"""One checkout's part in `versions`: does what each line of its input names, and answers how long that took.

`versions` runs it in a process of its own, in which `eqprop` is that of the checkout. So it may ask only for what both
versions have, and an adapter makes up for the names that differ.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any


def timed(work: Callable[[], Any]) -> dict[str, Any]:
    """Seconds that the work took, of the processor (all threads) and of the clock, and what it returned."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall, "result": result}


def load() -> None:
    import eqprop  # noqa: F401  (the import is what is timed)


def trainings(hidden: int) -> dict[str, Any]:
    """The settings of both trainings."""
    try:
        from eqprop.study import PRESETS
        from eqprop.study.paper import as_published
    except ImportError:  # until e1b31ad
        from eqprop.experiment import PRESETS  # pyright: ignore[reportMissingImports]
        from eqprop.reproduce import as_published  # pyright: ignore[reportMissingImports]
    usual = PRESETS["mnist"]
    default = replace(usual, network=replace(usual.network, hidden=(500,) * hidden))
    return {"default": default, "published": as_published(str(hidden)).experiment}  # pyright: ignore[reportArgumentType]


def training(experiment: Any, theta: Any, v: Any, minibatches: int) -> Callable[[], Any]:
    """Trains on the first minibatches of an epoch, always from the same weights; returns how many steps it takes."""
    import jax

    size, key = experiment.learning.batch_size, jax.random.key(0)
    if hasattr(experiment, "assemble"):
        from eqprop.train import InOrder, Shuffled

        _, trainer = experiment.assemble(784, 10, len(v[0]) // size)
        feed = (Shuffled if experiment.learning.shuffle else InOrder)(v, size)
        state = trainer.init(theta, feed, key)
    else:  # until e1b31ad
        (_, trainer), feed = experiment.build(784, 10), v
        state = trainer.init(theta, len(v[0]), key)

    def work() -> Any:
        jax.block_until_ready(trainer.advance(state, feed, minibatches))
        return [size, trainer.rule.free.steps, trainer.rule.nudged.steps]

    return work


def settling(theta: Any, x: Any) -> Callable[[], Any]:
    """Settles all examples from rest, 100 at a time, to a residual of 1e-4; returns the mean number of steps."""
    import jax

    import eqprop as ep

    relaxation: Any = ep.EquilibriumPropagation().free
    layers = ep.Hopfield.layered(784, *(len(theta["b"][f]) for f in theta["b"]))
    F = ep.Total(layers, ep.SquaredError())
    settle = getattr(relaxation, "settle", relaxation)  # a call until e1b31ad
    steps = jax.jit(lambda theta, x: settle(F, theta, (x, None), 0.0, layers.rest(len(x)))[1].steps)

    def work() -> float:
        return float(sum(steps(theta, x[i : i + 100]).mean() for i in range(0, len(x), 100)) * 100 / len(x))

    return work


def main(weights: str, pieces: dict[str, int], cores: list[int]) -> None:
    if cores:  # before a library starts its threads
        os.sched_setaffinity(0, cores)
    print(json.dumps(timed(load)), flush=True)
    import jax.numpy as jnp
    import numpy as np

    theta: dict[str, dict[str, Any]] = {"W": {}, "b": {}}
    with np.load(weights) as kept:
        x, y = jnp.asarray(kept["x"]), jnp.asarray(kept["y"])
        for name in kept.files:
            if "/" in name:
                kind, part = name.split("/")
                theta[kind][part] = jnp.asarray(kept[name])
    settings = trainings(len(theta["W"]) - 1)
    tasks = {name: training(settings[name], theta, (x, y), pieces[name]) for name in settings}
    tasks["settling"] = settling(theta, x[: pieces["settling"]])
    for line in sys.stdin:
        print(json.dumps(timed(tasks[line.strip()])), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3]))

"""Two processes that train together beside one alone."""

import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.apart import apart
from benchmarks.nets import recipe
from benchmarks.report import Report
from benchmarks.timing import spread
from eqprop.cluster import Place, Watch, join
from eqprop.study.paper import as_published
from eqprop.train import Shuffled, mesh

TEXT = """
784-500-500-500-10, by two processes with a core each, which share minibatches of 200, and by the first of them alone
with minibatches of 100, in turns: by the default recipe, and with the iterations that the paper's authors took, so that
the same sum follows a longer settling. Examples per second, and the ratio of two turns that follow each other: 2 would
be had if the sum of the gradients took no time, and cores had nothing in common. *Beside each other*: both at once,
each for itself, without a word between them, which is what the machine's two cores have to give. The sum goes through
the loopback network here, by Gloo.
"""
BATCH, HIDDEN = 100, 3
WAYS = {"default": (40, 15), "as published": (2, 5)}  # minibatches in a turn, and turns


def run(short: bool) -> Report:
    with socket.create_server(("127.0.0.1", 0)) as server:
        coordinator = f"127.0.0.1:{server.getsockname()[1]}"
    cores = sorted(os.sched_getaffinity(0))[-2:]
    calls = [f"parallel.measure({coordinator!r}, {process}, {short})" for process in range(2)]
    with ThreadPoolExecutor() as pool:
        speeds, _ = pool.map(apart, calls, [{cores[0]}, {cores[-1]}])
    return Report("Two processes beside one", TEXT, [row(way, *speeds[way]) for way in WAYS])


def row(way: str, together: list[float], beside: list[float], alone: list[float]) -> dict[str, Any]:
    return {
        "settling": way,
        "together, examples/s": spread(together),
        "alone, examples/s": spread(alone),
        "together / alone": spread([a / b for a, b in zip(together, alone, strict=True)]),
        "beside each other / alone": spread([2 * a / b for a, b in zip(beside, alone, strict=True)]),
        "together / beside": spread([a / (2 * b) for a, b in zip(together, beside, strict=True)]),
    }


def measure(coordinator: str, process: int, short: bool) -> dict[str, list[list[float]]]:
    """By way to settle: examples per second together, at once but apart, and alone, in each turn.

    Only the first process has turns alone.
    """
    place = Place(coordinator, 2, process)
    join(place)
    with Watch(place, print):
        return {
            way: speeds(way, process, *((10, 5) if short and way == "default" else sizes))
            for way, sizes in WAYS.items()
        }


def speeds(way: str, process: int, rounds: int, minibatches: int) -> list[list[float]]:
    x = jax.random.uniform(jax.random.key(1), (2 * minibatches * BATCH, 784))
    y = jax.nn.one_hot(jnp.arange(len(x)) % 10, 10)
    experiment = recipe(HIDDEN) if way == "default" else as_published("3").experiment
    runs = {}
    for name, size, devices in (("together", 2 * BATCH, mesh()), ("beside", BATCH, None), ("alone", BATCH, None)):
        sized = replace(experiment, learning=replace(experiment.learning, batch_size=size))
        net, trainer = sized.assemble(784, 10, minibatches)
        trainer = replace(trainer, mesh=devices)
        feed = Shuffled((x[: minibatches * size], y[: minibatches * size]), size)
        state = trainer.init(net.init(jax.random.key(0)), feed, jax.random.key(2))
        runs[name] = (trainer, state, feed, size)
    found: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds + 1):
        for name, (trainer, state, feed, size) in runs.items():
            if name == "alone" and process:
                continue
            began = time.perf_counter()
            jax.block_until_ready(trainer.advance(state, feed, minibatches))
            found[name].append(minibatches * size / (time.perf_counter() - began))
    return [found[name][1:] for name in runs]

"""Training from files on disk beside training from memory: speed, and memory."""

import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

import eqprop as ep
from benchmarks.apart import apart, one_core
from benchmarks.memory import peak
from benchmarks.nets import recipe
from benchmarks.report import Report
from benchmarks.timing import race, spread
from eqprop.data import FiledSplit, load, write_part
from eqprop.train.disk import WINDOWS

COPIES, HIDDEN, MEGABYTES = 10, 1, 64.0

TEXT = """
{images:,} images, {copies} times those of MNIST, as bytes in {copies} files of NumPy's format; the network, 784-500-10,
and the minibatches of 50 are those of `eqprop train mnist`. *From disk*: `OnDisk`, which shuffles blocks of rows, reads
in a thread while the device computes, and may hold {megabytes:.0f} MB; bytes become numbers in the compiled loop. *In
memory*: `Shuffled`, all images as float32. Both take turns in one process, on {cores}. *Ratio* is the time of a
minibatch from disk over that in memory, by the clock and of the processor; the files are in the system's cache, except
for *cold*, before which it is told to forget them.

*Peak* is the greatest resident memory of a fresh process that trains for {batches} minibatches, about {windows} times
what is held at once; Python, JAX, compilation and 20,000 images in memory, for validation and test, are a part of it.
With a tenth of the files there are 4,000 images fewer for validation, which take 13 MB.
"""


def images() -> np.ndarray:
    """The training images of MNIST, in bytes."""
    return np.round(load("mnist", valid=0, on_event=print).train.x * 255).astype(np.uint8).reshape(-1, 28, 28)


def write(folder: Path, copies: int) -> None:
    """The data set: the images and their classes, repeated, each time in an order of its own."""
    mnist = load("mnist", valid=0)
    pixels, classes = images(), mnist.train.labels.astype(np.uint8)

    def pieces() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for copy in range(copies):
            order = np.random.default_rng(copy).permutation(len(pixels))
            yield pixels[order], classes[order]

    write_part(folder, "train", pieces())
    test = np.round(mnist.test.x * 255).astype(np.uint8).reshape(-1, 28, 28)
    write_part(folder, "test", iter([(test, mnist.test.labels.astype(np.uint8))]))


def forget(folder: Path) -> None:
    """Let the system drop the files from its cache, where it can."""
    if not hasattr(os, "posix_fadvise"):
        return
    for path in folder.iterdir():
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def speed(folder: str, rounds: int) -> dict[str, Any]:
    """Seconds of a minibatch from disk and in memory in each round, by the clock and of the processor."""
    data = load(folder)
    assert isinstance(data.train, FiledSplit)
    experiment = replace(recipe(HIDDEN), dataset=folder)
    setup = experiment.build(data)
    size = experiment.learning.batch_size
    feeds: dict[str, ep.Feed] = {"disk": setup.feed, "memory": ep.Shuffled(data.train.v, size)}
    batches = 2 * setup.feed.ahead if isinstance(setup.feed, ep.OnDisk) else 0  # both windows are read meanwhile
    found: dict[str, dict[str, list[float]]] = {"wall": {}, "cpu": {}}
    epoch = 0

    def train(name: str) -> None:
        nonlocal epoch
        epoch += 1  # so that nothing was read before
        state = setup.state._replace(epoch=setup.state.epoch + epoch)
        began, busy = time.perf_counter(), time.process_time()
        jax.block_until_ready(setup.trainer.advance(state, feeds[name], batches))
        found["wall"].setdefault(name, []).append((time.perf_counter() - began) / batches)
        found["cpu"].setdefault(name, []).append((time.process_time() - busy) / batches)

    race({name: lambda name=name: train(name) for name in feeds}, rounds)
    warm = {clock: {name: spent[-rounds:] for name, spent in times.items()} for clock, times in found.items()}
    forget(Path(folder))
    train("disk")
    return warm | {"cold": found["wall"]["disk"][-1]}


def memory(folder: str, batches: int) -> float:
    """The peak of a fresh process that trains from files, in megabytes."""
    setup = replace(recipe(HIDDEN), dataset=folder).build(load(folder))
    state = setup.state
    while (left := batches - int(state.step)) > 0:
        if int(state.batch) == setup.feed.batches:
            state = state._replace(epoch=state.epoch + 1, batch=0 * state.batch)
        state = setup.trainer.advance(state, setup.feed, min(left, setup.feed.batches - int(state.batch)))
    jax.block_until_ready(state)
    return peak() / 1e6


def run(short: bool) -> Report:
    """Measure memory in processes of their own, then speed on one core."""
    copies, rounds, batches = (2, 2, 1000) if short else (COPIES, 3, 1000)
    with tempfile.TemporaryDirectory() as whole, tempfile.TemporaryDirectory() as part:
        write(Path(whole), copies)
        write(Path(part), copies // 10 or 1)
        with ThreadPoolExecutor(2) as side_by_side:
            peaks = list(side_by_side.map(lambda folder: apart(f"disk.memory({folder!r}, {batches})"), (whole, part)))
        found = apart(f"disk.speed({whole!r}, {rounds})", one_core())
    wall, cpu = ({name: np.array(t) for name, t in found[clock].items()} for clock in ("wall", "cpu"))
    row: dict[str, Any] = {
        "in memory, ms per minibatch": spread(1e3 * wall["memory"]),
        "ratio": spread(wall["disk"] / wall["memory"]),
        "ratio, processor": spread(cpu["disk"] / cpu["memory"]),
        "least / least, processor": float(cpu["disk"].min() / cpu["memory"].min()),
        "ratio, cold": float(found["cold"] / np.median(wall["memory"])),
        "peak, MB": peaks[0],
        "peak with a tenth of the files, MB": peaks[1],
        "the images as float32, MB": copies * 60_000 * 784 * 4 / 1e6,
    }
    text = TEXT.format(
        images=copies * 60_000,
        copies=copies,
        megabytes=MEGABYTES,
        cores="one core" if one_core() else "all cores",
        batches=f"{batches:,}",
        windows=round(batches * 50 * 785 / (MEGABYTES / WINDOWS * 1e6)),
    )
    return Report("Training from files on disk", text, [row])

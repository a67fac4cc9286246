"""Larger than this machine, on paper: what training over many devices would take, from what can be measured on one."""

import re
import time
from math import ceil, log2
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, PartitionSpec
from matplotlib.figure import Figure

from benchmarks.apart import apart, one_core
from benchmarks.nets import recipe
from benchmarks.report import Report
from benchmarks.timing import race
from eqprop.plots.style import DOTS, styled
from eqprop.rule import EquilibriumPropagation
from eqprop.study import PRESETS, Experiment, operations
from eqprop.study.recipes import THROUGHPUT
from eqprop.train import Shuffled

DEVICES = (8, 64, 1024)
VIRTUAL = (2, 8)
SIZES = (8, 32, 128)  # examples of a minibatch, by which the time of a device is measured
SHARED = 8192  # examples of the minibatch that is divided


class Machine(NamedTuple):
    """What a device and the network between devices are taken to do.

    rate: operations a second; None: the times of this machine's core, measured.
    product: seconds that a product takes however small it is, as it has to be launched.
    bandwidth: bytes a second that a device sends and receives.
    latency: seconds until a message arrives.
    """

    rate: float | None
    product: float
    bandwidth: float
    latency: float


MACHINES = {
    "machines of one core, 10 Gbit/s": Machine(None, 0.0, 1.25e9, 30e-6),
    "GPUs, 200 Gbit/s": Machine(THROUGHPUT, 5e-6, 25e9, 10e-6),
}


class Work(NamedTuple):
    """What one update of a network takes.

    operations: of one example, counted from the shapes.
    products: that follow each other, so that none can begin before the one before has ended.
    bytes: that every device has to have summed up over all, read from the compiled program.
    fixed, each: seconds of an update on a core of this machine: fixed + each × examples, fitted to what was measured.
    """

    operations: int
    products: int
    bytes: int
    fixed: float
    each: float


NETS = {
    "784-500-10": recipe(1),
    "784-500-500-500-10": recipe(3),
    "CIFAR-10, 64-128-256-256": PRESETS["cifar10"],
}

TEXT = """
How fast training would be on D devices that share each minibatch: θ is on all, each settles its own examples, and one
sum of the gradient over the devices follows. The time of an update is

> T(D) = t(b) + 2 (D − 1)/D · G/w + 2 ⌈log₂ D⌉ λ

with b examples of the minibatch on each device, G the bytes of the gradient, w the bandwidth and λ the latency of a
device: what a ring, and a tree for the first byte, take to sum. On *cores* of this machine t(b) is measured, fixed +
each · b; on *GPUs* it is n τ + b W/r, with W operations of an example and n products that follow each other, both
counted from the shapes, r = {rate:.0f} TFLOP/s (what published code comes to on an A100) and τ = {launch:.0f} µs to
launch one. Networks: w = {slow:.2f} GB/s and λ = {far:.0f} µs, and w = {quick:.0f} GB/s and λ = {near:.0f} µs.

The columns {columns} have the efficiency on several devices, which is the number of examples a second over D times
that of one device: first if every device keeps the minibatch of the settings ({own}), so that the minibatch of all
grows; then if a minibatch of {shared:,} is divided among them.

What is assumed: sending does not overlap with settling; devices are alike, and each has its own way to the network;
phases take a fixed number of steps, as by default; data come as fast as they are needed. How well a minibatch of so
many thousands learns is another question: rates would have to be found anew.

Messages of an update in the programs compiled for {virtual} virtual devices: {collectives}.
"""


def begin(experiment: Experiment) -> tuple[Any, Any]:
    """The trainer, and weights to begin with."""
    inputs, outputs = shapes(experiment)
    net, trainer = experiment.assemble(inputs, outputs)
    theta = jax.jit(net.init)(jax.random.key(0))
    if experiment.reads_out:
        theta = theta | trainer.F.cost.init(jax.random.key(1), 1.0)  # pyright: ignore[reportAttributeAccessIssue]
    return trainer, theta


def shapes(experiment: Experiment) -> tuple[Any, int]:
    return ((32, 32, 3) if experiment.convolves else 784), 10


def examples(experiment: Experiment, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Random ones."""
    inputs, outputs = shapes(experiment)
    random = np.random.default_rng(0)
    x = random.random((count, *np.atleast_1d(inputs)), np.float32)
    return x, np.eye(outputs, dtype=np.float32)[random.integers(outputs, size=count)]


def seconds(name: str, rounds: int) -> dict[str, float]:
    """Processor seconds of an update with this number of examples, the least of several rounds."""
    experiment = NETS[name]
    trainer, theta = begin(experiment)
    turns = {}
    for size in SIZES:
        feed = Shuffled(examples(experiment, size), size)
        state = trainer.init(theta, feed, jax.random.key(2))
        turns[size] = lambda feed=feed, state=state: jax.block_until_ready(trainer.advance(state, feed, 1))
    found = race(turns, rounds, time.process_time)
    return {str(size): float(spent.min()) for size, spent in found.items()}


def collectives(name: str, devices: int) -> dict[str, int]:
    """Messages between devices in the compiled update, their bytes, and how many of them are in a loop."""
    jax.config.update("jax_num_cpu_devices", devices)
    mesh = jax.make_mesh((devices,), ("examples",), axis_types=(AxisType.Auto,))
    experiment = NETS[name]
    trainer, theta = begin(experiment)
    rows = PartitionSpec("examples")

    def one(theta: Any, v: Any) -> Any:
        gradient = trainer.rule.learn(trainer.F, theta, v, trainer.rest(len(v[0])), jax.random.key(0)).gradient
        return jax.lax.pmean(gradient, "examples")

    shared = jax.shard_map(one, mesh=mesh, in_specs=(PartitionSpec(), rows), out_specs=PartitionSpec(), check_vma=False)
    v = jax.tree.map(jnp.asarray, examples(experiment, 2 * devices))
    text = jax.jit(shared).lower(theta, v).compile().as_text() or ""
    return count(text)


KINDS = "all-reduce|all-gather|reduce-scatter|collective-permute|all-to-all"
WIDTHS = {"f32": 4, "f64": 8, "s32": 4, "u32": 4, "pred": 1, "bf16": 2}


def count(text: str) -> dict[str, int]:
    """Collectives of a compiled program, their bytes, and those that are not in its entry, as those of loops are."""
    messages = sent = inside = 0
    entry = False
    for line in text.splitlines():
        if line.startswith("ENTRY"):
            entry = True
        elif line.startswith("}"):
            entry = False
        found = re.search(rf"= (.*?) (?:{KINDS})(?:-start)?\(", line)
        if found is None:
            continue
        messages += 1
        inside += not entry
        for kind, sizes in re.findall(r"(\w+)\[([\d,]*)\]", found[1]):
            sent += WIDTHS[kind] * int(np.prod([int(size) for size in sizes.split(",") if size] or [1]))
    return {"messages": messages, "bytes": sent, "in loops": inside}


def products(experiment: Experiment) -> int:
    """Those of an update that follow each other: in each step, layer after layer, and to the weights."""
    inputs, outputs = shapes(experiment)
    _, trainer = experiment.assemble(inputs, outputs)
    rule: Any = trainer.rule
    layers = len(experiment.layers(inputs, outputs).synapses)
    ways = {"forward": 1, "backward": 1, "both": 2}
    steps = sum(phase.steps * ways[getattr(phase, "order", "forward")] for phase in (rule.free, rule.nudged))
    return steps * layers + 1 + layers


def work(name: str, rounds: int, sent: int) -> Work:
    experiment = NETS[name]
    inputs, outputs = shapes(experiment)
    rule = experiment.assemble(inputs, outputs)[1].rule
    assert isinstance(rule, EquilibriumPropagation)
    spent = apart(f"scaling.seconds({name!r}, {rounds})", one_core())
    sizes, times = np.array([float(size) for size in spent]), np.array(list(spent.values()))
    each, fixed = np.polyfit(sizes, times, 1, w=1 / times)
    operations_each = operations.update(experiment.layers(inputs, outputs), rule)
    return Work(operations_each, products(experiment), sent, max(float(fixed), 0.0), float(each))


def update(machine: Machine, work: Work, devices: int, size: float) -> float:
    """T: seconds of an update in which each of the devices has `size` examples."""
    if machine.rate is None:
        settling = work.fixed + work.each * size
    else:
        settling = work.products * machine.product + size * work.operations / machine.rate
    if devices == 1:
        return settling
    sending = 2 * (devices - 1) / devices * work.bytes / machine.bandwidth
    return settling + sending + 2 * ceil(log2(devices)) * machine.latency


def efficiency(machine: Machine, work: Work, devices: int, own: int | None) -> float:
    """Examples a second over D times those of one device; `own` on each, or `SHARED` divided."""
    size = own or SHARED / devices
    alone = update(machine, work, 1, own or SHARED) / (own or SHARED)
    return alone / (update(machine, work, devices, size) / size)


def run(short: bool) -> Report:
    """Count, measure, predict."""
    rounds = 2 if short else 5
    sent = {name: {n: apart(f"scaling.collectives({name!r}, {n})") for n in VIRTUAL} for name in NETS}
    works = {name: work(name, rounds, sent[name][VIRTUAL[-1]]["bytes"]) for name in NETS}
    rows: list[dict[str, Any]] = []
    for where, machine in MACHINES.items():
        for name, each in works.items():
            own = NETS[name].learning.batch_size
            alone = own / update(machine, each, 1, own)
            rows.append(
                {
                    "devices": where,
                    "network": name,
                    "MFLOP an example": each.operations / 1e6,
                    "MB to sum": each.bytes / 1e6,
                    "one, examples/s": alone,
                    "1,024, examples/s": 1024 * alone * efficiency(machine, each, 1024, own),
                }
                | {f"{n:,}": f"{100 * efficiency(machine, each, n, own):.0f} %" for n in DEVICES}
                | {f"{n:,}, divided": f"{100 * efficiency(machine, each, n, None):.0f} %" for n in DEVICES}
            )
    (slow, quick) = MACHINES.values()
    text = TEXT.format(
        rate=(quick.rate or 0) / 1e12,
        launch=1e6 * quick.product,
        slow=slow.bandwidth / 1e9,
        far=1e6 * slow.latency,
        quick=quick.bandwidth / 1e9,
        near=1e6 * quick.latency,
        columns=", ".join(f"*{n:,}*" for n in DEVICES),
        own=" or ".join(str(n) for n in sorted({one.learning.batch_size for one in NETS.values()})),
        shared=SHARED,
        virtual=" and ".join(map(str, VIRTUAL)),
        collectives="; ".join(f"{name}: {told(found)}" for name, found in sent.items()),
    )
    return Report("Over many devices: a prediction", text, rows, lambda: draw(works))


def told(found: dict[int, dict[str, int]]) -> str:
    """What the programs have, in words."""
    ways = {f"{one['messages']}, of {one['bytes'] / 1e6:.2f} MB, {one['in loops']} in loops" for one in found.values()}
    return " or ".join(sorted(ways))


def draw(works: dict[str, Work]) -> Figure:
    """Efficiency over devices: a panel for each machine, and for minibatches that grow or are divided."""
    figure = Figure(figsize=(9, 6.4), layout="constrained")
    grid = figure.subplots(2, 2, sharex=True, sharey=True)
    every = [2**k for k in range(11)]
    for line, (where, machine) in zip(grid, MACHINES.items(), strict=True):
        for axes, (what, grows) in zip(line, (("grows", True), ("is divided", False)), strict=True):
            for style, name, each in styled(works):
                own = NETS[name].learning.batch_size if grows else None
                heights = [100 * efficiency(machine, each, n, own) for n in every]
                axes.semilogx(every, heights, base=2, label=name, **DOTS, **style)
            axes.set(title=f"{where}; the minibatch {what}", ylim=(0, 105))
            axes.set_xlabel("devices")
            axes.set_ylabel("efficiency (%)")
            axes.grid(alpha=0.3)
    grid[0, 0].legend()
    return figure

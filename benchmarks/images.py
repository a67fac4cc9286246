"""An update of a network for images beside eager PyTorch at published schedules, beside its bare convolutions, and its
memory."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import eqprop as ep
from benchmarks.apart import apart, one_core
from benchmarks.colours import TwoColours
from benchmarks.memory import peak
from benchmarks.report import Report, cell
from benchmarks.timing import Seconds, race, spread
from eqprop.errors import InputError
from eqprop.relax import Relaxation

try:
    import torch  # pyright: ignore[reportMissingImports]
    from torch import Tensor  # pyright: ignore[reportMissingImports]
    from torch.nn import functional as nn  # pyright: ignore[reportMissingImports]
except ModuleNotFoundError as error:
    raise InputError("the benchmark `images` compares with PyTorch, which is missing: pip install torch") from error

IMAGE, CHANNELS, CLASSES, BATCH, BETA = (32, 32, 3), (32, 64, 128, 128), 10, 128, 0.1
SWEEPS = (5, 20, 80)
TEXT = """
Minibatches of {batch} of CIFAR-10's shape (random), 3 × 3 convolutions {net} with max-pooling, ten linear outputs,
squared error, β = ±{beta}; one thread, seconds of processor time, contenders in turns. *Synchronous* is the step of
Laborieux et al. (2021), 250 free and 2 × 30 nudged ones; *two colours* that of Scellier et al. (2023), odd layers and
then even ones, 60 and 2 × 20 sweeps; at a quarter of their channels{cut}. *Theirs* is eager PyTorch as in their code:
forces by automatic differentiation of the interaction. *Ours* takes the same steps with `Gradient(epsilon=1)`, and
with `Block` on a network whose blocks are the two colours. Before timing, both are checked to find the same gradient
(a cosine of 0.99 for every kernel after 10 + 2 × 6 steps from rest; in float64 it is 1).

*Bare* is an update of two sweeps there and back and two nudged ones beside its convolutions alone: as many as it
needs, of the same shapes, forward and to the kernel, in parts of the same size. *Memory* is that of an update of so
many free sweeps: *temporary* is what XLA says the compiled program needs beside its arguments and results, *peak* the
greatest resident memory of a fresh process, compilation included.

At their schedules our update takes {synchronous:.2f} times as long as PyTorch's with synchronous steps, and
{colours:.2f} times with two colours. An update of ours takes {bare:.2f} times as long as its bare convolutions.
From {first} to {last} sweeps its temporary memory changes by {temporary:+.1f} % and its peak by {peak:+.1f} %.
"""


class Schedule(NamedTuple):
    """A network, its relaxations for ours, and the groups of layers that move at once for theirs."""

    net: ep.Hopfield
    relaxation: Callable[[int], Relaxation]
    groups: tuple[tuple[int, ...], ...]
    free: int
    nudged: int


SCHEDULES = {
    "synchronous": Schedule(
        ep.Hopfield.convolutional(IMAGE, CHANNELS, CLASSES),
        lambda steps: ep.Gradient(steps=steps, epsilon=1.0),
        ((0, 1, 2, 3, 4),),
        250,
        30,
    ),
    "two colours": Schedule(
        TwoColours.convolutional(IMAGE, CHANNELS, CLASSES),
        lambda steps: ep.Block(steps, omega=1.0),
        ((0, 2, 4), (1, 3)),
        60,
        20,
    ),
}


def problem(net: ep.Hopfield) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    y = np.eye(CLASSES, dtype=np.float32)[random.integers(CLASSES, size=BATCH)]
    return net.init(jax.random.key(0), gain=1.0), (random.normal(size=(BATCH, *IMAGE)).astype(np.float32), y)


def ours(schedule: Schedule, free: int, nudged: int, theta: Any, v: Any) -> Callable[[], Any]:
    F = ep.Total(schedule.net, ep.SquaredError())
    rule = ep.EquilibriumPropagation(ep.Symmetric(BETA), schedule.relaxation(free), schedule.relaxation(nudged))
    v, rest = jax.tree.map(jnp.asarray, v), schedule.net.rest(BATCH)
    return lambda: jax.block_until_ready(rule(F, theta, v, rest).gradient)


class Eager:
    """The same in PyTorch; `groups` are the layers that move at once."""

    def __init__(self, schedule: Schedule, free: int, nudged: int, theta: Any, v: Any):
        self.schedule, self.free, self.nudged = schedule, free, nudged
        weights = [np.array(theta["W"][synapse.name]) for synapse in schedule.net.synapses]
        *kernels, dense = weights
        height, width, _ = schedule.net.shapes[f"conv{len(kernels)}"]
        dense = dense.reshape(height, width, -1, CLASSES).transpose(2, 0, 1, 3).reshape(dense.shape)  # channels first
        self.W = [torch.tensor(k.transpose(3, 2, 0, 1).copy(), requires_grad=True) for k in kernels]
        self.W.append(torch.tensor(dense.copy(), requires_grad=True))
        self.b = [torch.tensor(np.array(theta["b"][layer]), requires_grad=True) for layer in schedule.net.free]
        self.x, self.y = torch.tensor(v[0].transpose(0, 3, 1, 2).copy()), torch.tensor(v[1])

    def sent(self, k: int, pre: Tensor) -> Tensor:
        """What layer k hears from the one before."""
        if k + 1 == len(self.W):
            return pre.flatten(1) @ self.W[k] + self.b[k]
        return nn.max_pool2d(nn.conv2d(pre, self.W[k], self.b[k], padding=1), 2)

    def phi(self, s: list[Tensor], layers: Any) -> Tensor:
        below = [self.x, *s]
        return torch.stack([(self.sent(k, below[k]) * s[k]).sum() for k in layers]).sum()

    def settle(self, s: list[Tensor], beta: float, steps: int) -> list[Tensor]:
        last = len(s) - 1
        for _ in range(steps):
            for group in self.schedule.groups:
                s = [u.detach().requires_grad_() for u in s]
                near = sorted({k for g in group for k in (g, g + 1) if k <= last})
                fields = torch.autograd.grad(self.phi(s, near), [s[k] for k in group])
                for k, field in zip(group, fields, strict=True):
                    if k < last:
                        s[k] = field.clamp(0, 1)
                    elif len(self.schedule.groups) == 1:
                        s[k] = field + beta * (self.y - s[k])
                    else:
                        s[k] = (field + beta * self.y) / (1 + beta)
        return [u.detach() for u in s]

    def update(self) -> list[Tensor]:
        """The gradient."""
        shapes = [shape[2:] + shape[:2] if len(shape) == 3 else shape for shape in self.schedule.net.shapes.values()]
        free = self.settle([torch.zeros(BATCH, *shape) for shape in shapes], 0.0, self.free)
        total: list[Tensor] = []
        for sign in (1, -1):
            s = self.settle(free, sign * BETA, self.nudged)
            slopes = torch.autograd.grad(self.phi(s, range(len(s))), [*self.W, *self.b])
            total = (
                [sign * g for g in slopes] if not total else [a + sign * g for a, g in zip(total, slopes, strict=True)]
            )
        return [-g / (2 * BETA * BATCH) for g in total]


def check(schedule: Schedule) -> None:
    """Both must find the same gradient, after few steps."""
    theta, v = problem(schedule.net)
    found = ours(schedule, 10, 6, theta, v)()
    theirs = Eager(schedule, 10, 6, theta, v).update()
    for synapse, g in zip(schedule.net.synapses[:-1], theirs, strict=False):
        a, b = np.ravel(found["W"][synapse.name]), g.numpy().transpose(2, 3, 1, 0).ravel()
        turn = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
        assert turn > 0.99, f"{synapse.name}: PyTorch does not compute what ours does, cosine {turn}"


def beside_torch(name: str, short: bool) -> dict[str, Any]:
    torch.set_num_threads(1)
    schedule = SCHEDULES[name]
    check(schedule)
    theta, v = problem(schedule.net)
    free, nudged = (schedule.free // 10, schedule.nudged // 10) if short else (schedule.free, schedule.nudged)
    turns = {"ours": ours(schedule, free, nudged, theta, v), "theirs": Eager(schedule, free, nudged, theta, v).update}
    turns["ours"]()  # compiles; PyTorch is warm from the check
    times = race(turns, 2 if short else 1, time.process_time, warm=True)  # one turn has hundreds of steps
    return beside(times["ours"], times["theirs"])


def beside(ours: Seconds, other: Seconds) -> dict[str, Any]:
    """Columns of the table."""
    return {"ours, s": spread(ours), "other, s": spread(other), "ours / other": spread(ours / other)}


def best(count: int = 2) -> tuple[Any, Any]:
    """Our update: a network with a readout, `count` free sweeps there and back, and two nudged ones."""
    net = ep.Hopfield.convolutional(IMAGE, CHANNELS)
    cost = ep.SoftmaxReadout.of(net, classes=CLASSES)
    _, v = problem(SCHEDULES["synchronous"].net)
    theta = net.init(jax.random.key(0)) | cost.init(jax.random.key(1))
    free, nudged = ep.Block(count, omega=1.0, order="both"), ep.Block(2, omega=1.0, order="backward")
    rule = ep.EquilibriumPropagation(ep.Symmetric(0.001), free, nudged)
    v, rest = jax.tree.map(jnp.asarray, v), net.rest(BATCH)

    def update(theta: Any) -> Any:
        return rule.learn(ep.Total(net, cost), theta, v, rest, jax.random.key(0)).gradient

    return update, theta


def convolutions(theta: Any, part: int = 8) -> Any:
    """The convolutions of that update, and nothing else, as a function of θ.

    For each synapse but the first: in a sweep there and back four (fields and feedback, twice), in a nudged one two for
    each of two phases, and for the gradient the field and the way to the kernel; of the first, one for the field,
    which is the same in all phases, and the way to the kernel.
    """
    kernels = theta["W"]
    sides = {name: 32 // 2**k for k, name in enumerate(ep.Hopfield.convolutional(IMAGE, CHANNELS).rest(1))}

    def convolve(image: Any, kernel: Any) -> Any:
        layout = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(image, kernel, (1, 1), "SAME", dimension_numbers=layout)

    def to_kernel(image: Any, field: Any) -> Any:
        turned = image.transpose(3, 1, 2, 0), field.transpose(1, 2, 0, 3)
        layout = ("NHWC", "HWIO", "NHWC")
        out = jax.lax.conv_general_dilated(*turned, (1, 1), [(1, 1), (1, 1)], dimension_numbers=layout)
        return out.transpose(1, 2, 0, 3)

    def one(kernel: Any, side: int, first: bool, start: Any) -> Any:
        examples = part if first else 2 * part
        image = jnp.full((examples, side, side, kernel.shape[2]), 1e-3) + start
        if first:  # once for the free phase; the others see the same
            return to_kernel(image, convolve(image, kernel))
        there = jnp.full((examples, side, side, kernel.shape[3]), 1e-3) + start
        back = kernel[::-1, ::-1].swapaxes(2, 3)

        def pair(_: int, carry: Any) -> Any:  # a field and a feedback
            image, there = carry
            return convolve(there, back), convolve(image, kernel)

        half = jax.tree.map(lambda a: a[:part], (image, there))
        half = jax.lax.fori_loop(0, 4, pair, half)
        image, there = jax.lax.fori_loop(0, 2, pair, (image + half[0].mean(), there))
        return to_kernel(image, convolve(image, kernel))

    def run(theta: Any) -> Any:
        def piece(_: int, total: Any) -> Any:
            found = {}
            for k, name in enumerate(sorted(kernels, key=lambda name: name != "input-conv1")):
                side = 32 if k == 0 else sides[name.split("-")[0]] // 2
                found[name] = total[name] + 1e-20 * one(theta["W"][name], side, k == 0, 1e-20 * total[name].mean())
            return found

        found = jax.lax.fori_loop(0, BATCH // part, piece, jax.tree.map(jnp.zeros_like, theta["W"]))
        return jax.tree.map(jnp.zeros_like, theta) | {"W": found}

    return run


def repeated(gradient: Callable[[Any], Any], theta: Any, times: int) -> Callable[[], Any]:
    """So many updates, each of which waits for the one before."""

    @jax.jit
    def run(theta: Any) -> Any:
        return jax.lax.fori_loop(
            0, times, lambda _, theta: jax.tree.map(lambda w, g: w - 1e-12 * g, theta, gradient(theta)), theta
        )

    return lambda: jax.block_until_ready(run(theta))


def beside_convolutions(short: bool) -> dict[str, Any]:
    update, theta = best()
    count = 2 if short else 5
    turns = {"ours": repeated(update, theta, count), "bare": repeated(convolutions(theta), theta, count)}
    times = {name: spent / count for name, spent in race(turns, 2 if short else 3, time.process_time).items()}
    return beside(times["ours"], times["bare"])


def megabytes(sweeps: int) -> dict[str, float]:
    """Of an update with this number of free sweeps; to be called in a fresh process."""
    update, theta = best(sweeps)
    program = jax.jit(update).lower(theta).compile()
    jax.block_until_ready(program(theta))
    analysis: Any = program.memory_analysis()
    return {"temporary, MB": analysis.temp_size_in_bytes / 1e6, "peak, MB": peak() / 1e6}


def run(short: bool) -> Report:
    calls = {
        f"{name}, {schedule.free} + 2 × {schedule.nudged}, beside PyTorch": f"beside_torch({name!r}, {short})"
        for name, schedule in SCHEDULES.items()
    }
    calls["2 both + 2 × 2 backward, beside bare convolutions"] = f"beside_convolutions({short})"
    calls |= {f"{sweeps} both + 2 × 2 backward, memory": f"megabytes({sweeps})" for sweeps in SWEEPS}
    columns = ("ours, s", "other, s", "ours / other", "temporary, MB", "peak, MB")
    rows: list[dict[str, Any]] = []
    for what, call in calls.items():
        print(f"  {what} …", flush=True)
        found = apart(f"images.{call}", one_core())
        print("    " + ", ".join(f"{name}: {cell(value)}" for name, value in found.items()), flush=True)
        rows.append({"update": what} | dict.fromkeys(columns) | found)
    synchronous, colours, bare = (row["ours / other"]["median"] for row in rows[:3])
    temporary, greatest = (100 * (rows[-1][f"{of}, MB"] / rows[3][f"{of}, MB"] - 1) for of in ("temporary", "peak"))
    text = TEXT.format(
        batch=BATCH,
        net="-".join(map(str, CHANNELS)),
        beta=BETA,
        cut=", and here a tenth of these steps" if short else "",
        synchronous=synchronous,
        colours=colours,
        bare=bare,
        first=SWEEPS[0],
        last=SWEEPS[-1],
        temporary=temporary,
        peak=greatest,
    )
    return Report("Networks for images: an update", text, rows)

"""The paper's schedule, minibatch by minibatch, beside the same in eager PyTorch, written in four ways."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax
import numpy as np
import optax

import eqprop as ep
from benchmarks.apart import apart
from benchmarks.report import Report
from benchmarks.timing import race, spread
from eqprop.errors import InputError
from eqprop.study.paper import TABLE_2

try:
    import torch  # pyright: ignore[reportMissingImports]
    from torch import Tensor  # pyright: ignore[reportMissingImports]
except ModuleNotFoundError as error:
    raise InputError("the benchmark `schedule` compares with PyTorch, which is missing: pip install torch") from error

SIZE, EPSILON = 20, 0.5
# States near 1 are sums of hundreds of products. Weights are smaller, and change by 3e-5 (the deepest network) or more.
STATE_ROUNDING, WEIGHT_ROUNDING = 3e-6, 3e-7
# Few, so that handing the training state over weighs little in a race that is much shorter than an epoch.
EXAMPLES = 1000

TEXT = """
The paper's training step (section 5.2): minibatches of 20, persistent particles, β = ±1 with a random sign, ε = 0.5,
a rate per layer, and its numbers of iterations (free/nudged). Every contender does all of it: gather the minibatch
and its particles, settle twice, write the particles back, update weights and biases. Before timing, all are checked to
make the same update from the same weights, for either sign. Data are random, of MNIST's shape, {examples} examples.

Ours is `eqprop.Trainer` with `Gradient`. The others are eager PyTorch with the same number of threads: *autograd*
(force by differentiating the energy) and *explicit* (force written out, input product repeated in every iteration)
are how public code does it; *by hand* has the input's drive computed once and products, biases and updates fused and in
place; *packed* goes further and updates all odd and all even layers by one product each, the best that we could make of
eager PyTorch. With two and three hidden layers nearly all of the time is in products of 20 × 500 × 500, where the
libraries are about as quick as each other: that leaves little to win. Ratios are
its time over ours: above 1, ours is quicker.{note}
"""


@dataclass(frozen=True)
class Schedule:
    """A network of the paper with its iterations and rates; `batches` make a turn of the race."""

    sizes: tuple[int, ...]
    free: int
    nudged: int
    rates: tuple[float, ...]
    batches: int

    @property
    def name(self) -> str:
        return f"{'-'.join(map(str, self.sizes))}, {self.free}/{self.nudged}"


SCHEDULES = tuple(
    Schedule((784, *row.hidden, 10), row.free_steps, row.nudged_steps, row.rates, batches)
    for row, batches in zip(TABLE_2.values(), (50, 8, 1), strict=True)
)


class Ours:
    """`eqprop.Trainer`."""

    def __init__(self, schedule: Schedule, theta: Any, v: Any, nudge: ep.Nudge | None = None):
        net = ep.Hopfield.layered(*schedule.sizes)
        free, nudged = (ep.Gradient(steps=steps, epsilon=EPSILON) for steps in (schedule.free, schedule.nudged))
        rates = net.per_layer(dict(zip(net.free, schedule.rates, strict=True)))
        self.trainer = ep.Trainer(
            ep.Total(net, ep.SquaredError()),
            ep.EquilibriumPropagation(nudge or ep.RandomSign(1.0), free, nudged),
            ep.Rated(optax.sgd(1.0), rates),
            persistent=True,
        )
        self.feed = ep.Shuffled(v, SIZE)
        self.state = self.trainer.init(theta, self.feed, jax.random.key(1))

    def train(self, batches: int) -> ep.TrainState:
        return jax.block_until_ready(self.trainer.advance(self.state, self.feed, batches))


class Eager:
    """The same in PyTorch; the ways differ in how they settle."""

    def __init__(self, schedule: Schedule, theta: Any, v: Any):
        self.schedule = schedule
        # Copies, because training is in place.
        self.W = [torch.tensor(np.asarray(W)) for W in theta["W"].values()]
        self.b = [torch.tensor(np.asarray(b)) for b in theta["b"].values()]
        self.x, self.y = map(torch.tensor, v)
        self.particles = [torch.zeros(len(self.x), size) for size in schedule.sizes[1:]]

    def train(self, batches: int) -> None:
        order = torch.randperm(len(self.x)).view(-1, SIZE)
        for index, sign in zip(order[:batches], torch.randint(2, (batches,)).tolist(), strict=True):
            self.minibatch(index, 2.0 * sign - 1)

    def minibatch(self, index: Tensor, beta: float) -> None:
        x, y, s = self.x[index], self.y[index], [particles[index] for particles in self.particles]
        free = s = self.settle(x, y, 0.0, s, self.schedule.free)
        nudged = self.settle(x, y, beta, s, self.schedule.nudged)
        for particles, state in zip(self.particles, free, strict=True):
            particles[index] = state
        before, after = [x, *free], [x, *nudged]
        for k, rate in enumerate(self.schedule.rates):
            contrast = after[k].T @ after[k + 1] - before[k].T @ before[k + 1]
            self.W[k] += rate / beta / SIZE * contrast
            self.b[k] += rate / beta * (after[k + 1] - before[k + 1]).mean(0)

    def settle(self, x: Tensor, y: Tensor, beta: float, s: Sequence[Tensor], steps: int) -> list[Tensor]:
        raise NotImplementedError

    def update_in_place(self, x: Tensor, beta: float, free: Sequence[Tensor], nudged: Sequence[Tensor]) -> None:
        """The update with its products added straight to the weights, for those who go for speed."""
        for k, rate in enumerate(self.schedule.rates):
            scale, change = rate / beta / SIZE, nudged[k] - free[k]
            self.b[k].add_(change.sum(0), alpha=scale)
            if k == 0:  # x is the same in both phases
                self.W[0].addmm_(x.T, change, alpha=scale)
            else:
                self.W[k].addmm_(nudged[k - 1].T, nudged[k], alpha=scale)
                self.W[k].addmm_(free[k - 1].T, free[k], alpha=-scale)


class Autograd(Eager):
    """Force by automatic differentiation of the energy."""

    def settle(self, x: Tensor, y: Tensor, beta: float, s: Sequence[Tensor], steps: int) -> list[Tensor]:
        for _ in range(steps):
            s = [u.detach().requires_grad_() for u in s]
            slopes = torch.autograd.grad(self.energy(x, y, beta, s), s)
            s = [(u - EPSILON * slope).clamp(0, 1) for u, slope in zip(s, slopes, strict=True)]
        return [u.detach() for u in s]

    def energy(self, x: Tensor, y: Tensor, beta: float, s: Sequence[Tensor]) -> Tensor:
        rates = [u.clamp(0, 1) for u in (x, *s)]
        F = torch.stack([(u**2).sum() / 2 for u in s]).sum() + beta / 2 * ((s[-1] - y) ** 2).sum()
        for (pre, post), W, b in zip(pairwise(rates), self.W, self.b, strict=True):
            F = F - (pre @ W * post).sum() - (post @ b).sum()
        return F


class Explicit(Eager):
    """Force written out, for each layer from both of its neighbours."""

    def settle(self, x: Tensor, y: Tensor, beta: float, s: Sequence[Tensor], steps: int) -> list[Tensor]:
        for _ in range(steps):
            layers, moved = [x, *s], []
            for k, u in enumerate(s):
                field = layers[k].clamp(0, 1) @ self.W[k] + self.b[k]
                if k + 1 < len(s):
                    field = field + s[k + 1].clamp(0, 1) @ self.W[k + 1].T
                force = ((u >= 0) & (u <= 1)) * field - u
                if k + 1 == len(s) and beta:
                    force = force + beta * (y - u)
                moved.append((u + EPSILON * force).clamp(0, 1))
            s = moved
        return list(s)


class ByHand(Eager):
    """Force written out with the input's drive computed once, bias and products fused, in place where possible."""

    @torch.inference_mode()
    def minibatch(self, index: Tensor, beta: float) -> None:
        x, y, s = self.x[index], self.y[index], [particles[index] for particles in self.particles]
        drive = torch.addmm(self.b[0], x, self.W[0])  # inputs lie in [0, 1], where ρ is the identity
        free = s = self.relax(drive, y, 0.0, s, self.schedule.free)
        nudged = self.relax(drive, y, beta, s, self.schedule.nudged)
        for particles, state in zip(self.particles, free, strict=True):
            particles[index] = state
        self.update_in_place(x, beta, free, nudged)

    def relax(self, drive: Tensor, y: Tensor, beta: float, s: Sequence[Tensor], steps: int) -> Sequence[Tensor]:
        back = [W.T for W in self.W]
        for _ in range(steps):
            moved = []
            for k, u in enumerate(s):
                field = torch.addmm(self.b[k], s[k - 1], self.W[k]) if k else drive
                if k + 1 < len(s):
                    field = torch.addmm(field, s[k + 1], back[k + 1])
                new = torch.lerp(u, field, EPSILON)
                if k + 1 == len(s) and beta:
                    new.add_(y - u, alpha=EPSILON * beta)
                moved.append(new.clamp_(0, 1))
            s = moved
        return s


class Packed(Eager):
    """Odd layers touch even layers only, so one matrix A holds all weights but the input's.

    A step is then two products of decent size, A and its transpose, however many layers there are (A's blocks of
    zeros are small: at most 500 × 10). The weights of single synapses are views of A, so that nothing is copied.
    """

    def __init__(self, schedule: Schedule, theta: Any, v: Any):
        super().__init__(schedule, theta, v)
        # With `across`, examples are columns: measured to be quicker when A is thin, and slower when it is not.
        self.across = len(schedule.sizes) == 3
        units, part = schedule.sizes[1:], []
        for k, size in enumerate(units):
            begin = sum(units[k % 2 : k : 2])
            part.append(slice(begin, begin + size))
        self.A = torch.zeros(sum(units[::2]), sum(units[1::2]))
        for k in range(1, len(units)):
            view = self.A.T[part[k - 1], part[k]] if k % 2 == 0 else self.A[part[k - 1], part[k]]
            self.W[k] = view.copy_(self.W[k])
        self.bias = [torch.cat(self.b[side::2]) for side in (0, 1)]
        self.b = [self.bias[k % 2][part[k]] for k in range(len(units))]
        self.sides = [torch.cat(self.particles[side::2], 1) for side in (0, 1)]
        self.particles = [self.sides[k % 2][:, part[k]] for k in range(len(units))]
        self.part = part

    def layers(self, sides: Sequence[Tensor]) -> list[Tensor]:
        return [sides[k % 2][:, part] for k, part in enumerate(self.part)]

    @torch.inference_mode()
    def minibatch(self, index: Tensor, beta: float) -> None:
        x, y, s = self.x[index], self.y[index], [side[index] for side in self.sides]
        drive = [bias.repeat(SIZE, 1) for bias in self.bias]
        drive[0][:, self.part[0]].addmm_(x, self.W[0])  # inputs lie in [0, 1], where ρ is the identity
        if self.across:
            drive, s = [u.T.contiguous() for u in drive], [u.T.contiguous() for u in s]
        free = s = self.relax(drive, s, y, 0.0, self.schedule.free)
        nudged = self.relax(drive, s, y, beta, self.schedule.nudged)
        if self.across:
            free, nudged = [u.T for u in free], [u.T for u in nudged]
        for side, state in zip(self.sides, free, strict=True):
            side[index] = state
        self.update_in_place(x, beta, self.layers(free), self.layers(nudged))

    def relax(self, drive: list[Tensor], s: list[Tensor], y: Tensor, beta: float, steps: int) -> list[Tensor]:
        (odd_drive, even_drive), (odd, even), A, At = drive, s, self.A, self.A.T
        last, outputs = (len(self.part) - 1) % 2, self.part[-1]
        for _ in range(steps):
            if self.across:
                moved = torch.addmm(odd_drive, A, even), torch.addmm(even_drive, At, odd)
            else:
                moved = torch.addmm(odd_drive, even, At), torch.addmm(even_drive, odd, A)
            # s + ε (field − s), in place of the field
            moved[0].lerp_(odd, 1 - EPSILON)
            moved[1].lerp_(even, 1 - EPSILON)
            if beta:
                new, old = ((u.T if self.across else u)[:, outputs] for u in (moved[last], (odd, even)[last]))
                new.add_(y - old, alpha=EPSILON * beta)
            odd, even = moved[0].clamp_(0, 1), moved[1].clamp_(0, 1)
        return [odd, even]


EAGER = {"autograd": Autograd, "explicit": Explicit, "by hand": ByHand, "packed": Packed}


def problem(schedule: Schedule, examples: int) -> tuple[Any, tuple[np.ndarray, np.ndarray]]:
    """Weights, and random data of MNIST's shape."""
    random = np.random.default_rng(0)
    x = random.random((examples, schedule.sizes[0]), np.float32)
    y = np.eye(schedule.sizes[-1], dtype=np.float32)[random.integers(schedule.sizes[-1], size=examples)]
    return ep.Hopfield.layered(*schedule.sizes).init(jax.random.key(0)), (x, y)


def check(schedule: Schedule) -> None:
    """All contenders must make the same of one minibatch: weights, biases and particles, for either sign of β."""
    theta, v = problem(schedule, SIZE)
    for beta in (1.0, -1.0):
        # A random sign is one-sided with the sign drawn; here it must be known.
        ours = Ours(schedule, theta, v, ep.OneSided(beta)).train(1)
        # JAX sorts dicts; `theta` has its layers in order.
        trees = ((ours.theta["W"], theta["W"]), (ours.theta["b"], theta["b"]), (ours.particles, theta["b"]))
        wanted = [tree[name] for tree, ordered in trees for name in ordered]
        for name, kind in EAGER.items():
            theirs = kind(schedule, theta, v)
            theirs.minibatch(torch.arange(SIZE), beta)
            found = [*theirs.W, *theirs.b, *theirs.particles]
            for k, (a, b) in enumerate(zip(wanted, found, strict=True)):
                message = f"{schedule.name}, β = {beta:g}: {name} does not compute what ours does"
                rounding = WEIGHT_ROUNDING if k < 2 * len(theirs.W) else STATE_ROUNDING
                np.testing.assert_allclose(b, a, rtol=0, atol=rounding, err_msg=message)


def measure(threads: int, short: bool) -> dict[str, dict[str, list[float]]]:
    """Seconds per minibatch of each contender in each round, for each network."""
    torch.set_num_threads(threads)
    seconds = {}
    for schedule in SCHEDULES:
        check(schedule)
        theta, v = problem(schedule, EXAMPLES)
        batches = -(-schedule.batches // 4) if short else schedule.batches
        contenders = {"ours": Ours(schedule, theta, v)} | {
            name: kind(schedule, theta, v) for name, kind in EAGER.items()
        }
        turns = {name: lambda one=one, n=batches: one.train(n) for name, one in contenders.items()}
        times = race(turns, rounds=3 if short else 7)
        seconds[schedule.name] = {name: (spent / batches).tolist() for name, spent in times.items()}
    return seconds


def run(short: bool) -> Report:
    """Race on one thread and on all."""
    if hasattr(os, "sched_getaffinity"):
        cores, note = os.sched_getaffinity(0), ""
        settings = {len(group): group for group in ({min(cores)}, cores)}
    else:
        settings = {os.cpu_count() or 1: None}
        note = " This system cannot bind a process to one core, so there are no rows for one thread."
    rows = []
    for threads, group in settings.items():
        for net, seconds in apart(f"schedule.measure({threads}, {short})", group).items():
            times = {name: np.array(spent) for name, spent in seconds.items()}
            rows.append(
                {"net, iterations": net, "threads": threads, "ours, ms per minibatch": spread(1e3 * times["ours"])}
                | {f"{name} / ours": spread(times[name] / times["ours"]) for name in EAGER}
            )
    rows.sort(key=lambda row: [schedule.name for schedule in SCHEDULES].index(row["net, iterations"]))
    title = "A training step of the paper, beside eager PyTorch"
    return Report(title, TEXT.format(examples=EXAMPLES, note=note), rows)

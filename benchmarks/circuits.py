"""An update of a resistive network beside PyTorch at the schedule of published code."""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import eqprop as ep
from benchmarks.report import Report
from benchmarks.timing import race, spread
from eqprop.errors import InputError

try:
    import torch  # pyright: ignore[reportMissingImports]
    from torch import Tensor  # pyright: ignore[reportMissingImports]
except ModuleNotFoundError as error:
    raise InputError("the benchmark `circuits` compares with PyTorch, which is missing: pip install torch") from error

SIZES, GAIN, BETA, RATE, SWEEPS, BATCHES = (784, 1024, 10), 480.0, 1.0, 1e-4, (4, 6), (4, 64)
TEXT = """
An update of a resistive network {net} of MNIST's size (random inputs), ideal diodes, β = ±{beta}, the same number of
sweeps in each of the three phases, gradient descent and projection included; one thread, milliseconds of processor
time, contenders in turns. *Theirs* is eager PyTorch as published code for resistive networks is written (Scellier
2024): each node goes to Σ g v / Σ g within its bounds, one layer after the other, each phase has its own gradient, and
what a layer hears is computed when it is visited. *Ours* is `Block(omega=1)` through the trainer. Before timing, both
are checked to change the conductances alike (in three updates, to a cosine of 0.999; what differs is rounding).
"""


def circuit() -> ep.Resistive:
    return ep.Resistive.layered(*SIZES, gain=GAIN)


def problem(batch: int, updates: int) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    x = random.uniform(size=(batch * updates, SIZES[0])) * (random.uniform(size=(batch * updates, SIZES[0])) < 0.2)
    y = np.eye(SIZES[-1], dtype=np.float32)[random.integers(SIZES[-1], size=len(x))]
    return circuit().init(jax.random.key(0), 1.0), (x.astype(np.float32), y)


def ours(batch: int, sweeps: int, updates: int) -> Callable[[], Any]:
    theta, v = problem(batch, updates)
    net, block = circuit(), ep.Block(sweeps, omega=1.0)
    rule = ep.EquilibriumPropagation(ep.Symmetric(BETA), block, block)
    trainer = ep.Trainer(ep.Total(net, ep.SquaredError()), rule, optax.sgd(RATE))
    feed = ep.InOrder(jax.tree.map(jnp.asarray, v), batch)
    state = trainer.init(theta, feed, jax.random.key(1))
    return lambda: jax.block_until_ready(trainer.advance(state, feed, updates).theta["W"])


class Eager:
    """The same in PyTorch: crossbars from the held nodes to the hidden ones and on, and rails at the outputs."""

    def __init__(self, batch: int, sweeps: int, updates: int):
        theta, (x, y) = problem(batch, updates)
        self.batch, self.sweeps, self.updates = batch, sweeps, updates
        self.start = {name: torch.tensor(np.array(g)) for name, g in theta["W"].items()}
        self.x, self.y = torch.tensor(x), torch.tensor(y)
        half = -(-SIZES[1] // 2)
        self.low = torch.tensor([0.0] * half + [-np.inf] * (SIZES[1] - half), dtype=torch.float32)
        self.high = torch.tensor([np.inf] * half + [0.0] * (SIZES[1] - half), dtype=torch.float32)

    def settle(self, held: Tensor, y: Tensor, hidden: Tensor, output: Tensor, beta: float) -> tuple[Tensor, Tensor]:
        first, last, rails = self.g.values()
        for _ in range(self.sweeps):
            heard = held @ first + output @ last.T
            hidden = torch.clamp(heard / (first.sum(0) + last.sum(1)), self.low, self.high)
            heard = hidden @ last + held[:, -2:] @ rails.reshape(2, -1) + beta * y
            output = heard / (last.sum(0) + rails.reshape(2, -1).sum(0) + beta)
        return hidden, output

    def powers(self, held: Tensor, hidden: Tensor, output: Tensor) -> list[Tensor]:
        """½ (v_i − v_j)² of each resistor, averaged over the minibatch."""

        def between(a: Tensor, b: Tensor) -> Tensor:
            own = (a**2).mean(0)[:, None] + (b**2).mean(0)
            return own / 2 - a.T @ b / len(a)

        return [between(held, hidden), between(hidden, output), between(held[:, -2:], output).ravel()]

    def __call__(self) -> dict[str, Tensor]:
        self.g = {name: g.clone() for name, g in self.start.items()}
        for k in range(self.updates):
            rows = slice(k * self.batch, (k + 1) * self.batch)
            x, y = GAIN * self.x[rows], self.y[rows]
            held = torch.cat([x, -x, torch.ones(len(x), 1), -torch.ones(len(x), 1)], 1)
            start = torch.zeros(len(x), SIZES[1]), torch.zeros(len(x), SIZES[-1])
            free = self.settle(held, y, *start, 0.0)
            up, down = (self.powers(held, *self.settle(held, y, *free, beta)) for beta in (BETA, -BETA))
            for g, plus, minus in zip(self.g.values(), up, down, strict=True):
                g.sub_(RATE * (plus - minus) / (2 * BETA)).clamp_(min=0)
        return self.g


def agree(batch: int, sweeps: int) -> None:
    """Refuse to compare what does not compute the same."""
    start, found = problem(batch, 3)[0]["W"], ours(batch, sweeps, 3)()
    expected = Eager(batch, sweeps, 3)()
    for name, g in expected.items():
        one, other = (jnp.ravel(jnp.asarray(w) - start[name]) for w in (found[name], g.numpy()))
        if float(jnp.vdot(one, other)) < 0.999 * float(jnp.linalg.norm(one) * jnp.linalg.norm(other)):
            raise InputError(f"PyTorch and eqprop disagree on {name}: the comparison would mean nothing")


def run(short: bool = False) -> Report:
    """Both at each size of minibatch and number of sweeps."""
    torch.set_num_threads(1)
    rows = []
    for batch in BATCHES:
        for sweeps in SWEEPS[:1] if short else SWEEPS:
            agree(batch, sweeps)
            updates = (40 if batch == BATCHES[0] else 10) // (2 if short else 1)
            contenders = {"theirs": Eager(batch, sweeps, updates), "ours": ours(batch, sweeps, updates)}
            times = race(contenders, 3 if short else 7, time.process_time)
            each = {name: spread(1e3 * seconds / updates) for name, seconds in times.items()}
            ratio = spread(times["theirs"] / times["ours"])
            rows.append({"minibatch": batch, "sweeps": sweeps} | each | {"theirs / ours": ratio})
    text = TEXT.format(net="-".join(map(str, SIZES)), beta=BETA)
    return Report("Resistive networks: an update", text, rows)

"""What a device is: the one screen that somebody with hardware has to read.

A device takes inputs, settles, and is read. It can be pushed at its outputs while it settles, and its parameters θ can
be set. No more is needed to train it: no model, no derivative. Four methods say all of that.
"""

import abc
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from eqprop.errors import InputError
from eqprop.types import Shape

Kind = Literal["current", "spring", "clamp"]
KINDS: tuple[Kind, ...] = ("current", "spring", "clamp")
Readings = dict[str, np.ndarray]


@dataclass(frozen=True)
class Range:
    """From `low` to `high`, in `unit`."""

    low: float
    high: float
    unit: str = "V"

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise InputError(f"low={self.low!r}, high={self.high!r}: give a range, the lower end first")

    @property
    def width(self) -> float:
        """How far it is from one end to the other."""
        return self.high - self.low

    def holds(self, values: Any, slack: float = 1e-6) -> bool:
        """Whether all values lie within, give or take the part `slack` of the width."""
        reach = slack * self.width
        return bool(np.all((np.asarray(values) >= self.low - reach) & (np.asarray(values) <= self.high + reach)))

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g} {self.unit}"


class Limit(NamedTuple):
    """What a device can do of one kind of push: the largest β (1 for a clamp), and the range of its values."""

    beta: float
    values: Range


class Drive(NamedTuple):
    """What acts on the outputs while the device settles, beside the inputs. There are three kinds:

    current   `values` are currents into the outputs, which stay as they are while it settles: β (y − v⁰) for the
              squared error, computed from the free reading v⁰. A Howland pump does that.
    spring    `values` are voltages y, each joined to its output by the conductance β (negative: it pushes away).
    clamp     `values` are the voltages at which the outputs are held: v⁰ + η (y − v⁰); β is 1.

    values: an array for the output layer, by its name, whose first axis counts examples.
    """

    kind: Kind
    beta: float
    values: Mapping[str, np.ndarray]


class Settled(NamedTuple):
    """What a settling came to: an array for each layer that is read, examples first; and how it went.

    ok: False if the device itself knows that the readings are not to be used; `reason` then says why.
    seconds: how long it took to come to rest, if the device knows; else 0.
    """

    readings: Mapping[str, np.ndarray]
    ok: bool = True
    seconds: float = 0.0
    reason: str = ""


@dataclass(frozen=True)
class Description:
    """What there is to know of a device before it is used.

    name: what complaints and reports call it.
    inputs: the shape of one example, with the range of its numbers.
    readings: the shape of each layer that is read, by name, with its range.
    theta: the shape of each part of θ by its path, as {"W/input-hidden": (130, 100)}; and the range of θ.
    nudges: the kinds of push that it can do, each with its limit.
    output: the layer that is pushed.
    batch: how many examples one call of `settle` may hold; None: any number.
    """

    name: str
    inputs: Shape
    input_range: Range
    readings: Mapping[str, Shape]
    reading_ranges: Mapping[str, Range]
    theta: Mapping[str, Shape]
    theta_range: Range
    nudges: Mapping[Kind, Limit] = field(default_factory=dict)
    output: str = "output"
    batch: int | None = 1

    def __post_init__(self) -> None:
        if odd := sorted({*self.readings} ^ {*self.reading_ranges}):
            raise InputError(f"reading_ranges of {sorted(self.reading_ranges)}: {odd[0]!r} is unknown or missing")
        if odd := sorted({*self.nudges} - {*KINDS}):
            raise InputError(f"nudges={sorted(self.nudges)}: {odd[0]!r} is none of {', '.join(KINDS)}")
        if self.output not in self.readings:
            raise InputError(f"output={self.output!r} is not read: there are {', '.join(self.readings)}")
        if self.batch is not None and self.batch < 1:
            raise InputError(f"batch={self.batch!r}: give the most examples of one call, or None for any number")


class Device(abc.ABC):
    """A thing that settles. Implement these four; a `Session` sees to time-outs, retries, checks and a log.

    Those who know bluesky: `describe` is describe, `write` is set, `settle` is trigger and read, `safe` is unstage.
    """

    @abc.abstractmethod
    def describe(self) -> Description:
        """What it is. It is asked once, when a session begins, and must answer without changing anything."""

    @abc.abstractmethod
    def write(self, theta: Any) -> Any:
        """Set the parameters θ, and return what was reached, as far as it can be read back: a tree like θ."""

    @abc.abstractmethod
    def settle(self, x: np.ndarray, drive: Drive | None) -> Settled:
        """Apply the inputs x (first axis: examples) and the drive, wait until it rests, and read.

        Without a drive it settles freely. Raise anything if something goes wrong; it is tried again.
        """

    @abc.abstractmethod
    def safe(self) -> None:
        """Take all power off what may be harmed. It is called at the end, on errors and on interrupts, always.

        It may be called more than once, and while another call hangs.
        """


class Remembers(abc.ABC):
    """A device that can go on just where it was, as one that is simulated: its hidden state and its random numbers."""

    @abc.abstractmethod
    def memory(self) -> dict[str, np.ndarray]:
        """All that the next readings depend on."""

    @abc.abstractmethod
    def recall(self, memory: Mapping[str, np.ndarray]) -> None:
        """Go back to what `memory` gave."""

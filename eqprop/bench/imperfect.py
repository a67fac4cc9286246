"""What is not ideal about a simulated bench: small functions of arrays and a NumPy generator, one a kind of fault."""

from dataclasses import dataclass

import numpy as np

from eqprop.errors import InputError


@dataclass(frozen=True)
class Imperfections:
    """The faults of a simulated bench. By default there are none; `Imperfections.usual()` has a usual lab's.

    Reading, as parts of a layer's range:
    bits: of the converter; None: it does not round.
    read_noise: the standard deviation of every reading.
    offset: that of a constant which each node adds while it is pushed one way, and of another the other way.

    Writing, as parts of the range of conductances:
    states: how many values a conductance can take, evenly spaced; None: all.
    stochastic: round up or down at random, such that the mean is right.
    write_noise: the standard deviation of what is reached, drawn anew at every write that changes the state.
    stuck: the part of all resistors that stay where they were at the beginning, whatever is written.
    drift: the part of the way to the lowest conductance that a resistor goes at each settling.

    The circuit itself:
    diode_spread: the standard deviation of the logarithm of saturation currents; only for real diodes.
    source_resistance: of each input's source.
    sweeps: after how many it is read, although it may not have come to rest; None: it has.
    """

    bits: int | None = None
    read_noise: float = 0.0
    offset: float = 0.0
    states: int | None = None
    stochastic: bool = False
    write_noise: float = 0.0
    stuck: float = 0.0
    drift: float = 0.0
    diode_spread: float = 0.0
    source_resistance: float = 0.0
    sweeps: int | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name in ("bits", "states", "sweeps"):
                least = 2 if name == "states" else 1
                if value is not None and (not isinstance(value, int) or value < least):
                    raise InputError(f"{name}={value!r}: give a whole number of {least} or more, or None")
            elif not 0 <= value < float("inf") or (name in ("stuck", "drift") and value > 1):
                raise InputError(f"{name}={value!r}: give 0 or more, and of stuck and drift at most 1")

    @classmethod
    def usual(cls) -> "Imperfections":
        """8-bit readings with 1 % noise, 64 conductances with 2 % noise from write to write."""
        return cls(bits=8, read_noise=0.01, states=64, write_noise=0.02)


def converted(u: np.ndarray, low: float, high: float, bits: int | None) -> np.ndarray:
    """What a converter of so many bits says of the voltages u; beyond its range it says the end of it."""
    u = np.clip(u, low, high)
    if bits is None:
        return u
    step = (high - low) / (2**bits - 1)
    return low + step * np.round((u - low) / step)


def level(g: np.ndarray, low: float, high: float, states: int, draw: np.ndarray | None) -> np.ndarray:
    """The number of the state nearest to g, or, with uniform numbers `draw`, one of the two next to it at random."""
    place = (np.clip(g, low, high) - low) / (high - low) * (states - 1)
    return np.floor(place + (0.5 if draw is None else draw))


def drifted(g: np.ndarray, low: float, part: float) -> np.ndarray:
    """Conductances a part of the way to the lowest."""
    return g + part * (low - g)

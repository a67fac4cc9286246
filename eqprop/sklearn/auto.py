"""What "auto" means: settings that follow from the number n of training examples, or from r = n / features."""

from collections.abc import Callable
from math import sqrt
from typing import Any

from eqprop.sklearn.rows import room


def nudge(r: float) -> float:
    """β: ½, and from r = 50 examples per feature on ½ √(50/r), but at least 0.1.

    A strong nudge keeps the network simple, which helps where examples are few. A weak one is nearer the gradient.
    """
    return min(0.5, max(0.1, 0.5 * sqrt(50 / r)))


def decay(r: float) -> float:
    """Weight decay: 2.5/r, but at most 0.1. It is for each step, and more examples are more steps."""
    return min(0.1, 2.5 / r)


def excess(r: float) -> float:
    """What the squared error of an output that goes beyond its target counts in a classifier: 50/r, but at most 1.

    Counted in full, it pulls every example to the target, which keeps the network simple. Counted little, it leaves the
    weights to examples that are not yet classified well.
    """
    return min(1.0, 50 / r)


def minibatch(n: int) -> int:
    """Examples in a minibatch: n/128, rounded up to a power of two, at least 32 and at most 128."""
    return min(128, max(32, room(n) // 128))


def epochs(n: int) -> int:
    """Epochs: 1,000,000/n for n examples, but at least 60 and at most 80."""
    return min(80, max(60, 1_000_000 // n))


def chosen(asked: Any, auto: Callable[[Any], Any], n: float) -> Any:
    """What was asked for, or what "auto" means for n examples, or for that many per feature."""
    return auto(n) if isinstance(asked, str) else asked

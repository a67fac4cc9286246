"""What is raised and warned of: each message names the argument, the value and the way out."""

import os
import sys
import warnings
from pathlib import Path

PACKAGE = str(Path(__file__).parent) + os.sep


class InputError(ValueError):
    """Something that was handed over cannot be used; the message says what to change.

    The command line prints the message alone, without a traceback. Everything else that goes wrong is
    a defect of eqprop and keeps its traceback.
    """


class DivergedError(ArithmeticError):
    """Training produced values that are no longer finite, or weights that learn nothing any more.

    The last checkpoint before that was kept.
    """


class LearningWarning(UserWarning):
    """Training goes on, but a setting keeps the network from learning, or from coming to rest; the message names it."""


def warn(words: str, kind: type[Warning] = LearningWarning) -> None:
    """Warn, in the name of the line outside of the package from which the call came."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(words, kind, stacklevel=level)

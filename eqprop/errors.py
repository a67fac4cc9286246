"""The errors that are the caller's to mend: their message names the argument, the value and the way out."""


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

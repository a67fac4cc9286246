"""The relatives beside each other: what `eqprop compare` trains and tells."""

from eqprop.compare import report
from eqprop.compare.contest import Contest, Trial, carry_out

__all__ = ["Contest", "Trial", "carry_out", "report"]

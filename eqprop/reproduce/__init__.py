"""The paper's experiments (section 5), as written, as published and fast; and studies of what it says about them."""

from eqprop.reproduce import accelerated, depth, epsilon, rates, report, sign
from eqprop.reproduce.campaign import Campaign, carry_out
from eqprop.reproduce.paper import NETS, PUBLISHED, TABLE_2, Trial, as_published, as_written, fast

__all__ = [
    "NETS",
    "PUBLISHED",
    "TABLE_2",
    "Campaign",
    "Trial",
    "accelerated",
    "as_published",
    "as_written",
    "carry_out",
    "depth",
    "epsilon",
    "fast",
    "rates",
    "report",
    "sign",
]

"""The paper's experiments (section 5): as written, and fast."""

from eqprop.reproduce import rates, report
from eqprop.reproduce.campaign import Campaign, carry_out
from eqprop.reproduce.paper import NETS, PUBLISHED, TABLE_1, Trial, as_published, as_written, fast

__all__ = [
    "NETS",
    "PUBLISHED",
    "TABLE_1",
    "Campaign",
    "Trial",
    "as_published",
    "as_written",
    "carry_out",
    "fast",
    "rates",
    "report",
]

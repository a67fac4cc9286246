"""Several processes that train one network: how they find each other, and what becomes of them when one is lost."""

from eqprop.cluster.joining import Place, find_place, join
from eqprop.cluster.watching import Watch

__all__ = ["Place", "Watch", "find_place", "join"]

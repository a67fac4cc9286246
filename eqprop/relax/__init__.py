"""Relaxations: s → a minimum of F. One algorithm a file."""

from eqprop.relax.base import Info, Relaxation, Stepwise, Trace
from eqprop.relax.block import Block
from eqprop.relax.errors import ErrorDescent
from eqprop.relax.flip import Flip
from eqprop.relax.flow import Flow
from eqprop.relax.forward import Forward
from eqprop.relax.gibbs import Gibbs
from eqprop.relax.gradient import Gradient
from eqprop.relax.langevin import Langevin
from eqprop.relax.loop import Observer, Settling
from eqprop.relax.motion import Echo, Motion
from eqprop.relax.spiking import Spiking

__all__ = [
    "Block",
    "Echo",
    "ErrorDescent",
    "Flip",
    "Flow",
    "Forward",
    "Gibbs",
    "Gradient",
    "Info",
    "Langevin",
    "Motion",
    "Observer",
    "Relaxation",
    "Settling",
    "Spiking",
    "Stepwise",
    "Trace",
]

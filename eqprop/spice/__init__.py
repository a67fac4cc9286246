"""Resistive networks in SPICE: their netlists, and ngspice's voltages beside the library's."""

from eqprop.boundary import guard
from eqprop.spice.comparison import Comparison, compare
from eqprop.spice.ngspice import SpiceError, installed, run, solve
from eqprop.spice.writing import STEEP, netlist

__all__ = ["STEEP", "Comparison", "SpiceError", "compare", "installed", "netlist", "run", "solve"]

globals().update(guard(globals(), __all__))

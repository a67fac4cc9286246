"""Hardware in the loop: a device that settles and is read takes the place of the energy and the relaxation."""

from eqprop.bench.certificate import Certificate, Expected
from eqprop.bench.checking import certify
from eqprop.bench.device import Description, Device, Drive, Limit, Range, Remembers, Settled
from eqprop.bench.faults import DeviceError, RefusedError
from eqprop.bench.log import read_log
from eqprop.bench.loop import fit, measure
from eqprop.bench.session import Session
from eqprop.bench.setups import Setup
from eqprop.bench.simulated import SimulatedBench
from eqprop.bench.solved import SolvedBench
from eqprop.bench.system import Asked, OnBench, trainer

__all__ = [
    "Asked",
    "Certificate",
    "Description",
    "Device",
    "DeviceError",
    "Drive",
    "Expected",
    "Limit",
    "OnBench",
    "Range",
    "RefusedError",
    "Remembers",
    "Session",
    "Settled",
    "Setup",
    "SimulatedBench",
    "SolvedBench",
    "certify",
    "fit",
    "measure",
    "read_log",
    "trainer",
]

"""Devices that are not perfect: how they are written (behind the optimizer) and how states are read (in the rule)."""

from eqprop.boundary import guard
from eqprop.device.aging import decay, drift
from eqprop.device.base import only
from eqprop.device.diodes import diode_spread
from eqprop.device.held import bounds, states, stuck, write_noise
from eqprop.device.read import Readings
from eqprop.device.steps import constant_step, device_to_device, linear_step, soft_bounds, up_down
from eqprop.device.writing import Behind, Writing
from eqprop.rule.reading import Exact, Reading

__all__ = [
    "Behind",
    "Exact",
    "Reading",
    "Readings",
    "Writing",
    "bounds",
    "constant_step",
    "decay",
    "device_to_device",
    "diode_spread",
    "drift",
    "linear_step",
    "only",
    "soft_bounds",
    "states",
    "stuck",
    "up_down",
    "write_noise",
]

globals().update(guard(globals(), __all__))

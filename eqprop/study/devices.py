"""From the settings of devices to how they are written and read."""

from math import inf
from typing import Any

import numpy as np

from eqprop.device import Exact, Reading, Readings, Writing
from eqprop.energy import Resistive
from eqprop.errors import InputError
from eqprop.study.options import CircuitOptions, DeviceOptions


def writing(chosen: DeviceOptions, circuit: CircuitOptions, seed: int) -> Writing:
    """How conductances are written, between the ends of their range if they have two."""
    for name in ("states", "write_noise", "soft_bounds"):
        if getattr(chosen, name) and circuit.most is None:
            raise InputError(
                f"{name}={getattr(chosen, name)} needs the range of conductances: give --most, and --least"
            )
    if chosen.states is None and chosen.rounding != DeviceOptions().rounding:
        raise InputError(f"rounding={chosen.rounding!r} does nothing, as there are no states: give --states as well")
    return Writing(
        states=chosen.states,
        rounding=chosen.rounding,
        noise=chosen.write_noise,
        dw_min_dtod=chosen.write_spread,
        up_down=chosen.up_down,
        soft_bounds=chosen.soft_bounds,
        stuck=chosen.stuck,
        nu=chosen.drift,
        w_min=None if circuit.most is None else circuit.least,
        w_max=circuit.most,
        parts=("W",),
        seed=seed,
    )


def reading(chosen: DeviceOptions, net: Resistive, seed: int) -> Reading:
    """How settled voltages are read; a hidden node is seen a little beyond 0 too, where noise would be cut off."""
    if chosen.bits is not None and not chosen.volts:
        raise InputError(f"bits={chosen.bits}: a converter has a range; give --volts for it")
    if chosen.reads != 1 and not chosen.read_noise:
        raise InputError(f"reads={chosen.reads} does nothing, as all readings are alike: give --read-noise as well")
    if (chosen.bits, chosen.read_noise, chosen.offset, chosen.reads, chosen.volts) == (None, 0.0, 0.0, 1, ()):
        return Exact()
    ends: dict[str, Any] = {}
    if chosen.volts:
        volts, sides = _volts(chosen, net), {layer: np.array(kinds) for layer, kinds in net.diodes}
        ends["low"] = {k: -v * np.where(sides.get(k, 0) == 1, 0.05, 1.0) for k, v in volts.items()}
        ends["high"] = {k: v * np.where(sides.get(k, 0) == -1, 0.05, 1.0) for k, v in volts.items()}
    return Readings(
        noise=chosen.read_noise or None,
        bits=chosen.bits,
        offset_spread=chosen.offset or None,
        repeats=chosen.reads,
        seed=seed,
        **ends,
    )


def _volts(chosen: DeviceOptions, net: Resistive) -> dict[str, float]:
    """How far each layer can be read; nodes behind the sources of inputs, as far as these go."""
    layers = [layer for layer in net.shapes if layer != "input"]
    if len(chosen.volts) not in (1, len(layers)) or not all(0 < volts < inf for volts in chosen.volts):
        raise InputError(f"volts={chosen.volts}: give one positive number, or one for each of {len(layers)} layers")
    each = chosen.volts * (len(layers) if len(chosen.volts) == 1 else 1)
    behind = {"input": net.gain} if "input" in net.shapes else {}
    return behind | dict(zip(layers, each, strict=True))

"""What the commands train: a device by its name, with the formula by which it learns and the θ that it begins with."""

import importlib
import os
import sys
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from eqprop import spice
from eqprop.bench.device import Device
from eqprop.bench.simulated import SimulatedBench
from eqprop.bench.solved import SolvedBench
from eqprop.cost import SquaredError
from eqprop.device import Readings, Writing
from eqprop.energy import Resistive
from eqprop.errors import InputError
from eqprop.total import Total
from eqprop.types import Seed, Theta


class Setup(NamedTuple):
    """A device, the F by which its parameters learn, and the θ that it begins with. A factory of yours returns one."""

    device: Device
    F: Total
    theta: Theta


def circuit() -> Resistive:
    """A 64-100-10 circuit for the digits, with conductances of a range of 20 to 1.

    An amplifier of 4 stands behind the hidden layer, in both directions: what a push at the outputs moves in the hidden
    layer would be lost in the noise of readings otherwise.
    """
    return Resistive.layered(64, 100, 10, gain=40.0, amplification=4.0, back=4.0, least=0.005, most=0.1)


def volts(net: Resistive) -> dict[str, Any]:
    """What is read: hidden nodes up to 4 V on the side of 0 to which their diodes keep them, outputs up to 2 V."""
    above = np.array(dict(net.diodes)["hidden"]) == 1
    return {
        "low": {"hidden": np.where(above, 0.0, -4.0), "output": -2.0},
        "high": {"hidden": np.where(above, 4.0, 0.0), "output": 2.0},
    }


def start(net: Resistive, seed: Seed) -> Theta:
    """Conductances in the lower half of their range, at random."""
    shapes = jax.eval_shape(net.init, jax.random.key(0))
    leaves, tree = jax.tree.flatten(shapes)
    keys = jax.random.split(jax.random.key(seed), len(leaves))
    middle = (net.least + net.most) / 2
    drawn = [
        jax.random.uniform(k, leaf.shape, minval=net.least, maxval=middle) for k, leaf in zip(keys, leaves, strict=True)
    ]
    theta = jax.tree.unflatten(tree, drawn)
    return theta | {"b": jax.tree.map(jnp.zeros_like, theta["b"])}


def simulated(seed: Seed = 0) -> Setup:
    """The circuit for the digits on a simulated bench, with the faults of a usual lab.

    Readings are of 8 bits with 1 % noise, and the mean of 16 is taken while it rests; there are 64 conductances in a
    range of 20 to 1, with 2 % noise from write to write.
    """
    net = circuit()
    reading = Readings(noise=0.01, bits=8, repeats=16, **volts(net), seed=seed)
    writing = Writing(
        w_min=net.least, w_max=net.most, states=64, rounding="nearest", noise=0.02, parts=("W",), seed=seed
    )
    device = SimulatedBench(net, reading, writing, seed=seed, beta=20.0)
    return Setup(device, Total(net, SquaredError()), start(net, seed))


def by_ngspice(net: Resistive, theta: Theta, x: np.ndarray, beta: float, y: np.ndarray | None) -> dict[str, np.ndarray]:
    """The voltages of one example as ngspice finds them."""
    v = (x[None], None if y is None else y[None])
    return {layer: volts[0] for layer, volts in spice.solve(Total(net, SquaredError()), theta, v, beta).items()}


def ngspice(seed: Seed = 0) -> Setup:
    """The same circuit, solved by ngspice one example at a time."""
    if not spice.installed():
        raise InputError("device 'ngspice': it is not installed; apt-get install ngspice, or take 'simulated'")
    net = circuit()
    device = SolvedBench(net, by_ngspice, name="ngspice", volts=10.0, beta=0.5)
    return Setup(device, Total(net, SquaredError()), start(net, seed))


def setup(name: str, seed: Seed = 0) -> Setup:
    """That of `simulated`, `ngspice`, or what the function `factory` of a module returns, by `module:factory`."""
    known = {"simulated": simulated, "ngspice": ngspice}
    if name in known:
        return known[name](seed)
    module, colon, factory = name.partition(":")
    if not (module and colon and factory):
        raise InputError(f"device {name!r}: give {', '.join(known)}, or module:factory for a device of your own")
    made = _made(name, module, factory)
    if not (isinstance(made, tuple) and len(made) == 3 and isinstance(made[0], Device) and isinstance(made[1], Total)):
        raise InputError(f"device {name!r} returned {type(made).__name__}: return eqprop.bench.Setup(device, F, theta)")
    return Setup(*made)


def _made(name: str, module: str, factory: str) -> Any:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` has it
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise InputError(f"device {name!r}: {error}; is its folder the one that you are in?") from error
    if not callable(make := getattr(found, factory, None)):
        raise InputError(f"device {name!r}: {module} has no function {factory!r}")
    return make()

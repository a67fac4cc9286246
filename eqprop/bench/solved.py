"""Any program that solves circuits as a bench, ngspice for one."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from eqprop.bench.device import Description, Device, Drive, Limit, Range, Settled
from eqprop.energy import Resistive
from eqprop.errors import InputError
from eqprop.tree import named
from eqprop.types import Theta

Solve = Callable[[Resistive, Theta, np.ndarray, float, np.ndarray | None], Mapping[str, np.ndarray]]
"""(net, θ, x, β, y) → the voltages of each layer, for one example; y is None where there is no nudge."""


class SolvedBench(Device):
    """The circuit `net` as `solve` sees it, one example after the other. A nudge is a conductance β to the target.

    solve: (net, θ, x, β, y) → {layer: voltages}.
    volts: the readings of all layers go from −volts to volts.
    beta: the largest β.
    """

    def __init__(
        self,
        net: Resistive,
        solve: Solve,
        *,
        name: str = "solver",
        volts: float = 1.0,
        beta: float = 100.0,
        output: str = "output",
    ):
        self.net, self.solve, self.name, self.volts, self.beta, self.output = net, solve, name, volts, beta, output
        self.theta: Any = None

    def describe(self) -> Description:
        """The circuit, with springs as its nudge."""
        volts, theta = Range(-self.volts, self.volts), named(jax.eval_shape(self.net.init, jax.random.key(0)))
        return Description(
            name=self.name,
            inputs=(self.net.inputs_expected,),
            input_range=Range(-1.0, 1.0, f"times {self.net.gain:g} V"),
            readings=self.net.shapes,
            reading_ranges=dict.fromkeys(self.net.shapes, volts),
            theta={name: leaf.shape for name, leaf in theta.items()},
            theta_range=Range(self.net.least, self.net.most, "S"),
            nudges={"spring": Limit(self.beta, volts)},
            output=self.output,
            batch=1,
        )

    def write(self, theta: Theta) -> Theta:
        """A program takes θ as it is."""
        self.theta = jax.tree.map(lambda g: np.asarray(g, np.float32), theta)
        return self.theta

    def settle(self, x: np.ndarray, drive: Drive | None) -> Settled:
        """Solve the circuit for each example."""
        if self.theta is None:
            raise InputError("settle before write: there are no conductances yet; write them first")
        rows = [self._one(x[i], drive, i) for i in range(len(x))]
        return Settled({layer: np.stack([np.asarray(row[layer]) for row in rows]) for layer in self.net.shapes})

    def _one(self, x: np.ndarray, drive: Drive | None, i: int) -> Mapping[str, np.ndarray]:
        if drive is None:
            return self.solve(self.net, self.theta, x, 0.0, None)
        return self.solve(self.net, self.theta, x, drive.beta, np.asarray(drive.values[self.output])[i])

    def safe(self) -> None:
        """A program harms nothing."""

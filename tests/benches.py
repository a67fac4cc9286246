"""A small circuit on a simulated bench, which tests of hardware in the loop share; one program serves them all."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import optax

import eqprop as ep
from eqprop import bench
from eqprop.device import Readings, Writing

NET = ep.Resistive.layered(3, 4, 2, gain=8.0, least=0.01, most=0.2)
F = ep.Total(NET, ep.SquaredError())
RNG = np.random.default_rng(0)
X = RNG.uniform(0, 1, (24, 3)).astype(np.float32)
Y = np.eye(2, dtype=np.float32)[(X[:, 0] > X[:, 1]).astype(int)]
THETA = NET.project(NET.init(jax.random.key(0), gain=0.3))
FEED = ep.Shuffled((X, Y), batch_size=8)
KEY = jax.random.key(1)
VOLTS = 4.0
NOISY: dict[str, Any] = {"bits": 10, "noise": 0.01}
"""How a device with noise is read."""
DRIFTING: dict[str, Any] = {"states": 64, "noise": 0.02, "lifetime": 1e4, "reset": NET.least}
"""How a device with few states, noise and drift is written."""


def simulated(
    beta: float = 2.0, writing: Mapping[str, Any] | None = None, net: ep.Resistive = NET, **reading: Any
) -> bench.SimulatedBench:
    """The circuit, read from −4 to 4 V, as options of `Readings` and `Writing` have it."""
    return bench.SimulatedBench(net, readings(**reading), writes(**writing or {}), beta=beta)


def readings(**options: Any) -> Readings:
    return Readings(low=-VOLTS, high=VOLTS, **options)


def writes(**options: Any) -> Writing:
    return Writing(w_min=NET.least, w_max=NET.most, rounding="nearest", **options)


def trainer(session: bench.Session, nudge: ep.Nudge | None = None, **more: Any) -> ep.Trainer:
    nudge = ep.Symmetric(0.2) if nudge is None and "eta" not in more else nudge
    return bench.trainer(session, F, ADAM, nudge, metrics=METRICS, **more)


ADAM = optax.adam(0.005)  # functions are equal to themselves only, and so are programs that are made of them
METRICS = {"error": F.cost.misclassified}


def flat(tree: Any) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)]).astype(float)


def apart(a: Any, b: Any) -> float:
    return float(np.linalg.norm(flat(a) - flat(b)) / np.linalg.norm(flat(b)))

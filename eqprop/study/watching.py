"""What the layers of a trained network come to while an image settles, and while it is nudged."""

from dataclasses import replace

import numpy as np

from eqprop.relax import Block
from eqprop.study.experiment import Setup
from eqprop.train.feed import rows_of
from eqprop.types import Theta

FREE, NUDGED = (1, 2, 5, 20), (1, 5, 20)  # the sweeps after which to look


def settling_maps(setup: Setup, theta: Theta, *, beta: float = 0.5) -> dict[str, dict[str, np.ndarray]]:
    """The first test image, and each layer after some sweeps of a free phase, and of one nudged to its class."""
    v = rows_of(setup.data.test.v, 0, 1)
    s, seen = setup.trainer.rest(1), {"input": {"image": np.asarray(v[0][0])}}
    for phase, nudge, moments in (("free", 0.0, FREE), ("nudged", beta, NUDGED)):
        for before, t in zip((0, *moments), moments, strict=False):
            s, _ = replace(Block(omega=1.0), steps=t - before)(setup.trainer.F, theta, v, nudge, s)
            for layer, u in s.items():
                seen.setdefault(layer, {})[f"{phase} {t}"] = np.asarray(u[0])
    return seen

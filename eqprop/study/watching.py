"""What the layers of a trained network come to while an image settles, and while it is nudged."""

import jax
import numpy as np

from eqprop.relax import Block
from eqprop.study.experiment import Setup
from eqprop.train.feed import rows_of
from eqprop.types import Theta

FREE, NUDGED = (1, 2, 5, 20), (1, 5, 20)  # the sweeps after which to look
BLOCK = Block(omega=1.0)


def settling_maps(setup: Setup, theta: Theta, *, beta: float = 0.5) -> dict[str, dict[str, np.ndarray]]:
    """The first test image, and each layer after some sweeps of a free phase, and of one nudged to its class.

    Where outputs are a readout, the last of all is the softmax of it.
    """
    F, v = setup.trainer.F, rows_of(setup.data.test.v, 0, 1)
    name = setup.data.classes[int(v[1][0].argmax())]
    s, seen = setup.trainer.rest(1), {"input": {f"class {name}": np.asarray(v[0][0])}}
    for phase, nudge, moments in (("free", 0.0, FREE), ("nudged", beta, NUDGED)):
        settling = BLOCK.init(s)
        for before, t in zip((0, *moments), moments, strict=False):
            settling, _ = BLOCK.advance(F, theta, v, nudge, settling, t - before)
            shown = {layer: u[0] for layer, u in settling.s.items()}
            if setup.experiment.reads_out:
                shown["readout"] = jax.nn.softmax(F.predict(theta, v, shown))
            for layer, u in shown.items():
                seen.setdefault(layer, {})[f"{phase}, sweep {t}"] = np.asarray(u)
        s = settling.s
    return seen

"""Pictures: numbers in, a matplotlib figure out. Nothing here opens a window or writes a file.

`docs/gallery.md` shows them all. `STYLES` and `styled` are for figures of your own that look like these.
"""

from eqprop.boundary import guard
from eqprop.plots.distribution import spread
from eqprop.plots.gradient import against_residual, gradient_error
from eqprop.plots.images import feature_maps, filters
from eqprop.plots.learning import angles, learning_curve, learning_curves, modes, rivals, weight_changes
from eqprop.plots.memory import capacity, completion
from eqprop.plots.network import confusion_matrix, receptive_fields
from eqprop.plots.oscillators import locking
from eqprop.plots.phases import energy, settling, states
from eqprop.plots.schematic import circuit
from eqprop.plots.stream import tracking
from eqprop.plots.style import FIRST, SECOND, STYLES, styled
from eqprop.plots.trials import parallel_coordinates

__all__ = [
    "FIRST",
    "SECOND",
    "STYLES",
    "against_residual",
    "angles",
    "capacity",
    "circuit",
    "completion",
    "confusion_matrix",
    "energy",
    "feature_maps",
    "filters",
    "gradient_error",
    "learning_curve",
    "learning_curves",
    "locking",
    "modes",
    "parallel_coordinates",
    "receptive_fields",
    "rivals",
    "settling",
    "spread",
    "states",
    "styled",
    "tracking",
    "weight_changes",
]

globals().update(guard(globals(), __all__))

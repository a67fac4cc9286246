"""Figures in a run's folder."""

import io
from typing import TYPE_CHECKING

from eqprop.files import write_atomic
from eqprop.train import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def save_figure(run: Run, name: str, figure: "Figure") -> None:
    """As name.png, whole or not at all."""
    picture = io.BytesIO()
    figure.savefig(picture, dpi=150)
    write_atomic(run.folder / f"{name}.png", picture.getvalue())

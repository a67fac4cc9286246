"""The order of Scellier et al. (2023): odd layers, then even ones."""

import eqprop as ep


class TwoColours(ep.Hopfield):
    """Every other layer at once: no synapse joins two of them."""

    @property
    def blocks(self) -> tuple[tuple[str, ...], ...]:
        layers = tuple(self.free)
        return layers[::2], layers[1::2]

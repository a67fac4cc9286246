"""Receptive fields: how strongly a unit is pulled by what leads to it, for any system.

That is −∂²F/∂s_i∂u, where u is the layer before the unit's, or the input. Where units interact by products of their
activations, as in all networks of the paper, it is the weight W_ji times the slopes of both activations, taken
in the middle of their range.
"""

import jax
import jax.numpy as jnp
import numpy as np

from eqprop.compile import compiled
from eqprop.page.held import INPUT
from eqprop.page.scene import Scene
from eqprop.total import System
from eqprop.types import Array, Layers, Theta


def source(scene: Scene, layer: str) -> str:
    """The layer before this one, or the input."""
    layers = list(scene.F.space.shapes)
    place = layers.index(layer)
    return layers[place - 1] if place else INPUT


def field(scene: Scene, theta: Theta, layer: str, unit: int) -> np.ndarray:
    """What leads to one unit, in the shape of the layer that it comes from."""
    return _shaped(
        scene, layer, _fields(scene.F, theta, *_middle(scene), jnp.array([unit]), layer, source(scene, layer))
    )[0]


def first_fields(scene: Scene, theta: Theta, layer: str, count: int) -> np.ndarray:
    """What leads to each of the first units. Of feature maps, the unit in the middle of each map."""
    shape = scene.F.space.shapes[layer]
    units = np.arange(count)
    if len(shape) == 3:
        height, width, channels = shape
        count = min(count, channels)
        units = (height // 2 * width + width // 2) * channels + np.arange(count)
    return _shaped(
        scene, layer, _fields(scene.F, theta, *_middle(scene), jnp.asarray(units), layer, source(scene, layer))
    )


def _shaped(scene: Scene, layer: str, found: Array) -> np.ndarray:
    before = source(scene, layer)
    shape = scene.shape if before == INPUT else scene.F.space.shapes[before]
    return np.asarray(found).reshape(len(found), *shape)


def _middle(scene: Scene) -> tuple[Array, Layers]:
    """An input and a state halfway between their bounds; 0 where there are none."""
    low, high = scene.bounds
    middle = jax.tree.map(lambda a, b: jnp.where(jnp.isfinite(a) & jnp.isfinite(b), (a + b) / 2, 0.0), low, high)
    pixels = np.full(scene.shape, (scene.low + scene.high) / 2, np.float32)
    return jnp.asarray(scene.encode(pixels)), middle


@compiled
def _fields(F: System, theta: Theta, x: Array, s: Layers, units: Array, layer: str, before: str) -> Array:
    def pull(u: Array, unit: Array) -> Array:
        """What pulls at the unit, if u is what leads to it."""
        at = (u, s) if before == INPUT else (x, s | {before: u})
        return F.force(theta, (at[0], None), 0.0, at[1], (layer,))[layer].ravel()[unit]

    return jax.vmap(jax.grad(pull), in_axes=(None, 0))(x if before == INPUT else s[before], units)

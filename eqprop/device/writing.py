"""All effects of writing in one object, in the order in which a device has them."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from eqprop.device.aging import decay, drift
from eqprop.device.base import among, check_deviation, only
from eqprop.device.held import Rounding, bounds, lowest, states, stuck, write_noise
from eqprop.device.steps import constant_step, device_to_device, soft_bounds, up_down
from eqprop.errors import InputError
from eqprop.types import Key, Seed, Theta


class Behind(eqx.Module):
    """An optimizer, and devices that carry out its updates. What is data in the optimizer stays so."""

    optimizer: Any
    devices: optax.GradientTransformation

    def init(self, params: Theta) -> tuple[Any, Any]:
        """The state before the first update."""
        return self.optimizer.init(params), self.devices.init(params)

    def update(self, updates: Theta, state: Any, params: Theta | None = None) -> tuple[Theta, tuple[Any, Any]]:
        """What the devices make of the optimizer's updates."""
        wanted, first = self.optimizer.update(updates, state[0], params)
        written, second = self.devices.update(wanted, state[1], params)
        return written, (first, second)


@dataclass(frozen=True, kw_only=True)
class Writing:
    """How devices are written; each effect is off unless it is given. `behind(optimizer)` is the optimizer with them.

    They follow each other as here: how large a step is, what it is rounded to, noise, ageing, bounds, stuck devices.

    dw_min, dw_min_std, dw_min_dtod: the step of a pulse, its noise and its spread (`constant_step`); without dw_min,
        updates of any size, with dw_min_std relative to each (`write_noise`).
    up_down, up_down_dtod: steps up are larger than steps down (`up_down`).
    soft_bounds: steps shrink towards the bounds (`soft_bounds`).
    states, rounding: levels between w_min and w_max (`states`).
    noise: standard deviation of what a write ends at, as a share of w_max − w_min (`write_noise`).
    lifetime, reset; nu, nu_dtod, t_0: relaxation (`decay`) and power law (`drift`) from update to update.
    w_min, w_max, ratio: the range (`bounds`), by two of them: ratio is w_max/w_min.
    stuck, stuck_at: the share of devices that never change, and where they are (`stuck`).
    parts: which parts of θ are devices, as ("W",); empty: all.
    seed: what everything random follows from.

        >>> devices = Writing(w_max=1.0, ratio=20.0, states=64, noise=0.02)
        >>> optimizer = devices.behind(optax.sgd(0.1))
    """

    dw_min: float | None = None
    dw_min_std: float = 0.0
    dw_min_dtod: float = 0.0
    up_down: float = 0.0
    up_down_dtod: float = 0.0
    soft_bounds: bool = False
    states: int | None = None
    rounding: Rounding = "stochastic"
    noise: float = 0.0
    lifetime: float | None = None
    reset: float = 0.0
    nu: float = 0.0
    nu_dtod: float = 0.0
    t_0: float = 1.0
    w_min: float | None = None
    w_max: float | None = None
    ratio: float | None = None
    stuck: float = 0.0
    stuck_at: float | None = None
    parts: tuple[str, ...] = ()
    seed: Seed = 0

    def __post_init__(self) -> None:
        check_deviation(noise=self.noise)
        if self.dw_min is not None and self.states is not None:
            raise InputError(f"dw_min={self.dw_min!r} and states={self.states!r} both round updates: give one of them")
        if self.stuck_at is not None and self.range and not self.range[0] <= self.stuck_at <= self.range[1]:
            raise InputError(f"stuck_at={self.stuck_at!r} is outside of the range {self.range}: give a value in it")
        self.effects()  # each refuses what it cannot do

    @property
    def range(self) -> tuple[float, float] | None:
        """w_min and w_max, or None."""
        if self.w_min is self.w_max is self.ratio is None:
            return None
        return lowest(self.w_min, self.w_max, self.ratio), self.w_max  # pyright: ignore[reportReturnType]

    @property
    def ages(self) -> bool:
        """Whether devices change while nobody writes them."""
        return self.lifetime is not None or bool(self.nu or self.nu_dtod)

    def effects(self) -> list[optax.GradientTransformation]:
        """The effects that are on, in order."""
        found: list[Any] = []
        relative = self.dw_min_std if self.dw_min is None else 0.0
        if self.dw_min is not None:
            found.append(constant_step(self.dw_min, self.dw_min_std, seed=self.seed))
        if self.dw_min_dtod:
            found.append(device_to_device(self.dw_min_dtod, self.seed))
        if self.up_down or self.up_down_dtod:
            found.append(up_down(self.up_down, self.up_down_dtod, self.seed))
        if self.soft_bounds:
            found.append(soft_bounds(*self._range("soft_bounds=True")))
        if self.states is not None:
            w_min, w_max = self._range(f"states={self.states!r}")
            found.append(states(self.states, w_min, w_max, self.rounding, self.seed))
        if self.noise or relative:
            low, high = self._range(f"noise={self.noise!r}") if self.noise else (0.0, 1.0)
            found.append(write_noise(relative, self.noise * (high - low), self.seed))
        if self.lifetime is not None:
            found.append(decay(self.lifetime, self.reset))
        if self.nu or self.nu_dtod:
            found.append(drift(self.nu, self.nu_dtod, self.t_0, self.seed))
        if self.range:
            found.append(bounds(*self.range))
        if self.stuck:
            found.append(stuck(self.stuck, self.stuck_at, self.seed))
        return found

    def behind(self, optimizer: Any) -> Any:
        """The optimizer, an Optax one or a `Rated`, whose updates devices carry out; itself if no effect is on."""
        return Behind(optimizer, transformation(self)) if self.effects() else optimizer

    def start(self, theta: Theta, key: Key) -> Theta:
        """θ with every device somewhere in its range, uniformly, on one of its states if it has some."""
        low, high = self._range("start")
        leaves, tree = jax.tree.flatten(theta)
        chosen = jax.tree.leaves(among(theta, self.parts)) if self.parts else [True] * len(leaves)
        drawn = []
        for device, w, k in zip(chosen, leaves, jax.random.split(key, len(leaves)), strict=True):
            part = jax.random.uniform(k, w.shape, w.dtype)
            if self.states is not None:
                part = jnp.round(part * (self.states - 1)) / (self.states - 1)
            drawn.append(jnp.clip(low + (high - low) * part, low, high) if device else w)
        return tree.unflatten(drawn)

    def _range(self, what: str) -> tuple[float, float]:
        if not self.range:
            raise InputError(f"{what} needs the range of the devices: give w_max, and w_min or ratio")
        return self.range


@cache  # the same functions for the same devices, so that nothing compiles twice
def transformation(writing: Writing) -> optax.GradientTransformation:
    """All effects that are on, one after the other."""
    written = optax.chain(*writing.effects())
    return only(written, *writing.parts) if writing.parts else written

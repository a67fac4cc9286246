"""A trained network in one file: what it is, how it settles, and its weights."""

from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import optax

from eqprop.boundary import CHECKED, misfit
from eqprop.errors import InputError
from eqprop.store import checkpoint
from eqprop.store.schema import fitted
from eqprop.store.spec import Unwritable, described, rebuilt
from eqprop.total import examples
from eqprop.train import Trainer, TrainState
from eqprop.train.trainer import weights_of
from eqprop.tree import named
from eqprop.types import Array, Theta

THETA, TRAINER, REASON = "theta", "trainer", "reason"
PARTS = ("F", "rule", "persistent")

Given = Annotated[Trainer, CHECKED]


def predict(trainer: Given, theta: Theta | TrainState, x: Any) -> Array:
    """The outputs for inputs as they come: `.argmax(1)` are the classes.

    trainer: what was trained, or what `load` gave.
    theta: its weights, or the state of a training, which has them.
    x: inputs in any form that `examples` takes, images and bytes too.

        >>> import eqprop as ep, jax, numpy as np
        >>> net = ep.Hopfield.layered(4, 2)
        >>> trainer = ep.Trainer(ep.Total(net, ep.SquaredError()), ep.EquilibriumPropagation(), optax.adam(0.01))
        >>> predict(trainer, net.init(jax.random.key(0)), np.zeros((3, 2, 2), np.uint8)).shape
        (3, 2)
    """
    _check(trainer)
    return trainer.predict(weights_of(theta), examples(trainer.F, x))


def save(
    path: str | Path,
    trainer: Given,
    theta: Theta | TrainState,
    notes: dict[str, Any] | None = None,
) -> None:
    """Keep a trained network in one safetensors file, without pickle: `load` gives it back.

    The file has the weights θ, and what F and the rule are, where these are made of the library's classes. Of an F of
    your own it has the weights alone, and `load(path, trainer)` asks for the rest. Optimizer and metrics are not in it;
    a training to go on with is what `Run` keeps. `notes` are yours, for JSON.
    """
    _check(trainer)
    path = Path(path)
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent} to save {path.name} in: make it first")
    if path.is_dir():
        raise InputError(
            f"path={str(path)!r} is a folder: give the name of a file, as {str(path / 'network.safetensors')!r}"
        )
    arrays = jax.tree.map(jnp.asarray, weights_of(theta))  # a part may be a number
    checkpoint.save(path, arrays, told(trainer, arrays) | {"notes": notes or {}})


def told(trainer: Trainer | None, theta: Theta) -> dict[str, Any]:
    """What is noted beside the weights: how θ is built, and what the trainer is, or why it cannot be said."""
    leaves, structure = jax.tree.flatten(theta)
    try:
        notes: dict[str, Any] = {THETA: described(jax.tree.unflatten(structure, list(named(theta))))}
    except Unwritable as error:
        raise InputError(f"theta has {error}: give dicts, lists and tuples of arrays") from error
    if len(named(theta)) != len(leaves):
        raise InputError("theta has two parts of one name: give them names that differ when written out")
    try:
        return notes | {TRAINER: trainer and {part: described(getattr(trainer, part)) for part in PARTS}}
    except Unwritable as error:
        return notes | {REASON: str(error)}


def load(path: str | Path, trainer: Annotated[Trainer | None, CHECKED] = None) -> tuple[Trainer, Theta]:
    """What `save` kept: the trainer and θ, for `predict(*load(path), x)`.

    path: the file, or the folder of a run that `eqprop train` left.
    trainer: for an F of your own, which no file can hold.

    The trainer has no optimizer: to train on, `dataclasses.replace(trainer, optimizer=optax.adam(0.001))`.

        >>> import eqprop as ep, jax, tempfile
        >>> net = ep.Hopfield.layered(4, 2, activation="tanh")
        >>> trainer = ep.Trainer(ep.Total(net, ep.SquaredError()), ep.EquilibriumPropagation(), optax.adam(0.01))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save(f"{folder}/net.safetensors", trainer, net.init(jax.random.key(0)))
        ...     again, theta = load(f"{folder}/net.safetensors")
        >>> again.F.energy == net, theta["b"]["output"].tolist()
        (True, [0.0, 0.0])
    """
    path = Path(path)
    path = path / "weights.safetensors" if path.is_dir() else path
    arrays, notes = checkpoint.read(path)
    if trainer is None:
        if not notes.get(TRAINER):
            why = notes.get(REASON, "it has the weights alone")
            raise InputError(f"{path} does not say what the network is ({why}): give load(path, trainer)")
        trainer = _rebuilt_trainer(path, notes[TRAINER])
    _check(trainer)
    if THETA not in notes:
        raise InputError(f"{path} is not a network that eqprop.save kept, or a run of an earlier version kept it")
    return trainer, _rebuilt_weights(path, notes[THETA], arrays)


def _rebuilt_trainer(path: Path, told: Any) -> Trainer:
    parts = fitted(dict[str, Any], told, f"{path}: what it says of the network")
    if lacking := [part for part in PARTS if part not in parts]:
        raise InputError(f"{path} does not say the {lacking[0]} of the network: give load(path, trainer)")
    try:
        return Trainer(optimizer=NO_OPTIMIZER, **{part: rebuilt(parts[part]) for part in PARTS})
    except (InputError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} describes no network that can be ({error}): restore it") from error


def _rebuilt_weights(path: Path, told: Any, arrays: dict[str, Any]) -> Theta:
    tree = rebuilt(told)
    if odd := sorted({*map(str, jax.tree.leaves(tree))} ^ arrays.keys()):
        raise InputError(f"{path} is damaged: {odd[0]!r} is in its notes or among its arrays, and not in both")
    theta = jax.tree.map(lambda name: jnp.asarray(arrays[name]), tree)
    if (wrong := misfit(Theta, theta)) is not None:
        raise InputError(f"{path} {wrong}")
    return theta


def _check(trainer: Trainer) -> None:
    if not isinstance(trainer, Trainer):
        raise InputError(f"trainer={type(trainer).__name__}: give the Trainer, and then the weights")


def _none(*_: Any, **__: Any) -> Any:
    raise InputError(
        "a trainer that was loaded has no optimizer: dataclasses.replace(trainer, optimizer=optax.adam(0.001))"
    )


NO_OPTIMIZER = optax.GradientTransformation(_none, _none)

"""The folder of a training run: its settings, its history, its weights, and what it needs to go on.

config.json              the settings
data.json                what tells the examples from others, by part
history.jsonl            a line per epoch
checkpoint.safetensors   the whole TrainState, with the history in its notes
weights.safetensors      θ alone, saved with the checkpoint
result.json              the errors at the end, as fractions like those of the history
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp

from eqprop.boundary import entrance
from eqprop.errors import InputError
from eqprop.store import checkpoint
from eqprop.store.atomic import to_json, write_atomic, write_json
from eqprop.store.lock import locked, require_empty
from eqprop.store.model import told
from eqprop.store.reading import read_json, read_json_lines
from eqprop.train import Trainer, TrainState
from eqprop.types import Theta

Record = dict[str, float]
UNIT = {"error_unit": "fraction"}
"""Part of every result: errors are fractions of the examples, as in the history; earlier versions wrote percent."""
Kept = dict[str, float | None]
"""A record in JSON, where null stands for a number that is not finite."""


@dataclass(frozen=True)
class Notes:
    """What a checkpoint says beside its arrays."""

    history: list[Kept]
    seconds: float
    settings: dict[str, Any] | None = None


@dataclass(frozen=True)
class WeightNotes:
    """What a file of weights says beside them."""

    epochs: int
    settings: dict[str, Any] | None = None
    theta: Any = None
    trainer: dict[str, Any] | None = None
    reason: str | None = None


class Run:
    """Every file is replaced as a whole, so that a run killed at any moment goes on where it last saved."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)

    @classmethod
    def create(cls, folder: str | Path, config: dict[str, Any]) -> "Run":
        """A new run in a folder that is new or empty, but for what a kill in the middle of this left behind."""
        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with locked(folder):
                require_empty(folder)
                cls(folder).write_config(config)
        except OSError as error:
            raise InputError(f"cannot make the run folder {folder}: {error.strerror}") from error
        return cls(folder)

    @classmethod
    def open(cls, folder: str | Path) -> "Run":
        """The run of an earlier `create`."""
        if not (Path(folder) / "config.json").is_file():
            raise InputError(f"{folder} is not the folder of a run: it has no config.json")
        return cls(folder)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Be the only process that writes into the folder, and begin without what a kill left behind."""
        with locked(self.folder):
            self.clear_leftovers()
            yield

    def clear_leftovers(self) -> None:
        """Remove what a kill in the middle of a write left behind; only for whoever goes on with the run."""
        for leftover in self.folder.glob(".*.part"):
            leftover.unlink()

    @property
    def config(self) -> Any:
        """The settings that the run was created with."""
        return read_json(self.folder / "config.json", remedy="restore it or start a new run")

    @property
    def saved(self) -> bool:
        """Whether there is a checkpoint."""
        return (self.folder / "checkpoint.safetensors").exists()

    @property
    def finished(self) -> bool:
        """Whether there is a result."""
        return (self.folder / "result.json").exists()

    def read_result(self) -> dict[str, Any]:
        """What `write_result` wrote; errors of an earlier version, which are in percent, become fractions."""
        result = read_json(self.folder / "result.json", dict[str, Any], "remove it, and go on with the run")
        if UNIT.items() <= result.items():
            return result
        percent = {key: value for key, value in result.items() if key.endswith("_error") and value is not None}
        return result | {key: value / 100 for key, value in percent.items()} | UNIT

    def read_marks(self) -> dict[str, str]:
        """What `write_marks` wrote; nothing if it did not, as in runs of 0.1.0."""
        path = self.folder / "data.json"
        remedy = "restore it, or remove it to go on with whatever examples there are"
        return read_json(path, dict[str, str], remedy) if path.exists() else {}

    def read_history(self) -> list[Record]:
        """What `write_history` wrote; nothing if it did not yet."""
        path = self.folder / "history.jsonl"
        return records(read_json_lines(path, Kept, "restore it or start a new run")) if path.exists() else []

    @entrance
    def save(
        self,
        state: TrainState,
        history: list[Record],
        seconds: float,
        settings: dict[str, Any] | None = None,
        trainer: Trainer | None = None,
    ) -> None:
        """Keep the state, the history so far and the seconds spent on the epoch that is under way.

        settings: those that led to the state, by which a later change of config.json is noticed.
        trainer: what was trained, so that `eqprop.load` can take the network from the folder.
        """
        notes = {"history": history, "seconds": seconds, "settings": settings}
        checkpoint.save(self.folder / "checkpoint.safetensors", state, notes)
        about = told(trainer, state.theta) | {"epochs": len(history), "settings": settings}
        checkpoint.save(self.folder / "weights.safetensors", state.theta, about)

    @entrance
    def made_with(self, name: Literal["checkpoint", "weights"]) -> dict[str, Any] | None:
        """The settings that led to what is saved; None if nothing is, or if they were not kept."""
        path = self.folder / f"{name}.safetensors"
        if not path.exists():
            return None
        return checkpoint.read_notes(path, Notes if name == "checkpoint" else WeightNotes).settings

    @entrance
    def load(self, like: TrainState) -> tuple[TrainState, list[Record], float]:
        """What was last saved; `like` itself if nothing was."""
        if not self.saved:
            if (weights := self.folder / "weights.safetensors").exists():  # written after the checkpoint
                raise InputError(
                    f"{self.folder} has {weights.name} and no checkpoint.safetensors, which was removed: restore it, "
                    "or start a new run"
                )
            return like, [], 0.0
        path = self.folder / "checkpoint.safetensors"
        state, notes = checkpoint.load(path, like, Notes, newer="sums/settling")  # 0.1.0 had no such sums
        check_counters(path, state, len(notes.history))
        return state, records(notes.history), notes.seconds

    @entrance
    def load_weights(self, like: Any) -> tuple[Any, int]:
        """θ as last saved, and the number of epochs it was trained for."""
        path = self.folder / "weights.safetensors"
        if not path.exists():
            raise InputError(
                f"{self.folder} has no weights yet: train it first, with --resume {self.folder}, or save it"
            )
        theta, notes = checkpoint.load(path, like, WeightNotes)
        check_finite(path, theta)
        return theta, notes.epochs

    @entrance
    def write_config(self, config: dict[str, Any]) -> None:
        """Keep the settings, if they are not those that are kept already."""
        path = self.folder / "config.json"
        if not path.exists() or self.config != config:
            write_json(path, config)

    @entrance
    def write_marks(self, marks: dict[str, str]) -> None:
        """Keep what tells the examples from others, by part, so that a later change of them is noticed."""
        if not (path := self.folder / "data.json").exists():
            write_json(path, marks)

    @entrance
    def write_history(self, history: list[Record]) -> None:
        """Keep a line of JSON for each epoch."""
        lines = "".join(to_json(record) + "\n" for record in history)
        write_atomic(self.folder / "history.jsonl", lines.encode())

    @entrance
    def write_result(self, result: dict[str, Any]) -> None:
        """Keep what came of it, which ends the run."""
        write_json(self.folder / "result.json", result)


def records(kept: list[Kept]) -> list[Record]:
    """What JSON keeps of a history, as it was."""
    return [{name: nan if value is None else value for name, value in record.items()} for record in kept]


def check_counters(path: Path, state: TrainState, epochs: int) -> None:
    """Refuse a state that no training leads to."""
    counters = {"step": int(state.step), "epoch": int(state.epoch), "batch": int(state.batch)}
    for name, count in counters.items():
        if count < 0:
            raise InputError(f"{path} is no checkpoint of a training: its {name} is {count}; restore it or start anew")
    if counters["epoch"] != epochs:
        raise InputError(
            f"{path} is no checkpoint of a training: it is in epoch {counters['epoch'] + 1}, and its history has "
            f"{epochs} epochs; restore it or start anew"
        )
    check_finite(path, state.theta)


def check_finite(path: Path, theta: Theta) -> None:
    """Refuse weights that are not numbers."""
    if not all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(theta)):
        raise InputError(f"{path} has weights that are not finite: restore it or start anew")


class Follower(Run):
    """The run as a process has it that trains together with the first one, which alone writes.

    All must see the same folder when they go on with a run. Before the first checkpoint it need not be there.
    """

    def writing(self) -> AbstractContextManager[None]:
        """Leave that to the first process."""
        return nullcontext()

    def save(self, state: TrainState, *_: Any) -> None:
        """Take part in gathering a state that lies on the devices of all processes."""
        checkpoint.flattened(state)
        checkpoint.flattened(state.theta)

    @entrance
    def write_config(self, config: dict[str, Any]) -> None:
        """Leave it to the first process."""

    @entrance
    def write_history(self, history: list[Record]) -> None:
        """Leave it to the first process."""

    @entrance
    def write_marks(self, marks: dict[str, str]) -> None:
        """Leave it to the first process."""

    @entrance
    def write_result(self, result: dict[str, Any]) -> None:
        """Leave it to the first process."""

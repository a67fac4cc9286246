"""The folder of a training run: its settings, its history, its weights, and what it needs to go on.

config.json              the settings
history.jsonl            a line per epoch
checkpoint.safetensors   the whole TrainState, with the history in its notes
weights.safetensors      θ alone, saved with the checkpoint
result.json              the errors at the end
"""

import json
from pathlib import Path
from typing import Any

from eqprop.errors import InputError
from eqprop.store import checkpoint
from eqprop.store.atomic import read_json, write_atomic, write_json
from eqprop.train import TrainState

Record = dict[str, float]


class Run:
    """Every file is replaced as a whole, so that a run killed at any moment goes on where it last saved."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)

    @classmethod
    def create(cls, folder: str | Path, config: dict[str, Any]) -> "Run":
        """A new run in a folder that is new or empty."""
        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            occupied = any(folder.iterdir())
        except OSError as error:
            raise InputError(f"cannot make the run folder {folder}: {error.strerror}") from error
        if occupied:
            raise InputError(f"the folder {folder} is not empty: choose another, or go on with --resume {folder}")
        run = cls(folder)
        run.write_config(config)
        return run

    @classmethod
    def open(cls, folder: str | Path) -> "Run":
        """The run of an earlier `create`."""
        if not (Path(folder) / "config.json").is_file():
            raise InputError(f"{folder} is not the folder of a run: it has no config.json")
        return cls(folder)

    def clear_leftovers(self) -> None:
        """Remove what a kill in the middle of a write left behind; only for whoever goes on with the run."""
        for leftover in self.folder.glob(".*.part"):
            leftover.unlink()

    @property
    def config(self) -> Any:
        """The settings that the run was created with."""
        path = self.folder / "config.json"
        try:
            return read_json(path)
        except (OSError, ValueError) as error:
            raise InputError(f"{path} is damaged ({error}): restore it or start a new run") from error

    @property
    def saved(self) -> bool:
        """Whether there is a checkpoint."""
        return (self.folder / "checkpoint.safetensors").exists()

    @property
    def finished(self) -> bool:
        """Whether there is a result."""
        return (self.folder / "result.json").exists()

    def read_result(self) -> dict[str, Any]:
        """What `write_result` wrote."""
        path = self.folder / "result.json"
        try:
            return read_json(path)
        except (OSError, ValueError) as error:
            raise InputError(f"{path} is damaged ({error}): remove it, and go on with the run") from error

    def read_history(self) -> list[Record]:
        """What `write_history` wrote; nothing if it did not yet."""
        path = self.folder / "history.jsonl"
        try:
            return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        except (OSError, ValueError) as error:
            raise InputError(f"{path} is damaged ({error}): restore it or start a new run") from error

    def save(self, state: TrainState, history: list[Record], seconds: float) -> None:
        """Keep the state, the history so far and the seconds spent on the epoch that is under way."""
        notes = {"history": history, "seconds": seconds}
        checkpoint.save(self.folder / "checkpoint.safetensors", state, notes)
        checkpoint.save(self.folder / "weights.safetensors", state.theta, {"epochs": len(history)})

    def load(self, like: TrainState) -> tuple[TrainState, list[Record], float]:
        """What was last saved; `like` itself if nothing was."""
        if not self.saved:
            return like, [], 0.0
        state, notes = checkpoint.load(self.folder / "checkpoint.safetensors", like)
        return state, notes["history"], notes["seconds"]

    def load_weights(self, like: Any) -> tuple[Any, int]:
        """θ as last saved, and the number of epochs it was trained for."""
        path = self.folder / "weights.safetensors"
        if not path.exists():
            raise InputError(f"{self.folder} has no weights yet: train it first, with --resume {self.folder}")
        theta, notes = checkpoint.load(path, like)
        return theta, notes["epochs"]

    def write_config(self, config: dict[str, Any]) -> None:
        """Keep the settings, if they are not those that are kept already."""
        path = self.folder / "config.json"
        if not path.exists() or self.config != config:
            write_json(path, config)

    def write_history(self, history: list[Record]) -> None:
        """Keep a line of JSON for each epoch."""
        lines = "".join(json.dumps(record) + "\n" for record in history)
        write_atomic(self.folder / "history.jsonl", lines.encode())

    def write_result(self, result: dict[str, Any]) -> None:
        """Keep what came of it, which ends the run."""
        write_json(self.folder / "result.json", result)


class Follower(Run):
    """The run as a process has it that trains together with the first one, which alone writes.

    All must see the same folder when they go on with a run. Before the first checkpoint it need not be there.
    """

    def clear_leftovers(self) -> None:
        """Leave them to the first process."""

    def save(self, state: TrainState, history: list[Record], seconds: float) -> None:
        """Take part in gathering a state that lies on the devices of all processes."""
        checkpoint.flattened(state)
        checkpoint.flattened(state.theta)

    def write_config(self, config: dict[str, Any]) -> None:
        """Leave it to the first process."""

    def write_history(self, history: list[Record]) -> None:
        """Leave it to the first process."""

    def write_result(self, result: dict[str, Any]) -> None:
        """Leave it to the first process."""

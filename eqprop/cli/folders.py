"""Folders for what the commands make."""

from datetime import datetime
from itertools import count
from pathlib import Path

from eqprop.errors import InputError
from eqprop.store.lock import locked, require_empty


def fresh_folder(name: str) -> Path:
    """A folder in runs/ that does not exist yet."""
    stem = Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    candidates = (stem.with_name(f"{stem.name}-{k}") if k > 1 else stem for k in count(1))
    return next(folder for folder in candidates if not folder.exists())


def chosen_folder(run_dir: Path | None, resume: Path | None, name: str) -> Path:
    """The folder `resume` to go on in, or else `run_dir` or a new one, which is made if needed and must be empty."""
    if run_dir is not None and resume is not None:
        raise InputError(f"--run-dir {run_dir} and --resume {resume} exclude each other: give one")
    if resume is not None:
        return resume
    folder = make_folder(run_dir or fresh_folder(name))
    with locked(folder):
        require_empty(folder)
    return folder


def make_folder(folder: Path) -> Path:
    """The folder, which is made if needed; refused if it cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):
            return folder
    except OSError as error:
        raise InputError(f"cannot make the folder {folder}: {error.strerror}") from error

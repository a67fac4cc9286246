"""The folder that fetched data sets are kept in, and how they get there."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from eqprop.data.registry import IdxSet
from eqprop.data.sources import Missing, Unavailable, read_file, read_folder
from eqprop.errors import InputError
from eqprop.store.atomic import write_atomic


def cache_folder(name: str) -> Path:
    """`$EQPROP_DATA/name`, or else `eqprop/name` in the user's cache folder."""
    if chosen := os.environ.get("EQPROP_DATA"):
        return Path(chosen).expanduser() / name
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "eqprop" / name


def read_cached(idx_set: IdxSet) -> dict[str, bytes]:
    """The verified files from the cache; Missing if one is not there, InputError if one is damaged."""
    try:
        return read_folder(cache_folder(idx_set.name), idx_set.sums)
    except Missing:
        raise
    except Unavailable as error:
        raise InputError(
            f"the cached data set {idx_set.name} cannot be used: {error}. "
            f"Replace the file with `eqprop data fetch {idx_set.name}`, or delete it"
        ) from error


def read_given(idx_set: IdxSet, folder: str | os.PathLike[str]) -> dict[str, bytes]:
    """The verified files from a folder that the user named; there is no other source to fall back on."""
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise InputError(f"there is no folder {path} to read the data set {idx_set.name} from")
    try:
        return read_folder(path, idx_set.sums)
    except Unavailable as error:
        raise InputError(
            f"cannot take the data set {idx_set.name} from {path}: {error}. The folder has to hold "
            f"{', '.join(idx_set.sums)}, plain or as .gz"
        ) from error


def fill_cache(idx_set: IdxSet, folder: str | os.PathLike[str] | None, on_event: Callable[[str], None]) -> Path:
    """Put what is missing or damaged into the cache, from the given folder or else from the sources."""
    target = cache_folder(idx_set.name)
    needed = {name: expected for name, expected in idx_set.sums.items() if not is_intact(target, name, expected)}
    given = None if folder is None else read_given(idx_set, folder)
    if not needed:
        on_event(f"{idx_set.name} is already in {target}")
        return target
    store(target, {})  # a folder that cannot be made is better found out before the download
    files = download(idx_set, needed, on_event) if given is None else {name: given[name] for name in needed}
    store(target, files)
    on_event(f"stored {idx_set.name} in {target}")
    return target


def is_intact(folder: Path, name: str, expected: str) -> bool:
    """Whether the folder holds the file with the expected sum."""
    try:
        read_file(folder, name, expected)
    except Unavailable:
        return False
    return True


def download(idx_set: IdxSet, sums: Mapping[str, str], on_event: Callable[[str], None]) -> dict[str, bytes]:
    """The files from the first source that delivers them all."""
    failures = []
    for source in idx_set.sources:
        on_event(f"trying {source}")
        try:
            return source.read(sums)
        except (Unavailable, OSError) as error:  # OSError: no room for temporary files
            failures.append(f"  {source}: {error}")
            on_event(f"failed: {error}")
    raise InputError(
        "\n".join([f"the data set {idx_set.name} could not be fetched from any source:", *failures])
        + f"\nDownload {', '.join(f'{name}.gz' for name in idx_set.sums)} by hand and name their folder: "
        "--data-dir FOLDER at the command line, folder= in Python"
    )


def store(target: Path, files: Mapping[str, bytes]) -> None:
    """Write the files into the folder, each one whole or not at all."""
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            write_atomic(target / name, data)
    except OSError as error:
        raise InputError(
            f"cannot write the data cache {target} ({error.strerror}): "
            "set the environment variable EQPROP_DATA to a folder that you may write"
        ) from error

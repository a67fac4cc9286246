"""The folder in which fetched data sets are kept: reading it and filling it."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from platformdirs import user_cache_path

from eqprop.data.packing import LOOSE, Folder, Missing, Packing, Place, Unavailable
from eqprop.data.registry import FileSet
from eqprop.errors import InputError
from eqprop.store.atomic import write_atomic
from eqprop.store.lock import locked


def cache_folder(name: str) -> Path:
    """`$EQPROP_DATA/name`, or else `eqprop/name` in the cache folder of the user, which systems have in other places.

    What an earlier version has put in `~/.cache` of any system is found there.
    """
    if chosen := os.environ.get("EQPROP_DATA"):
        return Path(chosen).expanduser() / name
    usual = user_cache_path("eqprop", appauthor=False) / name
    earlier = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "eqprop" / name
    return earlier if earlier.is_dir() and not usual.is_dir() else usual


def read_cached(file_set: FileSet) -> dict[str, bytes]:
    """The verified files from the cache; Missing if one is not there, InputError if one is damaged."""
    try:
        return LOOSE.unpack(Folder(cache_folder(file_set.name)), file_set.sums)
    except Missing:
        raise
    except Unavailable as error:
        raise InputError(
            f"the cached data set {file_set.name} cannot be used: {error}. "
            f"Replace the file with `eqprop data fetch {file_set.name}`, or delete it"
        ) from error


def read_given(file_set: FileSet, folder: str | os.PathLike[str]) -> dict[str, bytes]:
    """The verified files from a folder that the user named; there is no other source to fall back on."""
    path = Path(folder).expanduser()
    if path.is_file():
        raise InputError(
            f"{path} is a file: to read the data set {file_set.name} from it, name the folder that it is in"
        )
    if not path.is_dir():
        raise InputError(f"there is no folder {path} to read the data set {file_set.name} from")
    try:
        return unpack_any((LOOSE, *file_set.packings), Folder(path), file_set.sums)
    except Unavailable as error:
        pickled = next((name for name in file_set.pickled if (path / name).exists()), None)
        if pickled and isinstance(error, Missing):
            raise InputError(
                f"cannot take the data set {file_set.name} from {path}: {pickled} is its pickled version, which "
                f"may run code when it is read. Download {', '.join(file_set.by_hand)} instead"
            ) from error
        raise InputError(
            f"cannot take the data set {file_set.name} from {path}: {error}. The folder has to hold "
            + ", or ".join([f"{', '.join(file_set.sums)}, plain or as .gz", *map(str, file_set.packings)])
        ) from error


def unpack_any(packings: Sequence[Packing], place: Place, sums: Mapping[str, str]) -> dict[str, bytes]:
    """The files, by the first packing in which the place holds them; if by none, Missing as for the first packing."""
    missing = []
    for packing in packings:
        try:
            return packing.unpack(place, sums)
        except Missing as error:
            missing.append(error)
    raise missing[0]


def fill_cache(file_set: FileSet, folder: str | os.PathLike[str] | None, on_event: Callable[[str], None]) -> Path:
    """Put what is missing or damaged into the cache, from the given folder or else from the sources."""
    target = cache_folder(file_set.name)
    needed = {name: expected for name, expected in file_set.sums.items() if not is_intact(target, name, expected)}
    given = None if folder is None else read_given(file_set, folder)
    if not needed:
        on_event(f"{file_set.name} is already in {target}")
        return target
    store(target, {})  # before the download: a folder that cannot be made is refused
    with locked(target, wait=on_event):  # another process may fetch the same
        needed = {name: expected for name, expected in needed.items() if not is_intact(target, name, expected)}
        if needed:
            files = download(file_set, needed, on_event) if given is None else {name: given[name] for name in needed}
            store(target, files)
    on_event(f"stored {file_set.name} in {target}")
    return target


def is_intact(folder: Path, name: str, expected: str) -> bool:
    """Whether the folder holds the file with the expected sum."""
    try:
        LOOSE.unpack(Folder(folder), {name: expected})
    except Unavailable:
        return False
    return True


def download(file_set: FileSet, sums: Mapping[str, str], on_event: Callable[[str], None]) -> dict[str, bytes]:
    """The files from the first source that delivers them all."""
    failures = []
    for source in file_set.sources:
        on_event(f"trying {source}")
        try:
            return source.read(sums)
        except (Unavailable, OSError) as error:  # OSError: no room for temporary files
            failures.append(f"  {source}: {error}")
            on_event(f"failed: {error}")
    raise InputError(
        "\n".join([f"the data set {file_set.name} could not be fetched from any source:", *failures])
        + f"\nDownload {', '.join(file_set.by_hand)} by hand and name the folder that holds them: "
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

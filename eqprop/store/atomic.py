"""Writing files so that a crash at any moment leaves the old content or the new, never half of either."""

import io
import json
import math
import os
import tempfile
from pathlib import Path
from typing import Any

from eqprop.errors import InputError


def write_atomic(path: Path, data: bytes) -> None:
    """Replace the file at `path` by `data`: written beside it, flushed to disk, then renamed over it."""
    name = os.fsdecode(os.fsencode(path.name)[:200])  # a longer one would leave no room for what makes it another
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{name}.", suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)  # mkstemp's 0600 would hide the result from colleagues
        os.replace(temporary, path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # a full disk does not say where
        raise
    flush_folder(path.parent)


def write_figure(path: Path, figure: Any, dpi: int = 130) -> None:
    """`write_atomic` a matplotlib figure as PNG; the same figure always gives the same bytes."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=dpi, metadata={"Software": None})
    write_atomic(path, picture.getvalue())


def write_json(path: Path, values: Any) -> None:
    """`write_atomic`, for people to read as well."""
    write_atomic(path, (to_json(values, indent=2) + "\n").encode())


def to_json(values: Any, indent: int | None = None) -> str:
    """JSON, which has no numbers that are not finite: null takes their place."""
    try:
        return json.dumps(values, indent=indent, allow_nan=False)
    except TypeError as error:
        raise InputError(f"what is to be saved is no JSON ({error}): give texts, numbers, lists and dicts") from error
    except ValueError:
        return json.dumps(_finite(values), indent=indent, allow_nan=False)


def _finite(values: Any) -> Any:
    if isinstance(values, dict):
        return {name: _finite(value) for name, value in values.items()}
    if isinstance(values, list | tuple):
        return [_finite(value) for value in values]
    return None if isinstance(values, float) and not math.isfinite(values) else values


def flush_folder(folder: Path) -> None:
    """Make a rename or a new file in `folder` survive a power cut (where the system lets folders be synced)."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

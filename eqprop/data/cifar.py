"""The binary files of CIFAR: each record has a byte for each kind of label, then a red, a green and a blue plane."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from eqprop.data.splits import Part, Piece
from eqprop.errors import InputError

SIDE, CHANNELS = 32, 3
PIXELS = SIDE * SIDE * CHANNELS


@dataclass(frozen=True)
class CifarFormat:
    """`files` are the files of each part; `kinds` says how many labels there are of each kind, the class last."""

    files: Mapping[Part, tuple[str, ...]]
    kinds: tuple[int, ...]

    def pieces(self, files: Mapping[str, bytes], part: Part) -> list[Piece]:
        return [parse_cifar(files[name], self.kinds, name) for name in self.files[part]]


def parse_cifar(data: bytes, kinds: tuple[int, ...], origin: str) -> Piece:
    """The images (n, height, width, channel) and classes in the file content `data`; `origin` names the file."""
    size = len(kinds) + PIXELS
    if not data or len(data) % size:
        raise InputError(
            f"{origin} is cut off or no binary file of CIFAR: {len(data)} bytes are not one or more records of {size}"
        )
    records = np.frombuffer(data, np.uint8).reshape(-1, size)
    for column, count in enumerate(kinds):
        if len(wrong := np.flatnonzero(records[:, column] >= count)):
            raise InputError(
                f"{origin} has the label {records[wrong[0], column]} in byte {column} of record {wrong[0]}, "
                f"where labels go from 0 to {count - 1}"
            )
    planes = records[:, len(kinds) :].reshape(-1, CHANNELS, SIDE, SIDE)
    return planes.transpose(0, 2, 3, 1), records[:, len(kinds) - 1]


def to_records(images: np.ndarray, labels: np.ndarray) -> bytes:
    """The content of a file with these images (n, height, width, channel) and one kind of labels."""
    planes = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
    return np.concatenate([labels[:, None], planes], axis=1).tobytes()

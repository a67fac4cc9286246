"""`eqprop reproduce images`: networks for images, by Equilibrium Propagation and by exact gradients."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eqprop.cli.campaigns import asked_for, carry_out, print_place, print_rows
from eqprop.cli.console import print_json
from eqprop.study.images import ImageCampaign, ImageSet, WayName

SHORT = {"epochs": 2, "train": 500, "valid": 200, "narrow": 16}


@dataclass(frozen=True)
class Images:
    """Convolutional networks on MNIST, Fashion-MNIST and CIFAR-10, by four methods, with a report.

    All of it takes many hours on two cores: choose data sets and methods, or mind --minutes.
    """

    datasets: tuple[ImageSet, ...] = ()
    """the data sets; none: MNIST, Fashion-MNIST and CIFAR-10"""
    methods: tuple[WayName, ...] = ()
    """the ways to learn; none: all four"""
    short: bool = False
    """a few minutes: 2 epochs, 500 images, a sixteenth of the channels, unless given"""
    epochs: int | None = None
    """passes over the training images; None: those of the data set's settings"""
    train: int | None = None
    """train on this many images only, the first ones; None: all but those for validation"""
    narrow: int | None = None
    """divide the channels of each layer by it; None: 1"""
    seed: int | None = None
    """decides the initial weights and the order of the images; None: 0"""
    minutes: float | None = None
    """end each training with the last epoch that fits in, but not before the first; None: when its epochs are done"""
    run_dir: Path | None = None
    """folder for the runs and the report; None: a new one in runs/"""
    resume: Path | None = None
    """go on with the runs in this folder, with their settings; only --minutes may be changed"""
    data_dir: Path | None = None
    """folder with the data set's own files; None: the cache, filled from public sources"""
    json: bool = False
    """print the results as one JSON object, the last line of stdout"""

    def run(self) -> None:
        from eqprop.study import images_page  # loads matplotlib, which takes its time

        campaign, commands = asked_for(ImageCampaign, self._asked(), self.short, self.resume, free={"minutes"})
        folder, done = carry_out(campaign, commands, "reproduce images", self.run_dir, self.resume, self.data_dir)
        if self.json:
            print_json({"folder": str(folder), "runs": [images_page.to_dict(outcome) for outcome in done]})
            return
        for some in images_page.by_dataset(done).values():
            rows = [images_page.row(outcome) for outcome in some]
            print_rows(rows, ["", "test error", "validation error", "epochs", "time"], images_page.heading(some))
        print_place(folder)

    def _asked(self) -> dict[str, Any]:
        """The settings that are given, or meant by --short."""
        given = {"datasets": self.datasets or None, "methods": self.methods or None, "epochs": self.epochs}
        given |= {"train": self.train, "narrow": self.narrow, "seed": self.seed, "minutes": self.minutes}
        return (SHORT if self.short else {}) | {name: value for name, value in given.items() if value is not None}

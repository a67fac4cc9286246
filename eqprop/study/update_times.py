"""What a weight update costs, beside the others: methods take turns, as a machine is not equally fast all the time."""

import time
from collections.abc import Mapping
from statistics import median

import jax

from eqprop.data import Dataset
from eqprop.study.experiment import Experiment

ROUNDS = 5
SECONDS = 0.4  # of each method in each round, so that what a call costs beside its updates does not show


def milliseconds_per_update(experiments: Mapping[str, Experiment], data: Dataset) -> dict[str, float]:
    """The time of a minibatch for each method: the median over rounds in which each has its turn."""
    turns = {name: _Turn(experiment, data) for name, experiment in experiments.items()}
    times = [{name: turn.time() for name, turn in turns.items()} for _ in range(ROUNDS)]
    return {name: 1000 * median(one[name] for one in times) for name in turns}


class _Turn:
    """A method that trains for a moment, always from its first minibatch."""

    def __init__(self, experiment: Experiment, data: Dataset):
        self.setup, self.batches = experiment.build(data), 1
        most = self.setup.feed.batches
        self.time()  # compiles
        while self.batches < most and self.time() * self.batches < SECONDS:
            self.batches = min(2 * self.batches, most)

    def time(self) -> float:
        """Seconds per minibatch."""
        began = time.perf_counter()
        jax.block_until_ready(self.setup.trainer.advance(self.setup.state, self.setup.feed, self.batches))
        return (time.perf_counter() - began) / self.batches

"""What a weight update costs, beside the others: interleaved, for a machine is not equally fast all the time."""

import time
from collections.abc import Mapping
from statistics import median

import jax

from eqprop.data import Dataset
from eqprop.experiment import Experiment, start, training_part

ROUNDS = 5
SECONDS = 0.4  # of each method in each round, so that what a call costs beside its updates does not show


def speeds(experiments: Mapping[str, Experiment], data: Dataset) -> dict[str, float]:
    """Milliseconds per minibatch of each method, the median over rounds in which each has its turn."""
    turns = {name: _Turn(experiment, data) for name, experiment in experiments.items()}
    times = [{name: turn.time() for name, turn in turns.items()} for _ in range(ROUNDS)]
    return {name: 1000 * median(one[name] for one in times) for name in turns}


class _Turn:
    """A method that trains for a moment, always from its first minibatch."""

    def __init__(self, experiment: Experiment, data: Dataset):
        self.trainer, self.state = start(experiment, data)
        self.v = jax.tree.map(jax.numpy.asarray, training_part(experiment, data).v)
        self.batches, most = 1, self.trainer.batches(len(self.v[0]))
        self.time()  # compiles
        while self.batches < most and self.time() * self.batches < SECONDS:
            self.batches = min(2 * self.batches, most)

    def time(self) -> float:
        """Seconds per minibatch."""
        began = time.perf_counter()
        jax.block_until_ready(self.trainer.advance(self.state, self.v, self.batches))
        return (time.perf_counter() - began) / self.batches

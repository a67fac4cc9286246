"""Options for training on several devices and in several processes, and what it takes to carry them out."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import jax
from jax.experimental import multihost_utils
from jax.sharding import Mesh

from eqprop.cluster import Watch, find_place, join
from eqprop.errors import InputError
from eqprop.train import mesh

LOST = 4
"""The exit status of a process that stops because another was lost."""


@dataclass
class Together:
    """How a process trains with others.

    mesh: the devices; None for one.
    first: whether this is the process that writes and prints.
    folder: that of the run, as soon as it is known.
    """

    mesh: Mesh | None
    first: bool
    folder: Path | None = None


@dataclass(frozen=True)
class ParallelOptions:
    """on which devices, and with which other processes"""

    devices: int | None = None
    """devices of this process, which share each minibatch; of a CPU, JAX makes as many as are asked for; None: all
    GPUs or TPUs that there are, or the CPU as one"""
    weight_shards: int = 1
    """devices over which the weights are spread, if a layer does not fit on one; the others share the minibatches"""
    coordinator: str | None = None
    """host:port of the first process, the same for all; None: as SLURM or a cloud's launcher says"""
    processes: int | None = None
    """how many processes train together; None: as SLURM, MPI or a cloud's launcher says, or this one alone"""
    process_id: int | None = None
    """which of them this one is, from 0, which writes and prints; None: as the launcher says"""

    @contextlib.contextmanager
    def together(self, again: Callable[[Path | None], str]) -> Iterator[Together]:
        """A context in which the devices of all processes train together; `again` says how to go on without one."""
        place = find_place(self.coordinator, self.processes, self.process_id)
        if self.devices is not None:
            if self.devices < 1:
                raise InputError(f"--devices {self.devices}: give a positive number")
            jax.config.update("jax_num_cpu_devices", self.devices)  # nothing is computed yet
        if place is None:
            yield Together(self._mesh(), True)
            return
        join(place)
        together = Together(self._mesh(), place.process == 0)

        def lost(reason: str) -> None:
            sentence = f"stopped: {reason}; {again(together.folder)}, in any number of processes\n"
            os.write(sys.stderr.fileno(), sentence.encode())  # at once, for JAX may abort this process any moment

        with Watch(place, lost, LOST):
            yield together
            multihost_utils.sync_global_devices("done")  # the first process has more to do than the others

    def _mesh(self) -> Mesh | None:
        if jax.device_count() == 1 or (self.devices == 1 and jax.process_count() == 1):
            if self.weight_shards > 1:
                raise InputError(f"--weight-shards {self.weight_shards}: there is one device; give --devices as well")
            return None
        return mesh(self.devices, units=self.weight_shards)

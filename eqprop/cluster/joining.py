"""Joining: which process this one is, of how many, and where they meet."""

import atexit
import os
import re
from collections.abc import Mapping
from typing import NamedTuple

import jax

from eqprop.errors import InputError

LAUNCHERS = (
    ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),  # srun; that of the whole job is set outside of srun too
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),  # Open MPI
    ("PMI_SIZE", "PMI_RANK"),  # MPICH, Intel MPI
    ("WORLD_SIZE", "RANK"),  # torchrun, Kubeflow, SageMaker, Vertex AI
)
"""By which variables launchers tell a process how many there are, and which it is."""
PATIENCE = 300
"""Seconds to wait for the other processes to start."""
DAY = 24 * 60 * 60


class Place(NamedTuple):
    """Where a process stands among those that train together.

    coordinator: host:port at which the first process is waiting for the others.
    processes: how many there are.
    process: which of them this one is, from 0.
    """

    coordinator: str
    processes: int
    process: int

    @property
    def host(self) -> str:
        """Where the first process runs."""
        return self.coordinator.rsplit(":", 1)[0].strip("[]")


def find_place(
    coordinator: str | None = None,
    processes: int | None = None,
    process: int | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Place | None:
    """What is given, filled up with what SLURM, MPI or a cloud's launcher has set; None for a process on its own.

    >>> find_place(environ={"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "1"}, coordinator="node1:9000")
    Place(coordinator='node1:9000', processes=4, process=1)
    """
    pairs = ((environ.get(size), environ.get(rank)) for size, rank in LAUNCHERS)
    told = next(((size, rank) for size, rank in pairs if size and rank), None)
    if told is not None and all(word.isdecimal() for word in told):
        processes = int(told[0]) if processes is None else processes
        process = int(told[1]) if process is None else process
    coordinator = coordinator or _meeting(environ)
    if processes in (None, 1) and process in (None, 0):
        if processes is None and coordinator and told is None and "MASTER_ADDR" not in environ:
            raise InputError(f"--coordinator {coordinator}: say how many processes there are, by --processes")
        return None
    if processes is None or processes < 1:
        raise InputError(f"--processes {processes}: give the number of processes that train together")
    if process is None or not 0 <= process < processes:
        raise InputError(f"--process-id {process}: give each of the {processes} its own number, from 0")
    if coordinator is None or not re.fullmatch(r".+:\d+", coordinator):
        raise InputError(
            f"--coordinator {coordinator}: give host:port, the machine of process 0 and a free port there, to all "
            "processes alike"
        )
    return Place(coordinator, processes, process)


def _meeting(environ: Mapping[str, str]) -> str | None:
    """host:port of the first process, where the launcher says it: by name, or as the first node of a SLURM step."""
    if "MASTER_ADDR" in environ and "MASTER_PORT" in environ:
        return f"{environ['MASTER_ADDR']}:{environ['MASTER_PORT']}"
    first = re.match(r"([^\[,]+)(?:\[(\d+))?", environ.get("SLURM_STEP_NODELIST", ""))
    if first is None or "SLURM_STEP_NUM_TASKS" not in environ:
        return None
    port = 61440 + int(environ.get("SLURM_JOB_ID", "0")) % 4096  # each job has its own
    return f"{first[1]}{first[2] or ''}:{port}"


def join(place: Place) -> None:
    """Wait for the others; from then on JAX sees the devices of all. It must be done before JAX computes anything."""
    # A lost process is noticed by `Watch`, which says so and takes leave in order. JAX would abort the others, and all
    # of them where a machine was so busy, or asleep, that heartbeats came late.
    jax.config.update("jax_enable_recoverability", True)
    try:
        jax.distributed.initialize(*place, initialization_timeout=PATIENCE, heartbeat_timeout_seconds=DAY)
    except (RuntimeError, ValueError) as error:  # a JaxRuntimeError is a RuntimeError
        raise InputError(
            f"process {place.process} of {place.processes} could not join the others at {place.coordinator}: {error}"
        ) from error
    atexit.unregister(jax.distributed.shutdown)

"""Several devices and several processes learn what one learns."""

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax
import pytest
import safetensors.numpy
from jax.sharding import AxisType

import eqprop as ep
import sharing
from eqprop.cluster import Place, find_place
from eqprop.errors import InputError
from eqprop.train.rows import key_of_rows

SINGLE, DOUBLE = 1e-6, 1e-12
# Three updates at a rate of 1 follow each other, and a change of θ changes the gradient of coupled learning up to seven
# times as much, that of the others about twice. The gradient of what is read is small beside what is subtracted.
MORE = {("coupled", "theta"): 5, ("readings", "gradient"): 2}
PAPERS = ["equilibrium", "particles", "holomorphic", "coupled", "divergence"]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def share(folder: Path, *options: str, processes: int = 0) -> dict[str, Any]:
    """What tests/sharing.py finds, on virtual devices or in several processes."""
    out = folder / "found.json"
    program = [sys.executable, sharing.__file__, str(out), *options]
    joins = [
        ["--join", f"127.0.0.1:{port}", str(processes), str(i)] for port in [free_port()] for i in range(processes)
    ]
    workers = [
        subprocess.Popen([*program, *join], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for join in joins or [[]]
    ]
    said = [worker.communicate(timeout=600)[0] for worker in workers]
    print(said[0])
    assert not any(worker.returncode for worker in workers), "\n".join(said)
    return json.loads(out.read_text())


def largest(found: dict[str, Any]) -> float:
    """Over all cases; in two, rounding leaves more, so much more is allowed there."""
    assert found
    return max(
        value / MORE.get((case.split()[0], what), 1) for case, values in found.items() for what, value in values.items()
    )


@pytest.mark.slow
def test_two_processes_learn_what_one_does(tmp_path: Path) -> None:
    found = share(tmp_path, "--cases", "particles", processes=2)
    assert largest(found) < SINGLE, found


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 4])
def test_processes_learn_what_one_does_by_every_rule(processes: int, tmp_path: Path) -> None:
    found = share(tmp_path, "--cases", *PAPERS, "disk", processes=processes)
    assert largest(found) < SINGLE, found


@pytest.mark.slow
def test_virtual_devices_learn_what_one_does(tmp_path: Path) -> None:
    found = share(tmp_path)
    assert largest(found) < SINGLE, found


@pytest.mark.slow
def test_double_precision_agrees_to_its_last_digits(tmp_path: Path) -> None:
    for processes in (0, 2):
        found = share(tmp_path, "--x64", "--cases", *PAPERS, processes=processes)
        kept = ("gradient", "theta", "particles")
        learned = {case: {what: values[what] for what in kept} for case, values in found.items()}
        assert largest(learned) < DOUBLE, found


@pytest.mark.slow
def test_checkpoints_go_on_elsewhere_and_wide_layers_are_divided(tmp_path: Path) -> None:
    found = share(tmp_path, "--more", "--cases", "--counts", "4")
    assert found["resumed"] < SINGLE, found
    assert largest({"divided": found["divided"]}) < SINGLE, found


def test_coupled_learning_hardly_depends_on_the_order_of_summation() -> None:
    """Though each difference is divided by η = 0.1; that is all that other numbers of devices change."""
    F, rule, _ = sharing.CASES["coupled"]
    theta, v, rest = F.energy.init(jax.random.key(0)), sharing.examples(120), F.space.rest(120)
    found = [rule(F, theta, rows, rest).gradient for rows in (v, jax.tree.map(lambda a: a[::-1], v))]
    largest = max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(found[0]))
    assert sharing.distance(*found) < SINGLE * largest


@pytest.mark.parametrize("shape", [(2, 3), (2,), (2, 3, 2)])
def test_rows_draw_what_they_would_in_the_whole_batch(shape: tuple[int, ...]) -> None:
    key = jax.random.fold_in(jax.random.split(jax.random.key(3))[1], 5)
    rows = jax.random.fold_in(jax.random.split(key_of_rows(jax.random.key(3), 4, 2))[1], 5)
    whole = jax.random.normal(key, (6, *shape[1:]))
    assert (jax.random.normal(rows, shape) == whole[4:]).all()


def test_what_belongs_to_the_batch_is_the_same_for_all_rows() -> None:
    key = jax.random.key(3)
    rows = key_of_rows(key, 4, 2)
    assert jax.random.rademacher(rows, ()) == jax.random.rademacher(key, ())
    assert (jax.random.normal(rows, (3, 2)) == jax.random.normal(key, (3, 2))).all()
    with pytest.raises(InputError, match="threefry2x32"):
        key_of_rows(jax.random.key(0, impl="rbg"), 0, 2)


def test_a_mesh_is_refused_in_words() -> None:
    with pytest.raises(InputError, match="devices=99"):
        ep.mesh(99)
    with pytest.raises(InputError, match="units=2"):
        ep.mesh(1, units=2)
    F = ep.Total(ep.Hopfield.layered(2, 1), ep.SquaredError())
    other = jax.make_mesh((1,), ("data",), axis_types=(AxisType.Auto,))
    with pytest.raises(InputError, match=r"eqprop\.mesh\(\)"):
        ep.Trainer(F, ep.EquilibriumPropagation(), optax.sgd(0.1), mesh=other)


SLURM = {
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_PROCID": "2",
    "SLURM_STEP_NODELIST": "node[007-009],node[020]",
    "SLURM_JOB_ID": "4099",
}


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ({}, None),
        (SLURM, Place("node007:61443", 4, 2)),
        (SLURM | {"SLURM_STEP_NODELIST": "gpu-a,gpu-b"}, Place("gpu-a:61443", 4, 2)),
        ({"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, None),  # a job's script outside of srun
        (SLURM | {"SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}, None),
        (
            {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500", "WORLD_SIZE": "2", "RANK": "1"},
            Place("10.0.0.1:29500", 2, 1),
        ),
    ],
)
def test_launchers_say_where_a_process_stands(environ: dict[str, str], place: Place | None) -> None:
    assert find_place(environ=environ) == place


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (("host:1", None, None), "--processes"),
        (("host:1", 2, None), "--process-id None"),
        (("host:1", 2, 2), "--process-id 2"),
        (("host", 2, 1), "--coordinator host"),
        ((None, 2, 1), "--coordinator None"),
    ],
)
def test_a_place_that_is_not_one_is_refused(given: tuple[str | None, int | None, int | None], named: str) -> None:
    with pytest.raises(InputError, match=named):
        find_place(*given, environ={})


# ---- killed ----

KILLS = int(os.environ.get("EQPROP_KILLS", "2"))
WORKERS, BOUND = 4, 60  # seconds that the others may take to stop; on an idle machine they take less than one
SETTINGS = ("digits", "--persistent", "--nudge", "random-sign", "--hidden", "20", "--train", "1200", "--epochs", "6")
OFTEN = ("--checkpoint-seconds", "0")


class Workers:
    """Processes that train one network together, with what they say in files."""

    def __init__(self, folder: Path, *args: str):
        port = free_port()
        self.said = [folder.parent / f"{folder.name}-{i}.txt" for i in range(WORKERS)]
        self.processes = []
        for i, path in enumerate(self.said):
            command = [sys.executable, "-m", "eqprop", "train", *args, "--coordinator", f"127.0.0.1:{port}"]
            command += ["--processes", str(WORKERS), "--process-id", str(i)]
            with path.open("w") as file:
                self.processes.append(subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT))

    def wait_until_joined(self) -> None:
        """Until each has spoken with the others; before, they would wait for minutes for one that is late."""
        while not all("[Gloo]" in path.read_text() for path in self.said):
            assert not any(process.poll() for process in self.processes), self.all_said()
            time.sleep(0.05)

    def all_said(self) -> str:
        return "\n".join(f"--- {path.name}\n{path.read_text()}" for path in self.said)

    def finish(self) -> None:
        assert [process.wait(600) for process in self.processes] == [0] * WORKERS, self.all_said()


def arrays(folder: Path) -> dict[str, bytes]:
    """What was trained, in bits: θ, the optimizer, the particles, the key."""
    found = safetensors.numpy.load_file(folder / "checkpoint.safetensors")
    return {name: values.tobytes() for name, values in found.items()}


def way_on(folder: Path) -> list[str]:
    """By which options a run goes on; it begins anew if there is no checkpoint yet."""
    if (folder / "checkpoint.safetensors").exists():
        return ["--resume", str(folder)]
    shutil.rmtree(folder, ignore_errors=True)
    return [*SETTINGS, "--run-dir", str(folder)]


def kill_at_random(folder: Path, undisturbed: Path, kills: int) -> None:
    """Kill one of the workers at a random moment, so often; then let them finish."""
    chance = random.Random(kills)
    for kill in range(kills):
        if (folder / "result.json").exists():
            assert arrays(folder) == arrays(undisturbed)
            shutil.rmtree(folder)
        workers = Workers(folder, *way_on(folder), *OFTEN)
        workers.wait_until_joined()
        time.sleep(chance.uniform(0, 6))
        victim = chance.randrange(WORKERS)
        workers.processes[victim].send_signal(signal.SIGKILL)
        began = time.monotonic()
        statuses = [process.wait(BOUND) for process in workers.processes]
        spent = time.monotonic() - began
        print(f"kill {kill}: process {victim}, the others stopped within {spent:.1f} s: {statuses}", flush=True)
        ours = f"stopped: process {victim} of {WORKERS} has died; (go on with `eqprop train|start again)"
        # When process 0 dies, JAX's service is gone, and JAX may be the first to notice: it aborts, in its own words.
        jax_s = "Terminating process because the JAX distributed service detected fatal errors"
        for i, path in enumerate(workers.said):
            if i != victim and statuses[i] != 0:  # or it had come to its end
                assert statuses[i] == 4 or (victim == 0 and statuses[i] == -signal.SIGABRT), workers.all_said()
                assert re.search(ours if statuses[i] == 4 else jax_s, path.read_text()), workers.all_said()
    Workers(folder, *way_on(folder)).finish()
    assert arrays(folder) == arrays(undisturbed)


@pytest.mark.slow
def test_any_of_four_workers_may_be_killed_at_any_moment(tmp_path: Path) -> None:
    undisturbed = tmp_path / "undisturbed"
    Workers(undisturbed, *SETTINGS, *OFTEN, "--run-dir", str(undisturbed)).finish()
    kill_at_random(tmp_path / "killed", undisturbed, KILLS)

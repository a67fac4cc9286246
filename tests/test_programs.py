"""Compiled programs that are kept between processes, and processes that cannot run any."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import eqprop as ep
import eqprop.compile as module
from eqprop.sklearn import EqPropClassifier

CHOOSE = """
import sys, pathlib, jax
from eqprop.compile import keep_programs
keep_programs(pathlib.Path(sys.argv[1]))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.jit(lambda x: (x * 2).sum())(jax.numpy.arange(3.0)).block_until_ready()
print(jax.config.jax_compilation_cache_dir)
"""


def run(folder: Path, **more: str) -> str:
    environment = {name: value for name, value in os.environ.items() if "COMPILATION_CACHE" not in name} | more
    command = [sys.executable, "-c", CHOOSE, str(folder)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.slow
def test_programs_are_kept_unless_the_user_has_chosen_another_folder(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    assert run(ours) == str(ours)
    assert any(ours.iterdir())
    before = sorted(ours.iterdir())
    assert run(ours, JAX_COMPILATION_CACHE_DIR=str(theirs)) == str(theirs)
    assert any(theirs.iterdir()) and sorted(ours.iterdir()) == before


@pytest.mark.slow  # for others compile again what they share
def test_programs_are_forgotten_before_the_process_has_no_memory_map_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    double = module.compiled(lambda x: 2 * x)
    size = double.run._cache_size  # pyright: ignore[reportFunctionMemberAccess]
    few, many = "\n" * module.MOST_MAPS, "\n" * (module.MOST_MAPS + 1)
    for lines, kept in ((few, 2), (many, 1)):
        (tmp_path / "maps").write_text(lines)
        monkeypatch.setattr(module, "MAPS", tmp_path / "maps")
        double(jnp.ones(3))
        monkeypatch.setattr(module, "_programs", module.OFTEN)
        assert double(jnp.ones(4)).sum() == 8
        assert size() == kept


NET = ep.Hopfield.layered(3, 4, 2)
F = ep.Total(NET, ep.SquaredError())
X, Y = np.zeros((6, 3), np.float32), np.eye(2, dtype=np.float32)[[0, 1, 0, 1, 1, 0]]


def forked(call: Callable[[], Any], seconds: float = 10) -> str:
    """What comes of a call in a child of this process, in which JAX has computed."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            call()
            said = "it worked"
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    if not select.select([reading], [], [], seconds)[0]:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with open(reading) as file:
        return file.read() or "it hung"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore")  # JAX and Python warn of forks
def test_a_forked_process_says_that_it_cannot_compute() -> None:
    theta, s = NET.init(jax.random.key(0)), NET.rest(6)
    calls: dict[str, Callable[[], Any]] = {
        "init": lambda: ep.Hopfield.layered(3, 7, 2).init(jax.random.key(0)),
        "rest": lambda: NET.rest(17),
        "settle": lambda: ep.Block(5)(F, theta, (X, None), 0.0, s),
        "learn": lambda: ep.EquilibriumPropagation()(F, theta, (X, Y), s, jax.random.key(0)),
        "fit": lambda: EqPropClassifier(random_state=0, max_iter=1).fit(X, Y.argmax(1)),
    }
    for name, call in calls.items():
        said = forked(call)
        assert said.startswith("InputError: this process was forked"), f"{name}: {said}"
        assert "spawn" in said and "forkserver" in said
    assert forked(lambda: ep.data.load("digits")) == "it worked"  # as workers that load data do


PROCESSES = """
import multiprocessing, os, sys
import joblib
from eqprop.sklearn import EqPropClassifier

def work(number):
    EqPropClassifier((2,), random_state=0, max_iter=1).fit([[0.0], [1.0], [0.5]] * 3, [0, 1, 1] * 3)
    return number

if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(1) as pool:  # nothing was computed yet
        print("before", pool.map(work, [1]), flush=True)
    work(0)
    for way in ("spawn", "forkserver"):
        with multiprocessing.get_context(way).Pool(1) as pool:
            print(way, pool.map(work, [2]), flush=True)
    print("loky", joblib.Parallel(2)(joblib.delayed(work)(k) for k in (3, 4)))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_other_ways_to_start_a_process_work(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(PROCESSES)
    environment = os.environ | {"PYTHONPATH": str(Path(module.__file__).parent.parent)}
    command = [sys.executable, "-W", "ignore", "script.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.splitlines() == ["before [1]", "spawn [2]", "forkserver [2]", "loky [3, 4]"], done.stderr

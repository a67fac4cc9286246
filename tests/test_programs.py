"""Compiled programs that are kept between processes."""

import os
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import pytest

import eqprop.compile as module

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

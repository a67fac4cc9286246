"""The prediction for many devices: what it counts, and its formula where the answer is known."""

import jax
import pytest

from benchmarks import scaling
from benchmarks.scaling import Machine, Work

PROGRAM = """
%body (p: f32[4]) -> f32[4] {
  %sum.1 = f32[4]{0} all-reduce(%p), channel_id=2
}

ENTRY %main (a: f32[3,2], b: f32[5]) -> (f32[3,2], f32[5]) {
  %sum.2 = (f32[3,2]{1,0}, f32[5]{0}) all-reduce(%a, %b), channel_id=1, replica_groups={{0,1}}
  %other = f32[5]{0} add(%b, %b)
}
"""


def test_messages_are_counted_with_their_bytes_and_those_in_loops() -> None:
    assert scaling.count(PROGRAM) == {"messages": 2, "bytes": 4 * (4 + 6 + 5), "in loops": 1}


def test_a_real_program_sums_the_gradient_once() -> None:
    """On one device there is nothing to sum; the bytes of several are those of θ (`python -m benchmarks scaling`)."""
    _, theta = scaling.begin(scaling.NETS["784-500-10"])
    parameters = sum(leaf.size for leaf in jax.tree.leaves(theta))
    assert parameters == 784 * 500 + 500 * 10 + 500 + 10


WORK = Work(operations=1000, products=10, bytes=800, fixed=2.0, each=0.5)


def test_one_device_sends_nothing() -> None:
    assert scaling.update(Machine(None, 0.0, 1.0, 1.0), WORK, 1, 4) == 2 + 0.5 * 4
    assert scaling.update(Machine(100.0, 0.1, 1.0, 1.0), WORK, 1, 4) == 10 * 0.1 + 4 * 1000 / 100


def test_a_sum_takes_what_a_ring_takes() -> None:
    """Each of 4 devices sends its 3/4 twice, and the first byte goes through two levels of a tree and back."""
    spent = scaling.update(Machine(None, 0.0, 100.0, 0.25), WORK, 4, 4)
    assert spent == pytest.approx(2 + 0.5 * 4 + 2 * (3 / 4) * 800 / 100 + 4 * 0.25)


def test_with_a_perfect_network_a_minibatch_that_grows_scales_perfectly() -> None:
    perfect = Machine(None, 0.0, float("inf"), 0.0)
    assert scaling.efficiency(perfect, WORK, 1024, 50) == pytest.approx(1)
    # One that is divided does not: the fixed part stays.
    size = scaling.SHARED / 64
    expected = (2 + 0.5 * scaling.SHARED) / 64 / (2 + 0.5 * size)
    assert scaling.efficiency(perfect, WORK, 64, None) == pytest.approx(expected)

"""Settling in bfloat16, learning in float32."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import eqprop as ep
from eqprop import data
from eqprop.errors import InputError
from eqprop.tree import named

NET = ep.Hopfield.convolutional((8, 8, 1), (16, 32), activation=ep.relu6)
COST = ep.SoftmaxReadout.of(NET, 10)
F = ep.Total(NET, COST)
THETA = NET.init(jax.random.key(0), 1.0) | COST.init(jax.random.key(1), 1.0)
DIGITS = data.load("digits").train
V = (jnp.asarray(DIGITS.x[:64].reshape(-1, 8, 8, 1)), jnp.asarray(DIGITS.y[:64]))


def rule(beta: float, precision: Any) -> ep.EquilibriumPropagation:
    free, nudged = (ep.Block(6, omega=1.0, order=order, precision=precision) for order in ("both", "backward"))
    return ep.EquilibriumPropagation(ep.Symmetric(beta), free, nudged)


def cosines(beta: float) -> dict[str, float]:
    """Between the gradients of float32 and of bfloat16, for each part of θ."""
    one, two = (
        named(rule(beta, precision).learn(F, THETA, V, NET.rest(64), jax.random.key(0)).gradient)
        for precision in (None, "bfloat16")
    )
    return {k: float(jnp.vdot(g, two[k]) / (jnp.linalg.norm(g) * jnp.linalg.norm(two[k]))) for k, g in one.items()}


@pytest.mark.slow
def test_a_strong_nudge_gives_the_gradient_of_float32_and_a_weak_one_is_lost() -> None:
    assert min(cosines(0.5).values()) > 0.99
    assert min(cosines(0.02).values()) < 0.5  # which is why it is refused


@pytest.mark.slow
def test_states_are_rounded_and_what_is_learned_is_not() -> None:
    learned = rule(0.5, "bfloat16")(F, THETA, V, NET.rest(64))
    for leaf in jax.tree.leaves(learned.state):
        assert leaf.dtype == jnp.float32
        np.testing.assert_array_equal(leaf, leaf.astype("bfloat16").astype(jnp.float32))
    gradients = jax.tree.leaves(learned.gradient)
    assert {leaf.dtype for leaf in gradients} == {jnp.dtype("float32")}
    assert any((leaf != leaf.astype("bfloat16").astype(jnp.float32)).any() for leaf in gradients)


def test_every_convolution_of_the_steps_is_in_bfloat16() -> None:
    for relaxation, beta in ((rule(0.5, "bfloat16").free, 0.0), (rule(0.5, "bfloat16").nudged, 0.5)):
        program = str(jax.make_jaxpr(lambda s, r=relaxation, b=beta: r.settle(F, THETA, V, b, s))(NET.rest(64)))
        convolutions = [line for line in program.splitlines() if "= conv_general_dilated" in line]
        assert convolutions
        assert all(":bf16[" in line.split("=")[0] for line in convolutions)


@pytest.mark.slow
def test_a_trace_is_in_the_precision_of_the_steps() -> None:
    free = rule(0.5, "bfloat16").free
    assert isinstance(free, ep.Block)
    path = free.trace(F, THETA, V, 0.0, NET.rest(64)).state
    settled, _ = free(F, THETA, V, 0.0, NET.rest(64))
    for layer, u in path.items():
        assert u.dtype == jnp.bfloat16
        np.testing.assert_array_equal(u[:, -1].astype(jnp.float32), settled[layer])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ep.Block(precision="float16"), "precision='float16' is not one of 'bfloat16'"),  # pyright: ignore
        (lambda: ep.Block(tol=1e-4, precision="bfloat16"), r"tol=0.0001 with precision='bfloat16'.* 0.008 apart"),
        (lambda: rule(0.02, "bfloat16").check(F), r"beta=0.02 with precision='bfloat16'.*0.0625 or more"),
        (
            lambda: replace(rule(0.5, "bfloat16"), nudge=ep.Asymmetric(0.5, push=0.02)).check(F),
            r"push=0.02 with precision='bfloat16'.*0.0625 or more",
        ),
        (
            lambda: replace(rule(0.5, "bfloat16"), nudge=ep.Asymmetric(0.02, push=0.5)).check(F),
            r"beta=0.02 with precision='bfloat16'.*0.0625 or more",
        ),
        (
            lambda: ep.Block(precision="bfloat16")(F, THETA, V, 0.5, jax.tree.map(lambda u: u + 0j, NET.rest(64))),
            "complex states",
        ),
    ],
)
def test_what_bfloat16_cannot_do_is_refused(make: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()

"""Relaxations go downhill, stay in the box, stop where and when they say."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eqprop as ep
from eqprop.verification.zoo import EXAMPLES, HOPFIELD, INPUTS, OUTPUTS, ZOO
from marks import slow, slow_but

seeds = st.integers(0, 2**31 - 1)
betas = st.floats(-0.9, 2.0)
NETWORKS = slow_but(HOPFIELD, "layered", "skip, sigmoid")


def random_start(problem: Any, seed: int, scale: float) -> tuple[Any, Any, Any]:
    """Weights and biases `scale` times as large as usual, and states anywhere in the box (or in ±2)."""
    theta, v, rest = problem.draw(seed)
    space = problem.F.space
    low, high = max(-2, -2 if space.low is None else space.low), min(2, 2 if space.high is None else space.high)
    keys = jax.random.split(jax.random.key(seed + 1), len(rest))
    s = {
        k: jax.random.uniform(key, u.shape, minval=low, maxval=high)
        for key, (k, u) in zip(keys, rest.items(), strict=True)
    }
    return jax.tree.map(lambda w: scale * w, theta), v, s


def assert_downhill(trace: ep.Trace) -> None:
    rise = jnp.diff(trace.energy, axis=1)
    # Rounding: energies are sums of some tens of terms of the size of the energy itself.
    assert (rise <= 1e-12 * (1 + jnp.abs(trace.energy[:, :-1]))).all(), rise.max()


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", NETWORKS)
@settings(max_examples=30)
@given(seed=seeds, scale=st.floats(0.1, 4.0), beta=betas, omega=st.floats(0.05, 1.0))
def test_block_descent_never_raises_the_energy(name: str, seed: int, scale: float, beta: float, omega: float) -> None:
    problem = HOPFIELD[name]
    theta, v, s = random_start(problem, seed, scale)
    assert_downhill(ep.Block(steps=15, omega=omega).trace(problem.F, theta, v, beta, s))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", NETWORKS)
@settings(max_examples=30)
@given(seed=seeds, scale=st.floats(0.1, 2.0), beta=betas, share=st.floats(0.05, 1.0))
def test_small_gradient_steps_never_raise_the_energy(
    name: str, seed: int, scale: float, beta: float, share: float
) -> None:
    problem = HOPFIELD[name]
    theta, v, s = random_start(problem, seed, scale)
    # ε up to 1/L descends, L bounding the Hessian: 1, the cost's, and the weights' once with ρ' and once with ρ''.
    weights = sum(float(jnp.abs(w).sum()) for w in jax.tree.leaves(theta))
    epsilon = share / (1 + max(beta, 0) * 2 + 2 * weights)
    assert_downhill(ep.Gradient(steps=15, epsilon=epsilon).trace(problem.F, theta, v, beta, s))


@pytest.mark.parametrize("relaxation", [slow(ep.Gradient(steps=30, accelerate=True)), ep.Block(steps=30, omega=1.7)])
@settings(max_examples=30)
@given(seed=seeds, beta=betas)
def test_states_never_leave_the_box(relaxation: ep.Stepwise, seed: int, beta: float) -> None:
    problem = HOPFIELD["skip"]
    theta, v, s = random_start(problem, seed, 3.0)
    for path in relaxation.trace(problem.F, theta, v, beta, s).state.values():
        assert (path >= 0).all()
        assert (path <= 1).all()


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_all_relaxations_end_at_the_same_fixed_point(name: str, beta: float) -> None:
    problem = HOPFIELD[name]
    theta, v, rest = problem.draw(seed=11)
    ends = []
    slow, quick = {"steps": 20_000, "tol": 1e-10, "epsilon": 0.2}, {"steps": 5000, "tol": 1e-10}
    for relaxation in (
        ep.Gradient(**slow),
        ep.Gradient(**slow, accelerate=True),
        ep.Block(**quick),
        ep.Block(**quick, accelerate=True, order="backward"),
    ):
        s, info = relaxation(problem.F, theta, v, beta, rest)
        assert info.converged.all()
        assert (info.residual <= 1e-10).all()
        ends.append(s)
    for other in ends[1:]:
        for layer in rest:
            np.testing.assert_allclose(ends[0][layer], other[layer], atol=1e-8)


@pytest.mark.usefixtures("x64")
def test_a_quadratic_energy_settles_to_its_closed_form() -> None:
    """F = ½ sᵀ A s − bᵀ s + β ½ ‖s − y‖² has its minimum at (A + β)⁻¹ (b + β y)."""
    A = jnp.array([[2.0, 0.5], [0.5, 1.0]])
    b, y, beta = jnp.array([1.0, -1.0]), jnp.array([3.0, 2.0]), 0.7

    def F(theta: Any, v: Any, beta: Any, s: Any) -> Any:
        return s @ theta @ s / 2 - v[0] @ s + beta * jnp.sum((s - v[1]) ** 2) / 2

    s, info = ep.Gradient(steps=1000, tol=1e-13, epsilon=0.3)(F, A, (b[None], y[None]), beta, jnp.zeros((1, 2)))
    np.testing.assert_allclose(s[0], np.linalg.solve(A + beta * np.eye(2), b + beta * y), rtol=1e-11)
    assert info.converged.all()


@pytest.mark.usefixtures("x64")
def test_one_block_step_is_the_exact_minimum_over_each_block() -> None:
    """Hard sigmoid, squared cost, ω = 1: s_k = Π((field + β y) / (1 + β)) (closed form)."""
    net = ep.Hopfield.layered(INPUTS, 6, OUTPUTS)
    F, beta = ep.Total(net, ep.SquaredError()), 0.5
    theta = net.init(jax.random.key(0), 2.0)
    x = jax.random.uniform(jax.random.key(1), (EXAMPLES, INPUTS))
    y = jax.nn.one_hot(jnp.arange(EXAMPLES), OUTPUTS)
    start = jax.tree.map(lambda u: u + 0.4, net.rest(EXAMPLES))
    s, _ = ep.Block(steps=1, omega=1.0)(F, theta, (x, y), beta, start)
    W1, W2 = theta["W"]["input-hidden"], theta["W"]["hidden-output"]
    hidden = np.clip(x @ W1 + start["output"] @ W2.T, 0, 1)
    np.testing.assert_allclose(s["hidden"], hidden, rtol=1e-12)
    np.testing.assert_allclose(s["output"], np.clip((hidden @ W2 + beta * y) / (1 + beta), 0, 1), rtol=1e-12)


def test_a_unit_at_the_end_of_the_box_can_leave_and_an_unclipped_one_below_it_cannot() -> None:
    """Section 5.1: ρ' = 0 below 0, so without clipping a unit that went negative stays there for ever."""
    net = ep.Hopfield.layered(1, 1)
    F = ep.Total(net, ep.SquaredError())
    theta = {"W": {"input-output": jnp.array([[0.8]])}, "b": {"output": jnp.zeros(1)}}
    v = (jnp.ones((1, 1)), jnp.zeros((1, 1)))
    s, _ = ep.Gradient(steps=100)(F, theta, v, 0.0, {"output": jnp.zeros((1, 1))})
    assert s["output"].item() == pytest.approx(0.8)

    def unclipped(theta: Any, v: Any, beta: Any, s: Any) -> Any:
        return F(theta, v, beta, s)

    path = ep.Gradient(steps=100).trace(unclipped, theta, v, 0.0, {"output": jnp.full((1, 1), -0.1)})
    assert (path.state["output"][0, :50] < 0).all()
    assert (path.state["output"] <= 0).all()


def test_an_example_rests_when_it_is_done_whatever_the_others_do() -> None:
    problem = ZOO["layered"]
    theta, v, rest = problem.draw(seed=5)
    relaxation = ep.Block(steps=500, tol=1e-5)
    together, info = relaxation(problem.F, theta, v, 0.0, rest)
    assert len(set(info.steps.tolist())) > 1
    for i in range(EXAMPLES):
        one = jax.tree.map(lambda a, i=i: a[i : i + 1], (v, rest))
        alone, alone_info = relaxation(problem.F, theta, one[0], 0.0, one[1])
        assert alone_info.steps.item() == info.steps[i].item()
        for layer in rest:
            np.testing.assert_allclose(alone[layer][0], together[layer][i], atol=1e-6)


def test_steps_are_counted_and_a_tolerance_out_of_reach_is_said_so() -> None:
    problem = ZOO["layered"]
    theta, v, rest = problem.draw(seed=5)
    _, info = ep.Gradient(steps=3, tol=1e-9)(problem.F, theta, v, 0.0, rest)
    assert info.steps.tolist() == [3] * EXAMPLES
    assert not info.converged.any()
    _, info = ep.Gradient(steps=3)(problem.F, theta, v, 0.0, rest)
    assert info.steps.tolist() == [3] * EXAMPLES
    assert (info.residual > 0).all()


@pytest.mark.parametrize("relaxation", [ep.Gradient(steps=7), ep.Block(steps=7)])
def test_the_trace_is_the_way_of_the_settling(relaxation: ep.Stepwise) -> None:
    problem = ZOO["skip"]
    theta, v, rest = problem.draw(seed=5)
    trace = relaxation.trace(problem.F, theta, v, 0.3, rest)
    s, info = relaxation(problem.F, theta, v, 0.3, rest)
    assert trace.energy.shape == trace.residual.shape == (EXAMPLES, 8)
    for layer, path in trace.state.items():
        np.testing.assert_allclose(path[:, 0], rest[layer])
        np.testing.assert_allclose(path[:, -1], s[layer], rtol=1e-6)
    np.testing.assert_allclose(trace.residual[:, -1], info.residual, rtol=1e-5)
    energy = jax.vmap(problem.F, in_axes=(None, 0, None, 0))(theta, v, 0.3, s)
    np.testing.assert_allclose(trace.energy[:, -1], energy, rtol=1e-6)


def test_beta_may_differ_between_examples() -> None:
    problem = ZOO["layered"]
    theta, v, rest = problem.draw(seed=6)
    relaxation, several = ep.Block(steps=20), jnp.linspace(-0.5, 0.5, EXAMPLES)
    mixed, _ = relaxation(problem.F, theta, v, several, rest)
    for i, beta in enumerate(several):
        alone, _ = relaxation(problem.F, theta, v, beta, rest)
        np.testing.assert_allclose(mixed["output"][i], alone["output"][i], rtol=1e-5)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    "relaxation", [slow(ep.Gradient(steps=5)), ep.Block(steps=5), slow(ep.Block(steps=5, tol=1e-3))]
)
def test_a_state_keeps_its_precision(relaxation: ep.Stepwise) -> None:
    problem = ZOO["layered"]
    theta, v, rest = problem.draw(seed=6)
    single = jax.tree.map(lambda u: u.astype(jnp.float32), rest)
    s, _ = relaxation(problem.F, theta, v, jnp.array(0.5), single)
    assert {u.dtype for u in s.values()} == {jnp.dtype(jnp.float32)}
    relaxation.trace(problem.F, theta, v, jnp.array(0.5), single)


def test_without_a_target_it_settles_to_the_same_prediction() -> None:
    problem = ZOO["layered"]
    theta, (x, y), rest = problem.draw(seed=6)
    relaxation = ep.Block(steps=20)
    with_target, _ = relaxation(problem.F, theta, (x, y), 0.0, rest)
    without, _ = relaxation(problem.F, theta, (x, None), 0.0, rest)
    np.testing.assert_allclose(without["output"], with_target["output"], rtol=1e-6)


@pytest.mark.usefixtures("x64")
def test_acceleration_is_exact_where_a_step_shrinks_by_one_factor() -> None:
    """With F = ½ k s² a gradient step multiplies s by 1 − εk: two of them tell where all lead."""

    def F(theta: Any, v: Any, beta: Any, s: Any) -> Any:
        return theta * jnp.sum((s - v) ** 2) / 2

    v = jnp.array([[3.0, -1.0]])
    s, _ = ep.Gradient(steps=2, epsilon=0.01, accelerate=True)(F, 0.7, v, 0.0, jnp.zeros((1, 2)))
    np.testing.assert_allclose(s, v, rtol=1e-9)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", slow_but(["layered", "fully connected, tanh"], "layered"))
@settings(max_examples=15)
@given(seed=seeds, beta=st.floats(-0.5, 1.0))
def test_acceleration_settles_from_anywhere_and_where_it_says(name: str, seed: int, beta: float) -> None:
    problem = HOPFIELD[name]
    theta, v, s = random_start(problem, seed, 1.0)
    s, info = ep.Block(steps=2000, tol=1e-9, accelerate=True)(problem.F, theta, v, beta, s)
    assert info.converged.all()
    slope = jax.vmap(jax.grad(problem.F, argnums=3), in_axes=(None, 0, None, 0))(theta, v, beta, s)
    for layer in s:
        moved = jnp.clip(s[layer] - slope[layer], problem.F.space.low, problem.F.space.high)
        assert jnp.abs(s[layer] - moved).max() <= 1e-8  # the state has moved once more since 1e-9 was met


@pytest.mark.usefixtures("x64")
@pytest.mark.slow
def test_a_backward_sweep_carries_a_nudge_to_the_first_layer() -> None:
    problem = HOPFIELD["layered"]
    theta, v, rest = problem.draw(seed=0)
    free, _ = ep.Block(steps=2000, tol=1e-13)(problem.F, theta, v, 0.0, rest)
    first = next(iter(problem.F.energy.free))
    moves = {}
    for order in ("forward", "backward", "both"):
        nudged, _ = ep.Block(steps=1, order=order)(problem.F, theta, v, 0.5, free)
        moves[order] = float(jnp.abs(nudged[first] - free[first]).max())
    assert moves["forward"] < 1e-10 < 1e-5 < min(moves["backward"], moves["both"])


@pytest.mark.slow
def test_over_relaxation_rises_for_those_still_on_their_way() -> None:
    """One layer alone, F = ½ s² − a s in each unit: a step moves by ω of the way to the minimum."""
    net = ep.Hopfield.layered(1, 1)
    theta = {"W": {"input-output": jnp.array([[0.5]])}, "b": {"output": jnp.array([0.0])}}
    F, v, s = ep.Total(net, ep.SquaredError()), (jnp.array([1.0]), None), {"output": jnp.array([0.1])}
    for t, omega in ((0, 1.2), (6, 1.2), (8, 1.35), (10, 1.5), (99, 1.5)):
        moved, _ = ep.Block().move(F, theta, v, 0.0, s, jnp.array(t))
        assert float(moved["output"][0]) == pytest.approx(0.1 + omega * 0.4, rel=1e-5)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("accelerate", [False, True])
def test_a_state_keeps_its_precision_layer_by_layer(accelerate: bool) -> None:
    problem = HOPFIELD["layered"]
    theta, v, rest = problem.draw(seed=0)
    mixed = rest | {"output": rest["output"].astype(jnp.float32)}
    s, _ = ep.Block(steps=3, accelerate=accelerate)(problem.F, theta, v, 0.0, mixed)
    assert {k: u.dtype for k, u in s.items()} == {k: u.dtype for k, u in mixed.items()}


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
def test_the_flow_in_a_box_is_the_limit_of_the_papers_clipped_steps() -> None:
    # Biases draw the last two layers to 0, where they wait until the first has risen and pulls them up again.
    net = ep.Hopfield.layered(2, 3, 4, 2)
    F, key = ep.Total(net, ep.SquaredError()), jax.random.key(2)
    theta = jax.tree.map(lambda w: jax.random.uniform(key, w.shape), net.init(key))
    theta["b"] = {"hidden1": jnp.full(3, 0.6), "hidden2": jnp.full(4, -0.5), "output": jnp.full(2, -0.3)}
    v = jax.random.uniform(key, (4, 2)), jnp.zeros((4, 2))
    start = net.rest(4) | {
        layer: 0.2 * jax.random.uniform(key, (4, size)) for layer, size in list(net.free.items())[1:]
    }
    epsilon, steps, every = 1e-4, 80_000, 400
    euler = jax.jit(jax.vmap(lambda v, s: _clipped_euler(F, theta, v, s, epsilon, steps, every)))(v, start)
    times = jnp.arange(steps // every + 1) * every * epsilon
    flow = ep.Flow(tol=1e-8).trace(F, theta, v, 0.0, start, times=times)
    path = np.concatenate([np.asarray(euler[layer]) for layer in euler], axis=-1)
    at_end = (path <= 0) | (path >= 1)
    assert np.any(~at_end[:, :-1] & at_end[:, 1:]) and np.any(at_end[:, :-1] & ~at_end[:, 1:])
    for layer in euler:
        np.testing.assert_allclose(flow.state[layer], euler[layer], atol=1e-3)
    settled, _ = ep.Flow(time=8.0, tol=1e-8)(F, theta, v, 0.0, start)
    np.testing.assert_allclose(settled["output"], flow.state["output"][:, -1], atol=1e-6)


def _clipped_euler(F: Any, theta: Any, v: Any, s: Any, epsilon: float, steps: int, every: int) -> Any:
    """The states after each `every` steps s ← Π(s − ε ∂F/∂s), written here anew."""

    def step(_: Any, s: Any) -> Any:
        force = jax.grad(F, argnums=3)(theta, v, 0.0, s)
        return jax.tree.map(lambda u, g: jnp.clip(u - epsilon * g, 0, 1), s, force)

    def some(s: Any, _: Any) -> tuple[Any, Any]:
        s = jax.lax.fori_loop(0, every, step, s)
        return s, s

    _, path = jax.lax.scan(some, s, None, length=steps // every)
    return jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), s, path)


# ---- a settling in progress is a value ----


class Steps(ep.Observer):
    """Every residual that was met, and the states on the way, with room for `room` steps."""

    room: int = eqx.field(static=True)

    def init(self, settling: ep.Settling) -> Any:
        return jnp.zeros((self.room, len(settling.t))), jnp.zeros((self.room, *settling.s["output"].shape))

    def __call__(self, seen: Any, before: ep.Settling, after: ep.Settling) -> Any:
        residuals, outputs = seen
        t = after.t.max() - 1
        return residuals.at[t].set(after.residual), outputs.at[t].set(after.s["output"])


@pytest.mark.parametrize(
    "relaxation",
    [
        ep.Block(steps=6, accelerate=True),
        slow(ep.Block(steps=6, tol=1e-4, accelerate=True)),
        slow(ep.Gradient(steps=6, accelerate=True)),
        ep.Block(steps=6),
    ],
    ids=["accelerated", "with a tolerance", "gradient", "plain"],
)
def test_a_settling_can_be_paused_and_continued_to_the_same_bits(relaxation: ep.Stepwise) -> None:
    """What the acceleration remembers, and the over-relaxation that rises with time, go on where they were."""
    problem = HOPFIELD["layered"]
    theta, v, rest = problem.draw(seed=3)
    begin = relaxation.init(rest)
    at_once, _ = relaxation.advance(problem.F, theta, v, 0.3, begin, 6)
    half, _ = relaxation.advance(problem.F, theta, v, 0.3, begin, 3)
    kept = jax.tree.map(jnp.asarray, jax.tree.map(np.asarray, half))  # as if it had been on disk
    in_two, _ = relaxation.advance(problem.F, theta, v, 0.3, kept, 3)
    jax.tree.map(np.testing.assert_array_equal, in_two, at_once)
    settled, info = relaxation(problem.F, theta, v, 0.3, rest)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), at_once.s, settled)
    np.testing.assert_array_equal(at_once.t, info.steps)


def test_an_observer_sees_every_step() -> None:
    problem = HOPFIELD["layered"]
    theta, v, rest = problem.draw(seed=3)
    relaxation = ep.Block(steps=5)
    trace = relaxation.trace(problem.F, theta, v, 0.3, rest)
    _, (residuals, outputs) = relaxation.advance(problem.F, theta, v, 0.3, relaxation.init(rest), 5, Steps(5))
    np.testing.assert_allclose(residuals.T, trace.residual[:, 1:], rtol=1e-5)
    np.testing.assert_allclose(jnp.moveaxis(outputs, 0, 1), trace.state["output"][:, 1:], atol=1e-6)


def test_phases_at_several_beta_are_those_at_each() -> None:
    problem = HOPFIELD["layered"]
    theta, v, rest = problem.draw(seed=3)
    relaxation = ep.Block(steps=40, tol=1e-5)
    states, info = relaxation.settle_each(problem.F, theta, v, jnp.array([0.4, -0.2]), rest)
    for k, beta in enumerate((0.4, -0.2)):
        alone, told = relaxation(problem.F, theta, v, beta, rest)
        np.testing.assert_allclose(states["output"][k], alone["output"], atol=1e-6)
        np.testing.assert_array_equal(info.steps[k], told.steps)


def test_an_example_that_diverges_leaves_the_others_alone() -> None:
    def energy(theta: Any, v: Any, beta: Any, s: Any) -> Any:
        return v * (s - theta) ** 2 / 2

    s, _ = ep.Gradient(steps=100, epsilon=0.5)(energy, 3.0, jnp.array([1e9, 1.0]), 0.0, jnp.zeros(2))
    assert np.isnan(s[0])
    assert float(s[1]) == pytest.approx(3)


def test_no_examples_settle_to_none() -> None:
    s, info = ep.Gradient(steps=3)(lambda theta, v, beta, s: (s - v) ** 2, 1.0, jnp.zeros(0), 0.0, jnp.zeros(0))
    assert s.shape == info.steps.shape == (0,)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("net", "x", "apart"),
    [
        (ep.Hopfield.layered(4, 3, 2), np.ones((3, 4)), False),
        (ep.Hopfield.convolutional((4, 4, 1), (2,), 2, pool=None), np.ones((3, 4, 4, 1)), True),
    ],
    ids=["vectors", "images"],
)
def test_only_settled_states_of_images_pay_for_being_kept_apart(net: ep.Hopfield, x: np.ndarray, apart: bool) -> None:
    theta = net.init(jax.random.key(0))
    F = ep.Total(net, ep.SquaredError())
    program = jax.make_jaxpr(lambda s: ep.Block(2, omega=1.0).settle(F, theta, (x, None), 0.0, s)[0])(net.rest(3))
    assert ("cond[" in str(program)) is apart


def test_the_trace_of_one_example_can_be_printed_too() -> None:
    trace = ep.Trace({"output": jnp.zeros((2, 3, 4))}, jnp.ones((2, 3)), jnp.zeros((2, 3)))
    assert repr(trace).startswith("<Trace: 2 examples, 2 steps, energy 1 → 1")
    assert repr(jax.tree.map(lambda a: a[0], trace)).startswith("<Trace: 1 examples, 2 steps, energy 1 → 1")

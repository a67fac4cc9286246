"""What the field has found since 2017: oscillators, associative memories, units held at will, streams and echoes."""

from itertools import pairwise
from math import pi
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import eqprop as ep
from eqprop.errors import InputError
from eqprop.study import memory, stream
from eqprop.verification.zoo import SINCE
from marks import slow_but

RNG = np.random.default_rng(0)
XY = ep.Oscillators(ep.Hopfield.layered(4, 6, 3))


def distance(a: Any, b: Any) -> float:
    return float(optax.tree.norm(optax.tree.sub(a, b)) / optax.tree.norm(b))


# ---- oscillators ----


@pytest.mark.usefixtures("x64")
def test_the_energy_of_oscillators_is_the_sum_over_pairs() -> None:
    net = ep.Oscillators(ep.Hopfield.fully_connected(2, 3, 2), turn=0.7)
    theta = jax.tree.map(lambda w: jnp.asarray(RNG.normal(size=w.shape)), net.init(jax.random.key(0)))
    x: Any = RNG.normal(size=2)
    s: Any = {"hidden": RNG.normal(size=3), "output": RNG.normal(size=2)}
    phases = {"input": 0.7 * x, **s}
    energy = 0.0
    for synapse in net.net.synapses:
        w, (a, b) = theta["W"][synapse.name], (phases[synapse.pre], phases[synapse.post])
        pairs = zip(*np.triu_indices(len(a), 1), strict=True) if synapse.pre == synapse.post else np.ndindex(*w.shape)
        energy -= sum(float(value) * np.cos(a[i] - b[j]) for value, (i, j) in zip(np.ravel(w), pairs, strict=True))
    energy -= sum(float(np.sum(theta["b"][k] * np.cos(u) + theta["c"][k] * np.sin(u))) for k, u in s.items())
    assert float(net(theta, x, s)) == pytest.approx(energy, rel=1e-12)


@pytest.mark.usefixtures("x64")
def test_one_oscillator_turns_to_the_field_that_it_feels() -> None:
    """A cos φ + B sin φ is largest at the angle of (A, B)."""
    net = ep.Oscillators(ep.Hopfield.layered(3, 1))
    theta = net.init(jax.random.key(0), 1.0) | {"c": {"output": jnp.array([-0.4])}}
    x = RNG.normal(size=(5, 3))
    w = np.asarray(theta["W"]["input-output"])[:, 0]
    expected = np.arctan2(np.sin(pi / 2 * x) @ w - 0.4, np.cos(pi / 2 * x) @ w + 1)
    settled, info = ep.Block(500, 1e-12, omega=1.0)(ep.Total(net, ep.PhaseError()), theta, (x, None), 0.0, net.rest(5))
    assert info.converged.all()
    np.testing.assert_allclose(np.exp(1j * settled["output"][:, 0]), np.exp(1j * expected), atol=1e-9)


def test_block_descent_never_raises_the_energy_of_oscillators() -> None:
    net = ep.Oscillators(ep.Hopfield.fully_connected(4, 6, 3))
    theta = net.init(jax.random.key(3), 4.0)
    v = (jnp.asarray(RNG.uniform(size=(8, 4)), jnp.float32), jnp.eye(3)[jnp.arange(8) % 3])
    path = ep.Block(30, omega=1.0).trace(ep.Total(net, ep.PhaseError()), theta, v, 0.3, net.rest(8))
    assert all((b <= a + 1e-5).all() for a, b in pairwise(np.asarray(path.energy).T))


def test_whole_turns_make_no_difference_to_the_cost_of_phases() -> None:
    cost, y = ep.PhaseError(low=-1.0, high=0.5), jnp.array([0.0, 1.0])
    for turns in (-1, 0, 2):
        s = {"output": jnp.array([-1.0, 0.5]) + 2 * pi * turns}
        assert float(cost({}, y, s)) == pytest.approx(0, abs=1e-6)
        np.testing.assert_allclose(cost.predict({}, s), y, atol=1e-5)
    half = {"output": cost.clamp(y)["output"] + pi}
    assert float(cost({}, y, half)) == pytest.approx(4, abs=1e-5)  # the largest, 2 for each output


def test_what_oscillators_refuse() -> None:
    conv = ep.Hopfield.convolutional((8, 8, 1), (2,), 3)
    with pytest.raises(InputError, match="pooling"):
        ep.Oscillators(conv)
    with pytest.raises(InputError, match="turn=0"):
        ep.Oscillators(XY.net, turn=0.0)
    with pytest.raises(InputError, match="less than a turn"):
        ep.PhaseError(low=0.0, high=7.0)
    F, theta = ep.Total(XY, ep.PhaseError()), XY.net.init(jax.random.key(0))
    v = (jnp.zeros((2, *XY.net.input_shape)), None)
    for given, word in ((theta, "lacks 'c'"), (theta | {"c": {}}, r"theta\['c'\]")):
        with pytest.raises(InputError, match=word):
            ep.Block(3)(F, given, v, 0.0, XY.net.rest(2))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", slow_but(SINCE, "oscillators", "attention memory"))
def test_equilibrium_propagation_finds_the_implicit_gradient(name: str) -> None:
    subject = SINCE[name].subject(name)
    settle = subject.rule.free
    nudge = ep.Holomorphic(0.01) if isinstance(subject.rule.nudge, ep.Holomorphic) else ep.Symmetric(1e-5)
    given = subject.F, subject.theta, subject.v, subject.s
    exact = ep.ImplicitGradient(settle, tol=1e-12)(*given)
    assert exact.phases["free"].converged.all() and exact.measured["solved"].all()
    assert optax.tree.norm(exact.gradient) > 1e-3
    assert distance(ep.EquilibriumPropagation(nudge, settle, settle)(*given).gradient, exact.gradient) < 1e-6


# ---- memories ----


def stored(separation: ep.Separation, count: int, units: int = 20) -> tuple[ep.Memory, Any, np.ndarray]:
    patterns = np.random.default_rng(1).choice([-1.0, 1.0], (count, units)).astype(np.float32)
    memory = ep.Memory({"units": units}, separation)
    return memory, memory.store({"units": patterns}), patterns


def test_a_step_of_the_modern_hopfield_network_is_softmax_attention() -> None:
    memory, theta, patterns = stored(ep.LogSumExp(0.3), 6)
    state = RNG.normal(size=(4, 20)).astype(np.float32)
    F = ep.Total(memory, ep.SquaredError("units"))
    moved, _ = ep.Gradient(1, epsilon=1.0)(F, theta, (None, None), 0.0, {"units": jnp.asarray(state)})
    attention = jax.nn.softmax(0.3 * state @ patterns.T) @ patterns
    np.testing.assert_allclose(moved["units"], attention, atol=1e-5)
    assert distance(ep.Block(1, omega=1.0)(F, theta, (None, None), 0.0, {"units": jnp.asarray(state)})[0], moved) < 1e-6


def test_flips_are_those_of_the_classical_hopfield_network() -> None:
    """Sign of the field, unit by unit, with Hebb's weights and nothing on the diagonal: in NumPy."""
    memory, theta, patterns = stored(ep.Power(2), 5)
    weights = patterns.T @ patterns / 20
    np.fill_diagonal(weights, 0)
    start = RNG.choice([-1.0, 1.0], (6, 20)).astype(np.float32)
    F = ep.Total(memory, ep.SquaredError("units"))
    settled, info = ep.Flip(30, 0.0)(F, theta, (None, None), 0.0, {"units": jnp.asarray(start)})
    expected = start.copy()
    for state in expected:
        for _ in range(30):
            for i in range(20):
                state[i] = np.sign(weights[i] @ state) or state[i]
    assert info.converged.all()
    np.testing.assert_array_equal(settled["units"], expected)


def test_flip_wants_two_bounds() -> None:
    memory, theta, _ = stored(ep.LogSumExp(), 2)
    with pytest.raises(InputError, match="two bounds"):
        ep.Flip()(ep.Total(memory, ep.SquaredError("units")), theta, (None, None), 0.0, memory.rest(1))


def test_what_memories_refuse() -> None:
    memory = ep.Memory({"a": 2, "b": 1}, ep.Power(3))
    with pytest.raises(InputError, match="one part for each"):
        memory.store({"a": jnp.ones((3, 2))})
    with pytest.raises(InputError, match=r"'b' have the shape \(2, 1\): give \(3, 1\)"):
        memory.store({"a": jnp.ones((3, 2)), "b": jnp.ones((2, 1))})
    for none in (jnp.ones((0, 2)), 1.0):
        with pytest.raises(InputError, match=r"'a' have the shape"):
            memory.store({"a": none, "b": jnp.ones((0, 1))})
    for patterns, words in ((jnp.ones((3, 2)), "is not a dict"), ({"a": "x", "b": "y"}, "no number")):
        with pytest.raises(InputError, match=words):
            memory.store(patterns)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="patterns=0"):
        memory.init(jax.random.key(0), 0)
    with pytest.raises(InputError, match="parts that a pattern has"):
        ep.Memory({}, ep.Power(3))
    F, theta, rest = ep.Total(memory, ep.SquaredError("b")), memory.init(jax.random.key(0), 4), memory.rest(1)
    for wrong, words in (
        ({"p": theta["patterns"]}, "lacks 'patterns'"),
        ({"patterns": jnp.ones((0, 3))}, "one or more"),
    ):
        with pytest.raises(InputError, match=words):
            ep.Gradient(1)(F, wrong, (None, None), 0.0, rest)
    with pytest.raises(InputError, match="has no input"):
        ep.Gradient(1)(F, theta, (jnp.ones((1, 3)), None), 0.0, rest)
    with pytest.raises(InputError, match=r"the state of 'a' has the shape \(3,\) instead of \(2,\)"):
        ep.Gradient(1)(F, theta, (None, None), 0.0, rest | {"a": jnp.ones((1, 3))})
    with pytest.raises(InputError, match="rows of 3"):
        memory({"patterns": jnp.ones((4, 2))}, None, memory.rest(1))
    with pytest.raises(InputError, match="n=1"):
        ep.Power(1)
    with pytest.raises(InputError, match="sharpness=0"):
        ep.LogSumExp(0)
    with pytest.raises(InputError, match=r"separation=3 is not eqprop\.Separation"):
        ep.Memory({"a": 2}, 3)  # pyright: ignore[reportArgumentType]


# ---- units that are held ----


@pytest.fixture(scope="module")
def net() -> tuple[ep.Hopfield, Any, Any]:
    net = ep.Hopfield.layered(4, 6, 3, activation=ep.tanh)
    v = (jnp.asarray(RNG.uniform(size=(5, 4)), jnp.float32), jnp.eye(3)[jnp.arange(5) % 3])
    return net, net.init(jax.random.key(0), 1.0), v


@pytest.mark.parametrize("relaxation", [ep.Block(100, 1e-6), ep.Gradient(400, 1e-6)])
def test_a_layer_that_is_held_is_a_layer_that_is_clamped(net: Any, relaxation: ep.Relaxation) -> None:
    energy, theta, v = net
    F, output = ep.Total(energy, ep.SquaredError()), jnp.asarray(RNG.normal(size=(5, 3)), jnp.float32)
    held, info = relaxation(ep.Hold(F), theta, (v, {"output": (output, jnp.ones((5, 3)))}), 0.0, energy.rest(5))
    rest = {"hidden": energy.rest(5)["hidden"]}
    clamped, _ = relaxation(ep.Clamped(energy, ("output",)), theta, (v, {"output": output}), 0.0, rest)
    assert info.converged.all()
    np.testing.assert_allclose(held["hidden"], clamped["hidden"], atol=1e-5)
    np.testing.assert_allclose(held["output"], output, atol=1e-5)


@pytest.mark.slow
def test_each_example_holds_units_of_its_own(net: Any) -> None:
    """The others are where nothing pulls at them; without any, F settles as ever."""
    energy, theta, v = net
    F, which = ep.Total(energy, ep.SquaredError()), RNG.random((5, 6)) < 0.5
    which[0] = False
    values = np.asarray(RNG.normal(size=(5, 6)), np.float32)
    settled, _ = ep.Block(200, 1e-6)(ep.Hold(F), theta, (v, {"hidden": (values, which)}), 0.0, energy.rest(5))
    np.testing.assert_allclose(settled["hidden"][which], values[which], atol=1e-5)
    force = jax.vmap(F.force, in_axes=(None, 0, None, 0))(theta, v, 0.0, settled)
    assert float(jnp.abs(force["output"]).max()) < 1e-4 and float(jnp.abs(force["hidden"][~which]).max()) < 1e-4
    alone, _ = ep.Block(200, 1e-6)(F, theta, v, 0.0, energy.rest(5))
    np.testing.assert_allclose(settled["output"][0], alone["output"][0], atol=1e-5)


@pytest.mark.usefixtures("x64")
@pytest.mark.slow
def test_what_is_learned_with_units_held_is_the_implicit_gradient() -> None:
    whole = ep.Memory({"cue": 4, "answer": 3}, ep.LogSumExp(2.0))
    theta = whole.init(jax.random.key(0), 5, gain=2.0)
    F, settle = ep.Hold(ep.Total(whole, ep.SquaredError("answer"))), ep.Block(500, 1e-13, omega=1.0)
    v = ((None, jnp.eye(3)), {"cue": (RNG.normal(size=(3, 4)), np.ones((3, 4)))})
    exact = ep.ImplicitGradient(settle, tol=1e-12)(F, theta, v, whole.rest(3)).gradient
    found = ep.EquilibriumPropagation(ep.Symmetric(1e-4), settle, settle)(F, theta, v, whole.rest(3)).gradient
    assert distance(found, exact) < 1e-6


def test_what_is_refused_to_be_held() -> None:
    memory = ep.Memory({"units": 3}, ep.Power(2))
    F, theta = ep.Hold(ep.Total(memory, ep.SquaredError("units"))), memory.store({"units": np.ones((2, 3))})
    whole = np.ones((1, 3))

    def settle(held: Any) -> None:
        ep.Gradient(2)(F, theta, held, 0.0, memory.rest(1))

    with pytest.raises(InputError, match="there are units"):
        settle(((None, None), {"pixels": (whole, whole)}))
    with pytest.raises(InputError, match="values, which"):
        settle(((None, None), {"units": (whole, np.ones((1, 2)))}))
    with pytest.raises(InputError, match="outside of its bounds"):
        settle(((None, None), {"units": (2 * whole, whole)}))
    settle(((None, None), {"units": (2 * whole, 0 * whole)}))  # none of them is held
    with pytest.raises(InputError, match="v of F"):
        settle((None, None))


# ---- streams ----


def test_a_stream_shows_each_example_for_as_long_as_it_dwells_and_moves_it() -> None:
    x = jnp.arange(50.0)[:, None]
    feed = ep.Stream((x, x), lanes=4, dwell=3, move=lambda t, v: (v[0] + 100 * t, v[1]), batches=10)
    key = jax.random.key(0)
    shown = [batch for epoch in range(2) for batch in feed.epoch(key, epoch)]
    examples = np.stack([batch.v[1][:, 0] for batch in shown])
    moved = np.stack([batch.v[0][:, 0] for batch in shown])
    np.testing.assert_array_equal(moved, examples + 100 * np.arange(20)[:, None])  # time goes on between epochs
    changes = np.diff(examples, axis=0) != 0
    for lane in range(4):
        times = np.flatnonzero(changes[:, lane])
        assert len(times) >= 4 and set(np.diff(times)) <= {3, 6, 9}  # an example may be drawn twice in a row
    assert all((batch.slot == np.arange(4)).all() for batch in shown)
    again = next(feed.epoch(key, 1, 4))
    np.testing.assert_array_equal(again.v[0], shown[14].v[0])


def test_a_stream_holds_no_more_than_its_examples() -> None:
    """The program of a stream of a million times takes no more memory than that of a hundred."""
    sizes = []
    for batches in (100, 1_000_000):
        feed = ep.Stream((jnp.ones((10, 3)), jnp.ones((10, 2))), lanes=2, dwell=5, batches=batches)
        window, stop = feed.window(jax.random.key(0), 0, 0, batches)
        sizes.append(sum(leaf.nbytes for leaf in jax.tree.leaves(window)))
        assert stop == batches
    assert sizes[0] == sizes[1]


def test_streams_refuse_what_cannot_be_meant() -> None:
    for odd in ({"lanes": 0}, {"dwell": 1.5}, {"batches": -1}):
        with pytest.raises(InputError, match=next(iter(odd))):
            ep.Stream((jnp.ones((3, 2)), jnp.ones((3, 1))), **odd)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="no examples"):
        ep.Stream((jnp.ones((0, 2)), jnp.ones((0, 1))))


def test_images_turn_about_their_middle() -> None:
    image = jnp.asarray(RNG.uniform(size=(9, 9)), jnp.float32)
    np.testing.assert_allclose(stream.turned(image, 0.0), image, atol=1e-6)
    np.testing.assert_allclose(stream.turned(image, 90.0), np.rot90(image, -1), atol=1e-4)
    np.testing.assert_allclose(stream.turned(image, 180.0), image[::-1, ::-1], atol=1e-4)


# ---- echoes ----


def hamiltonian() -> tuple[ep.Path, Any, Any, Any]:
    net = ep.Hopfield.layered(3, 5, 2, activation=ep.tanh)
    F = ep.Path(ep.Total(net, ep.SquaredError()), steps=6, dt=0.4)
    v = (RNG.normal(size=(4, 7, 3)), RNG.normal(size=(4, 7, 2)))
    start = jax.tree.map(lambda u: u.at[:, 0].set(RNG.normal(size=u[:, 0].shape)), F.space.rest(4))
    return F, net.init(jax.random.key(0), 2.0), v, start


@pytest.mark.usefixtures("x64")
@pytest.mark.slow
def test_an_echo_brings_the_gradient_through_time() -> None:
    """Beside automatic differentiation of leapfrog written anew, at a step that is far from small."""
    F, theta, (x, y), start = hamiltonian()
    energy = F.F.energy  # pyright: ignore[reportAttributeAccessIssue]

    def mean_cost(theta: Any) -> Any:
        def one(x: Any, y: Any, s: Any) -> Any:
            q, p = ({k: u[0, part] for k, u in s.items()} for part in (0, 1))
            total = 0.0
            for t in range(7):
                total += (0.2 if t in (0, 6) else 0.4) * jnp.sum((q["output"] - y[t]) ** 2) / 2
                if t < 6:
                    p = jax.tree.map(lambda a, g: a - 0.2 * g, p, jax.grad(energy, 2)(theta, x[t], q))
                    q = jax.tree.map(lambda a, b: a + 0.4 * b, q, p)
                    p = jax.tree.map(lambda a, g: a - 0.2 * g, p, jax.grad(energy, 2)(theta, x[t + 1], q))
            return total

        return jnp.mean(jax.vmap(one)(x, y, start))

    cost, exact = jax.jit(jax.value_and_grad(mean_cost))(theta)
    errors = []
    for beta in (1e-3, 1e-4):
        rule = ep.EquilibriumPropagation(ep.Symmetric(beta), ep.Motion(), ep.Echo())
        learned = rule(F, theta, (x, y), start)
        errors.append(distance(learned.gradient, exact))
    assert errors[1] < 1e-6
    assert errors[0] / errors[1] == pytest.approx(100, rel=0.05)  # of second order in β
    costs = jax.vmap(F.cost_at, in_axes=(None, 0, 0))(theta, (x, y), learned.state)
    assert float(costs.mean()) == pytest.approx(float(cost), rel=1e-12)
    back, _ = ep.Echo()(F, theta, (x, y), 0.0, learned.state)
    assert distance(back, learned.state) < 1e-10


def test_what_cannot_move_is_refused() -> None:
    boxed = ep.Total(ep.Hopfield.layered(3, 2), ep.SquaredError())
    with pytest.raises(InputError, match="without bounds"):
        ep.Path(boxed, steps=3)
    with pytest.raises(InputError, match="Path"):
        ep.Motion()(boxed, {}, (jnp.ones((1, 3)), None), 0.0, boxed.space.rest(1))
    F = ep.Path(ep.Total(XY, ep.PhaseError()), steps=3)
    with pytest.raises(InputError, match="steps \\+ 1 = 4"):
        ep.Motion()(F, XY.init(jax.random.key(0)), (jnp.ones((2, 3, 4)), jnp.ones((2, 3, 3))), 0.0, F.space.rest(2))
    with pytest.raises(InputError, match="the state of 'hidden' has the shape"):
        ep.Motion()(F, XY.init(jax.random.key(0)), (jnp.ones((2, 4, 4)), jnp.ones((2, 4, 3))), 0.0, XY.rest(2))


# ---- studies ----


def test_the_capacities_that_theory_predicts() -> None:
    assert memory.capacity("classical, n = 2", 1000) == pytest.approx(138)
    assert memory.capacity("dense, n = 3", 100) == pytest.approx(0.138 * 100**2 / 3)
    assert memory.capacity("dense, n = 4", 100) == pytest.approx(0.138 * 100**3 / 15)
    assert memory.capacity("attention", 10) == pytest.approx((np.e / np.cosh(1)) ** 10)


def test_a_memory_recalls_below_its_capacity_and_fails_above() -> None:
    """N = 200 is large enough that the classical network fails abruptly."""
    below, above = (
        memory.recall("classical, n = 2", 200, count, 60 - count, 10, "itself", np.random.default_rng(0))
        for count in (14, 60)
    )
    assert below < 0.001 and above > 0.1


def test_where_between_two_loads_a_memory_fails() -> None:
    study = memory.Question(loads=(0.5, 1.0), classical=(100,))
    runs = [{"run": ["classical, n = 2", 100, load, "itself"], "patterns": p, "wrong": w} for load, p, w in (
        (0.5, 7, [0.0, 0.0]), (1.0, 14, [0.01, 0.03]))]  # fmt: skip
    assert study.recalled(runs, "classical, n = 2", 100, "itself") == pytest.approx(10.5)  # half way to 2 %
    assert study.recalled(runs[:1], "classical, n = 2", 100, "itself") is None

"""Devices that are not perfect: each effect does what its name says, follows from its seed, and can be resumed."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import eqprop as ep
from eqprop.device import Exact, Readings, Writing
from eqprop.rule import parts
from eqprop.store import checkpoint
from marks import slow

MANY = 40_000
KEY = jax.random.key(0)


def write(effect: Any, w: Any, *changes: Any) -> list[np.ndarray]:
    """What is written, change after change."""
    w, state, done = jnp.asarray(w), effect.init(jnp.asarray(w)), []
    for change in changes:
        update, state = effect.update(jnp.broadcast_to(change, w.shape).astype(w.dtype), state, w)
        w = optax.apply_updates(w, update)
        done.append(np.asarray(w))
    return done


def steps(effect: Any, change: float, w: float = 0.0) -> np.ndarray:
    """The first step of many devices, all at w."""
    return write(effect, jnp.full(MANY, w), change)[0] - np.float32(w)


def near(found: Any, expected: float, deviation: float) -> None:
    """A mean of many numbers with this standard deviation."""
    np.testing.assert_allclose(np.mean(found), expected, atol=5 * deviation / np.sqrt(np.size(found)))


# ---- writing ----


@pytest.mark.parametrize(("low", "high"), [(0.05, 1.0), (9.9e-6, 6.25e-4), (-1 / 3, 0.7), (0.0, 3.3)])
def test_no_noise_leads_beyond_the_bounds(low: float, high: float) -> None:
    noisy = optax.chain(ep.device.write_noise(1.0, high - low), ep.device.bounds(low, high))
    w = jax.random.uniform(KEY, (MANY,), minval=-2 * high, maxval=3 * high)
    for now in write(noisy, w, *[0.3 * (high - low)] * 20):
        assert np.float32(low) <= now.min() and now.max() <= np.float32(high)


def test_a_ratio_says_the_lower_bound() -> None:
    assert write(ep.device.bounds(w_max=2.0, ratio=20.0), jnp.ones(1), -5.0)[0] == pytest.approx(0.1)


def test_devices_have_as_many_states_as_were_given() -> None:
    effect = ep.device.states(16, 0.05, 1.0)
    w = jax.random.uniform(KEY, (MANY,))
    for now in write(effect, w, 0.0, 0.01, -0.02):
        assert len(np.unique(np.round(now, 5))) == 16
        np.testing.assert_allclose(np.round((now - 0.05) * 15 / 0.95), (now - 0.05) * 15 / 0.95, atol=1e-4)


@pytest.mark.slow
def test_what_is_below_half_a_level_is_lost_unless_it_is_rounded_well() -> None:
    """Levels of 0.1, and 30 updates of 0.02, a fifth of a level."""
    w, changes = jnp.full(MANY, 0.2), [0.02] * 30
    nearest, stochastic, accumulated = (
        write(ep.device.states(31, 0.0, 3.0, rounding), w, *changes)[-1]
        for rounding in ("nearest", "stochastic", "accumulate")
    )
    np.testing.assert_allclose(nearest, 0.2, rtol=1e-6)
    near(stochastic, 0.8, 0.1 * np.sqrt(30 * 0.2 * 0.8))
    np.testing.assert_allclose(accumulated, 0.8, atol=1e-6)


def test_a_device_that_is_not_written_stays_where_noise_has_left_it() -> None:
    effect = optax.chain(ep.device.states(11, 0.0, 1.0, "nearest"), ep.device.write_noise(absolute=0.01))
    first, second, third = write(effect, jnp.full(MANY, 0.2), 0.3, 0.0, 0.1)
    near((first - 0.5) ** 2, 0.01**2, 0.01**2 * np.sqrt(2))
    np.testing.assert_array_equal(first, second)
    near(third, 0.6, 0.01)


def test_noise_of_writes_is_relative_absolute_or_both() -> None:
    assert np.std(steps(ep.device.write_noise(relative=0.3), 0.5)) == pytest.approx(0.15, rel=0.03)
    assert np.std(steps(ep.device.write_noise(absolute=0.3), 0.5)) == pytest.approx(0.3, rel=0.03)
    assert np.std(steps(ep.device.write_noise(0.8, 0.3), 0.5)) == pytest.approx(0.5, rel=0.03)
    near(steps(ep.device.write_noise(0.8, 0.3), 0.5), 0.5, 0.5)
    assert not steps(ep.device.write_noise(0.8, 0.3), 0.0).any()


def test_each_device_has_its_own_step_for_ever() -> None:
    first, second = write(ep.device.device_to_device(0.2), jnp.zeros(MANY), 1.0, -0.5)
    near(first, 1.0, 0.2)
    assert np.std(first) == pytest.approx(0.2, rel=0.03)
    np.testing.assert_allclose(second - first, -first / 2, rtol=1e-4)
    assert (steps(ep.device.device_to_device(2.0), 1.0) >= 0).all()


def test_steps_up_and_down_differ_by_the_ratio() -> None:
    effect = ep.device.up_down(0.2)
    assert steps(effect, 0.1)[0] / -steps(effect, -0.1)[0] == pytest.approx(1.2 / 0.8)
    spread = steps(ep.device.up_down(0.2, 0.1), 1.0)
    near(spread, 1.2, 0.1)
    assert np.std(spread) == pytest.approx(0.1, rel=0.03)


@pytest.mark.parametrize("beta", [0.0, 0.4])
def test_soft_bounds_pull_to_where_up_and_down_balance(beta: float) -> None:
    effect = optax.chain(ep.device.up_down(beta), ep.device.soft_bounds(0.0, 1.0))
    w = write(effect, jnp.array([0.0, 0.3, 1.0]), *[0.02, -0.02] * 100)[-1]
    np.testing.assert_allclose(w, 0.5 + 0.5 * beta, atol=0.02)


def test_soft_bounds_shrink_the_step_to_the_bound_it_goes_to() -> None:
    w, soft = jnp.array([0.0, 0.5, 0.75, 1.0]), ep.device.soft_bounds(0.0, 1.0)
    np.testing.assert_allclose(write(soft, w, 0.1)[0] - w, [0.2, 0.1, 0.05, 0.0], atol=1e-6)
    np.testing.assert_allclose(write(soft, w, -0.1)[0] - w, [0.0, -0.1, -0.15, -0.2], atol=1e-6)
    np.testing.assert_allclose(write(soft, w, 5.0)[0], 1.0)
    half = ep.device.linear_step(0.0, 1.0, gamma_up=0.5, gamma_down=0.0)
    np.testing.assert_allclose(write(half, w, 0.1)[0] - w, [0.15, 0.1, 0.075, 0.0], atol=1e-6)
    np.testing.assert_allclose(write(half, w, -0.1)[0], np.clip(w - 0.1, 0, 1), atol=1e-6)


def test_updates_are_whole_numbers_of_pulses() -> None:
    done = steps(ep.device.constant_step(0.01), -0.034)
    assert set(np.round(done / 0.01, 3)) == {-3.0, -4.0}
    near(done, -0.034, 0.005)


def test_each_pulse_has_its_noise() -> None:
    done = steps(ep.device.constant_step(0.01, dw_min_std=0.3), 0.16)
    near(done, 0.16, 0.012)
    assert np.std(done) == pytest.approx(0.01 * 0.3 * 4, rel=0.03)
    spread = steps(ep.device.constant_step(0.01, dw_min_dtod=0.3, up_down=0.1), 0.16)
    near(spread, 0.16 * 1.1, 0.06)
    assert np.std(spread) == pytest.approx(0.16 * 1.1 * 0.3, rel=0.03)


def test_stuck_devices_never_change() -> None:
    w = jax.random.uniform(KEY, (MANY,))
    last = write(optax.chain(ep.device.write_noise(1.0), ep.device.stuck(0.1)), w, 1.0, -0.3, 0.2)[-1]
    near(last == w, 0.1, 0.3)
    first, second = write(ep.device.stuck(0.1, value=0.25), w, 1.0, 1.0)
    near(np.abs(second - 0.25) < 1e-6, 0.1, 0.3)
    assert ((np.abs(first - 0.25) < 1e-6) == (np.abs(second - 0.25) < 1e-6)).all()


def test_decay_goes_a_part_of_the_way_each_time() -> None:
    last = write(ep.device.decay(20.0, reset=0.3), jnp.array([1.0, 0.0]), *[0.0] * 30)[-1]
    np.testing.assert_allclose(last, 0.3 + np.array([0.7, -0.3]) * 0.95**30, rtol=1e-5)


def test_drift_is_a_power_of_the_time_since_the_last_write() -> None:
    w = write(ep.device.drift(0.1, t_0=2.0), jnp.array([1.0, 0.5]), *[0.0] * 8, 0.2, *[0.0] * 4)
    np.testing.assert_allclose(w[7], np.array([1.0, 0.5]) * (1 + 8 / 2.0) ** -0.1, rtol=1e-5)
    np.testing.assert_allclose(w[-1], w[8] * (1 + 4 / 2.0) ** -0.1, rtol=1e-5)
    spread = np.log(write(ep.device.drift(0.1, nu_dtod=0.3), jnp.ones(MANY), 0.0)[0]) / -np.log(2.0)
    near(spread, 0.1, 0.03)
    assert np.std(spread) == pytest.approx(0.03, rel=0.03)


ALL: dict[str, Any] = {
    "dw_min_std": 0.1,
    "dw_min_dtod": 0.3,
    "up_down": 0.1,
    "up_down_dtod": 0.1,
    "soft_bounds": True,
    "states": 64,
    "noise": 0.02,
    "lifetime": 1e4,
    "nu": 0.01,
    "nu_dtod": 0.3,
    "w_max": 1.0,
    "ratio": 20.0,
    "stuck": 0.05,
    "parts": ("W",),
}


@pytest.mark.slow
def test_all_of_it_follows_from_the_seed() -> None:
    def after(seed: int) -> np.ndarray:
        return write(Writing(**ALL | {"parts": (), "seed": seed}).behind(optax.sgd(0.1)), jnp.full(50, 0.5), 1.0, -2.0)[
            -1
        ]

    np.testing.assert_array_equal(after(3), after(3))
    assert (after(3) != after(4)).any()


def test_effects_of_one_seed_draw_different_numbers() -> None:
    own = steps(ep.device.device_to_device(0.2), 1.0)
    for other in (ep.device.write_noise(0.2), ep.device.up_down(0.0, 0.2)):
        assert abs(np.corrcoef(own, steps(other, 1.0))[0, 1]) < 0.03


def test_what_is_left_out_changes_nothing() -> None:
    optimizer = optax.adam(0.1)
    assert Writing().behind(optimizer) is optimizer


def test_only_the_parts_that_are_devices_are_written_so() -> None:
    theta = {"W": {"a": jnp.full(3, 0.5), "c": jnp.full(3, 0.5)}, "b": jnp.full(3, 0.5)}
    optimizer = Writing(w_min=0.4, w_max=0.6, parts=("W/a", "b")).behind(optax.sgd(1.0))
    updates, _ = optimizer.update(jax.tree.map(jnp.ones_like, theta), optimizer.init(theta), theta)
    after = jax.tree.map(jnp.add, theta, updates)
    np.testing.assert_allclose([after["W"]["a"][0], after["W"]["c"][0], after["b"][0]], [0.4, -0.5, 0.4], rtol=1e-6)


def test_rates_that_are_data_come_before_the_devices() -> None:
    optimizer = Writing(dw_min=0.5).behind(ep.Rated(optax.sgd(1.0), {"W": 0.5, "b": 1.0}))
    theta = {"W": jnp.zeros(3), "b": jnp.zeros(3)}
    updates, _ = optimizer.update(jax.tree.map(jnp.ones_like, theta), optimizer.init(theta), theta)
    np.testing.assert_allclose([updates["W"][0], updates["b"][0]], [-0.5, -1.0])


def test_devices_start_anywhere_in_their_range() -> None:
    theta = {"W": jnp.zeros(MANY), "b": jnp.zeros(2)}
    start = Writing(w_max=1.0, ratio=20.0, states=64, parts=("W",)).start(theta, KEY)
    assert not start["b"].any()
    assert len(np.unique(start["W"])) == 64
    assert (start["W"].min(), start["W"].max()) == (np.float32(0.05), 1)
    near(start["W"], 0.525, 0.95 / np.sqrt(12))


# ---- reading ----

STATES = {"hidden": jax.random.normal(jax.random.key(1), (2, 200, 50)), "output": jnp.full((2, 200, 30), 0.3)}


def read(**effects: Any) -> Any:
    return Readings(**effects)(STATES, KEY)


def error(**effects: Any) -> np.ndarray:
    return np.asarray(read(**effects)["output"]) - 0.3


def test_reads_have_noise_that_repeats_average_away() -> None:
    once, averaged = error(noise=0.1), error(noise=0.1, repeats=16)
    near(once, 0.0, 0.1)
    assert np.std(once) == pytest.approx(0.1, rel=0.05)
    assert np.std(averaged) == pytest.approx(0.025, rel=0.05)
    assert np.std(error(noise=0.1, low=-2.0, high=3.0)) == pytest.approx(0.5, rel=0.05)  # of full scale


def test_a_converter_clips_and_rounds() -> None:
    seen = np.asarray(read(bits=3, low=-1.0, high=0.75)["hidden"])
    np.testing.assert_allclose(np.unique(seen), np.arange(-1, 1, 0.25), atol=1e-6)
    clipped = np.clip(STATES["hidden"], -1, 0.75)
    assert np.abs(seen - clipped).max() <= 0.125 + 1e-6
    np.testing.assert_allclose(read(low=-1.0, high=0.75)["hidden"], clipped)


def test_with_noise_repeats_see_more_than_the_converter_has_bits() -> None:
    alone, dithered = error(bits=2, low=0.0, high=3.0), error(bits=2, low=0.0, high=3.0, noise=0.2, repeats=100)
    assert np.abs(alone).max() == pytest.approx(0.3)
    assert np.abs(dithered.mean(axis=(0, 1))).max() < 0.1


def test_an_offset_is_in_later_phases_only_and_always_the_same() -> None:
    shifted = error(offset=0.05)
    np.testing.assert_allclose(shifted[0], 0, atol=1e-6)
    np.testing.assert_allclose(shifted[1], 0.05, atol=1e-6)
    own = error(offset_spread=0.1)
    np.testing.assert_allclose(own[0], 0, atol=1e-6)
    np.testing.assert_allclose(own[1], np.broadcast_to(own[1, :1], own[1].shape))
    np.testing.assert_array_equal(own, Readings(offset_spread=0.1)(STATES, jax.random.key(9))["output"] - 0.3)
    assert 0.05 < np.std(own[1]) < 0.15
    assert (own != error(offset_spread=0.1, seed=1)).any()
    np.testing.assert_allclose(error(offset=0.05, low=-1.0, high=1.0)[1], 0.1, atol=1e-6)  # of full scale


def test_each_amplifier_has_its_gain() -> None:
    factors = np.asarray(read(gain_spread=0.1)["hidden"] / STATES["hidden"])
    np.testing.assert_allclose(factors, np.broadcast_to(factors[0, 0], factors.shape), rtol=1e-4)
    assert 0.05 < np.std(factors[0, 0]) < 0.15


def test_layers_may_have_ranges_of_their_own() -> None:
    seen = read(bits=1, low={"output": 0.0, "hidden": -1.0}, high={"output": 0.5, "hidden": 1.0})
    np.testing.assert_allclose(np.unique(seen["hidden"]), [-1, 1])
    np.testing.assert_allclose(np.unique(seen["output"]), [0.5])


NET = ep.Resistive.layered(4, 6, 3, gain=10.0)
F = ep.Total(NET, ep.SquaredError())
THETA = NET.init(jax.random.key(2))
V = (jax.random.uniform(jax.random.key(3), (8, 4)), jnp.eye(3)[jnp.arange(8) % 3])
REST = NET.space.rest(8)
SWEEPS: dict[str, Any] = {"free": ep.Block(8, omega=1.0), "nudged": ep.Block(8, omega=1.0, order="backward")}
SHIFTED = Readings(offset=0.1)


def apart(a: Any, b: Any) -> float:
    return max(float(jnp.abs(u - w).max()) for u, w in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("nudge", [ep.Symmetric(0.2), slow(ep.OneSided(0.2))], ids=["symmetric", "one-sided"])
def test_a_rule_compares_what_is_read_and_the_network_goes_on_from_what_is(nudge: ep.Nudge) -> None:
    exact = ep.EquilibriumPropagation(nudge, **SWEEPS)(F, THETA, V, REST)
    learned = ep.EquilibriumPropagation(nudge, **SWEEPS, reading=SHIFTED)(F, THETA, V, REST)
    assert apart(exact.state, learned.state) == 0

    beta, w = nudge(KEY)
    states = SWEEPS["nudged"].settle_each(F, THETA, V, beta, exact.state)[0]
    if nudge.uses_free:  # which is read as it settled, and does not go on settling
        states = jax.tree.map(lambda one, more: more.at[0].set(one), exact.state, states)
    for reading, found in ((lambda u: u, exact), (lambda u: u.at[1].add(0.1), learned)):
        expected = F.contrast(THETA, V, beta, w, jax.tree.map(reading, states))
        np.testing.assert_allclose(found.gradient["W"]["input-hidden"], expected["W"]["input-hidden"], atol=2e-3)


CLAMPED: dict[str, Any] = {"free": ep.Block(8, omega=1.0), "clamped": ep.Block(8, omega=1.0, order="backward")}


@pytest.mark.parametrize(
    "rule",
    [
        slow(lambda reading: ep.ContrastiveHebbian(**CLAMPED, reading=reading)),
        slow(lambda reading: ep.CoupledLearning(0.5, **CLAMPED, reading=reading)),
        slow(lambda reading: ep.VectorField(ep.OneSided(0.2), **SWEEPS, reading=reading)),
    ],
    ids=["contrastive Hebbian", "coupled learning", "vector field"],
)
def test_other_rules_of_two_phases_read_too(rule: Any) -> None:
    exact, learned = (rule(reading)(F, THETA, V, REST) for reading in (Exact(), SHIFTED))
    assert apart(exact.state, learned.state) == 0
    assert apart(exact.gradient, learned.gradient) > 1e-2
    assert apart(exact.gradient, rule(Readings())(F, THETA, V, REST).gradient) < 1e-5


@pytest.mark.slow
def test_read_noise_cancels_on_average() -> None:
    """The squares of independent noise are alike in both phases."""
    exact = ep.EquilibriumPropagation(ep.Symmetric(0.2), **SWEEPS)(F, THETA, V, REST).gradient
    noisy = ep.EquilibriumPropagation(ep.Symmetric(0.2), **SWEEPS, reading=Readings(noise=0.01))
    found = [noisy(F, THETA, V, REST, jax.random.key(k)).gradient["W"]["hidden-output"] for k in range(100)]
    spread = np.std(found, axis=0)
    assert (spread > 0).all()
    assert (np.abs(np.mean(found, axis=0) - exact["W"]["hidden-output"]) < 5 * spread / np.sqrt(100)).all()


def test_parts_of_a_batch_have_noise_of_their_own() -> None:
    def learn(v: Any, s: Any, weight: Any, key: Any) -> ep.Learned:
        noise = jnp.full(len(s), jax.random.normal(key))
        return ep.Learned({"w": noise[0]}, noise, {}, {})

    learned = parts.learn_in_parts(learn, 4, {"w": jnp.zeros(())}, V, jnp.zeros(8), None, KEY)
    assert len(np.unique(learned.state)) == 4
    np.testing.assert_allclose(learned.gradient["w"], np.mean(learned.state), rtol=1e-5)


def test_other_noise_compiles_nothing() -> None:
    from eqprop.rule import base

    def learn(noise: float, bits: int) -> None:
        reading = Readings(noise=noise, bits=bits, low=-2.0, high=2.0)
        ep.EquilibriumPropagation(**SWEEPS, reading=reading)(F, THETA, V, REST)

    learn(0.01, 8)
    before = base._learn.run._cache_size()  # pyright: ignore[reportFunctionMemberAccess]
    learn(0.02, 6)
    assert base._learn.run._cache_size() == before  # pyright: ignore[reportFunctionMemberAccess]


# ---- both ----


@pytest.mark.slow
def test_training_goes_on_from_a_file_to_the_bit(tmp_path: Path) -> None:
    devices = Writing(**ALL)
    reading = Readings(noise=0.01, bits=8, low=-2.0, high=2.0, offset_spread=0.01)
    rule = ep.EquilibriumPropagation(ep.Symmetric(0.2), **SWEEPS, reading=reading)
    trainer, feed = ep.Trainer(F, rule, devices.behind(optax.adam(0.01))), ep.Shuffled(V, 2)
    start = trainer.init(devices.start(THETA, KEY), feed, jax.random.key(4))
    straight = trainer.advance(start, feed, 4)

    half = trainer.advance(start, feed, 2)
    checkpoint.save(tmp_path / "half", half, {})
    resumed = trainer.advance(checkpoint.load(tmp_path / "half", start)[0], feed, 2)
    assert apart(jax.tree.map(plain, resumed), jax.tree.map(plain, straight)) == 0
    assert apart(straight.theta, start.theta) > 0


def plain(leaf: Any) -> Any:
    return np.asarray(jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf, float)


@pytest.mark.slow
def test_a_circuit_of_such_devices_still_learns() -> None:
    """8-bit reads with 1 % noise; 6-bit conductances over a range of 20:1, written with 2 % noise."""
    digits = ep.data.load("digits")
    net = ep.Resistive.layered(64, 100, 10, gain=30.0, amplification=4.0, back=1.0)
    above = np.arange(100) < 50  # where diodes keep voltages above 0
    reading = Readings(
        noise=0.01,
        bits=8,
        low={"hidden": np.where(above, 0.0, -2.5), "output": -0.5},
        high={"hidden": np.where(above, 2.5, 0.0), "output": 1.5},
        repeats=16,
    )
    sweeps = ep.Block(4, omega=1.0), ep.Block(4, omega=1.0, order="backward")
    rule = ep.EquilibriumPropagation(ep.Asymmetric(15.0, push=4.0), *sweeps, reading)
    devices = Writing(w_max=1.0, ratio=20.0, states=64, noise=0.02)
    trainer = ep.Trainer(
        ep.Total(net, ep.SquaredError()),
        rule,
        devices.behind(optax.adam(0.01)),
        metrics={"error": ep.SquaredError().misclassified},
    )
    feed = ep.Shuffled(digits.train.v, 10)
    start = trainer.init(devices.start(net.init(KEY), jax.random.key(5)), feed, jax.random.key(1))
    state, history = ep.fit(trainer, start, feed, digits.test.v, epochs=1)
    assert history[-1]["valid_error"] < 0.25
    assert all(np.float32(0.05) <= g.min() and g.max() <= 1 for g in state.theta["W"].values())


def test_diodes_are_spread_around_the_typical_one() -> None:
    factors = np.log(ep.device.diode_spread({"hidden": MANY}, 0.2)["hidden"])
    near(factors, 0.0, 0.2)
    assert np.std(factors) == pytest.approx(0.2, rel=0.03)
    spread = ep.device.diode_spread({"hidden": 6}, 0.2, seed=1)
    net = ep.Resistive.layered(4, 6, 3, diode=ep.Shockley(), spread=spread)
    assert dict(net.spread) == spread


BAD: dict[str, tuple[Any, str]] = {
    "range upside down": (lambda: ep.device.bounds(1.0, 0.5), "w_min=1.0, w_max=0.5: give two finite numbers"),
    "no range": (lambda: ep.device.bounds(), "give w_max, and either w_min or the ratio"),
    "too much range": (lambda: ep.device.bounds(0.1, 1.0, ratio=5.0), "either w_min or the ratio"),
    "ratio": (lambda: ep.device.bounds(w_max=1.0, ratio=0.5), "ratio=0.5 with w_max=1.0: give a ratio above 1"),
    "one state": (lambda: ep.device.states(1, 0.0, 1.0), "states=1: give a whole number of 2 or more"),
    "rounding": (lambda: ep.device.states(4, 0.0, 1.0, "up"), "is not one of 'nearest', 'stochastic', 'accumulate'"),  # pyright: ignore
    "noise": (lambda: ep.device.write_noise(-0.1), "relative=-0.1: give a standard deviation of 0 or more"),
    "seed": (lambda: ep.device.write_noise(0.1, seed=0.5), "seed=0.5 is not a whole number"),  # pyright: ignore
    "seed below 0": (
        lambda: ep.device.diode_spread({"hidden": 6}, 0.2, seed=-1),
        "seed=-1 is out of range: give a whole",
    ),
    "spread of steps": (lambda: ep.device.device_to_device(float("nan")), "dw_min_dtod=nan"),
    "up_down": (lambda: ep.device.up_down(1.5), "up_down=1.5: give a number from −1"),
    "gamma": (lambda: ep.device.linear_step(0.0, 1.0, gamma_up=-1.0), "gamma_up=-1.0: give 0"),
    "pulse": (lambda: ep.device.constant_step(0.0), "dw_min=0.0: give the size of a pulse's step"),
    "share": (lambda: ep.device.stuck(1.5), "share=1.5: give the share"),
    "stuck where": (lambda: ep.device.stuck(0.5, float("inf")), "value=inf is not a finite number"),
    "lifetime": (lambda: ep.device.decay(0.5), "lifetime=0.5: give the number of updates"),
    "reset": (lambda: ep.device.decay(5.0, float("nan")), "reset=nan"),
    "nu": (lambda: ep.device.drift(float("nan")), "nu=nan is not a finite number"),
    "t_0": (lambda: ep.device.drift(0.1, t_0=0.0), "t_0=0.0"),
    "without θ": (lambda: write_blindly(), "call update.updates, state, params."),
    "no such part": (
        lambda: Writing(w_min=0.0, w_max=1.0, parts=("V",)).behind(optax.sgd(1.0)).init({"W": 1.0}),
        "no 'V'",
    ),
    "states without a range": (lambda: Writing(states=64), "states=64 needs the range of the devices: give w_max"),
    "noise without a range": (lambda: Writing(noise=0.02), "noise=0.02 needs the range"),
    "soft without a range": (lambda: Writing(soft_bounds=True), "soft_bounds=True needs the range"),
    "rounded twice": (lambda: Writing(dw_min=0.1, states=4, w_min=0.0, w_max=1.0), "both round updates: give one"),
    "stuck outside": (lambda: Writing(stuck=0.1, stuck_at=2.0, w_min=0.0, w_max=1.0), "stuck_at=2.0 is outside"),
    "start without a range": (lambda: Writing().start({}, KEY), "start needs the range"),
    "read noise": (lambda: Readings(noise=-1.0), "noise=-1.0: give a standard deviation"),
    "bits": (lambda: Readings(bits=0, low=0.0, high=1.0), "bits=0: give a whole number from 1 to 24"),
    "bits without a range": (lambda: Readings(bits=8), "bits=8 without a range: give low and high"),
    "half a range": (lambda: Readings(low=0.0), "give both ends of the range"),
    "empty range": (lambda: Readings(low=1.0, high=1.0), "low=1.0, high=1.0: give finite numbers"),
    "empty range of a layer": (lambda: Readings(low=1.0, high={"a": 2.0, "b": 0.5}), "of layer 'b': give finite"),
    "ranges of other layers": (lambda: Readings(low={"a": 0.0}, high={"b": 1.0}), "give both for the same layers"),
    "repeats": (lambda: Readings(repeats=0), "repeats=0: give a whole number of 1 or more"),
    "offset": (lambda: Readings(offset=float("nan")), "offset=nan"),
    "layer that is not there": (
        lambda: reading_of({"hidden": 1.0, "out": 1.0}),
        "'out' is no layer|'output' is missing",
    ),
    "layer that is missing": (
        lambda: reading_of({"hidden": 1.0}),
        "'output' is missing; give one number, or one for each",
    ),
    "complex": (lambda: Readings()(jnp.ones((2, 1, 1)) * 1j, KEY), "complex state cannot be read"),
    "deviation": (lambda: ep.device.diode_spread({"hidden": 2}, -1.0), "deviation=-1.0"),
    "nodes": (lambda: ep.device.diode_spread({"hidden": 0}, 1.0), "'hidden' has none"),
}


def write_blindly() -> Any:
    effect = ep.device.write_noise(0.1)
    return effect.update(jnp.ones(2), effect.init(jnp.ones(2)))


def reading_of(high: dict[str, float]) -> Any:
    reading = Readings(low=-1.0, high=high)
    return ep.Trainer(F, ep.EquilibriumPropagation(reading=reading), optax.sgd(0.1))


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_meant_is_refused_in_words(case: str) -> None:
    make, message = BAD[case]
    with pytest.raises(ep.InputError, match=message):
        make()

"""The training loop against the same minibatches taken by hand."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import eqprop as ep
from eqprop.progress import TrainingBar
from eqprop.train import loop
from eqprop.train.dead import is_dead

NET = ep.Hopfield.layered(4, 6, 3)
F = ep.Total(NET, ep.SquaredError())
RULE = ep.EquilibriumPropagation(ep.Symmetric(0.3), ep.Block(steps=8), ep.Block(steps=4))
EXAMPLES = 11


def make(**changes: Any) -> ep.Trainer:
    settings = {"optimizer": optax.sgd(1.0), "batch_size": 4, "rates": 0.5} | changes
    return ep.Trainer(F, settings.pop("rule", RULE), **settings)


def draw() -> tuple[Any, Any]:
    x = jax.random.uniform(jax.random.key(1), (EXAMPLES, 4))
    y = jax.nn.one_hot(jnp.arange(EXAMPLES) % 3, 3)
    return NET.init(jax.random.key(0)), (x, y)


def train(trainer: ep.Trainer, epochs: int = 2, seed: int = 5, **kwargs: Any) -> tuple[ep.TrainState, Any]:
    theta, v = draw()
    return ep.fit(trainer, trainer.init(theta, EXAMPLES, jax.random.key(seed)), v, epochs=epochs, **kwargs)


def assert_equal(one: Any, two: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, one, two)


def test_an_epoch_is_its_minibatches_one_by_one() -> None:
    """Every example once, in an order that the seed decides, the last minibatch as small as it is."""
    theta, v = draw()
    key = jax.random.key(5)
    order = jax.random.permutation(jax.random.split(jax.random.fold_in(key, 0))[0], EXAMPLES)
    assert sorted(order.tolist()) == list(range(EXAMPLES))
    errors = 0.0
    for start in range(0, EXAMPLES, 4):
        part = jax.tree.map(lambda a, start=start: a[order[start : start + 4]], v)
        gradient, s, _ = RULE(F, theta, part, NET.rest(len(part[0])), key)
        errors += sum(F.cost.misclassified((None, y), {"output": o}) for y, o in zip(part[1], s["output"], strict=True))
        theta = jax.tree.map(lambda w, g: w - 0.5 * g, theta, gradient)
    state, history = train(make(metrics={"error": F.cost.misclassified}), epochs=1)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), state.theta, theta)
    assert history[0]["train_error"] == pytest.approx(float(errors) / EXAMPLES)


def test_the_seed_decides_everything() -> None:
    first, again, other = (train(make(), seed=seed)[0] for seed in (5, 5, 6))
    assert_equal(first.theta, again.theta)
    assert any((a != b).any() for a, b in zip(*map(jax.tree.leaves, (first.theta, other.theta)), strict=True))


def test_pieces_of_an_epoch_do_not_change_it() -> None:
    theta, v = draw()
    trainer = make(persistent=True, optimizer=optax.adam(0.01))
    start = trainer.init(theta, EXAMPLES, jax.random.key(5))
    at_once = trainer.advance(start, v, 3)
    in_pieces = trainer.advance(trainer.advance(start, v, 1), v, 2)
    assert_equal(at_once.theta, in_pieces.theta)
    assert_equal(at_once.particles, in_pieces.particles)
    assert_equal(at_once.sums, in_pieces.sums)


def test_persistent_particles_are_the_last_free_states_of_their_example() -> None:
    theta, v = draw()
    trainer = make(persistent=True, rates=0.0)  # with the weights at rest, particles go on settling
    state, _ = train(trainer, epochs=1)
    settled, _ = RULE.free(F, theta, v, 0.0, NET.rest(EXAMPLES))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), state.particles, settled)
    state, _ = train(trainer, epochs=3)
    longer, _ = ep.Block(steps=24)(F, theta, v, 0.0, NET.rest(EXAMPLES))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), state.particles, longer)


def test_validation_examples_keep_their_particles_too() -> None:
    theta, v = draw()
    held_out = jax.tree.map(lambda a: a[:7], v)
    trainer = make(persistent=True, rates=0.0)
    start = trainer.init(theta, EXAMPLES, jax.random.key(5), valid=7)
    state, _ = ep.fit(trainer, start, v, held_out, epochs=3)
    longer, _ = ep.Block(steps=24)(F, theta, held_out, 0.0, NET.rest(7))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), state.valid_particles, longer)
    with pytest.raises(ep.InputError, match="particles of 7 examples for a validation set of 11"):
        ep.fit(trainer, start, v, v, epochs=1)


def test_the_history_tells_how_much_the_weights_changed() -> None:
    theta, v = draw()
    trainer = make(changes=True, batch_size=EXAMPLES)
    state = trainer.init(theta, EXAMPLES, jax.random.key(5))
    after, history = ep.fit(trainer, state, v, epochs=1)
    for kind, name in (("W", "input-hidden"), ("W", "hidden-output")):
        old, new = (np.asarray(tree[kind][name]) for tree in (theta, after.theta))
        ratio = np.linalg.norm(new - old) / np.linalg.norm(old)
        assert history[0][f"change {kind}/{name}"] == pytest.approx(ratio, rel=1e-4)
    assert history[0]["change b/hidden"] == 0  # from zero, nothing is a relative change


def test_training_ends_once_a_record_is_enough() -> None:
    _, history = train(make(), epochs=5, enough=lambda record: record["epoch"] == 2)
    assert len(history) == 2


def test_balanced_rates_make_relative_changes_equal_and_keep_their_mean() -> None:
    """With gradients of constant size and weights that hardly move, what is asked for holds exactly."""
    net = ep.Hopfield.layered(4, 6, 5, 3)
    theta = net.init(jax.random.key(0))
    scales = {"input-hidden1": 1e-9, "hidden1-hidden2": 1e-6, "hidden2-output": 1e-7}
    updates: Any = {"W": {k: scales[k] * jnp.ones_like(w) for k, w in theta["W"].items()}, "b": theta["b"]}
    updates["b"]["hidden2"] = jnp.ones(5)
    balance: Any = ep.balanced(net)
    state = balance.init(theta)
    for _ in range(3):
        scaled, state = balance.update(updates, state, theta)

    def ratios(changes: Any) -> np.ndarray:
        return np.array([np.linalg.norm(changes["W"][k]) / np.linalg.norm(theta["W"][k]) for k in scales])

    np.testing.assert_allclose(ratios(scaled), np.exp(np.log(ratios(updates)).mean()), rtol=1e-5)
    factor = scaled["W"]["hidden1-hidden2"][0, 0] / updates["W"]["hidden1-hidden2"][0, 0]
    np.testing.assert_allclose(scaled["b"]["hidden2"], factor * jnp.ones(5), rtol=1e-6)


def test_balancing_leaves_alone_what_does_not_change() -> None:
    theta, _ = draw()
    updates = jax.tree.map(jnp.ones_like, theta)
    updates["W"]["input-hidden"] *= 0
    balance: Any = ep.balanced(NET)
    scaled, _ = balance.update(updates, balance.init(theta), theta)
    assert_equal(scaled["W"]["input-hidden"], updates["W"]["input-hidden"])
    np.testing.assert_allclose(scaled["W"]["hidden-output"], updates["W"]["hidden-output"], rtol=1e-6)


def test_layers_learn_at_their_own_rates() -> None:
    theta, _ = draw()
    rates = NET.per_layer({"hidden": 0.0, "output": 0.5})
    state, _ = train(make(rates=rates), epochs=1)
    assert_equal(state.theta["W"]["input-hidden"], theta["W"]["input-hidden"])
    assert_equal(state.theta["b"]["hidden"], theta["b"]["hidden"])
    assert (state.theta["W"]["hidden-output"] != theta["W"]["hidden-output"]).any()


def test_rates_decay_after_each_epoch() -> None:
    theta, v = draw()
    trainer = make(decay=0.5)
    state = trainer.init(theta, EXAMPLES, jax.random.key(5))._replace(epoch=jnp.array(2))
    quarter = make(rates=0.5 * 0.25).advance(state, v, 3)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), trainer.advance(state, v, 3).theta, quarter.theta
    )


def test_the_nudge_grows_after_each_epoch() -> None:
    theta, v = draw()
    trainer = make(growth=1.5)
    state = trainer.init(theta, EXAMPLES, jax.random.key(5))._replace(epoch=jnp.array(2))
    rule = ep.EquilibriumPropagation(ep.Symmetric(0.3 * 1.5**2), RULE.free, RULE.nudged)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5),
        trainer.advance(state, v, 3).theta,
        make(rule=rule).advance(state, v, 3).theta,
    )


def test_measuring_averages_over_all_examples_whatever_the_block() -> None:
    theta, v = draw()
    trainer = make(metrics={"error": F.cost.misclassified})
    s, _ = RULE.free(F, theta, v, 0.0, NET.rest(EXAMPLES))
    costs = jax.vmap(F.cost, in_axes=(None, 0, 0))(theta, v[1], s)
    for block in (4, EXAMPLES, 100):
        found = trainer.measure(theta, v, block)
        assert found["cost"] == pytest.approx(float(costs.mean()), rel=1e-5)
        assert found["error"] == pytest.approx(float((s["output"].argmax(1) != v[1].argmax(1)).mean()))


def test_nothing_is_compiled_again_for_other_numbers() -> None:
    """β, ω, rates, decay, growth, epoch, piece of an epoch: data. The count is of compiled programs."""
    theta, v = draw()
    optimizer = optax.sgd(1.0)

    def once(beta: float, omega: float, rate: float, decay: float, growth: float, epoch: int, batches: int) -> None:
        rule = ep.EquilibriumPropagation(ep.Symmetric(beta), ep.Block(steps=8, omega=omega), ep.Block(steps=4))
        trainer = make(rule=rule, rates=rate, decay=decay, growth=growth, optimizer=optimizer)
        state = trainer.init(theta, EXAMPLES, jax.random.key(0))._replace(epoch=jnp.array(epoch))
        trainer.advance(state, v, batches)

    once(0.3, 1.2, 0.5, 0.9, 1.1, 0, 3)
    before = loop._advance.run._cache_size()  # pyright: ignore[reportFunctionMemberAccess]
    once(0.7, 1.1, 0.1, 0.8, 1.2, 4, 1)
    assert loop._advance.run._cache_size() == before  # pyright: ignore[reportFunctionMemberAccess]


def test_every_optax_optimizer_will_do() -> None:
    for optimizer in (optax.adam(1e-2), optax.rmsprop(1e-2), optax.chain(optax.clip(0.1), optax.sgd(0.1, 0.9))):
        state, history = train(make(optimizer=optimizer, rates=1.0))
        assert history[1]["train_cost"] < history[0]["train_cost"]
        assert int(state.epoch) == 2


def test_an_energy_of_ones_own_trains_in_the_same_loop() -> None:
    """Linear regression as settling: E = ½ ‖s − A x‖², learned until A is the matrix that made the data."""

    def energy(theta: Any, x: Any, s: Any) -> Any:
        return jnp.sum((s - theta @ x) ** 2) / 2

    def cost(theta: Any, y: Any, s: Any) -> Any:
        return jnp.sum((s - y) ** 2) / 2

    truth = jnp.array([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]])
    x = jax.random.normal(jax.random.key(0), (64, 3))
    settle = ep.Gradient(steps=50)
    rule = ep.EquilibriumPropagation(ep.Symmetric(0.1), settle, settle)
    trainer = ep.Trainer(ep.Total(energy, cost), rule, optax.sgd(0.3), 16, start=lambda n: jnp.zeros((n, 2)))
    state = trainer.init(jnp.zeros((2, 3)), 64, jax.random.key(1))
    state, _ = ep.fit(trainer, state, (x, x @ truth.T), epochs=40)
    np.testing.assert_allclose(state.theta, truth, atol=1e-3)


def test_whatever_numbers_theta_is_made_of_training_compiles_once() -> None:
    theta, v = draw()
    trainer = make()
    before = loop._advance.run._cache_size()  # pyright: ignore[reportFunctionMemberAccess]
    state = trainer.init(jax.tree.map(np.asarray, theta), EXAMPLES, jax.random.key(0))
    trainer.advance(trainer.advance(state, v, 1), v, 1)
    assert loop._advance.run._cache_size() <= before + 1  # pyright: ignore[reportFunctionMemberAccess]


@pytest.mark.parametrize(("metrics", "told"), [({}, "cost 0."), ({"error": F.cost.misclassified}, " %")])
def test_progress_is_told_by_what_is_measured(
    metrics: dict[str, Any], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer = make(metrics=metrics)
    _, v = draw()
    with TrainingBar(2, trainer.batches(EXAMPLES), trainer.batch_size) as bar:
        train(trainer, valid=v, observe=bar.update)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in lines] == ["1/2", "2/2"]
    assert all(line.count(told) == 2 for line in lines)


def test_an_order_of_ones_own_is_followed() -> None:
    """Examples may come twice or not at all, and one that does not exist counts for nothing."""
    theta, v = draw()
    trainer = make()
    order = np.array([[3, 3, 7, EXAMPLES], [0, 1, 2, 3]])
    state = trainer.advance(trainer.init(theta, EXAMPLES, jax.random.key(5)), v, 1, order)
    three = jax.tree.map(lambda a: a[jnp.array([3, 3, 7])], v)
    gradient, *_ = RULE(F, theta, three, NET.rest(3), jax.random.key(0))
    expected = jax.tree.map(lambda w, g: w - 0.5 * g, theta, gradient)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), state.theta, expected)
    with pytest.raises(ep.InputError, match="rows of batch_size=4"):
        trainer.advance(state, v, 1, order[:, :3])
    with pytest.raises(ep.InputError, match="1 more minibatches"):
        trainer.advance(state, v, 2, order)


# ---- networks that are dead, and networks that only seem so ----


@pytest.mark.parametrize("rate", [1e3, 1e30])
def test_a_rate_that_kills_the_network_is_told(rate: float) -> None:
    with pytest.raises(ep.DivergedError, match="no example has a gradient; lower the learning rate"):
        train(make(rates=rate), epochs=3)


def test_weights_that_stand_still_are_not_dead() -> None:
    """With a rate of 0 the cost does not fall, but every example has its gradient."""
    _, history = train(make(rates=0.0), epochs=3)
    assert history[2]["train_cost"] == pytest.approx(history[0]["train_cost"])


def test_a_network_that_has_learned_its_examples_is_not_dead() -> None:
    """Where outputs are as they should be, gradients are 0, and ought to be."""
    theta, (x, _) = draw()
    theta = {"W": jax.tree.map(jnp.zeros_like, theta["W"]), "b": jax.tree.map(lambda b: b + 0.5, theta["b"])}
    v = (x, jnp.full((EXAMPLES, 3), 0.5))
    trainer = make(batch_size=EXAMPLES)
    gradient, *_ = RULE(F, theta, v, NET.rest(EXAMPLES), jax.random.key(0))
    assert not any(leaf.any() for leaf in jax.tree.leaves(gradient))
    assert not is_dead(trainer, trainer.init(theta, EXAMPLES, jax.random.key(5)), v)


@pytest.mark.parametrize(("right", "dead"), [(0, False), (1, True)], ids=["the right end", "the wrong end"])
def test_an_output_at_the_end_of_its_box_is_dead_at_the_wrong_end_only(right: int, dead: bool) -> None:
    """The cross-entropy always pulls; outputs cannot follow it beyond the box."""
    theta, (x, _) = draw()
    theta["b"]["output"] = jnp.array([1e3, -1e3, -1e3])
    trainer = ep.Trainer(ep.Total(NET, ep.CrossEntropy()), RULE, optax.sgd(1.0), batch_size=EXAMPLES)
    state = trainer.init(theta, EXAMPLES, jax.random.key(5))
    assert is_dead(trainer, state, (x, jax.nn.one_hot(jnp.full(EXAMPLES, right), 3))) == dead


def test_gradients_that_cancel_each_other_are_not_dead() -> None:
    """At the least squares of targets that no θ fits."""

    def energy(theta: Any, x: Any, s: Any) -> Any:
        return jnp.sum(s**2) / 2 - jnp.sum(theta * x * s)

    def cost(theta: Any, y: Any, s: Any) -> Any:
        return jnp.sum((s - y) ** 2) / 2

    settle = ep.Gradient(steps=50)
    rule = ep.EquilibriumPropagation(ep.Symmetric(0.25), settle, settle)
    F = ep.Total(energy, cost)
    trainer = ep.Trainer(F, rule, optax.sgd(0.3), batch_size=2, start=lambda n: jnp.zeros((n, 1)))
    v = (jnp.ones((2, 1)), jnp.array([[0.0], [2.0]]))
    gradient, *_ = rule(F, jnp.ones(1), v, jnp.zeros((2, 1)), jax.random.key(0))
    assert jnp.abs(gradient).max() < 1e-6
    assert not is_dead(trainer, trainer.init(jnp.ones(1), 2, jax.random.key(0)), v)

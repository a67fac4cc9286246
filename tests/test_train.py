"""The training loop against the same minibatches taken by hand."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import eqprop as ep
from eqprop.progress import TrainingBar
from eqprop.train import trainer as module
from eqprop.train.dead import is_dead

NET = ep.Hopfield.layered(4, 6, 3)
F = ep.Total(NET, ep.SquaredError())
RULE = ep.EquilibriumPropagation(ep.Symmetric(0.3), ep.Block(steps=8), ep.Block(steps=4))
EXAMPLES = 11
STANDING = pytest.mark.filterwarnings("ignore:no weight has changed:eqprop.LearningWarning")  # at a rate of 0
SGD = optax.sgd(1.0)


def make(
    rates: Any = 0.5, optimizer: Any = None, rule: Any = RULE, schedule: Any = None, **settings: Any
) -> ep.Trainer:
    return ep.Trainer(F, rule, optimizer or ep.Rated(SGD, rates, schedule), **settings)


def feed_of(v: Any, batch_size: int = 4) -> ep.Feed:
    return ep.Shuffled(v, batch_size)


def draw() -> tuple[Any, Any]:
    x = jax.random.uniform(jax.random.key(1), (EXAMPLES, 4))
    y = jax.nn.one_hot(jnp.arange(EXAMPLES) % 3, 3)
    return NET.init(jax.random.key(0)), (x, y)


def train(trainer: ep.Trainer, epochs: int = 2, seed: int = 5, **kwargs: Any) -> tuple[ep.TrainState, Any]:
    theta, v = draw()
    feed = feed_of(v)
    return ep.fit(trainer, trainer.init(theta, feed, jax.random.key(seed)), feed, epochs=epochs, **kwargs)


def assert_equal(one: Any, two: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, one, two)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("data", [np.float32, np.float64])
def test_double_precision_takes_examples_of_either_kind(data: Any) -> None:
    """As `jax.enable_x64` is switched on for weights, and data sets are in single precision."""
    theta, v = jax.tree.map(lambda leaf: np.asarray(leaf, data), draw())
    trainer = make(metrics={"error": F.cost.misclassified})
    state, history = ep.fit(trainer, trainer.init(theta, feed_of(v), jax.random.key(5)), feed_of(v), v, epochs=1)
    assert np.isfinite(history[0]["valid_cost"]) and all(leaf.dtype == data for leaf in jax.tree.leaves(state.theta))


def test_the_state_has_weights_of_its_own() -> None:
    """An array of NumPy that JAX may share, as it begins where a line of the cache does, changes nothing later."""
    theta, v = draw()
    memory = np.zeros(64 + 16 * 4 * 6, np.uint8)
    start = -memory.ctypes.data % 64
    mine = memory[start : start + 4 * 4 * 6].view(np.float32).reshape(4, 6)
    mine[:] = theta["W"]["input-hidden"]
    state = make().init(theta | {"W": theta["W"] | {"input-hidden": mine}}, feed_of(v), jax.random.key(5))
    mine[:] = 0
    assert_equal(state.theta, theta)


def test_a_trainer_predicts_in_a_larger_program() -> None:
    theta, v = draw()
    outputs = make().predict(theta, v)
    np.testing.assert_allclose(jax.jit(lambda v: make().predict(theta, v))(v), outputs, rtol=1e-5)
    with pytest.raises(ep.InputError, match="vmap and grad hide: call it before"):
        jax.jit(lambda x: ep.examples(F, x)[0])(v[0])


def test_an_epoch_is_its_minibatches_one_by_one() -> None:
    """Every example once, in an order that the seed decides, the last minibatch as small as it is."""
    theta, v = draw()
    key = jax.random.key(5)
    order = jax.random.permutation(jax.random.split(jax.random.fold_in(key, 0))[0], EXAMPLES)
    assert sorted(order.tolist()) == list(range(EXAMPLES))
    errors = 0.0
    for start in range(0, EXAMPLES, 4):
        part = jax.tree.map(lambda a, start=start: a[order[start : start + 4]], v)
        learned = RULE(F, theta, part, NET.rest(len(part[0])), key)
        outputs = learned.state["output"]
        errors += sum(
            F.cost.misclassified(theta, (None, y), {"output": o}) for y, o in zip(part[1], outputs, strict=True)
        )
        theta = jax.tree.map(lambda w, g: w - 0.5 * g, theta, learned.gradient)
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
    feed = feed_of(v)
    start = trainer.init(theta, feed, jax.random.key(5))
    at_once = trainer.advance(start, feed, 3)
    in_pieces = trainer.advance(trainer.advance(start, feed, 1), feed, 2)
    assert_equal(at_once.theta, in_pieces.theta)
    assert_equal(at_once.particles, in_pieces.particles)
    assert_equal(at_once.sums, in_pieces.sums)


@STANDING
def test_persistent_particles_are_the_last_free_states_of_their_example() -> None:
    theta, v = draw()
    trainer = make(persistent=True, rates=0.0)  # with the weights at rest, particles go on settling
    state, _ = train(trainer, epochs=1)
    settled, _ = RULE.free(F, theta, v, 0.0, NET.rest(EXAMPLES))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), state.particles, settled)
    state, _ = train(trainer, epochs=3)
    longer, _ = ep.Block(steps=24)(F, theta, v, 0.0, NET.rest(EXAMPLES))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), state.particles, longer)


@STANDING
@pytest.mark.slow
def test_validation_examples_keep_their_particles_too() -> None:
    theta, v = draw()
    held_out = jax.tree.map(lambda a: a[:7], v)
    trainer = make(persistent=True, rates=0.0)
    feed = feed_of(v)
    start = trainer.init(theta, feed, jax.random.key(5), valid=7)
    state, _ = ep.fit(trainer, start, feed, held_out, epochs=3)
    longer, _ = ep.Block(steps=24)(F, theta, held_out, 0.0, NET.rest(7))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), state.valid_particles, longer)
    with pytest.raises(ep.InputError, match="particles of 7 examples for a validation set of 11"):
        ep.fit(trainer, start, feed, v, epochs=1)


@STANDING
def test_states_that_carry_over_begin_where_the_row_before_ended() -> None:
    theta, v = draw()
    trainer = make(persistent=True, rates=0.0)
    feed = ep.Shuffled(v, 4, carry=True)
    state = trainer.init(theta, feed, jax.random.key(5), valid=EXAMPLES)
    assert state.valid_particles is None  # validation begins at rest
    after, history = ep.fit(trainer, state, feed, v, epochs=2)
    s = NET.rest(4)
    for epoch in range(2):
        for batch in feed.epoch(state.key, epoch):
            moved, _ = RULE.free(F, theta, batch.v, 0.0, s)
            real = np.asarray(batch.weight) > 0  # a padding row leaves its state where it was
            s = jax.tree.map(lambda new, old, real=real: np.where(real[:, None], new, old), moved, s)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), after.particles, s)
    assert history[-1]["valid_cost"] == pytest.approx(trainer.measure(theta, v)["cost"])
    with pytest.raises(ep.InputError, match="does not fit layer"):
        ep.fit(trainer, state, feed, (v[0][:, :-1], v[1]), epochs=1)


def test_the_history_tells_how_much_the_weights_changed() -> None:
    theta, v = draw()
    trainer, feed = make(changes=True), feed_of(v, EXAMPLES)
    state = trainer.init(theta, feed, jax.random.key(5))
    after, history = ep.fit(trainer, state, feed, epochs=1)
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
    scaled, state = balance.update(updates, balance.init(theta), theta)
    for _ in range(2):
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


def test_rates_decay_as_their_schedule_says() -> None:
    """0.5, 0.25, 0.125 in the three minibatches of an epoch, as gradient descent by hand has it."""
    theta, v = draw()
    feed = feed_of(v)
    trainer = make(schedule=ep.Staircase(1.0, every=1, factor=0.5))
    state = trainer.init(theta, feed, jax.random.key(5))
    for batch, rate in zip(feed.epoch(state.key), (0.5, 0.25, 0.125), strict=True):
        gradient = RULE(F, theta, batch.v, NET.rest(4), weight=batch.weight).gradient
        theta = jax.tree.map(lambda w, g, rate=rate: w - rate * g, theta, gradient)
    found = trainer.advance(state, feed, 3).theta
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), found, theta)


def test_any_schedule_of_optax_trains() -> None:
    """The same numbers as a plain optimizer, whose rate an Optax schedule gives."""
    schedule = optax.exponential_decay(0.5, 2, 0.5, staircase=True)
    plain, rated = make(optimizer=optax.sgd(schedule)), make(schedule=ep.Staircase(1.0, every=2, factor=0.5))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7),
        train(plain)[0].theta,
        train(rated)[0].theta,
    )


def test_the_nudge_grows_as_its_schedule_says() -> None:
    theta, v = draw()
    feed = feed_of(v)
    grows = ep.EquilibriumPropagation(ep.Symmetric(ep.Staircase(0.3, 3, 1.5)), RULE.free, RULE.nudged)
    trainer = make(rule=grows)
    state = trainer.init(theta, feed, jax.random.key(5))._replace(step=jnp.array(6))
    rule = ep.EquilibriumPropagation(ep.Symmetric(0.3 * 1.5**2), RULE.free, RULE.nudged)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5),
        trainer.advance(state, feed, 3).theta,
        make(rule=rule).advance(state, feed, 3).theta,
    )


def test_weights_are_projected_after_the_optimizer_has_spoken() -> None:
    """A system says which θ are allowed; an Optax transformation that keeps weights positive does so as well."""
    _, v = draw()

    class Positive(ep.Total):
        def project(self, theta: Any) -> Any:
            return jax.tree.map(lambda w: jnp.maximum(w, 0.0), theta)

    theta = jax.tree.map(jnp.abs, NET.init(jax.random.key(0)))
    feed = feed_of(v)
    kept = optax.chain(optax.sgd(100.0), optax.keep_params_nonnegative())
    for trainer in (
        ep.Trainer(Positive(NET, ep.SquaredError()), RULE, ep.Rated(SGD, 100.0)),
        ep.Trainer(F, RULE, kept),
    ):
        state = trainer.advance(trainer.init(theta, feed, jax.random.key(0)), feed, 3)
        leaves = jax.tree.leaves(state.theta)
        assert all((leaf >= 0).all() for leaf in leaves)
        assert any((leaf == 0).any() for leaf in leaves)


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
    """β, ω, rates, decay, growth, penalties, targets, bounds, epoch, piece of an epoch: data. Programs are counted."""
    theta, v = draw()

    class Bounded(ep.Total):
        high: Any

        def __init__(self, cost: Any, high: Any):
            super().__init__(NET, cost)
            self.high = high

        @property
        def space(self) -> ep.Space:
            return ep.Space(NET.shapes, 0.0, self.high)

    def once(numbers: Any, epoch: int, batches: int) -> None:
        beta, growth, omega, rate, decay, l1, l2, low, high = numbers
        nudge = ep.Symmetric(ep.Staircase(beta, 3, growth))
        rule = ep.EquilibriumPropagation(nudge, ep.Block(steps=8, omega=omega), ep.Block(steps=4))
        total = Bounded(ep.SquaredError(l1=l1, l2=l2, low=low), {"hidden": jnp.full(6, high), "output": high})
        trainer = ep.Trainer(total, rule, ep.Rated(SGD, rate, ep.Staircase(1.0, 3, decay)))
        feed = feed_of(v)
        state = trainer.init(theta, feed, jax.random.key(0))._replace(epoch=jnp.array(epoch))
        trainer.advance(state, feed, batches)

    once((0.3, 1.1, 1.2, 0.5, 0.9, 0.02, 0.2, 0.0, 1.0), 0, 3)
    before = programs()
    once((0.7, 1.2, 1.1, 0.1, 0.8, 0.01, 0.1, 0.2, 0.9), 4, 1)
    assert programs() == before


def programs() -> int:
    return module._advance.run._cache_size()  # pyright: ignore[reportFunctionMemberAccess]


@pytest.mark.slow
def test_every_optax_optimizer_will_do() -> None:
    for optimizer in (optax.adam(1e-2), optax.rmsprop(1e-2), optax.chain(optax.clip(0.1), optax.sgd(0.1, 0.9))):
        state, history = train(make(optimizer=optimizer))
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
    F = ep.Total(energy, cost, space=ep.Space((2,)))
    trainer, feed = ep.Trainer(F, rule, optax.sgd(0.3)), ep.Shuffled((x, x @ truth.T), 16)
    state = trainer.init(jnp.zeros((2, 3)), feed, jax.random.key(1))
    state, _ = ep.fit(trainer, state, feed, epochs=40)
    np.testing.assert_allclose(state.theta, truth, atol=1e-3)


def test_whatever_numbers_theta_is_made_of_training_compiles_once() -> None:
    theta, v = draw()
    trainer, feed, before = make(), feed_of(v), programs()
    state = trainer.init(jax.tree.map(np.asarray, theta), feed, jax.random.key(0))
    trainer.advance(trainer.advance(state, feed, 1), feed, 1)
    assert programs() <= before + 1


@pytest.mark.parametrize(("metrics", "told"), [({}, "cost 0."), ({"error": F.cost.misclassified}, " %")])
def test_progress_is_told_by_what_is_measured(
    metrics: dict[str, Any], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer = make(metrics=metrics)
    _, v = draw()
    with TrainingBar(2, feed_of(v).batches, 4) as bar:
        train(trainer, valid=v, observe=bar.update)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in lines] == ["1/2", "2/2"]
    assert all(line.count(told) == 2 for line in lines)


def test_an_order_of_ones_own_is_followed() -> None:
    """Examples may come twice or not at all, and one that does not exist counts for nothing."""
    theta, v = draw()
    trainer = make()
    order = np.array([[3, 3, 7, EXAMPLES], [0, 1, 2, 3]])
    feed = ep.Given(v, order)
    state = trainer.advance(trainer.init(theta, feed, jax.random.key(5)), feed, 1)
    three = jax.tree.map(lambda a: a[jnp.array([3, 3, 7])], v)
    gradient = RULE(F, theta, three, NET.rest(3)).gradient
    expected = jax.tree.map(lambda w, g: w - 0.5 * g, theta, gradient)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), state.theta, expected)
    with pytest.raises(ep.InputError, match="a row of example numbers for each minibatch"):
        ep.Given(v, order[0])
    with pytest.raises(ep.InputError, match="1 more minibatches"):
        trainer.advance(state, feed, 2)


# ---- networks that are dead, and networks that only seem so ----


@pytest.mark.parametrize("rate", [1e3, 1e30])
def test_a_rate_that_kills_the_network_is_told(rate: float) -> None:
    with pytest.raises(ep.DivergedError, match="no example has a gradient; lower the learning rate"):
        train(make(rates=rate), epochs=3)


@STANDING
def test_weights_that_stand_still_are_not_dead() -> None:
    """With a rate of 0 the cost does not fall, but every example has its gradient."""
    _, history = train(make(rates=0.0), epochs=3)
    assert history[2]["train_cost"] == pytest.approx(history[0]["train_cost"])


@pytest.mark.slow
def test_a_network_that_has_learned_its_examples_is_not_dead() -> None:
    """Where outputs are as they should be, gradients are 0, and ought to be."""
    theta, (x, _) = draw()
    theta = {"W": jax.tree.map(jnp.zeros_like, theta["W"]), "b": jax.tree.map(lambda b: b + 0.5, theta["b"])}
    v = (x, jnp.full((EXAMPLES, 3), 0.5))
    trainer, feed = make(), feed_of(v, EXAMPLES)
    gradient = RULE(F, theta, v, NET.rest(EXAMPLES)).gradient
    assert not any(leaf.any() for leaf in jax.tree.leaves(gradient))
    assert not is_dead(trainer, trainer.init(theta, feed, jax.random.key(5)), feed)


@pytest.mark.parametrize(("right", "dead"), [(0, False), (1, True)], ids=["the right end", "the wrong end"])
def test_an_output_at_the_end_of_its_box_is_dead_at_the_wrong_end_only(right: int, dead: bool) -> None:
    """The cross-entropy always pulls; outputs cannot follow it beyond the box."""
    theta, (x, _) = draw()
    theta["b"]["output"] = jnp.array([1e3, -1e3, -1e3])
    trainer = ep.Trainer(ep.Total(NET, ep.CrossEntropy()), RULE, SGD)
    feed = feed_of((x, jax.nn.one_hot(jnp.full(EXAMPLES, right), 3)), EXAMPLES)
    assert is_dead(trainer, trainer.init(theta, feed, jax.random.key(5)), feed) == dead


def test_chains_that_draw_the_same_in_both_phases_are_not_dead() -> None:
    """Outputs that are always drawn as their targets leave no gradient; the cost, which asks for 0.8, still pulls."""
    machine = ep.BoltzmannMachine(ep.Hopfield.layered(2, 3))
    F = ep.Total(machine, ep.SquaredError(low=0.2, high=0.8))
    theta = jax.tree.map(jnp.zeros_like, machine.init(jax.random.key(0)))
    theta["b"]["output"] = jnp.array([50.0, -50.0, -50.0])
    feed = ep.Shuffled((jnp.ones((2, 2)), jnp.eye(3)[jnp.array([0, 0])]), 2)
    rule = ep.BoltzmannLearning(chain=ep.Gibbs(burn_in=1, samples=1), clamped=ep.Gibbs(burn_in=1, samples=1))
    gradient = rule(F, theta, feed.v, F.space.rest(2)).gradient
    assert max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(gradient)) < 1e-6, gradient
    trainer = ep.Trainer(F, rule, SGD)
    assert not is_dead(trainer, trainer.init(theta, feed, jax.random.key(5)), feed)


@pytest.mark.slow
def test_gradients_that_cancel_each_other_are_not_dead() -> None:
    """At the least squares of targets that no θ fits."""

    def energy(theta: Any, x: Any, s: Any) -> Any:
        return jnp.sum(s**2) / 2 - jnp.sum(theta * x * s)

    def cost(theta: Any, y: Any, s: Any) -> Any:
        return jnp.sum((s - y) ** 2) / 2

    settle = ep.Gradient(steps=50)
    rule = ep.EquilibriumPropagation(ep.Symmetric(0.25), settle, settle)
    F = ep.Total(energy, cost, space=ep.Space((1,)))
    v = (jnp.ones((2, 1)), jnp.array([[0.0], [2.0]]))
    trainer, feed = ep.Trainer(F, rule, optax.sgd(0.3)), ep.Shuffled(v, 2)
    gradient = rule(F, jnp.ones(1), v, jnp.zeros((2, 1))).gradient
    assert jnp.abs(gradient).max() < 1e-6
    assert not is_dead(trainer, trainer.init(jnp.ones(1), feed, jax.random.key(0)), feed)


def test_what_is_measured_has_the_weights_of_the_examples() -> None:
    """Weights of ½ halve the sums and their number alike: averages stay."""
    theta, v = draw()
    trainer, feed = make(rates=0.0), feed_of(v, EXAMPLES)
    state = trainer.init(theta, feed, jax.random.key(5))
    batch = next(feed.epoch(state.key))
    whole, half = (ep.update(trainer, state, batch._replace(weight=share * batch.weight)).sums for share in (1.0, 0.5))
    assert half["metrics"]["cost"] / half["count"] == pytest.approx(float(whole["metrics"]["cost"] / whole["count"]))


def test_predictions_need_no_target() -> None:
    theta, (x, _) = draw()
    trainer = make(metrics={"error": F.cost.misclassified})
    settled, _ = RULE.free(F, theta, (x, None), 0.0, NET.rest(EXAMPLES))
    np.testing.assert_allclose(trainer.predict(theta, (x, None), block=4), settled["output"], atol=1e-6)


def test_an_update_of_ones_own_loop_compiles_once() -> None:
    theta, v = draw()
    trainer, feed = make(), feed_of(v)
    state = trainer.init(theta, feed, jax.random.key(5))
    counts = []
    for batch in feed.epoch(state.key):
        state = ep.update(trainer, state, batch)
        counts.append(module._update.run._cache_size())  # pyright: ignore[reportFunctionMemberAccess]
    assert len(set(counts)) == 1
    jax.tree.map(
        np.testing.assert_array_equal,
        state.theta,
        trainer.advance(trainer.init(theta, feed, jax.random.key(5)), feed, 3).theta,
    )

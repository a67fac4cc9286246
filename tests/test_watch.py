"""What is told when training gets nowhere, and that nothing is told when it does."""

import shlex
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax
import pytest

import eqprop as ep
from command import run
from eqprop.train.watch import Watch
from marks import slow_but

NET = ep.Hopfield.layered(4, 6, 3)
F = ep.Total(NET, ep.SquaredError())
X = jax.random.uniform(jax.random.key(1), (1200, 4))
Y = jax.nn.one_hot(jnp.argmax(X[:, :3], axis=1), 3)
SGD = optax.sgd(1.0)
BLOCK = ep.Block(steps=8)


def train(
    rate: float = 0.5,
    *,
    optimizer: Any = SGD,
    free: Any = BLOCK,
    nudged: Any = BLOCK,
    beta: float = 0.3,
    gain: float = 1.0,
    system: Any = F,
    y: Any = Y,
    observe: Any = lambda _: None,
    epochs: int = 2,
    again: bool = False,
    batch_size: int = 40,
) -> list[dict[str, float]]:
    """Minibatches of forty, in a compiled program that all settings share."""
    theta = jax.tree.map(lambda w: gain * w, NET.init(jax.random.key(0)))
    rule = ep.EquilibriumPropagation(ep.Symmetric(beta), free, nudged)
    metrics = {"error": F.cost.misclassified}
    trainer = ep.Trainer(system, rule, ep.Rated(optimizer, rate), metrics=metrics)
    feed = ep.Shuffled((X, y), batch_size)
    state = trainer.init(theta, feed, jax.random.key(5))
    state = state._replace(epoch=state.epoch + epochs) if again else state
    return ep.fit(trainer, state, feed, epochs=epochs, observe=observe)[1]


def contrary(gain: float) -> Any:
    """Targets that the network does not answer before it learns."""
    theta = jax.tree.map(lambda w: gain * w, NET.init(jax.random.key(0)))
    answers = jnp.argmax(BLOCK(F, theta, (X, Y), 0.0, NET.rest(len(X)))[0]["output"], axis=1)
    return jax.nn.one_hot((answers + 1) % 3, 3)


def test_every_record_says_how_the_free_phases_ended() -> None:
    history = train()
    assert all(record["at_rest"] == 1 and record["steps"] == 8 and record["residual"] < 1e-3 for record in history)


def test_a_rate_of_0_is_told_once() -> None:
    with pytest.warns(ep.LearningWarning, match="no weight has changed.*learning rate is 0") as told:
        train(0.0, epochs=3)
    assert len(told) == 1
    assert told[0].filename == __file__  # the caller's line, not one of the library's


def test_epochs_of_one_minibatch_are_compared_with_those_before() -> None:
    """Such an epoch has no halves; nor has one that is so quick that it is trained in one piece."""
    with pytest.warns(ep.LearningWarning, match="that of a guess, the cost no longer falls"):
        train(1e-5, y=contrary(1.0), batch_size=len(X))
    train(0.5, batch_size=len(X), epochs=5)  # learns, and is told nothing


def test_epochs_that_are_done_already_are_told() -> None:
    with pytest.warns(ep.LearningWarning, match=r"epochs=2 counts all.*has done 2 already.*for 2 more say epochs=4"):
        train(again=True)


def test_a_nudge_that_is_lost_is_told() -> None:
    """One ulp of a state, divided by β and multiplied by the rate, would still be a step: the states do not differ."""
    with pytest.warns(ep.LearningWarning, match="β"):
        train(1e-9, beta=1e-12)


def test_steps_too_long_to_come_to_rest_are_told_with_their_size() -> None:
    with pytest.warns(ep.LearningWarning, match=r"do not come to rest: after 8 steps.*epsilon=2\.5"):
        history = train(0.01, free=ep.Gradient(steps=8, epsilon=2.5), epochs=1)
    assert history[0]["at_rest"] < 0.5


def pulled(theta: Any, v: Any, beta: Any, s: Any) -> Any:
    x, y = v
    return jnp.sum((s - x @ theta["A"]) ** 2) / 2 + beta * jnp.sum((s - y) ** 2) / 2


@pytest.mark.parametrize(("epsilon", "steps", "told"), [(2.5, 10, 1), (0.05, 10, 0)], ids=["too long", "cut short"])
def test_a_cost_that_falls_hides_no_settling_that_never_rests(epsilon: float, steps: int, told: int) -> None:
    settle = ep.Gradient(steps=steps, epsilon=epsilon)
    rule = ep.EquilibriumPropagation(ep.Symmetric(0.1), settle, settle)
    trainer = ep.Trainer(ep.system(pulled, space=ep.Space((3,))), rule, optax.adam(0.02))
    feed = ep.Shuffled((X, Y), 40)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ep.LearningWarning)
        start = trainer.init({"A": jnp.full((4, 3), 2.0)}, feed, jax.random.key(5))
        _, history = ep.fit(trainer, start, feed, epochs=2)
    assert history[0]["at_rest"] == 0 and history[1]["train_cost"] < 0.9 * history[0]["train_cost"]
    assert ["do not come to rest" in str(one.message) for one in caught] == [True] * told


@pytest.mark.parametrize(("cost", "told"), [(110.0, True), (100.0, False)], ids=["rises", "stands still"])
def test_in_later_epochs_what_does_not_rest_is_told_where_the_cost_rises(cost: float, told: bool) -> None:
    """As weights grow, states may begin to swing; phases that are cut short on purpose do not raise the cost."""
    trainer = ep.Trainer(F, ep.EquilibriumPropagation(ep.Symmetric(0.3), BLOCK, BLOCK), SGD)
    feed = ep.Shuffled((X, Y), 40)
    state = trainer.init(NET.init(jax.random.key(0)), feed, jax.random.key(5))
    sums = state.sums["settling"] | {"moving": jnp.array(700.0)}
    sums = state.sums | {"count": jnp.array(1200.0), "metrics": {"cost": jnp.array(cost)}, "settling": sums}
    watch = Watch(trainer, state.theta, before={"count": 1200.0, "cost": 100.0})
    words = watch.look(state._replace(epoch=jnp.array(2), sums=sums), feed)
    assert ("58% of the examples do not come to rest" in (words or "")) == told


def test_weights_that_hold_every_unit_are_told() -> None:
    with pytest.warns(ep.LearningWarning, match=r"at an error of 100%, that of a guess.* rest at an end of their box"):
        train(1e-6, gain=20.0, y=contrary(20.0), epochs=1)


def grows(theta: Any, v: Any, beta: Any, s: Any) -> Any:
    """An energy without a minimum: steps downhill never end."""
    return F(theta, v, beta, s) - 10 * sum(jnp.sum(u**2) for u in jax.tree.leaves(s))


def swings(theta: Any, v: Any, beta: Any, s: Any) -> Any:
    """An energy whose derivative by θ grows with the states."""
    return F(theta, v, beta, s) + jnp.sum(theta["b"]["output"] * s["output"])


def test_values_that_are_infinite_are_put_down_to_the_settling_or_to_the_update() -> None:
    """The weights of the minibatches before are finite, and stay with whoever observed them."""
    seen = []
    plunging = ep.Gradient(steps=100, epsilon=10.0)
    unbounded = ep.system(grows, space=ep.Space({"hidden": 6, "output": 3}))
    with pytest.raises(
        ep.DivergedError,
        match=r"epoch 1, minibatch 1, while it settles\. Lower the step size epsilon=10.*\. F may have no minimum",
    ):
        train(free=plunging, nudged=plunging, system=unbounded)
    swinging = ep.Gradient(steps=30, epsilon=2.5)
    swung = ep.system(swings, space=unbounded.space)
    with pytest.raises(ep.DivergedError, match=r"do not come to rest before\. Lower the step size epsilon=2\.5"):
        train(1e37, free=swinging, nudged=swinging, system=swung)
    with pytest.raises(ep.DivergedError, match="by the update of θ, whose gradient is finite: lower the learning rate"):
        train(1e30, optimizer=optax.sgd(1e30), observe=lambda progress: seen.append(progress.state.theta))
    assert all(bool(jnp.isfinite(leaf).all()) for theta in seen for leaf in jax.tree.leaves(theta))


LINES = {
    **{f"--learning-rate {rate}": (3, "lower the learning rate") for rate in ("0.1", "1", "1e6")},
    "--optimizer sgd --learning-rate 1e6": (3, "lower the learning rate"),
    **{
        f"--method {method} --learning-rate 1e30": (0, "lower the learning rate")
        for method in ("xie-seung", "contrastive-hebbian", "coupled")
    },
    "--gain 100": (0, "lower the initial weights and biases"),
    "--bias 10": (3, "lower the learning rate, the initial weights and biases"),
    "--omega 1.99": (0, "Lower omega=1.99"),
}


@pytest.mark.filterwarnings("always::eqprop.LearningWarning")
@pytest.mark.parametrize("line", slow_but(LINES, "--gain 100", "--method xie-seung --learning-rate 1e30"))
def test_settings_of_a_command_that_cannot_learn_are_told_in_the_first_epoch(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that the settings alone show are refused (`test_errors.py`)."""
    status, words = LINES[line]
    assert run("train", "digits", "--epochs", "1", "--run-dir", tmp_path / "run", *shlex.split(line)) == status
    assert words in " ".join(capsys.readouterr().err.split())

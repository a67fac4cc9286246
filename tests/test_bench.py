"""A device in the loop: what a session lets pass, what training makes of it, and what the certificate promises."""

import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import eqprop as ep
from benches import DRIFTING, FEED, KEY, NET, NOISY, THETA, VOLTS, F, X, Y, apart, flat, readings, simulated, trainer
from command import run
from eqprop import bench, progress
from eqprop.bench import setups
from eqprop.bench.log import Log
from eqprop.device import Writing, diode_spread
from marks import slow


@pytest.fixture(scope="module")
def exact() -> np.ndarray:
    """The gradient of the cost at the free fixed points, without any device."""
    settle = ep.Block(steps=500, tol=1e-7)
    return flat(ep.ImplicitGradient(settle)(F, THETA, (X, Y), NET.space.rest(len(X))).gradient)


# ---- the faults of a simulated bench: those of eqprop.device ----


def test_conductances_are_written_as_devices_are() -> None:
    device = simulated(writing={"states": 11, "noise": 0.05, "stuck": 0.25})
    before, reached = flat(device.conductances()), flat(device.write(THETA))
    step = (NET.most - NET.least) / 10
    asked = NET.least + step * np.round((flat(THETA) - NET.least) / step)
    stuck = reached == before
    assert 0 < stuck.mean() < 0.6
    free = ~stuck & (reached > NET.least) & (reached < NET.most)
    assert 0.02 < np.std((reached - asked)[free]) / (NET.most - NET.least) < 0.09
    assert (flat(device.write(THETA)) == reached).all()  # what is there already is not written again
    nearby = jax.tree.map(lambda g: jnp.clip(g + 1e-4, NET.least, NET.most), THETA)
    assert np.mean(flat(device.write(nearby)) == reached) > 0.9  # nor what has the same state


def test_devices_age_while_they_are_read() -> None:
    device = simulated(writing={"lifetime": 10.0, "reset": NET.least})
    device.write(THETA)
    reached = flat(device.conductances())
    for _ in range(2):
        device.settle(X, None)
    assert apart(flat(device.conductances()) - NET.least, 0.81 * (reached - NET.least)) < 1e-5


def test_voltages_are_read_as_readings_are_with_another_offset_for_each_way_to_push() -> None:
    device = simulated(bits=6, offset_spread=0.01)
    device.write(THETA)
    push = {"output": np.full((len(X), 2), 1e-9, np.float32)}  # by nothing
    free, pull, away = (
        np.asarray(device.settle(X, drive).readings["hidden"])
        for drive in (None, bench.Drive("current", 1.0, push), bench.Drive("current", -1.0, push))
    )
    levels = (free + VOLTS) / (2 * VOLTS) * 63
    assert np.abs(levels - np.round(levels)).max() < 1e-3
    assert len({free.tobytes(), pull.tobytes(), away.tobytes()}) == 3
    assert (np.asarray(device.settle(X, None).readings["hidden"]) == free).all()


@pytest.mark.slow
def test_sources_and_diodes_that_differ_are_what_the_library_settles_too() -> None:
    spread = diode_spread({"hidden": 4}, 0.5)
    options: dict[str, Any] = {"gain": 8.0, "diode": ep.Shockley(1e-3, 2.0), "source_resistance": 2.0}
    real = ep.Resistive.layered(3, 4, 2, **options, spread=spread)
    device = bench.SimulatedBench(NET, readings(), real=real)
    device.write(THETA)
    found = np.asarray(device.settle(X, None).readings["output"])
    theta = {"W": THETA["W"] | {"source-input": jnp.zeros(0)}, "b": {}}
    F_real = ep.Total(real, ep.SquaredError())
    s, _ = ep.Block(steps=500, tol=1e-6)(F_real, theta, (X, None), 0.0, real.space.rest(len(X)))
    assert np.abs(found - s["output"]).max() < 1e-3
    ideal = simulated()
    ideal.write(THETA)
    assert np.abs(found - ideal.settle(X, None).readings["output"]).max() > 0.01  # and not what was meant


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: bench.SimulatedBench(NET, ep.device.Readings()), "give low and high"),
        (lambda: bench.SimulatedBench(NET, ep.device.Readings(low={"hidden": 0}, high={"hidden": 1})), "is missing"),
        (lambda: bench.SimulatedBench(ep.Resistive.layered(3, 4, 2), readings()), "a finite range"),
        (lambda: bench.SimulatedBench(NET, readings(), real=ep.Resistive.layered(3, 5, 2)), "layer 'hidden'"),
        (lambda: bench.SimulatedBench(NET, readings(), Writing(rounding="accumulate")), "'accumulate'"),
    ],
)
def test_a_bench_that_cannot_be_meant_is_refused(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(ep.InputError, match=said):
        make()


# ---- gradients ----


@pytest.mark.parametrize(
    ("how", "off"),
    [
        ({"nudge": ep.Symmetric(0.05)}, 0.02),
        ({"nudge": ep.OneSided(0.01)}, 0.05),
        ({"nudge": ep.Symmetric(0.01), "kind": "spring"}, 0.02),
    ],
    ids=["current", "one-sided", "spring"],
)
def test_a_device_without_faults_gives_the_gradient(how: dict[str, Any], off: float, exact: np.ndarray) -> None:
    with bench.Session(simulated()) as session:
        made = trainer(session, **how)
        learned = made.rule.learn(made.F, THETA, (X, Y), made.rest(len(X)), KEY)
    assert apart(learned.gradient, exact) < off


@pytest.mark.slow
def test_coupled_learning_by_a_device_is_that_of_the_library() -> None:
    with bench.Session(simulated()) as session:
        made = trainer(session, eta=0.3)
        asked = made.rule.learn(made.F, THETA, (X, Y), made.rest(len(X)), KEY).gradient
    settle = ep.Block(steps=500, tol=1e-7)
    computed = ep.CoupledLearning(0.3, settle, settle)(F, THETA, (X, Y), NET.space.rest(len(X))).gradient
    assert apart(asked, computed) < 1e-2


def test_the_gradient_is_taken_where_the_device_is_and_not_where_it_should_be() -> None:
    cost = ep.SquaredError(l2=1.0)  # whose part of the gradient is θ itself
    with bench.Session(simulated(writing={"states": 3})) as session:
        made = bench.trainer(session, ep.Total(NET, cost), optax.sgd(0.1), ep.Symmetric(0.05))
        penalised = made.rule.learn(made.F, THETA, (X, Y), made.rest(len(X)), KEY).gradient
        plain = trainer(session, ep.Symmetric(0.05))
        without = plain.rule.learn(plain.F, THETA, (X, Y), plain.rest(len(X)), KEY).gradient
        assert flat(penalised) - flat(without) == pytest.approx(flat(session.reached), abs=1e-3)
        assert apart(session.reached, THETA) > 0.1


# ---- training ----


@pytest.mark.slow
def test_a_device_learns_and_its_wish_is_kept_between_the_states_that_it_has() -> None:
    with bench.Session(simulated(bits=10, noise=0.002, writing={"states": 32, "noise": 0.01})) as session:
        made = trainer(session)
        state, history = bench.fit(made, made.init(THETA, FEED, KEY), FEED, epochs=12, valid=(X, Y))
    assert history[-1]["train_cost"] < 0.7 * history[0]["train_cost"]
    assert {"epoch", "train_error", "valid_cost", "seconds", "repeated", "skipped"} <= history[-1].keys()
    steps = (flat(state.theta) - NET.least) / (NET.most - NET.least) * 31
    assert np.abs(steps - np.round(steps)).max() > 0.2  # θ is the wish, not one of the 32 states
    ends = session.device.describe().theta_range
    assert ends.holds(flat(state.theta))


def test_the_log_has_every_reading_and_says_which_update_came_of_which(tmp_path: Path) -> None:
    with bench.Session(simulated(noise=0.01), log=tmp_path / "log.jsonl") as session:
        made = trainer(session)
        bench.fit(made, made.init(THETA, FEED, KEY), FEED, epochs=1)
    entries = list(bench.read_log(tmp_path / "log.jsonl"))
    readings = [entry for entry in entries if entry["event"] == "settle"]
    updates = [entry for entry in entries if entry["event"] == "update"]
    assert len(readings) == 3 * FEED.batches and len(updates) == FEED.batches
    assert all(entry["readings"]["hidden"].shape == (8, 4) for entry in readings)
    assert [entry["drive"] for entry in readings[:3]] == [None, ["current", pytest.approx(0.2)], ["current", -0.2]] or (
        readings[1]["drive"][1] == pytest.approx(0.2) and readings[2]["drive"][1] == pytest.approx(-0.2)
    )
    first, last = updates[1]["between"]
    assert [entry["n"] for entry in readings[3:6]] == [n for n in range(first, last) if n != first]
    assert (entries[0]["event"], entries[-1]["event"], entries[-1]["safe"]) == ("describe", "end", True)


def test_a_log_that_was_cut_short_is_read_and_added_to(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = Log(path)
    log.write({"event": "a"})
    log.close()
    with path.open("ab") as file:
        file.write(b'{"event": "torn", "readi')
    log = Log(path)
    log.write({"event": "b"})
    log.close()
    assert [entry["event"] for entry in bench.read_log(path)] == ["a", "b"]


@pytest.mark.slow
def test_a_device_that_takes_one_example_at_a_time_learns_the_same() -> None:
    def solve(net: ep.Resistive, theta: Any, x: np.ndarray, beta: float, y: np.ndarray | None) -> Mapping[str, Any]:
        aim = np.zeros((1, 2), np.float32) if y is None else y[None]
        s, _ = ep.Block(steps=500, tol=1e-6)(F, theta, (x[None], aim), beta, net.space.rest(1))
        return {layer: u[0] for layer, u in s.items()}

    grads = []
    for device in (bench.SolvedBench(NET, solve, volts=4.0, beta=1.0), simulated(beta=1.0)):
        with bench.Session(device) as session:
            made = trainer(session, ep.Symmetric(0.02), kind="spring")
            grads.append(made.rule.learn(made.F, THETA, (X[:6], Y[:6]), made.rest(6), KEY).gradient)
    assert apart(*grads) < 1e-2


@pytest.mark.slow
def test_readings_are_averaged() -> None:
    scatter = []
    for repeats in (1, 16):
        with bench.Session(simulated(noise=0.02), repeats=repeats) as session:
            session.write(THETA)
            many = [session.settle(X)["output"] for _ in range(12)]
            scatter.append(np.std(many, axis=0).mean())
    assert scatter[1] == pytest.approx(scatter[0] / 4, rel=0.2)


# ---- stopped ----


def outcome(folder: Path) -> tuple[dict[str, bytes], list[dict[str, float]]]:
    from eqprop.store.checkpoint import read

    arrays, notes = read(folder / "checkpoint.safetensors")
    untimed = [{k: a for k, a in record.items() if "seconds" not in k} for record in notes["history"]]
    return {name: array.tobytes() for name, array in arrays.items()}, untimed


def train(folder: Path, observe: Callable[[ep.Progress], None] = lambda _: None, **more: Any) -> None:
    """Begin the run in the folder, or go on with it, with a device that has noise and drifts."""
    run = ep.Run.open(folder) if folder.exists() else ep.Run.create(folder, {})
    device = simulated(**NOISY, writing=DRIFTING)
    with bench.Session(device, log=folder / "readings.jsonl") as session:
        made = trainer(session)
        start = made.init(THETA, FEED, KEY)
        bench.fit(made, start, FEED, epochs=3, run=run, valid=(X, Y), observe=observe, **more)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("whole") / "run"
    train(folder)
    return outcome(folder)


@pytest.mark.parametrize("stops", [slow([1]), slow([3, 4]), [5, 8, 9]], ids=str)
def test_a_run_that_is_interrupted_ends_with_the_weights_of_one_left_alone(
    tmp_path: Path, whole: Any, stops: list[int]
) -> None:
    for stop in stops:

        def interrupt(progress: ep.Progress, stop: int = stop) -> None:
            if int(progress.state.step) == stop:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "run", interrupt, checkpoint_seconds=float("inf"))
    train(tmp_path / "run")
    assert outcome(tmp_path / "run") == whole
    *_, last = bench.read_log(tmp_path / "run" / "readings.jsonl")
    assert last["event"] == "end" and last["error"] is None


def test_an_interrupt_between_two_readings_of_a_minibatch_changes_nothing(tmp_path: Path, whole: Any) -> None:
    calls, settle = 0, bench.SimulatedBench.settle

    def interrupted(self: Any, x: Any, drive: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls in (5, 11):  # the second push of a minibatch, and the free phase of validation
            raise KeyboardInterrupt
        return settle(self, x, drive)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench.SimulatedBench, "settle", interrupted)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                train(tmp_path / "run")
        train(tmp_path / "run")
    assert outcome(tmp_path / "run") == whole


# ---- safe ----


class Plain(bench.Device):
    """One output at half of the input times θ, plus a quarter of the current; each fault is a method replaced."""

    def __init__(self) -> None:
        self.saved = 0
        self.theta: Any = None

    def describe(self) -> bench.Description:
        volts = bench.Range(-1, 1)
        return bench.Description(
            "plain device",
            (1,),
            volts,
            {"output": (1,)},
            {"output": volts},
            {"W/input-output": (1, 1)},
            bench.Range(0, 1, "S"),
            {"current": bench.Limit(1.0, bench.Range(-2, 2, "A"))},
            batch=None,
        )

    def write(self, theta: Any) -> Any:
        self.theta = theta
        return theta

    def settle(self, x: np.ndarray, drive: bench.Drive | None) -> bench.Settled:
        current = 0 if drive is None else drive.values["output"]
        return bench.Settled({"output": x * float(self.theta["W"]["input-output"][0, 0]) / 2 + current / 4})

    def safe(self) -> None:
        self.saved += 1


W = {"W": {"input-output": np.full((1, 1), 0.5, np.float32)}}
ROWS = np.linspace(0.1, 0.9, 6, dtype=np.float32)[:, None]


@pytest.mark.parametrize("end", [None, ValueError, KeyboardInterrupt, SystemExit])
def test_however_a_session_ends_the_device_is_made_safe(end: type[BaseException] | None) -> None:
    device = Plain()
    try:
        with bench.Session(device) as session:
            session.write(W)
            if end is not None:
                raise end
    except BaseException as error:
        assert type(error) is end
    assert device.saved == 1


def test_a_device_that_cannot_even_describe_itself_is_made_safe() -> None:
    device = Plain()
    device.describe = lambda: 1 / 0  # pyright: ignore
    with pytest.raises(bench.RefusedError, match="ZeroDivisionError"), bench.Session(device):
        pass
    assert device.saved == 1


def test_a_termination_makes_the_device_safe_and_leaves_signals_as_they_were() -> None:
    device, before = Plain(), signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt, match="terminated"), bench.Session(device):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)
    assert device.saved == 1 and signal.getsignal(signal.SIGTERM) is before


def test_a_device_that_cannot_be_made_safe_is_told_of() -> None:
    device = Plain()
    device.safe = lambda: 1 / 0  # pyright: ignore
    with pytest.raises(bench.DeviceError, match="switch it off by hand"), bench.Session(device):
        pass
    with pytest.raises(ValueError, match="what happened") as caught, bench.Session(device):
        raise ValueError("what happened")
    assert "switch it off by hand" in caught.value.__notes__[0]


# ---- what the caller is told ----


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda s: s.settle(ROWS * 9), "scale them"),
        (lambda s: s.settle(np.zeros((2, 5))), "do not fit the plain device"),
        (lambda s: s.settle(ROWS, bench.Drive("clamp", 1.0, {"output": ROWS})), "cannot do a 'clamp'"),
        (lambda s: s.settle(ROWS, bench.Drive("current", 7.0, {"output": ROWS})), "beta=7.0: the plain device goes up"),
        (lambda s: s.settle(ROWS, bench.Drive("current", 1.0, {"output": 9 * ROWS})), "take a smaller β"),
        (lambda s: s.write({"W": {"input-output": np.full((1, 1), 3.0)}}), "clip it"),
        (lambda s: s.write({"W": {"input-output": np.full((1, 1), np.nan)}}), "clip it"),
        (lambda s: s.write({"W": {"other": np.zeros((1, 1))}}), "mind"),
        (lambda s: s.write({"W": {"input-output": np.zeros(2)}}), "shape"),
        (lambda s: bench.trainer(s, F, optax.sgd(1.0), ep.Symmetric()), "make them the same"),
        (lambda s: bench.trainer(s, F, optax.sgd(1.0), eta=0.5, kind="spring"), "kind='spring' with eta=0.5"),
    ],
)
def test_what_a_device_cannot_do_is_refused_before_it_is_asked(ask: Callable[[Any], Any], said: str) -> None:
    with bench.Session(Plain()) as session:
        session.write(W)
        with pytest.raises(ep.InputError, match=said):
            ask(session)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: bench.Session(object()), "is no device"),  # pyright: ignore
        (lambda: bench.Session(Plain(), timeout=0), "timeout=0"),
        (lambda: bench.Session(Plain(), retries=-1), "retries=-1"),
        (lambda: bench.Session(Plain()).settle(ROWS), "with Session"),
        (lambda: bench.Range(1, 0), "lower end first"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(ep.InputError, match=said):
        make()


def test_a_device_is_not_compiled_by_mistake() -> None:
    with bench.Session(simulated()) as session:
        made = trainer(session)
        with pytest.raises(ep.InputError, match=r"bench\.fit"):
            made.measure(THETA, (X, Y))
    plain = ep.Trainer(F, ep.EquilibriumPropagation(), optax.sgd(0.1))
    with pytest.raises(ep.InputError, match=r"eqprop\.bench\.trainer"):
        bench.fit(plain, plain.init(THETA, FEED, KEY), FEED, epochs=1)


# ---- the certificate ----


SMOOTH = ep.Resistive.layered(3, 4, 2, gain=8.0, least=0.01, most=0.2, diode=ep.Shockley(1e-2, 8.0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("faults", "beta", "part"),
    [
        ({"noise": 0.002}, 0.1, "noise"),
        slow({"noise": 0.0005, "offset_spread": 0.001}, 0.1, "offset"),
        ({"noise": 0.0001}, 3.0, "bias"),
    ],
    ids=["noise", "offset", "bias"],
)
def test_the_certificate_promises_the_error_that_gradients_have(faults: dict[str, Any], beta: float, part: str) -> None:
    """Real diodes make a smooth F, of which the bias can be extrapolated."""
    total, metrics = ep.Total(SMOOTH, ep.SquaredError()), {"error": F.cost.misclassified}
    settle = ep.Block(steps=500, tol=1e-7)
    exact = ep.ImplicitGradient(settle)(total, THETA, (X, Y), SMOOTH.space.rest(len(X))).gradient

    def device(seed: int) -> bench.SimulatedBench:
        made = simulated(4.0, net=SMOOTH, **faults)
        made.calls = seed  # the same offsets, other noise
        return made

    with bench.Session(device(0)) as session:
        certificate = bench.certify(session, total, THETA, (X, Y), betas=(beta,), repeats=(1, 4))
    assert [row.repeats for row in certificate.table] == [1, 4]
    for row in certificate.table:
        with bench.Session(device(10_000), repeats=row.repeats) as session:
            made = bench.trainer(session, total, optax.sgd(0.1), ep.Symmetric(beta), metrics=metrics)
            learned = [made.rule.learn(made.F, THETA, (X, Y), made.rest(len(X)), KEY) for _ in range(8)]
        errors = [apart(one.gradient, exact) for one in learned]
        assert row.total == pytest.approx(np.sqrt(np.mean(np.square(errors))), rel=0.25), row
    first = certificate.table[0]
    assert max(("bias", "offset", "noise"), key=lambda name: getattr(first, name)) == part


def drawn_offset(layer: str) -> float:
    """The root mean square of the offsets that nodes have when they are pulled and pushed."""
    zeros = {name: jnp.zeros((3, 1, *shape)) for name, shape in NET.shapes.items()}
    drawn = readings(offset_spread=0.005)(zeros, KEY)[layer][1:] / (2 * VOLTS)
    return float(np.sqrt(np.mean(np.square(drawn))))


@pytest.mark.slow
def test_the_certificate_measures_what_the_bench_was_given() -> None:
    writing = {"noise": 0.03, "lifetime": 1e3, "reset": NET.least}
    with bench.Session(simulated(noise=0.004, offset_spread=0.005, writing=writing)) as session:
        found = bench.certify(session, F, THETA, (X, Y), betas=(0.5,), readings=16)
    for layer in ("hidden", "output"):
        assert found.noise[layer] == pytest.approx(0.004, rel=0.15)
        assert found.offset[layer] == pytest.approx(drawn_offset(layer), rel=0.3)
    assert found.write_spread == pytest.approx(0.03, rel=0.3)
    assert found.drift > 1e-6
    with bench.Session(simulated()) as session:
        ideal = bench.certify(session, F, THETA, (X, Y))
    assert ideal.fit and ideal.drift < 1e-8 and ideal.write_spread < 1e-6 and max(ideal.noise.values()) < 1e-6
    assert ideal.linear_beta is not None and ideal.best.total < 0.1


def test_a_device_that_is_not_fit_is_told_of_and_why(tmp_path: Path) -> None:
    with bench.Session(simulated(noise=0.2)) as session:
        noisy = bench.certify(session, F, THETA, (X, Y), betas=(0.1,), repeats=(1,), readings=4)
    assert not noisy.fit and "mostly noise (more readings)" in noisy.problems[0]
    assert "NOT FIT" in str(noisy)
    noisy.save(tmp_path, ["eqprop bench check simulated"])
    kept = json.loads((tmp_path / "certificate.json").read_text())
    assert kept["fit"] is False and kept["table"][0]["beta"] == 0.1
    assert "not fit for training" in (tmp_path / "README.md").read_text()


class Unwired(bench.SimulatedBench):
    """Whose second output is not pushed, whatever is asked for."""

    def settle(self, x: np.ndarray, drive: bench.Drive | None) -> bench.Settled:
        if drive is not None:
            drive = drive._replace(values={"output": drive.values["output"] * np.array([1, 0])})
        settled = super().settle(x, drive)
        u = np.array(settled.readings["output"])
        u[:, 1] = 0.5 + 0.01 * np.random.default_rng(self.calls).standard_normal(len(x))
        return settled._replace(readings=dict(settled.readings) | {"output": u})


def test_an_output_that_nothing_moves_is_found() -> None:
    device = Unwired(NET, readings(noise=0.001), beta=4.0)
    with bench.Session(device) as session:
        found = bench.certify(session, F, THETA, (X, Y), betas=(0.5,))
    assert found.dead == ("output (1,)",) and any("look after the wires" in problem for problem in found.problems)


# ---- at the command line ----

MODULE = """
import sys
sys.path.insert(0, {tests!r})
from benches import F, THETA, simulated
from eqprop import bench

def good():
    return bench.Setup(simulated(noise=0.001), F, THETA)

def bad():
    return bench.Setup(simulated(noise=0.2), F, THETA)

def wrong():
    return simulated()
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of the user's, in the folder that one is in."""
    name = f"devices_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE.format(tests=str(Path(__file__).parent)))
    monkeypatch.chdir(tmp_path)
    return name


def test_a_device_of_the_users_is_checked_and_the_status_says_whether_it_is_fit(
    tmp_path: Path, module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--betas", "0.5", "--readings", "4", "--examples", "8"]
    assert run("bench", "check", f"{module}:good", *options, "--report", tmp_path / "page", "--wanted", "0.9") == 0
    shown = capsys.readouterr().out
    assert "fit for training" in shown and "noise of a reading" in shown
    assert json.loads((tmp_path / "page" / "certificate.json").read_text())["fit"] is True
    assert any(entry["event"] == "settle" for entry in bench.read_log(tmp_path / "page" / "readings.jsonl"))
    assert run("bench", "check", f"{module}:bad", *options, "--json") == 1
    assert json.loads(capsys.readouterr().out)["problems"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["check", "nonsense"], "module:factory"),
        (["check", "no_such_module:make"], "No module named"),
        (["check", "{module}:missing"], "has no function 'missing'"),
        (["check", "{module}:wrong"], "return eqprop.bench.Setup"),
        (["train", "{module}:good"], "the digits 64 and 10"),
        (["train", "--resume", "nowhere"], "has no config.json"),
        (["train", "--learning-rate", "0"], "learning_rate=0"),
        (["train", "--beta", "-1"], "beta=-1.0: give a positive number"),
        (["train", "--repeats", "0"], "repeats=0"),
        (["train", "--train", "0"], "train=0"),
        (["train", "--train", "5000"], "train=5000: there are"),
    ],
)
def test_what_a_command_cannot_do_is_told(
    module: str, args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("bench", *(arg.format(module=module) for arg in args)) == 2
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
def test_the_simulated_bench_learns_the_digits_and_goes_on_after_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """8-bit readings with 1 % noise, 6-bit conductances of a range of 20 to 1 with 2 % noise; a few epochs only."""
    device: Any = setups.simulated().device
    assert (device.reading.bits, device.reading.noise) == (8, 0.01)
    assert (device.writing.states, device.writing.noise) == (64, 0.02)
    assert device.writing.range[1] == pytest.approx(20 * device.writing.range[0])
    options = ["--epochs", "8", "--checkpoint-seconds", "0", "--json"]
    update, seen = progress.TrainingBar.update, []

    def interrupt(self: Any, moment: ep.Progress) -> None:
        update(self, moment)
        seen.append(moment)
        if len(seen) == 50:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(progress.TrainingBar, "update", interrupt)
        assert run("bench", "train", *options, "--run-dir", tmp_path / "torn") == 130
    assert f"eqprop bench train --resume {tmp_path / 'torn'}" in capsys.readouterr().err
    assert run("bench", "train", "--resume", tmp_path / "torn", "--json") == 0
    torn = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert torn["test_error"] < 0.25 and torn["skipped"] == 0  # 15 % when it was written; chance is 90 %
    assert run("bench", "train", *options, "--run-dir", tmp_path / "whole") == 0
    assert outcome(tmp_path / "torn") == outcome(tmp_path / "whole")

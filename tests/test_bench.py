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
from command import run
from eqprop import bench, progress
from eqprop.bench import setups
from eqprop.bench.imperfect import converted, drifted, level
from eqprop.bench.log import Log

NET = ep.Resistive.layered(3, 4, 2, gain=8.0, least=0.01, most=0.2)
F = ep.Total(NET, ep.SquaredError())
RNG = np.random.default_rng(0)
X = RNG.uniform(0, 1, (24, 3)).astype(np.float32)
Y = np.eye(2, dtype=np.float32)[(X[:, 0] > X[:, 1]).astype(int)]
THETA = NET.project(NET.init(jax.random.key(0), gain=0.3))
FEED = ep.Shuffled((X, Y), batch_size=8)
KEY = jax.random.key(1)


def simulated(beta: float = 2.0, **faults: Any) -> bench.SimulatedBench:
    return bench.SimulatedBench(NET, bench.Imperfections(**faults), volts=4.0, beta=beta)


def trainer(session: bench.Session, nudge: ep.Nudge | None = None, **more: Any) -> ep.Trainer:
    nudge = ep.Symmetric(0.2) if nudge is None and "eta" not in more else nudge
    return bench.trainer(session, F, optax.adam(0.005), nudge, metrics={"error": F.cost.misclassified}, **more)


def flat(tree: Any) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)]).astype(float)


def apart(a: Any, b: Any) -> float:
    return float(np.linalg.norm(flat(a) - flat(b)) / np.linalg.norm(flat(b)))


@pytest.fixture(scope="module")
def exact() -> np.ndarray:
    """The gradient of the cost at the free fixed points, without any device."""
    settle = ep.Block(steps=500, tol=1e-7)
    return flat(ep.ImplicitGradient(settle)(F, THETA, (X, Y), NET.space.rest(len(X))).gradient)


# ---- the imperfections, one by one ----


def test_a_converter_rounds_to_its_steps_and_stays_in_its_range() -> None:
    seen = converted(np.array([-9.0, -0.4, 0.1, 0.34, 9.0]), -1.0, 1.0, 2)
    assert seen == pytest.approx([-1, -1 / 3, 1 / 3, 1 / 3, 1])
    assert converted(np.array([0.123, 5.0]), -1.0, 1.0, None).tolist() == [0.123, 1.0]


def test_states_are_the_nearest_or_right_on_average() -> None:
    g = np.full(20_000, 0.3)
    assert set(level(g, 0.0, 1.0, 11, None)) == {3.0}
    drawn = level(np.full(20_000, 0.325), 0.0, 1.0, 11, RNG.random(20_000))
    assert set(drawn) == {3.0, 4.0} and drawn.mean() == pytest.approx(3.25, abs=0.02)


def test_conductances_drift_towards_the_lowest() -> None:
    assert drifted(np.array([0.1, 0.5]), 0.1, 0.25).tolist() == pytest.approx([0.1, 0.4])


def test_the_bench_has_the_faults_that_it_was_given() -> None:
    device = simulated(states=11, write_noise=0.05, stuck=0.25, drift=0.1)
    before = flat(device.conductances())
    reached = flat(device.write(THETA))
    stuck = flat({"W": device.stuck, "b": {}}).astype(bool)
    assert 0 < stuck.mean() < 1 and (reached[stuck] == before[stuck].astype(np.float32)).all()
    again = flat(device.write(THETA))
    assert (again == reached).all()  # what is there already is not written again
    device.settle(X, None)
    assert apart(flat(device.conductances()) - NET.least, 0.9 * (reached - NET.least)) < 1e-5


def test_sources_and_diodes_that_differ_are_what_the_library_settles_too() -> None:
    diode = ep.Shockley(1e-3, 2.0)
    net = ep.Resistive.layered(3, 4, 2, gain=8.0, least=0.01, most=0.2, diode=diode)
    device = bench.SimulatedBench(net, bench.Imperfections(source_resistance=2.0, diode_spread=0.5), volts=4.0)
    device.write(THETA)
    readings = device.settle(X, None).readings
    real = device.inside
    theta = {"W": THETA["W"] | {"source-input": jnp.zeros(0)}, "b": {}}
    s, _ = ep.Block(steps=500, tol=1e-6)(
        ep.Total(real, ep.SquaredError()), theta, (X, None), 0.0, real.space.rest(len(X))
    )
    assert np.abs(readings["output"] - s["output"]).max() < 1e-3
    assert np.abs(readings["output"] - simulated_output()).max() > 0.01  # and not what the ideal circuit does


def simulated_output() -> np.ndarray:
    device = simulated()
    device.write(THETA)
    return np.asarray(device.settle(X, None).readings["output"])


@pytest.mark.parametrize("wrong", [{"bits": 0}, {"states": 1}, {"read_noise": -0.1}, {"stuck": 1.5}, {"sweeps": 2.5}])
def test_imperfections_that_cannot_be_meant_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ep.InputError, match=next(iter(wrong))):
        bench.Imperfections(**wrong)


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


def test_coupled_learning_by_a_device_is_that_of_the_library() -> None:
    with bench.Session(simulated()) as session:
        made = trainer(session, eta=0.3)
        asked = made.rule.learn(made.F, THETA, (X, Y), made.rest(len(X)), KEY).gradient
    settle = ep.Block(steps=500, tol=1e-7)
    computed = ep.CoupledLearning(0.3, settle, settle)(F, THETA, (X, Y), NET.space.rest(len(X))).gradient
    assert apart(asked, computed) < 1e-2


def test_the_gradient_is_taken_where_the_device_is_and_not_where_it_should_be() -> None:
    cost = ep.SquaredError(l2=1.0)  # whose part of the gradient is θ itself
    with bench.Session(simulated(states=3)) as session:
        made = bench.trainer(session, ep.Total(NET, cost), optax.sgd(0.1), ep.Symmetric(0.05))
        penalised = made.rule.learn(made.F, THETA, (X, Y), made.rest(len(X)), KEY).gradient
        plain = trainer(session, ep.Symmetric(0.05))
        without = plain.rule.learn(plain.F, THETA, (X, Y), plain.rest(len(X)), KEY).gradient
        assert flat(penalised) - flat(without) == pytest.approx(flat(session.reached), abs=1e-3)
        assert apart(session.reached, THETA) > 0.1


# ---- training ----


def test_a_device_learns_and_its_wish_is_kept_between_the_states_that_it_has() -> None:
    with bench.Session(simulated(bits=10, read_noise=0.002, states=32, write_noise=0.01)) as session:
        made = trainer(session)
        state, history = bench.fit(made, made.init(THETA, FEED, KEY), FEED, epochs=12, valid=(X, Y))
    assert history[-1]["train_cost"] < 0.7 * history[0]["train_cost"]
    assert {"epoch", "train_error", "valid_cost", "seconds", "repeated", "skipped"} <= history[-1].keys()
    steps = (flat(state.theta) - NET.least) / (NET.most - NET.least) * 31
    assert np.abs(steps - np.round(steps)).max() > 0.2  # θ is the wish, not one of the 32 states
    ends = session.device.describe().theta_range
    assert ends.holds(flat(state.theta))


def test_the_log_has_every_reading_and_says_which_update_came_of_which(tmp_path: Path) -> None:
    with bench.Session(simulated(read_noise=0.01), log=tmp_path / "log.jsonl") as session:
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


def test_readings_are_averaged() -> None:
    scatter = []
    for repeats in (1, 16):
        with bench.Session(simulated(read_noise=0.02), repeats=repeats) as session:
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
    device = simulated(bits=10, read_noise=0.01, states=64, write_noise=0.02, drift=1e-4)
    with bench.Session(device, log=folder / "readings.jsonl") as session:
        made = trainer(session)
        start = made.init(THETA, FEED, KEY)
        bench.fit(made, start, FEED, epochs=3, run=run, valid=(X, Y), observe=observe, **more)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("whole") / "run"
    train(folder)
    return outcome(folder)


@pytest.mark.parametrize("stops", [[1], [3, 4], [5, 8, 9]], ids=str)
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


@pytest.mark.parametrize(
    ("faults", "beta", "part"),
    [
        ({"read_noise": 0.002}, 0.1, "noise"),
        ({"read_noise": 0.0005, "offset": 0.001}, 0.1, "offset"),
        ({"read_noise": 0.0001}, 3.0, "bias"),
    ],
    ids=["noise", "offset", "bias"],
)
def test_the_certificate_promises_the_error_that_gradients_have(faults: dict[str, Any], beta: float, part: str) -> None:
    """Real diodes make a smooth F, of which the bias can be extrapolated."""
    total, metrics = ep.Total(SMOOTH, ep.SquaredError()), {"error": F.cost.misclassified}
    settle = ep.Block(steps=500, tol=1e-7)
    exact = ep.ImplicitGradient(settle)(total, THETA, (X, Y), SMOOTH.space.rest(len(X))).gradient

    def device(seed: int) -> bench.SimulatedBench:
        made = bench.SimulatedBench(SMOOTH, bench.Imperfections(**faults), volts=4.0, beta=4.0)
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


def test_the_certificate_measures_what_the_bench_was_given() -> None:
    faults = {"read_noise": 0.004, "offset": 0.005, "write_noise": 0.03, "drift": 1e-4}
    with bench.Session(simulated(**faults)) as session:
        found = bench.certify(session, F, THETA, (X, Y), betas=(0.5,), readings=16)
    for layer in ("hidden", "output"):
        assert found.noise[layer] == pytest.approx(0.004, rel=0.15)
        drawn = [session.device.offsets[layer, way] / 8.0 for way in (1, -1)]  # pyright: ignore
        assert found.offset[layer] == pytest.approx(np.sqrt(np.mean(np.square(drawn))), rel=0.3)
    assert found.write_spread == pytest.approx(0.03, rel=0.3)
    assert found.drift > 1e-6
    with bench.Session(simulated()) as session:
        ideal = bench.certify(session, F, THETA, (X, Y))
    assert ideal.fit and ideal.drift < 1e-8 and ideal.write_spread < 1e-6 and max(ideal.noise.values()) < 1e-6
    assert ideal.linear_beta is not None and ideal.best.total < 0.1


def test_a_device_that_is_not_fit_is_told_of_and_why(tmp_path: Path) -> None:
    with bench.Session(simulated(read_noise=0.2)) as session:
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
    device = Unwired(NET, bench.Imperfections(read_noise=0.001), volts=4.0, beta=4.0)
    with bench.Session(device) as session:
        found = bench.certify(session, F, THETA, (X, Y), betas=(0.5,))
    assert found.dead == ("output (1,)",) and any("look after the wires" in problem for problem in found.problems)


# ---- at the command line ----

MODULE = """
import sys
sys.path.insert(0, {tests!r})
from test_bench import F, THETA, simulated
from command import run
from eqprop import bench, progress
from eqprop.bench import setups

def good():
    return bench.Setup(simulated(read_noise=0.001), F, THETA)

def bad():
    return bench.Setup(simulated(read_noise=0.2), F, THETA)

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
    faults = setups.simulated().device.faults  # pyright: ignore[reportAttributeAccessIssue]
    assert (faults.bits, faults.states, faults.read_noise, faults.write_noise) == (8, 64, 0.01, 0.02)
    assert setups.circuit().most == pytest.approx(20 * setups.circuit().least)
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
    assert torn["test_error"] < 25 and torn["skipped"] == 0  # 15 % when it was written; chance is 90 %
    assert run("bench", "train", *options, "--run-dir", tmp_path / "whole") == 0
    assert outcome(tmp_path / "torn") == outcome(tmp_path / "whole")

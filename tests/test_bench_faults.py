"""A campaign of faults: whatever a device does wrong, no wrong update is applied, and the run can go on."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import eqprop as ep
from benches import FEED, KEY, NET, THETA, readings, trainer
from eqprop import bench
from eqprop.store.checkpoint import read

EPOCHS = 2
PER_MINIBATCH = 3  # settlings: free, pulled, pushed


class Faulty(bench.SimulatedBench):
    """A bench without noise of its own, whose settlings of these numbers go wrong."""

    def __init__(self, fault: str = "", at: Iterable[int] = ()):
        super().__init__(NET, readings(bits=14), beta=2.0)
        self.fault, self.at, self.settlings, self.saved = fault, set(at), 0, 0
        self.last: bench.Settled | None = None

    def settle(self, x: np.ndarray, drive: bench.Drive | None) -> bench.Settled:
        self.settlings += 1
        wrong = self.fault if self.settlings in self.at else ""
        if wrong == "hangs":
            time.sleep(1.2)
        if wrong == "drops out":
            raise OSError("no such device")
        if wrong == "says so":
            return bench.Settled({}, ok=False, reason="the supply is off")
        if wrong == "stale" and self.last is not None:
            return self.last
        settled = super().settle(x, drive)
        self.last = settled
        return settled._replace(readings=garbled(dict(settled.readings), wrong))

    def safe(self) -> None:
        super().safe()
        self.saved += 1


def garbled(readings: dict[str, Any], wrong: str) -> Any:
    u = np.array(readings["hidden"])
    if wrong == "not a number":
        u[0, 0] = np.nan
    elif wrong == "infinite":
        u[-1, -1] = np.inf
    elif wrong == "out of range":
        u[2, 1] = 4.5
    elif wrong == "too few rows":
        u = u[:-1]
    elif wrong == "too many nodes":
        u = np.concatenate([u, u], axis=1)
    elif wrong == "a layer is missing":
        return {"output": readings["output"]}
    elif wrong == "text":
        return readings | {"hidden": np.full(u.shape, "E42")}
    elif wrong == "nothing":
        return None
    return readings | {"hidden": u}


FAULTS = ["hangs", "drops out", "says so", "stale", "not a number", "infinite", "out of range", "too few rows"]
FAULTS += ["too many nodes", "a layer is missing", "text", "nothing"]


def train(device: bench.Device, folder: Path, retries: int = 2, timeout: float = 30.0, **more: Any) -> ep.TrainState:
    run = ep.Run.open(folder) if folder.exists() else ep.Run.create(folder, {})
    with bench.Session(device, log=folder / "log.jsonl", retries=retries, timeout=timeout) as session:
        made = trainer(session)
        return bench.fit(made, made.init(THETA, FEED, KEY), FEED, epochs=EPOCHS, run=run, **more)[0]


def weights(folder: Path) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in read(folder / "weights.safetensors")[0].items()}


def log(folder: Path) -> list[dict[str, Any]]:
    return list(bench.read_log(folder / "log.jsonl"))


def every_update_came_from_good_readings(folder: Path) -> bool:
    """Whether each update that was applied has as many good settlings as it needs, and ended with one."""
    answers: dict[int, dict[str, Any]] = {}
    for entry in log(folder):
        if entry["event"] == "session":
            answers = {}
        if "n" in entry:
            answers[entry["n"]] = entry
        if entry["event"] == "update":
            used = [answers[n] for n in range(*entry["between"]) if n in answers]
            good = [one for one in used if one["event"] == "settle" and one["ok"]]
            if len(good) < PER_MINIBATCH or not used[-1]["ok"]:
                return False
    return True


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("clean") / "run"
    device = Faulty()
    train(device, folder)
    assert device.saved == 1 and every_update_came_from_good_readings(folder)
    return weights(folder)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_passes_changes_nothing(tmp_path: Path, clean: dict[str, bytes], fault: str) -> None:
    """Free, pulled and pushed phases go wrong in turn, and once two answers in a row."""
    device = Faulty(fault, at=(3, 7, 8, 12) if fault != "hangs" else (5,))
    train(device, tmp_path / "run", timeout=1.0 if fault == "hangs" else 30.0)
    assert weights(tmp_path / "run") == clean
    refused = [entry for entry in log(tmp_path / "run") if entry.get("ok") is False]
    assert refused and all(entry["reason"] for entry in refused)
    assert every_update_came_from_good_readings(tmp_path / "run")
    assert device.saved == 1


def test_the_check_of_the_log_can_fail(tmp_path: Path) -> None:
    train(Faulty(), tmp_path / "run")
    path = tmp_path / "run" / "log.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    third = [line for line in lines if line["event"] == "settle"][5]
    third["ok"] = False
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert not every_update_came_from_good_readings(tmp_path / "run")


def test_a_minibatch_is_repeated_when_retries_do_not_help(tmp_path: Path, clean: dict[str, bytes]) -> None:
    train(Faulty("not a number", at=(4, 5, 6)), tmp_path / "run", retries=2)  # three answers to one question
    assert weights(tmp_path / "run") == clean
    events = [entry["event"] for entry in log(tmp_path / "run")]
    assert events.count("minibatch refused") == 1 and "minibatch skipped" not in events


def test_a_minibatch_that_cannot_be_read_is_skipped_with_a_record(tmp_path: Path, clean: dict[str, bytes]) -> None:
    state = train(Faulty("out of range", at=(4, 5)), tmp_path / "run", retries=0)
    assert weights(tmp_path / "run") != clean
    assert int(state.step) == EPOCHS * FEED.batches - 1
    (skipped,) = [entry for entry in log(tmp_path / "run") if entry["event"] == "minibatch skipped"]
    assert (skipped["epoch"], skipped["batch"]) == (0, 1)
    history = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    assert [(record["repeated"], record["skipped"]) for record in history] == [(1, 1), (0, 0)]
    updates = [(e["epoch"], e["batch"]) for e in log(tmp_path / "run") if e["event"] == "update"]
    assert (0, 1) not in updates and len(updates) == int(state.step)


class StuckOutput(Faulty):
    """Whose first output always reads the same from a settling on."""

    def settle(self, x: np.ndarray, drive: bench.Drive | None) -> bench.Settled:
        settled = super().settle(x, drive)
        u = np.array(settled.readings["output"])
        if self.settlings >= min(self.at):
            u[:, 0] = 0.25
        return settled._replace(readings=dict(settled.readings) | {"output": u})


def test_an_output_that_gets_stuck_ends_the_run_before_anything_is_learned_from_it(tmp_path: Path) -> None:
    device = StuckOutput(at=(7,))
    with pytest.raises(bench.DeviceError, match="3 minibatches in a row"):
        train(device, tmp_path / "run", most_refused=2)
    reasons = [entry["reason"] for entry in log(tmp_path / "run") if entry["event"] == "minibatch refused"]
    assert reasons and all("node (0,) of layer 'output' did not move" in reason for reason in reasons)
    assert len([entry for entry in log(tmp_path / "run") if entry["event"] == "update"]) == 2  # those before
    assert device.saved == 1


@pytest.mark.parametrize("fault", ["drops out", "not a number"])
def test_a_device_that_dies_ends_the_run_and_a_mended_one_goes_on(
    tmp_path: Path, clean: dict[str, bytes], fault: str
) -> None:
    device = Faulty(fault, at=range(8, 10_000))
    with pytest.raises(bench.DeviceError, match=r"is good: mend the device") as caught:
        train(device, tmp_path / "run", most_refused=0, again=0)
    assert str(tmp_path / "run") in str(caught.value)
    assert device.saved == 1
    arrays, _ = read(tmp_path / "run" / "checkpoint.safetensors")
    assert (int(arrays["train/step"]), int(arrays["train/batch"])) == (2, 3)
    # What a device was away from rest is unknown, and so no number.
    assert all(np.isfinite(array).all() for name, array in arrays.items() if "settling" not in name)
    state = train(Faulty(), tmp_path / "run")
    assert int(state.step) == EPOCHS * FEED.batches - 1  # the minibatch at which it died was skipped, and no other
    assert every_update_came_from_good_readings(tmp_path / "run")


class Dead(Faulty):
    """Which does not return any more from a settling on."""

    def __init__(self, at: Iterable[int]):
        super().__init__(at=at)
        self.mended = threading.Event()

    def settle(self, x: np.ndarray, drive: bench.Drive | None) -> bench.Settled:
        if self.settlings + 1 in self.at:
            self.mended.wait(30)
        return super().settle(x, drive)


def test_a_device_that_hangs_for_good_ends_the_run_and_goes_on_to_the_same_weights(
    tmp_path: Path, clean: dict[str, bytes]
) -> None:
    device = Dead(at=(8,))
    train_until = pytest.raises(bench.DeviceError, match="does not answer any more")
    with train_until:
        train(device, tmp_path / "run", retries=1, timeout=1.0)
    assert device.saved == 1  # although the call still hangs
    device.mended.set()
    train(Faulty(), tmp_path / "run")
    assert weights(tmp_path / "run") == clean


@pytest.mark.parametrize(
    "reached",
    [lambda t: None, lambda t: t | {"W": {}}, lambda t: jax.tree.map(lambda g: g + 1, t)],
    ids=["none", "less", "far"],
)
def test_a_write_that_fails_is_repeated_and_then_refused(tmp_path: Path, clean: dict[str, bytes], reached: Any) -> None:
    class Writes(Faulty):
        wrong, writes = {2, 3}, 0

        def write(self, theta: Any) -> Any:
            self.writes += 1
            found = super().write(theta)
            return reached(found) if self.writes in self.wrong else found

    train(Writes(), tmp_path / "run")
    assert weights(tmp_path / "run") == clean
    device = Writes()
    device.wrong = set(range(2, 10_000))
    with pytest.raises(bench.DeviceError, match="minibatches in a row"):
        train(device, tmp_path / "other", most_refused=1)
    assert [entry["event"] for entry in log(tmp_path / "other")].count("update") == 1


# ---- killed ----

PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
import eqprop as ep
from benches import DRIFTING, FEED, KEY, NOISY, THETA, simulated, trainer
from eqprop import bench

folder = Path(sys.argv[1])
run = ep.Run.open(folder) if (folder / "config.json").exists() else ep.Run.create(folder, {{}})
with bench.Session(simulated(**NOISY, writing=DRIFTING), log=folder / "log.jsonl") as session:
    made = trainer(session)
    bench.fit(made, made.init(THETA, FEED, KEY), FEED, epochs=40, run=run, checkpoint_seconds=0)
"""


def start(folder: Path) -> subprocess.Popen[bytes]:
    program = PROGRAM.format(tests=str(Path(__file__).parent))
    return subprocess.Popen([sys.executable, "-c", program, str(folder)], stderr=subprocess.PIPE)


def finish(process: subprocess.Popen[bytes]) -> None:
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said.decode()


@pytest.mark.parametrize("kills", [pytest.param(3, marks=pytest.mark.slow)])
def test_a_run_killed_again_and_again_ends_with_the_weights_of_one_left_alone(tmp_path: Path, kills: int) -> None:
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    for folder in (whole, torn):
        folder.mkdir()
    for kill in range(kills):
        process, checkpoint = start(torn), torn / "checkpoint.safetensors"
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        deadline = time.monotonic() + 240
        while not checkpoint.exists() or checkpoint.stat().st_mtime_ns == before:
            assert process.poll() is None and time.monotonic() < deadline, process.communicate()[1].decode()
            time.sleep(0.01)
        time.sleep(0.1 * kill)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert every_update_came_from_good_readings(torn)  # the log can be read, whatever the kill cut short
        read(checkpoint)
    finish(start(torn))
    finish(start(whole))
    assert weights(torn) == weights(whole)
    assert os.listdir(torn).count("weights.safetensors") == 1 and not list(torn.glob(".*.part"))

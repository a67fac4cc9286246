"""One writer at a time in a folder, whatever happens to the others; and little time is spent on saving."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from command import run
from eqprop import InputError, Run
from eqprop.cli.folders import chosen_folder
from eqprop.data import cache
from eqprop.data.registry import FILE_SETS
from eqprop.store.atomic import write_atomic
from eqprop.store.lock import NAME, locked
from eqprop.store.pace import Pace

OLD = Path(__file__).parent / "data" / "0.1.0" / "run"
HOLDER = """
import fcntl, os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(file, fcntl.LOCK_EX)
os.write(file, f"process {os.getpid()} on a host".encode())
print("held", flush=True)
sys.stdin.readline()
os.unlink(sys.argv[1])
"""


class Holder:
    """Another program that holds the lock of a folder until it is told to let go, or killed."""

    def __init__(self, folder: Path):
        command = [sys.executable, "-c", HOLDER, str(folder / ".lock")]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "held\n"

    def let_go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[Holder]:
    shutil.copytree(OLD, tmp_path / "run")
    holder = Holder(tmp_path / "run")
    yield holder
    holder.process.kill()
    holder.process.communicate()


def test_a_second_writer_is_told_who_the_first_is_and_readers_are_let_in(
    holder: Holder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in (tmp_path / "run").glob("*.*")}
    scrap = tmp_path / "run" / ".checkpoint.safetensors.x.part"
    scrap.write_bytes(b"what the first writer is writing")
    assert run("train", "--resume", tmp_path / "run", "--epochs", "3") == 2
    message = " ".join(capsys.readouterr().err.split())
    assert f"process {holder.process.pid} on a host is writing into {tmp_path / 'run'}" in message
    assert {path: path.read_bytes() for path in before} == before
    assert scrap.exists()
    assert run("evaluate", tmp_path / "run") == 0
    holder.process.kill()  # the lock vanishes with it, and the file that stays behind holds nobody up
    holder.process.wait()
    assert (tmp_path / "run" / ".lock").exists()
    with locked(tmp_path / "run"):
        pass
    assert not (tmp_path / "run" / ".lock").exists()


def test_a_lock_is_of_one_thread_and_let_go_whatever_happens(tmp_path: Path) -> None:
    found: list[BaseException] = []

    def another() -> None:
        try:
            with locked(tmp_path):
                pass
        except InputError as error:
            found.append(error)

    with pytest.raises(KeyError), locked(tmp_path), locked(tmp_path):
        thread = threading.Thread(target=another)
        thread.start()
        thread.join()
        raise KeyError
    assert len(found) == 1 and "process" in str(found[0])
    another()
    assert len(found) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "make", [lambda folder: Run.create(folder, {}), lambda folder: chosen_folder(folder, None, "")]
)
def test_half_a_file_that_a_kill_left_before_the_first_was_whole_is_no_content(
    tmp_path: Path, make: Callable[[Path], object]
) -> None:
    half = tmp_path / ".config.json.abc.part"
    half.write_text("{")
    (tmp_path / "mine").touch()
    with pytest.raises(InputError, match="is not empty"):
        make(tmp_path)
    assert half.exists()
    (tmp_path / "mine").unlink()
    make(tmp_path)
    assert not half.exists()


def test_a_folder_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"cannot make the folder .*below: Not a directory"):
        chosen_folder(tmp_path / "file" / "below", None, "")


def test_two_that_fetch_the_same_data_do_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQPROP_DATA", str(tmp_path))
    (folder := tmp_path / "mnist").mkdir()
    holder, said = Holder(folder), []

    def hear(words: str) -> None:
        said.append(words)
        if "waiting for" in words:  # the other one has fetched it meanwhile
            monkeypatch.setattr(cache, "is_intact", lambda *_: True)
            holder.let_go()

    def download(*_: object) -> None:
        raise AssertionError("it is there already")

    monkeypatch.setattr(cache, "download", download)
    assert cache.fill_cache(FILE_SETS["mnist"], None, hear) == folder
    assert f"waiting for process {holder.process.pid} on a host, which is writing into {folder}" in said[0]
    holder.process.communicate()


def test_saving_takes_no_more_than_two_percent_of_the_time() -> None:
    now = 0.0
    pace, spent = Pace(None, lambda: now), 0.0

    def write() -> None:
        nonlocal now, spent
        now, spent = now + cost, spent + cost

    for cost in (0.01, 5.0, 0.5):
        begin, spent = now, 0.0
        while now - begin < 5000:
            now += 1
            if pace.due:
                pace.save(write)
        assert 0 < spent <= 0.02 * (now - begin) + cost
    assert Pace(0.0, lambda: now).due  # what is asked for is done
    assert not Pace(float("inf"), lambda: now).due


@pytest.mark.parametrize(
    ("file", "ways"),
    [
        ("thesis.txt", "choose another"),
        ("campaign.json", "choose another, or go on with --resume {folder}"),
        ("config.json", "choose another, or go on with --resume {folder}, in Python by eqprop.Run.open('{folder}')"),
    ],
)
def test_a_folder_that_is_not_empty_is_told_the_ways_that_it_has(tmp_path: Path, file: str, ways: str) -> None:
    (tmp_path / file).touch()
    with pytest.raises(InputError) as refused:
        chosen_folder(tmp_path, None, "")
    assert str(refused.value).endswith(f"is not empty: {ways.format(folder=tmp_path)}")


def test_a_folder_whose_name_is_no_text_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes of a name that are no UTF-8 come as halves of characters, also in the command that the lock shows."""
    folder = tmp_path / os.fsdecode(b"run\xff")
    folder.mkdir()
    monkeypatch.setattr(sys, "argv", ["eqprop", "train", str(folder)])
    with locked(folder):
        assert b"udcff" in (folder / NAME).read_bytes()


def test_a_name_as_long_as_the_system_takes_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("ä" * 121 + ".safetensors")  # 254 bytes
    write_atomic(path, b"whole")
    assert path.read_bytes() == b"whole" and len(list(tmp_path.iterdir())) == 1

"""Examples in files: just the rows that are wanted are read, in an order that is shuffled well and can be resumed."""

import json
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import eqprop as ep
from command import run
from eqprop import InputError, data
from eqprop.compile import compiled
from eqprop.data.shards import Shards
from eqprop.study import Experiment, preset

KEY = jax.random.key(3)


def in_pieces(x: np.ndarray, y: np.ndarray, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    return ((x[i : i + size], y[i : i + size]) for i in range(0, len(x), size))


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits as bytes of 0 to 255, in files of 500; a test part of 100."""
    folder = tmp_path_factory.mktemp("folders") / "mine"
    whole = data.load("digits", valid=0)
    train, test = whole.train.in_memory(), whole.test
    for part, split in (("train", train), ("test", test[:100])):
        x = np.round(split.x * 255).astype(np.uint8).reshape(-1, 8, 8)
        data.write_part(folder, part, in_pieces(x, split.labels.astype(np.uint8), 500))
    return folder


def rows_seen(feed: ep.OnDisk, epoch: int = 0) -> np.ndarray:
    """The numbers of the examples of an epoch in order, without padding rows."""
    windows = -(-feed.batches // feed.ahead)
    numbers = np.concatenate([feed.numbers(KEY, epoch, k) for k in range(windows)]).ravel()
    return numbers[numbers < feed.examples]


# ---- files ----


def test_shards_are_one_array(tmp_path: Path) -> None:
    whole = np.random.default_rng(0).integers(0, 255, (23, 3, 2), np.uint8)
    for k, part in enumerate((whole[:10], whole[10:11], whole[11:])):
        np.save(tmp_path / f"{k}.npy", part)
    shards = Shards(sorted(tmp_path.iterdir()))
    assert (shards.shape, shards.dtype, len(shards)) == (whole.shape, whole.dtype, 23)
    for rows in (np.array([0, 9, 10, 11, 22]), np.array([4]), np.array([], int), slice(8, 13), slice(None)):
        np.testing.assert_array_equal(shards[rows], whole[rows])


def test_files_in_the_format_of_mnist_are_read_in_place(tmp_path: Path) -> None:
    values = np.arange(24, dtype=np.uint8).reshape(4, 3, 2)
    head = (0x0803).to_bytes(4, "big") + b"".join(size.to_bytes(4, "big") for size in values.shape)
    (tmp_path / "train-x-idx3-ubyte").write_bytes(head + values.tobytes())
    np.testing.assert_array_equal(Shards([tmp_path / "train-x-idx3-ubyte"])[np.array([1, 3])], values[[1, 3]])


def save_object(path: Path) -> None:
    np.save(path, np.array([{}], object), allow_pickle=True)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (save_object, "pickle"),
        (lambda path: np.save(path, np.asfortranarray(np.ones((3, 2)))), "by columns"),
        (lambda path: np.save(path, np.float32(1)), "single number"),
        (lambda path: path.write_bytes(b"\x80\x04nonsense"), "cannot be read"),
    ],
)
def test_what_is_no_plain_array_is_refused(tmp_path: Path, make: Any, complaint: str) -> None:
    make(tmp_path / "x.npy")
    with pytest.raises(InputError, match=complaint):
        Shards([tmp_path / "x.npy"])


def test_a_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((100, 10)))
    whole = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(whole[:-8])
    with pytest.raises(InputError, match="cut off"):
        Shards([tmp_path / "x.npy"])


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({"train-x": np.ones((3, 2), np.float32)}, "no train-y"),
        ({"train-x": np.ones((3, 2), np.float32), "train-y": np.zeros(2, int)}, "3 inputs and 2 classes"),
        ({"train-x": np.ones((3, 2), int), "train-y": np.zeros(3, int)}, "int64"),
        ({"train-x": np.ones((3, 2), np.float32), "train-y": np.zeros(3)}, "one whole number for each"),
        ({"train-x": np.ones((3, 2), np.float32), "train-y": np.array([0, 1, -1])}, "class -1"),
        ({"train-x": np.ones((3, 3, 8, 9), np.uint8), "train-y": np.array([0, 1, 0])}, r"np\.moveaxis\(x, 1, -1\)"),
        ({"train-x": np.ones((0, 2), np.uint8), "train-y": np.zeros(0, int)}, r"train-x\.npy has no rows"),
        (
            {"train-x": np.ones((3, 2), np.float32), "train-y": np.array([1, 3, 2])},
            r"no training example of class 0.*name all 4 of them in .*classes\.txt",
        ),
    ],
)
def test_a_folder_that_is_no_data_set_is_refused(tmp_path: Path, files: dict[str, Any], complaint: str) -> None:
    for name, values in files.items():
        np.save(tmp_path / f"{name}.npy", values)
    with pytest.raises(InputError, match=complaint):
        data.outline(f"{tmp_path}/")


def test_pictures_in_a_folder_are_said_to_be_no_arrays(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "1.PNG").write_bytes(b"")
    with pytest.raises(InputError, match="pictures are not read: make arrays of them, as docs"):
        data.outline(f"{tmp_path}/")


@pytest.mark.parametrize(
    ("x", "y", "names", "complaint"),
    [
        (
            np.full((3, 2), 9, np.uint8),
            [0, 1, 3],
            "",
            "class 3 in test example 2, and training has classes from 0 to 2",
        ),
        (np.full((3, 2), 9, np.uint8), [0, 1, 3], "a b c d", None),
        (np.ones((3, 2), np.uint8), [0, 1, 2], "", "bytes of 0 and 1"),
        (np.zeros((3, 2), np.uint8), [0, 1, 2], "", None),  # black
        (np.ones((3, 2), np.float32), [0, 1, 2], "", None),
    ],
)
def test_a_test_part_that_cannot_be_meant_is_refused(
    tmp_path: Path, x: np.ndarray, y: list[int], names: str, complaint: str | None
) -> None:
    for part, classes in (("train", [0, 1, 2]), ("test", y)):
        assert data.write_part(tmp_path, part, [(x, np.array(classes))]) == 1
    if names:
        (tmp_path / "classes.txt").write_text("\n".join(names.split()))
    with pytest.raises(InputError, match=complaint) if complaint else nullcontext():
        data.load(f"{tmp_path}/")


def test_pieces_are_pairs_in_a_list_or_an_iterator(tmp_path: Path) -> None:
    x, y = np.ones((2, 3)), np.array([0, 1])
    with pytest.raises(InputError, match=r"number 0 is \(an array of .*as \[\(x, y\)\]"):
        data.write_part(tmp_path, "train", (x, y))  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match=r"pieces=5: give pairs"):
        data.write_part(tmp_path, "train", 5)  # pyright: ignore[reportArgumentType]


# ---- the order ----


def test_every_example_comes_once_an_epoch_in_another_order_each_time() -> None:
    feed = ep.OnDisk(np.arange(10_007), batch_size=16, megabytes=0.03)
    assert 1 < feed.ahead < feed.batches / 4
    first, second = rows_seen(feed, 0), rows_seen(feed, 1)
    np.testing.assert_array_equal(np.sort(first), np.arange(10_007))
    np.testing.assert_array_equal(np.sort(second), np.arange(10_007))
    assert (first == second).mean() < 0.01
    np.testing.assert_array_equal(rows_seen(ep.OnDisk(np.arange(10_007), batch_size=16, megabytes=0.03), 1), second)


def test_examples_that_are_sorted_by_class_are_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """In minibatches of 100 from ten classes, the number of each class deviates as if drawn by chance."""
    monkeypatch.setattr("eqprop.train.disk.BLOCK_BYTES", 8 * 20)
    feed = ep.OnDisk(np.arange(100_000), batch_size=100, megabytes=0.35)
    assert feed.ahead < feed.batches / 5
    classes = rows_seen(feed).reshape(-1, 100) // 10_000
    counts = (classes[..., None] == np.arange(10)).sum(1)
    assert np.abs(counts.mean(0) - 10).max() < 0.1
    # Of 100 drawn at random, 10 · 0.9 = 9. Windows of about 500 blocks add (100²/500) · 0.09 = 1.8 to it.
    assert 8 < counts.var() < 12


def test_without_shuffling_the_order_is_that_of_the_files() -> None:
    feed = ep.OnDisk(np.arange(53), batch_size=8, shuffle=False, megabytes=0.001)
    np.testing.assert_array_equal(rows_seen(feed), np.arange(53))


def test_a_process_reads_its_rows_of_every_minibatch_and_no_others() -> None:
    class Watched:
        shape, dtype = (103,), np.dtype(int)

        def __init__(self) -> None:
            self.read: list[np.ndarray] = []

        def __getitem__(self, numbers: np.ndarray) -> np.ndarray:
            assert (np.diff(numbers) > 0).all()
            self.read.append(numbers)
            return numbers

    whole = [batch.v for batch in ep.OnDisk(np.arange(103), 10).epoch(KEY)]
    seen: list[int] = []
    for rows in (slice(0, 4), slice(4, 10)):
        watched = Watched()
        batches = list(ep.OnDisk(watched, 10, rows=rows).epoch(KEY))
        for batch, all_rows in zip(batches, whole, strict=True):
            np.testing.assert_array_equal(batch.v, all_rows[rows])
            np.testing.assert_array_equal(batch.slot, np.arange(10)[rows])
        seen += watched.read[0].tolist()  # all of the epoch; the next one is read ahead
    assert sorted(seen) == list(range(103))


@pytest.mark.slow
def test_views_of_a_process_are_those_of_the_whole() -> None:
    x = np.random.default_rng(0).normal(size=(40, 6, 6, 1)).astype(np.float32)
    v = (x, np.zeros((40, 1), np.float32))
    view = ep.FlipAndCrop(crop=2)
    whole = next(ep.OnDisk(v, 10, view).epoch(KEY)).v[0]
    part = next(ep.OnDisk(v, 10, view, rows=slice(3, 7)).epoch(KEY)).v[0]
    np.testing.assert_array_equal(part, whole[3:7])


def test_values_that_are_not_finite_are_told_by_their_row() -> None:
    x = np.zeros(50)
    x[37] = np.nan
    with pytest.raises(InputError, match="in example 37"):
        list(ep.OnDisk(x, 10).epoch(KEY))


# ---- training ----


@compiled
def _batch(window: ep.Window, i: int) -> ep.Batch:
    return window.batch(jnp.asarray(i))


def test_training_from_files_is_training_from_memory(digits: Path) -> None:
    """In the order of the files; the minibatches are the same to the bit, wherever it is stopped.

    Bytes are decoded in the compiled loop, which is then another program and rounds its sums in another order: weights
    differ in the last digits, which 48 steps of Adam, with its division by what may be small, make a few hundred of.
    """
    from_files = data.load(str(digits), valid=100)
    train = from_files.train
    assert isinstance(train, data.FiledSplit)
    inside, on_disk = (kind.feed(30, shuffle=False, carry=False) for kind in (train.in_memory(), train))
    net = ep.Hopfield.layered(64, 10)
    trainer = ep.Trainer(ep.Total(net, ep.SquaredError()), ep.EquilibriumPropagation(), optax.adam(0.01))
    start = trainer.init(net.init(KEY), inside, KEY)
    expected = trainer.advance(start, inside, inside.batches)
    state = start
    for batches in (1, 7, on_disk.batches - 8):
        state = trainer.advance(state, on_disk, batches)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-5), state.theta, expected.theta)
    again = train.feed(30, shuffle=False, carry=False)
    jax.tree.map(np.testing.assert_array_equal, trainer.advance(start, again, again.batches).theta, state.theta)
    assert isinstance(on_disk, ep.OnDisk)
    first, other = (next(feed.epoch(KEY, first=40)) for feed in (inside, on_disk))
    np.testing.assert_allclose(first.v[0], other.v[0], rtol=1e-7)
    np.testing.assert_array_equal(_batch(on_disk.window(KEY, 0, 40, 1)[0], 40).v[0], first.v[0])


def test_a_shuffled_epoch_goes_on_from_the_middle(digits: Path) -> None:
    train = data.load(str(digits), valid=100).train
    feed = train.feed(30, shuffle=True, carry=False)
    whole = list(feed.epoch(KEY, epoch=2))
    later = list(train.feed(30, shuffle=True, carry=False).epoch(KEY, epoch=2, first=17))
    for one, other in zip(whole[17:], later, strict=True):
        jax.tree.map(np.testing.assert_array_equal, one, other)


def test_images_are_normalised_as_in_memory(digits: Path) -> None:
    from_files = data.load(str(digits))
    mean, deviation = from_files.train.colours((8, 8, 1))
    expected = from_files.train.in_memory().colours((8, 8, 1))
    np.testing.assert_allclose((mean, deviation), expected, rtol=1e-6)
    a, b = (part.as_images((8, 8, 1), mean, deviation) for part in (from_files.train, from_files.train.in_memory()))
    np.testing.assert_allclose(a.x, b.x, rtol=1e-6)


def test_a_folder_is_a_data_set(digits: Path) -> None:
    found, outline = data.load(str(digits)), data.outline(str(digits))
    assert (outline.shape, outline.classes, outline.widths) == ((8, 8), tuple("0123456789"), (64, 10))
    assert (len(found.train), len(found.valid), len(found.test)) == (1294, 143, 100)
    experiment = preset(str(digits), architecture="conv")
    assert experiment.network.hidden == (16, 32)  # small images are learned as the digits are
    with pytest.raises(InputError, match=r"\./birds"):
        Experiment("birds")
    with pytest.raises(InputError, match="is no folder"):
        data.load("./birds")


def test_a_run_goes_on_with_the_examples_that_it_began_with(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Inputs in another order are noticed by whoever reads the run."""
    mine, folder = tmp_path / "mine", tmp_path / "run"
    shutil.copytree(digits, mine)
    settings = ["--hidden", 10, "--batch-size", 10, "--learning-rate", 0.01]
    assert run("train", f"{mine}/", *settings, "--epochs", 1, "--run-dir", folder) == 0
    assert run("train", "--resume", folder, "--epochs", 2) == 0
    images = np.load(mine / "train-x-00000.npy")
    np.save(mine / "train-x-00000.npy", np.ascontiguousarray(images[::-1]))
    for command in (("train", "--resume", folder, "--epochs", 3), ("evaluate", folder)):
        assert run(*command) == 2
        words = " ".join(capsys.readouterr().err.split())
        assert f"train of {mine}" in words and "restore the examples" in words and "data.json" in words
    (folder / "data.json").unlink()
    assert run("train", "--resume", folder, "--epochs", 3) == 0


@pytest.mark.slow
def test_the_command_line_trains_on_a_folder(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    settings = ["--hidden", 30, "--epochs", 3, "--batch-size", 10, "--learning-rate", 0.005]
    assert run("train", f"{digits}/", *settings, "--run-dir", folder, "--json") == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["net"] == "64-30-10" and result["test_error"] < 0.15
    assert run("evaluate", folder, "--json") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["train_error"] == result["train_error"]
    assert run("train", f"{digits}/", "--persistent", "--epochs", 1, "--run-dir", tmp_path / "no") == 2
    assert "no slots for particles" in " ".join(capsys.readouterr().err.split())


def test_numbers_of_any_part_are_decoded_as_numpy_does(digits: Path) -> None:
    split = data.load(str(digits)).train[:300]
    assert isinstance(split, data.FiledSplit)
    stored = split.inputs[slice(0, 300)].reshape(300, -1)
    # To the last bit but one: some of XLA's back ends multiply by 1 / 255 where NumPy divides.
    np.testing.assert_allclose(split.x, np.divide(stored, 255, dtype=np.float32), rtol=2**-23, atol=0)
    np.testing.assert_array_equal(split.y, np.eye(10, dtype=np.float32)[split.labels])
    assert jnp.asarray(split.x).dtype == jnp.float32

"""Checkpoints come back bit for bit or are refused; files are replaced as a whole or left as they were."""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eqprop import EquilibriumPropagation, Hopfield, InputError, Shuffled, SquaredError, Total, Trainer, TrainState
from eqprop.store import Run, checkpoint
from eqprop.store.atomic import write_atomic

DTYPES = ("float32", "int32", "uint32", "bool")


def train_state() -> TrainState:
    """A state in which nothing is zero that need not be: weights, moments, particles, key and counters."""
    net = Hopfield.layered(3, 4, 2)
    trainer = Trainer(Total(net, SquaredError()), EquilibriumPropagation(), optax.adam(1.0), persistent=True)
    feed = Shuffled((np.zeros((5, 3)), np.zeros((5, 2))))
    state = trainer.init(net.init(jax.random.key(1)), feed, jax.random.key(2))
    numbers = np.random.default_rng(0)
    filled = jax.tree.map(
        lambda a: jnp.asarray(numbers.normal(size=a.shape) if a.dtype == jnp.float32 else a + 7, a.dtype),
        state._replace(key=jax.random.key_data(state.key)),
    )
    return filled._replace(key=jax.random.key(3))


def blank(tree: Any) -> Any:
    """A tree of the same names, shapes and types, and of other values."""
    return jax.tree.map(
        lambda a: jax.random.key(0) if jnp.issubdtype(a.dtype, jax.dtypes.prng_key) else jnp.zeros_like(a), tree
    )


def bits(tree: Any) -> tuple[Any, list[tuple[str, tuple[int, ...], bytes]]]:
    """What makes two trees equal in every bit; NaN equals itself and −0 is not 0."""
    leaves, structure = jax.tree.flatten(tree)
    plain = [np.asarray(jax.random.key_data(a) if jnp.issubdtype(a.dtype, jax.dtypes.prng_key) else a) for a in leaves]
    return structure, [(str(a.dtype), a.shape, a.tobytes()) for a in plain]


@st.composite
def arrays(draw: st.DrawFn) -> jax.Array:
    """Any bit pattern, NaN and subnormals included, in up to three dimensions, none of them needing a unit."""
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    dtype = draw(st.sampled_from(DTYPES))
    count = int(np.prod(shape))
    if dtype == "bool":
        flat = np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)), bool)
    else:
        raw = draw(st.binary(min_size=4 * count, max_size=4 * count))
        flat = np.frombuffer(raw, dtype)
    return jnp.asarray(flat.reshape(shape))


trees = st.recursive(
    arrays() | st.none(),
    lambda inner: (
        st.dictionaries(st.text("abW-_.é ", min_size=1, max_size=4), inner, max_size=3)
        | st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
    ),
    max_leaves=6,
)
notes = st.dictionaries(
    st.text(max_size=3), st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5), max_size=3
)


@settings(max_examples=150, deadline=None, database=None, derandomize=True)
@given(trees, notes)
def test_any_tree_of_arrays_comes_back_bit_for_bit(tree: Any, note: dict[str, Any]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "any.safetensors")
        checkpoint.save(path, tree, note)
        loaded, loaded_note = checkpoint.load(path, blank(tree))
    assert bits(loaded) == bits(tree)
    assert loaded_note == note


def test_a_train_state_comes_back_bit_for_bit(tmp_path: Path) -> None:
    state, note = train_state(), {"history": [{"epoch": 1, "train_error": 0.1 + 0.2}], "seconds": 1e-9}
    checkpoint.save(tmp_path / "c", state, note)
    loaded, loaded_note = checkpoint.load(tmp_path / "c", blank(state))
    assert bits(loaded) == bits(state)
    assert loaded_note == note
    # The key is one again, not its numbers: what is drawn from it goes on as before.
    assert jax.random.normal(loaded.key) == jax.random.normal(state.key)


@pytest.mark.parametrize("kind", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_a_key_stays_of_its_kind(tmp_path: Path, kind: str) -> None:
    key = jax.random.key(5, impl=kind)
    checkpoint.save(tmp_path / "c", {"key": key}, {})
    loaded, _ = checkpoint.load(tmp_path / "c", {"key": jax.random.key(0, impl=kind)})
    assert loaded["key"].dtype == key.dtype
    assert jax.random.bits(loaded["key"]) == jax.random.bits(key)


def test_arrays_that_are_not_in_row_order_are_saved_by_value(tmp_path: Path) -> None:
    turned = np.arange(6, dtype=np.float32).reshape(2, 3).T
    checkpoint.save(tmp_path / "c", [turned], {})
    loaded, _ = checkpoint.load(tmp_path / "c", [turned])
    np.testing.assert_array_equal(loaded[0], turned)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, TrainState]:
    """The content of a checkpoint, and a state of its kind."""
    state = train_state()
    path = tmp_path_factory.mktemp("saved") / "c"
    checkpoint.save(path, state, {"history": [{"epoch": 1}], "seconds": 0.5})
    return path.read_bytes(), blank(state)


def is_refused(path: Path, content: bytes, like: TrainState) -> bool:
    """Whether the content is refused, in words that name the file."""
    path.write_bytes(content)
    try:
        checkpoint.load(path, like)
    except InputError as error:
        return str(path) in str(error)
    return False


def test_a_byte_changed_anywhere_is_noticed(saved: tuple[bytes, TrainState], tmp_path: Path) -> None:
    content, like = saved
    header = 8 + int.from_bytes(content[:8], "little")
    random = np.random.default_rng(0)
    # All of the header, where a change can mean anything, and a sample of the numbers.
    places = [*range(header), *random.choice(np.arange(header, len(content)), 200, replace=False)]
    for place in places:
        for flip in (0xFF, 1 << int(random.integers(8))):
            changed = bytearray(content)
            changed[place] ^= flip
            assert is_refused(tmp_path / "c", bytes(changed), like), (place, flip)


def test_a_file_cut_off_or_grown_is_refused(saved: tuple[bytes, TrainState], tmp_path: Path) -> None:
    content, like = saved
    for length in range(len(content)):
        assert is_refused(tmp_path / "c", content[:length], like), length
    assert is_refused(tmp_path / "c", content + b"\0", like)
    assert not is_refused(tmp_path / "c", content, like)


@pytest.mark.parametrize(
    ("like", "says"),
    [
        ({"W": jnp.zeros((2, 3)), "b": jnp.zeros(3), "c": jnp.zeros(1)}, "lacks 'c'"),
        ({"W": jnp.zeros((2, 3))}, "has an unexpected 'b'"),
        ({"W": jnp.zeros((3, 2)), "b": jnp.zeros(3)}, "'W' is float32[2, 3] instead of float32[3, 2]"),
        ({"W": jnp.zeros((2, 3)), "b": jnp.zeros(3, int)}, "'b' is float32[3] instead of int32[3]"),
    ],
)
def test_another_structure_shape_or_type_is_refused(tmp_path: Path, like: Any, says: str) -> None:
    checkpoint.save(tmp_path / "c", {"W": jnp.ones((2, 3)), "b": jnp.ones(3)}, {})
    with pytest.raises(InputError) as caught:
        checkpoint.load(tmp_path / "c", like)
    assert says in str(caught.value)
    assert str(tmp_path / "c") in str(caught.value)


def test_a_checkpoint_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no file .*absent"):
        checkpoint.load(tmp_path / "absent", {})


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("call", ["fsync", "chmod", "replace"])
def test_a_write_that_fails_leaves_the_old_content_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: BaseException
) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old")

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(type(error)):
        write_atomic(path, b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"old"


def test_content_is_on_disk_before_it_takes_its_name_and_the_name_before_the_write_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, calls = tmp_path / "file", []
    write_atomic(path, b"old")
    fsync, replace = os.fsync, os.replace

    def watched_fsync(descriptor: int) -> None:
        found = os.fstat(descriptor)
        calls.append("sync folder" if stat.S_ISDIR(found.st_mode) else f"sync {found.st_size} bytes")
        fsync(descriptor)

    def watched_replace(source: str, target: Path) -> None:
        calls.append("rename")
        assert Path(source).parent == target.parent  # renames across file systems are copies
        assert target.read_bytes() == b"old"
        replace(source, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "replace", watched_replace)
    write_atomic(path, b"brand new")
    assert calls == ["sync 9 bytes", "rename", "sync folder"]
    assert path.read_bytes() == b"brand new"


@pytest.mark.parametrize(("name", "read"), [("history.jsonl", Run.read_history), ("result.json", Run.read_result)])
def test_what_a_run_came_to_is_named_if_damaged(tmp_path: Path, name: str, read: Callable[[Run], object]) -> None:
    (tmp_path / name).write_text('{"valid_err')
    with pytest.raises(InputError, match=f"{name} is damaged"):
        read(Run(tmp_path))

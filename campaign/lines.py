"""Random command lines, made from the types of the commands' own settings.

Each is carried out in this process up to the point where the first program would compile, a download or a server would
begin; one in fifty, of small sizes, to its end.
"""

import contextlib
import io
import tempfile
import typing
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from random import Random
from types import NoneType
from typing import Any, Literal
from unittest import mock

import jax

from campaign.base import FINE, REFUSED, Outcome, told
from eqprop.cli.main import COMMANDS, main
from eqprop.compile import compile_quickly, keep_programs
from eqprop.types import Range

WHAT = "command lines, from the settings' own types"
COUNTS = (600, 10_000)
SECONDS = 300.0

WHOLE = 50  # one line in 50 is carried out to its end
WORDS = (
    "",
    "x",
    "nan",
    "-1",
    "--",
    "a/b",
    "./nowhere",
    "digits",
    "[1]",
    "ä€",
    "\ud800",
    "../..",
    "x" * 300,
    "1e",
    "0x10",
    "None",
)
NUMBERS = (
    "0",
    "-1",
    "1",
    "2",
    "0.5",
    "-0.5",
    "nan",
    "inf",
    "-inf",
    "1e308",
    "1e-308",
    "1e400",
    "1e30",
    "-1e30",
    "3",
    "2147483647",
)
WHOLES = (
    "0",
    "-1",
    "1",
    "2",
    "3",
    "7",
    "2147483648",
    "9223372036854775808",
    "-9223372036854775809",
    "9" * 400,
    "1.5",
    "1e3",
    "+1",
    "1_0",
)
PATHS = ("nowhere", "file", "empty", "/dev/null", "/proc/self/mem", "", ".", "x" * 300, "file/below", "a\nb")
SMALL = {
    "train": "40",
    "epochs": "1",
    "batch_size": "20",
    "hidden": "4",
    "free_steps": "3",
    "nudged_steps": "2",
    "valid": "20",
}
# Other processes, and machines, are waited for.
LEFT_OUT = {"coordinator", "processes", "process_id", "devices", "weight_shards", "storage"}


compile_quickly()
jax.config.update("jax_disable_most_optimizations", True)
keep_programs(Path(tempfile.gettempdir()) / "campaign-programs")
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


class Started(BaseException):
    """The work would begin now."""


def prepare() -> None:
    """Have the first line read, which takes longest."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        main(["train", "--help"])


def attack(random: Random, folder: Path, say: Callable[[str], None]) -> Outcome:
    whole = random.randrange(WHOLE) == 0
    line = small(random) if whole else some(random)
    say(f"eqprop {line}")
    (folder / "file").write_text("mine")
    (folder / "empty").mkdir()
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown), only(whole):
        try:
            status: Any = main(line)
        except SystemExit as exit:
            status = exit.code
        except Started:
            return Outcome(FINE, "until the work starts")
        except BaseException as error:
            return Outcome("traceback", told(error))
    if (folder / "file").read_text() != "mine":
        return Outcome("lost", "a file that was there has another content")
    if status in (2, 3) and len(shown.getvalue()) > 20:
        return Outcome(REFUSED, shown.getvalue()[-300:])
    return Outcome(FINE if status == 0 else "traceback", f"status {status}: {shown.getvalue()[-200:]}")


@contextlib.contextmanager
def only(whole: bool) -> Iterator[None]:
    """Nothing is fetched, served or left running, and unless it is `whole`, nothing compiled."""

    def started(*_: Any, **__: Any) -> Any:
        raise Started

    stops = ["eqprop.data.cache.download", "eqprop.page.running.serve", "subprocess.Popen"]
    stops += ["eqprop.cli.bench.Session", "eqprop.verification.verify_zoo"]
    with contextlib.ExitStack() as stack:
        for name in stops if whole else [*stops, "eqprop.compile._hashable", "eqprop.study.memory.recall"]:
            stack.enter_context(mock.patch(name, started))
        yield


def some(random: Random) -> list[str]:
    """A command with some options, most of which have values that could be meant."""
    name = random.choice([*COMMANDS, *["train"] * 20])
    words, options = [name], of_command(random, COMMANDS[name])
    if isinstance(options, tuple):
        words, options = [*words, *options[0]], options[1]
    if name == "train" and random.random() < 0.9:
        words.append("digits")
    for option, hint in random.sample(options, min(len(options), random.choice([0, 1, 1, 2, 2, 3, 5]))):
        words += written(random, option, hint)
    if random.random() < 0.05:
        words.insert(random.randrange(len(words) + 1), random.choice(WORDS))
    return words


def small(random: Random) -> list[str]:
    """A training that takes seconds, with one or two options more."""
    words = ["train", "digits", "--run-dir", "new"]
    for name, value in SMALL.items():
        words += [f"--{name.replace('_', '-')}", value]
    options = [each for each in listed(COMMANDS["train"]) if each[0] not in {*SMALL, "run_dir", "resume"}]
    for option, hint in random.sample(options, random.choice([0, 1, 2])):
        words += written(random, option, hint, odd=0.1)
    return words


def of_command(random: Random, kind: Any) -> Any:
    """The options of a command: names and types; of one with modes, the mode's name before them."""
    modes = [
        hint
        for name, hint in typing.get_type_hints(kind, include_extras=True).items()
        if name in ("mode", "action", "command")
    ]
    if not modes:
        return listed(kind)
    chosen = random.choice(typing.get_args(modes[0]))
    mode, *about = typing.get_args(chosen) or (chosen,)
    return [getattr(about[0], "name", None) or mode.__name__.lower()] if about else [], listed(mode)


def listed(kind: Any) -> list[tuple[str, Any]]:
    """The options of a dataclass and of the dataclasses in it."""
    hints, found = typing.get_type_hints(kind, include_extras=True), []
    for field in fields(kind):
        if is_dataclass(hints[field.name]):
            found += listed(hints[field.name])
        elif field.name not in LEFT_OUT:
            found.append((field.name, hints[field.name]))
    return found


def written(random: Random, name: str, hint: Any, odd: float = 0.3) -> list[str]:
    """An option as words."""
    option = f"--{name.replace('_', '-')}"
    if hint is bool:
        return [random.choice([option, f"--no-{option[2:]}"])]
    values = value_of(random, hint, odd)
    return [option, *values]


def value_of(random: Random, hint: Any, odd: float) -> list[str]:
    """Words for a value of the type; now and then odd ones."""
    if random.random() < odd / 5:
        return [random.choice(WORDS) for _ in range(random.randrange(3))]
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        ranges = [part for part in args[1:] if isinstance(part, Range)]
        if ranges and random.random() > odd:
            return [inside(random, args[0], ranges[0])]
        return value_of(random, args[0], odd)
    if origin is Literal:
        return [str(random.choice(args))]
    if origin is tuple:
        kinds = [args[0]] * random.randrange(4) if args[1:] == (...,) else args
        return [word for kind in kinds for word in value_of(random, kind, odd)]
    if args and not isinstance(hint, type):  # one of several
        return value_of(random, random.choice([arg for arg in args if arg is not NoneType]), odd)
    choices: Any = {int: WHOLES, float: NUMBERS, bool: ("True", "False"), Path: PATHS}
    return [random.choice(choices.get(hint, WORDS))]


def inside(random: Random, kind: Any, range_: Range) -> str:
    """A number of a range: one of its ends, a usual one, or one between."""
    low, high = max(range_.low, -1e6), min(range_.high, 1e6)
    between = random.choice([low, high, random.uniform(low, high), 10 ** random.uniform(-4, 2), 1, 2, 5])
    value = min(max(between, low), high)
    return str(int(value)) if kind is int else repr(float(value))

"""The entry point: which command, and what becomes of an error."""

import errno
import os
import sys
import warnings
from contextlib import suppress
from typing import Annotated, Any, Union

import tyro

from eqprop import __version__
from eqprop.cli import bench, compare, data, evaluate, live, reproduce, spice, sweep, train, verify
from eqprop.cli.console import screen
from eqprop.cli.stopping import Stop
from eqprop.compile import keep_programs
from eqprop.data.cache import cache_folder
from eqprop.errors import DivergedError, InputError
from eqprop.study import PRESETS

DESCRIPTION = """Equilibrium Propagation: networks that predict by settling to a minimum of an energy, and
learn by being nudged and settling again. `eqprop --version` says which version this is."""

Command = (
    train.Train
    | evaluate.Evaluate
    | live.Live
    | reproduce.Reproduce
    | compare.Compare
    | verify.Verify
    | data.Data
    | bench.Bench
    | spice.Spice
    | sweep.Search
)
COMMANDS: dict[str, type[Command]] = {
    "train": train.Train,
    "evaluate": evaluate.Evaluate,
    "sweep": sweep.Search,
    "live": live.Live,
    "reproduce": reproduce.Reproduce,
    "compare": compare.Compare,
    "verify": verify.Verify,
    "data": data.Data,
    "bench": bench.Bench,
    "spice": spice.Spice,
}
"""The commands by name, in the order of the help."""
BAD_NAME_ERRORS = (errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EEXIST)
"""What the system says of a name that cannot be meant."""


def main(args: list[str] | None = None) -> int:
    """Run `eqprop` and return its exit status; errors that the user can mend are told without a traceback."""
    args = sys.argv[1:] if args is None else args
    if args[:1] in (["--version"], ["-V"]):
        print(f"eqprop {__version__}")
        return 0
    if halves := [arg for arg in args if not _whole(arg)]:
        return explain("error", f"{halves[0]!r} has half a character, which is no name: give whole ones", 2)
    with Stop() as stop:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show
                keep_programs(cache_folder("programs"))
                parse(args).run()
        except SystemExit as end:
            if end.code == 2 and args[:1] and args[0] in COMMANDS:  # the parser's, which names the help of all commands
                screen.print(f"all options of it: eqprop {args[0]} --help", markup=False, highlight=False)
            raise
        except InputError as error:
            return explain("error", error, 2)
        except DivergedError as error:
            return explain("stopped", error, 3)
        except OSError as error:  # a full disk, a folder that may not be written
            return explain("error", error, 2 if error.errno in BAD_NAME_ERRORS else 1)
        except KeyboardInterrupt as error:
            stop.ignore()
            return explain(stop.word, error, stop.status)
        return 0


def parse(args: list[str]) -> Command:
    """The command with its options.

    The defaults of `train` come from the run to resume, or else from the data set, the method and the architecture.
    """

    def read(default: train.Train, args: list[str]) -> Command:
        first = Annotated[train.Train, tyro.conf.subcommand("train", default=default)]
        others = (Annotated[kind, tyro.conf.subcommand(name)] for name, kind in COMMANDS.items() if name != "train")
        commands: Any = Union[(first, *others)]
        return tyro.cli(
            commands,
            prog="eqprop",
            description=DESCRIPTION,
            args=args,
            config=(tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes),
        )

    guess = args[1] if args[:1] == ["train"] and args[1:2] and args[1] in PRESETS else "digits"
    # Help comes last, so that it shows the defaults of what else is asked for.
    asked = [arg for arg in args if arg not in ("-h", "--help")] if args[:1] == ["train"] else args
    command = read(train.Train.of(PRESETS[guess]).without_hidden(), asked)
    if not isinstance(command, train.Train):
        return command
    if command.output.resume is not None:
        # Options that are not given come from the run; those that are given must agree with it.
        return read(train.Train.of(train.saved(command.output.resume)), args)
    return read(train.Train.of(train.usual(command)), args)


def _whole(arg: str) -> bool:
    """Whether it can be the name of a file; the bytes of any can, be they no text."""
    try:
        os.fsencode(arg)
    except UnicodeEncodeError:
        return False
    return True


def _show(message: Warning | str, *_: object) -> None:
    """A warning as one line among those of the progress."""
    screen.print("[bold yellow]warning:[/]", end=" ")
    screen.print(_printable(message), markup=False, highlight=False, soft_wrap=True)


def explain(word: str, reason: object, status: int) -> int:
    """Say on stderr what happened and why; return the exit status."""
    with suppress(OSError):  # the terminal may be gone
        said = _printable(reason)
        screen.print(f"[bold red]{word}{':' if said else ''}[/]", end=" ")
        screen.print(said, markup=False, highlight=False, soft_wrap=True)
    return status


def _printable(reason: object) -> str:
    """Words that any terminal takes: half a character, as JSON can have, is written out."""
    return str(reason).encode(errors="backslashreplace").decode()

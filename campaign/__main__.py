"""python -m campaign [KIND …]: try to break eqprop, and print a table of what held."""

import json
import os
import selectors
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table

from campaign.worker import AGAIN

Kind = Literal["calls", "lines", "crafted", "damaged", "guided", "kills", "signals", "disks", "writers"]
FAILURES = ("traceback", "hang", "crash", "not finite", "lost", "executed")
START = 400.0  # seconds that a worker may take to begin


@dataclass
class Tally:
    """What a kind of attack came to."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, str, str, str]] = field(default_factory=list)

    def add(self, case: int, what: str, word: str, detail: str) -> None:
        self.counts[word] += 1
        if word in FAILURES:
            self.failures.append((case, what, word, detail))


def main(
    kinds: Annotated[tuple[Kind, ...], tyro.conf.Positional] = (),
    seed: int = 0,
    long: bool = False,
    case: int | None = None,
    count: int | None = None,
    log: Path | None = None,
    markdown: Path | None = None,
) -> None:
    """Try to break eqprop.

    A failure is a traceback, a hang, a crash of the process, a result that is not finite without a word, something lost
    or something executed; the status is then 1. Each has a command that repeats it.

    - calls: public names with arguments of other kinds, shapes and types, empty, or not finite
    - lines: command lines, from the settings' own types
    - crafted: files whose checksums are right and whose content is not
    - damaged: files with bytes flipped, cut, zeroed or swapped
    - guided: the same, towards lines of the readers that no file has reached yet
    - kills: SIGKILL at any moment of a training, which then goes on
    - signals: SIGINT, SIGTERM and SIGHUP at any moment of a training
    - disks: full, gone or read-only at any moment of a training
    - writers: two processes on one folder

    Args:
        kinds: which attacks; none: all.
        seed: decides all cases.
        long: many more cases: the long form.
        case: only this one, to see what it does.
        count: the number of cases of each kind; None: the usual one.
        log: a file for what became of each case; where there is one already, the campaign goes on behind its last.
        markdown: a file for the table.
    """
    tallies: dict[str, Tally] = {}
    for kind in kinds or Kind.__args__:
        attack: Any = import_module(f"campaign.{kind}")
        first, stop = (case, case + 1) if case is not None else (0, count or attack.COUNTS[long])
        print(f"{kind}: {stop - first} {attack.WHAT} …", flush=True)
        tally = tallies[kind] = Tally()
        for each in logged(log, kind, seed):
            tally.add(*each)
            first = max(first, each[0] + 1)
        for each in carried_out(kind, seed, first, stop, attack.SECONDS):
            tally.add(*each)
            if log is not None:
                with log.open("a") as file:
                    file.write(json.dumps([kind, seed, *each]) + "\n")
            if each[2] in FAILURES or case is not None:
                print(f"  case {each[0]}: {each[1]}\n    {each[2]}: {each[3]}", flush=True)
    rows = list(table(tallies, seed))
    show(rows)
    if markdown is not None:
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        markdown.write_text("\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]) + "\n")
    for kind, tally in tallies.items():
        for number, *_ in tally.failures[:20]:
            print(f"again: python -m campaign {kind} --seed {seed} --case {number}")
    sys.exit(any(tally.failures for tally in tallies.values()))


def logged(log: Path | None, kind: str, seed: int) -> Iterator[tuple[int, str, str, str]]:
    """The cases of a kind that a log has."""
    for line in log.read_text().splitlines() if log is not None and log.exists() else ():
        of, with_seed, *case = json.loads(line)
        if (of, with_seed) == (kind, seed):
            yield tuple(case)


def carried_out(kind: str, seed: int, first: int, stop: int, seconds: float) -> Iterator[tuple[int, str, str, str]]:
    """The cases, each as (number, what was tried, what became of it, details), by workers that are replaced."""
    while first < stop:
        command = [sys.executable, "-m", "campaign.worker", kind, str(seed), str(first), str(stop)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        ) as worker:
            at, what, wait = first, "to begin", START
            for line in lines_of(worker, lambda: wait):  # noqa: B023  (it is to see what `wait` has become)
                told: dict[str, Any] = (
                    json.loads(line) if line else {"word": "hang", "detail": f"no end within {wait:g} s"}
                )
                at, what = told.get("case", at), told.get("what", what)
                wait = seconds
                if "word" in told:
                    yield at, what, told["word"], told["detail"]
                    first = at + 1
                if line is None:
                    os.killpg(worker.pid, signal.SIGKILL)
                    break
            status = worker.wait()
        if status not in (0, AGAIN, -signal.SIGKILL) and first == at:
            yield at, what, "crash", f"the process ended with status {status}"
            first = at + 1


def lines_of(process: subprocess.Popen[bytes], wait: Any) -> Iterator[bytes | None]:
    """Lines as they come; None when none comes for so long."""
    assert process.stdout is not None
    pending = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(wait()):
                yield None
                return
            if not (piece := os.read(process.stdout.fileno(), 65536)):
                return
            *whole, pending = (pending + piece).split(b"\n")
            yield from whole


def table(tallies: dict[str, Tally], seed: int) -> Iterator[tuple[str, ...]]:
    yield ("tried", "cases", "refused in words", "did no harm", *FAILURES, "bound for a case")
    for kind, tally in tallies.items():
        attack: Any = import_module(f"campaign.{kind}")
        numbers = [tally.counts[word] for word in ("refused", "fine", *FAILURES)]
        yield (attack.WHAT, f"{sum(numbers):,}", *(f"{n:,}" if n else "–" for n in numbers), f"{attack.SECONDS:g} s")


def show(rows: list[tuple[str, ...]]) -> None:
    shown = Table(*rows[0])
    for row in rows[1:]:
        shown.add_row(*row)
    Console(width=200).print(shown)


if __name__ == "__main__":
    tyro.cli(main, prog="python -m campaign")

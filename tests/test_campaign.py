"""The short form of `make fuzz`: a few cases of each attack that needs no process of its own, by a fixed seed."""

from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tyro import _parsers

from campaign.__main__ import carried_out
from campaign.base import FAILURES, Outcome, judged
from campaign.parsers import keep_parsers
from eqprop import InputError
from eqprop.cli.main import parse
from marks import slow

SEED = 0
PROCESSES = ("kills", "signals", "disks", "writers")  # forked from one that has not computed, as this one has
CASES = {"calls": 40, "lines": 6, "damaged": 40, "crafted": 40}
KINDS = [*CASES.items(), slow("guided", 2), *(slow(kind, 1) for kind in PROCESSES)]


@pytest.mark.parametrize(("kind", "count"), KINDS)
@pytest.mark.filterwarnings("ignore")  # to warn is to speak
def test_nothing_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, count: int) -> None:
    attacks: Any = import_module(f"campaign.{kind}")
    monkeypatch.chdir(tmp_path)
    if kind in PROCESSES:
        cases = carried_out(kind, SEED, 0, count, attacks.SECONDS)
        assert [each for each in cases if each[2] in FAILURES] == []
        return
    attacks.prepare()
    found = {}
    for case in range(count):
        tried: list[str] = []
        (folder := tmp_path / str(case)).mkdir()
        monkeypatch.chdir(folder)
        outcome = attacks.attack(Random(f"{kind} {SEED} {case}"), folder, tried.append)
        if outcome.word in FAILURES:
            found[f"python -m campaign {kind} --seed {SEED} --case {case}"] = (tried[-1:], *outcome)
    assert found == {}


def test_parsers_that_are_kept_read_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    said = ("train digits --beta 0.3", "train mnist --hidden 5", "evaluate run", "train digits")
    lines: list[list[str]] = [[*line.split()] for line in said]
    fresh = [repr(parse(line)) for line in lines]
    of = _parsers.ParserSpecification
    monkeypatch.setattr(of, "from_callable_or_type", staticmethod(of.from_callable_or_type))  # which is put back
    keep_parsers()
    assert [repr(parse(line)) for line in lines * 2] == fresh * 2


def test_what_is_a_failure() -> None:
    def refuse() -> None:
        raise InputError("a sentence")

    assert judged(refuse)[0] == Outcome("refused", "a sentence")
    assert judged(lambda: 3) == (Outcome("fine"), 3)
    assert judged(lambda: [][1])[0].word == "traceback"

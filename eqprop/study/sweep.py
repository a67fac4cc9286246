"""A sweep: which settings are varied around which others, how often, and how the next ones are chosen."""

import tomllib
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Literal

from eqprop.errors import InputError
from eqprop.store.atomic import write_json
from eqprop.store.reading import read_bytes, read_settings
from eqprop.store.schema import from_dict
from eqprop.study.experiment import Experiment
from eqprop.study.presets import PRESETS, preset
from eqprop.study.varied import Choice, Range, Value, Varied, from_toml, read_setting, read_varied, with_settings

FILE = "sweep.json"
COMMAND = "eqprop sweep"
MOST_TOML = 10**6  # bytes of a file that says what to vary
DECIDES = ("valid", "train")
"""Settings that decide on which examples trials are compared, so that they cannot be varied themselves."""

Values = dict[str, Value]


@dataclass(frozen=True)
class Sweep:
    """What a folder of trials is about. Trials are chosen by their validation error."""

    dataset: str
    """the data set"""
    set: tuple[str, ...] = ()
    """settings that are not the usual ones, as name=value"""
    vary: tuple[str, ...] = ()
    """what is varied, as name=low:high, name=low:high:log or name=a,b,c"""
    trials: int = 40
    """how many settings are tried; a grid has as many as there are combinations"""
    search: Literal["tpe", "random", "grid"] = "tpe"
    """how the next are chosen: by a model of what was good so far (tree-structured Parzen estimators), by chance, or
    all combinations of choices"""
    prune: Literal["median", "halving", "none"] = "median"
    """after which epochs a trial ends early: if it is worse than the median of the others at its epoch, or not among
    the best quarter after 1, 4, 16, … epochs"""
    sweep_seed: int = 0
    """decides what is tried; one process alone always tries the same"""
    test: bool = False
    """measure the test error of trials too; it decides nothing"""
    storage: str | None = None
    """the address of a database for the results, as sqlite:///sweep.db or postgresql://…; None: a journal in the
    folder"""
    name: str = "sweep"
    """what it is called in a database, where other sweeps may be"""

    def __post_init__(self) -> None:
        if not self.vary:
            raise InputError("nothing is varied: give --vary name=low:high or name=a,b,c, or a file with [vary]")
        names = [one.name for one in self.varied] + list(self.asked)
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InputError(f"{twice[0]} is there twice: set it, or vary it once")
        if fixed := [one.name for one in self.varied if one.name in DECIDES]:
            raise InputError(f"{fixed[0]} decides on which examples trials are compared: set it, and vary others")
        if self.trials < 1:
            raise InputError(f"trials={self.trials}: give a whole number of 1 or more")
        if self.search == "grid" and (ranges := [one.name for one in self.varied if isinstance(one, Range)]):
            raise InputError(f"search=grid, but {ranges[0]} has a range: give values, as {ranges[0]}=a,b,c")
        if self.search != "grid" and "seed" in names and "seed" not in self.asked:
            raise InputError("seed is varied: a lucky one would be chosen; give --search grid, which takes means")
        if self.asked.get("valid") == 0:
            raise InputError("valid=0: trials are chosen by their validation error, so hold some examples out")
        for one in self.varied:  # each value alone must do; trials whose values do not go together are told later
            for value in one.ends():
                self.experiment({other.name: other.ends()[0] for other in self.varied} | {one.name: value})

    @cached_property
    def varied(self) -> tuple[Varied, ...]:
        """What is varied."""
        return tuple(map(read_varied, self.vary))

    @cached_property
    def asked(self) -> Values:
        """The settings that all trials share and that are not the usual ones."""
        return dict(map(read_setting, self.set))

    @property
    def count(self) -> int:
        """The number of trials."""
        return prod(len(one.values) for one in self._choices) if self.search == "grid" else self.trials

    def combination(self, number: int) -> dict[str, str]:
        """What the trial of that number of a grid has, in words; the last of what is varied changes first."""
        every = product(*(one.words() for one in self._choices))
        names = [one.name for one in self.varied]
        return dict(zip(names, next(words for k, words in enumerate(every) if k == number), strict=True))

    def values(self, suggested: dict[str, Any]) -> Values:
        """The settings for what the search suggests."""
        return {one.name: one.value(suggested[one.name]) for one in self.varied}

    def experiment(self, values: Values) -> Experiment:
        """The experiment of a trial: the usual settings for its method and its layers, and those that were chosen."""
        chosen = self.asked | values
        usual = PRESETS.get(self.dataset) or Experiment(self.dataset)
        method = chosen.get("method", usual.learning.method)
        architecture = chosen.get("architecture", usual.network.architecture)
        return with_settings(preset(self.dataset, method, architecture, chosen.get("hidden")), chosen)

    def save(self, folder: Path, commands: list[str]) -> None:
        """Keep the settings, and the commands that led to what is in the folder."""
        write_json(folder / FILE, {"settings": asdict(self), "commands": commands})

    @classmethod
    def load(cls, folder: Path) -> tuple["Sweep", list[str]]:
        """What `save` wrote."""
        sweep, kept = read_settings(cls, folder / FILE, "settings", COMMAND)
        return sweep, kept["commands"]

    @classmethod
    def read(cls, path: Path) -> dict[str, Any]:
        """The fields that a TOML file gives; [set] and [vary] are tables in it."""
        try:
            values = tomllib.loads(read_bytes(path, MOST_TOML, "name another file").decode())
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InputError(f"{path} is no good TOML file: {error}") from error
        if odd := sorted(values.keys() - {f.name for f in fields(cls)}):
            raise InputError(f"{path} has an unknown {odd[0]!r}: it takes {', '.join(f.name for f in fields(cls))}")
        for name in ("set", "vary"):
            table = values.get(name, {})
            if not isinstance(table, dict):
                raise InputError(f"{path}: write [{name}] as a table of names and values")
            if name == "set":  # a list is one value there, and a choice among values in [vary]
                table = {key: [value] if isinstance(value, list) else value for key, value in table.items()}
            values[name] = tuple(from_toml(key, value) for key, value in table.items())
        return values

    @classmethod
    def of(cls, values: dict[str, Any], where: str) -> "Sweep":
        """The sweep with these fields; `where` begins the complaint about one that is of another type."""
        return from_dict(cls, values, where)

    @property
    def _choices(self) -> list[Choice]:
        return [one for one in self.varied if isinstance(one, Choice)]

"""What a sweep varies: settings by name, each within a range or among some values, written as text.

`beta=0.1:1` is a range, `learning_rate=1e-4:1e-2:log` one whose logarithm is searched evenly, and `hidden=100,500x500`
are two values, the second of them (500, 500). A TOML file says the same in its own words.
"""

import types
import typing
from dataclasses import dataclass, fields, is_dataclass
from math import inf
from typing import Any, Literal

from eqprop.errors import InputError
from eqprop.study.experiment import Experiment

Value = Any
"""Of a setting: a number, a text, true or false, None, or several of them in a tuple."""


@dataclass(frozen=True)
class Range:
    """All numbers from `low` to `high`; whole ones if both are."""

    name: str
    low: float
    high: float
    log: bool = False

    def ends(self) -> tuple[Value, ...]:
        """Values by which it is checked beforehand: the least and the greatest."""
        return _fitted(self.name, self.low), _fitted(self.name, self.high)

    def value(self, suggested: float) -> Value:
        """The setting for a number within."""
        return _fitted(self.name, suggested)


@dataclass(frozen=True)
class Choice:
    """Some values."""

    name: str
    values: tuple[Value, ...]

    def ends(self) -> tuple[Value, ...]:
        return self.values

    def words(self) -> list[str]:
        """The values as text, by which they are known to the search."""
        return [to_words(value) for value in self.values]

    def value(self, suggested: str) -> Value:
        """The setting for one of the `words`."""
        return self.values[self.words().index(suggested)]


Varied = Range | Choice


def read_varied(text: str) -> Varied:
    """What is written as name=low:high, name=low:high:log or name=a,b,c."""
    name, words = _split(text)
    if ":" not in words:
        values = tuple(_read(name, word) for word in words.split(","))
        if len(set(values)) < len(values):
            raise InputError(f"{text}: a value is there twice; give each once")
        return Choice(name, values)
    ends, log = words.removesuffix(":log").split(":"), words.endswith(":log")
    kinds = _kinds(_hint(name))
    if len(ends) != 2 or not {int, float} & kinds:
        raise InputError(f"{text}: a range is name=low:high or name=low:high:log, of a setting that is a number")
    low, high = (_number(text, end, float not in kinds) for end in ends)
    if not (-inf < low < high < inf) or (log and low <= 0):
        raise InputError(f"{text}: give a lower end below the upper one" + (", above 0, as logarithms need" * log))
    return Range(name, low, high, log)


def read_setting(text: str) -> tuple[str, Value]:
    """A setting that is written as name=value."""
    name, words = _split(text)
    return name, _read(name, words)


def with_settings(experiment: Experiment, values: dict[str, Value]) -> Experiment:
    """The experiment with other values for some settings, by their names."""
    changed = experiment.to_dict()
    for name, value in values.items():
        group = next(group for group in changed.values() if isinstance(group, dict) and name in group)
        group[name] = value
    return Experiment.from_dict(changed)


def from_toml(name: str, value: Any) -> str:
    """A value, or what is varied, of a TOML file as text: a table is a range, a list of lists or of values a choice."""
    if isinstance(value, dict):
        if not {"low", "high"} <= value.keys() <= {"low", "high", "log"}:
            raise InputError(f"{name} = {value}: a range has low, high and, if wanted, log = true")
        return f"{name}={value['low']}:{value['high']}" + (":log" if value.get("log") else "")
    return f"{name}=" + ",".join(to_words(each) for each in (value if isinstance(value, list) else [value]))


def to_words(value: Value) -> str:
    """A value as text; what `read_setting` reads."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "x".join(map(to_words, value))
    return str(value)


def _split(text: str) -> tuple[str, str]:
    name, equals, words = text.partition("=")
    name = name.strip().lstrip("-").replace("-", "_")
    if not equals or not words.strip():
        raise InputError(f"{text!r}: write name=value for a setting, name=low:high or name=a,b,c for what is varied")
    _hint(name)
    return name, words.strip()


def _hint(name: str) -> Any:
    """The type of a setting."""
    groups = [kind for kind in typing.get_type_hints(Experiment).values() if is_dataclass(kind)]
    known = {f.name: kind for kind in groups for f in fields(kind)}
    if name not in known:
        raise InputError(f"there is no setting {name!r}: choose one of the options of `eqprop train --help`")
    return typing.get_type_hints(known[name])[name]


def _kinds(hint: Any) -> set[Any]:
    """The types that a setting may be of; those of its items if it is a tuple."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union, tuple):
        return {kind for each in typing.get_args(hint) if each is not Ellipsis for kind in _kinds(each)}
    return {str} if typing.get_origin(hint) is Literal else {hint}


def _read(name: str, words: str) -> Value:
    hint = _hint(name)
    if typing.get_origin(hint) is tuple:
        return tuple(_item(name, hint, word) for word in words.split("x"))
    return _item(name, hint, words)


def _item(name: str, hint: Any, word: str) -> Value:
    kinds, word = _kinds(hint), word.strip()
    if word.lower() == "none" and type(None) in kinds:
        return None
    if bool in kinds:
        if word.lower() not in ("true", "false"):
            raise InputError(f"{name}={word}: give true or false")
        return word.lower() == "true"
    return word if str in kinds else _number(f"{name}={word}", word, float not in kinds)


def _number(text: str, word: str, whole: bool) -> float:
    try:
        return int(word) if whole else float(word)
    except ValueError as error:
        raise InputError(f"{text}: {word!r} is no {'whole ' * whole}number") from error


def _fitted(name: str, number: float) -> Value:
    """A number as the setting has it: alone, or the only one of a tuple."""
    return (number,) if typing.get_origin(_hint(name)) is tuple else number

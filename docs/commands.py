"""The page on the command line, made from the commands themselves."""

import ast
import inspect
import textwrap
from dataclasses import MISSING, Field, fields, is_dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from eqprop.cli.main import COMMANDS, DESCRIPTION

HEAD = f"""# At the command line

{DESCRIPTION}

This page is made from the commands, as `eqprop COMMAND --help` is. Options that take a list take its items one after
the other: `--hidden 500 500`. A switch `--flip` has a `--no-flip`.
"""


def page() -> str:
    """The page in Markdown."""
    return "\n".join([HEAD, *(line for name, command in COMMANDS.items() for line in _section(command, name))])


def _section(command: type, name: str, above: str = "eqprop") -> list[str]:
    words = f"{above} {name}"
    about = inspect.getdoc(command) or ""
    hints = get_type_hints(command, include_extras=True)
    actions = {name: kind for field in fields(command) for name, kind in _subcommands(hints[field.name]).items()}
    positional = "".join(f" {f.name.upper()}" for f in fields(command) if _is_positional(hints[f.name]))
    more = [line for name, action in actions.items() for line in _section(action, name, words)]
    return [f"## {words}" if above == "eqprop" else f"### {words}", "", f"> `{words}{positional}`", "", about, ""] + (
        more or [line for group in _groups(command) for line in group]
    )


def _groups(kind: type, title: str = "") -> list[list[str]]:
    """A table for the options of a class itself, and one for each group of options in it."""
    hints, words = get_type_hints(kind, include_extras=True), _said(kind)
    own, more = [], []
    for field in fields(kind):
        inner = hints[field.name]
        if is_dataclass(inner):
            more += _groups(inner, inspect.getdoc(inner) or "")
        else:
            own.append(_row(field, inner, words.get(field.name, "")))
    head = [f"**{title[:1].upper()}{title[1:]}**", ""] if title else []
    table = [*head, "| option | default | |", "|---|---|---|", *own, ""]
    return [*([table] if own else []), *more]


def _row(field: Field, hint: Any, words: str) -> str:
    name = field.name.upper() if _is_positional(hint) else f"--{field.name.replace('_', '-')}"
    choices = " ".join(f"`{choice}`" for choice in _choices(hint))
    about = ". ".join(filter(None, (words, f"One of {choices}" if choices else "")))
    return f"| `{name}` | {_default(field)} | {about.replace('|', '/')} |"


def _default(field: Field) -> str:
    value = field.default if field.default_factory is MISSING else field.default_factory()
    if value is MISSING:
        return "needed"
    if value is None or value == ():
        return "none"
    return f"`{' '.join(map(str, value)) if isinstance(value, tuple) else value}`"


def _choices(hint: Any) -> list[str]:
    if get_origin(hint) is Literal:
        return [str(choice) for choice in get_args(hint)]
    return list(dict.fromkeys(choice for part in get_args(hint) for choice in _choices(part)))


def _subcommands(hint: Any) -> dict[str, type]:
    """The commands of which one is chosen, by the names that they are given."""
    kinds = get_args(hint) if get_origin(hint) is Union or "UnionType" in type(hint).__name__ else ()
    named = [get_args(kind) for kind in kinds if get_origin(kind) is Annotated]
    return {about[0].name: kind for kind, *about in named if is_dataclass(kind)}


def _is_positional(hint: Any) -> bool:
    return get_origin(hint) is Annotated and "POSITIONAL" in repr(get_args(hint)[1:]).upper()


def _said(kind: type) -> dict[str, str]:
    """What stands below each field of a dataclass, and of those that it comes from."""
    found: dict[str, str] = {}
    for each in reversed([cls for cls in kind.__mro__ if is_dataclass(cls)]):
        (parsed,) = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        body = parsed.body  # pyright: ignore[reportAttributeAccessIssue]
        for field, below in pairwise(body):
            constant = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            if isinstance(field, ast.AnnAssign) and constant:
                found[ast.unparse(field.target)] = " ".join(str(below.value.value).split())
    return found

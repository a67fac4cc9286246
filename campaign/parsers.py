"""Parsers of command lines, made once: tyro makes them anew for every line, which takes longer than to read it."""

from typing import Any

from tyro import _parsers

MOST = 64


def keep_parsers() -> None:
    """Let tyro take a parser again that it has made for the same types and defaults, all of which their text shows."""
    made: dict[str, Any] = {}
    make = _parsers.ParserSpecification.from_callable_or_type

    def kept(f: Any, **about: Any) -> Any:
        if about["intern_prefix"] or about["parent_classes"]:  # a part of a parser
            return make(f, **about)
        key = f"{f} {about['default_instance']} {about['description']}"
        if key not in made:
            if len(made) == MOST:
                made.pop(next(iter(made)))
            made[key] = make(f, **about)
        return made[key]

    _parsers.ParserSpecification.from_callable_or_type = staticmethod(kept)  # pyright: ignore

"""For the reference: an Equinox module is called with its fields, as a dataclass is, which MkDocs cannot know."""

import re
from dataclasses import fields, replace
from typing import Any

from griffe import Attribute, Class, Expr, Extension, Function, Module, Parameter, ParameterKind, Parameters

ARGUMENT = re.compile(r"^(\*{0,2}\w+(?:, \w+)*): ")

END = "\n\n<!-- -->"  # or else an example behind the list, which is indented, would be a part of its last item


class Fields(Extension):
    """Gives every subclass of equinox.Module the signature that its fields make."""

    def on_package(self, *, pkg: Module, **kwargs: Any) -> None:
        _visit(pkg)


def _visit(scope: Module | Class) -> None:
    for member in scope.members.values():
        if not member.is_alias and member.docstring:  # a star is a multiplier here, not emphasis
            member.docstring.value = _listed(member.docstring.value.replace("λ*", "λ\\*"))
        if isinstance(member, Module | Class):
            _visit(member)
        if isinstance(member, Attribute):
            member.annotation = _plain(member.annotation)
        if isinstance(member, Function):
            for given in member.parameters:
                given.annotation = _plain(given.annotation)
        if isinstance(member, Class) and "__init__" not in member.members and _is_module(member):
            self = Parameter("self", kind=ParameterKind.positional_or_keyword)
            member.set_member("__init__", Function("__init__", parameters=Parameters(self, *_parameters(member))))


def _plain(annotation: Any) -> Any:
    """`Annotated[X, …]` as X: what is said beside the type is for the check of the call."""
    if isinstance(annotation, list | tuple):
        return type(annotation)(map(_plain, annotation))
    if not isinstance(annotation, Expr):
        return annotation
    if getattr(getattr(annotation, "left", None), "name", "") == "Annotated":
        return _plain(annotation.slice.elements[0])  # pyright: ignore[reportAttributeAccessIssue]
    return replace(annotation, **{field.name: _plain(getattr(annotation, field.name)) for field in fields(annotation)})


def _listed(text: str) -> str:
    """The docstring with a list of what each argument is, which it has line by line: "name: words"."""
    return "\n\n".join(_list(part) if ARGUMENT.match(part) else part for part in text.split("\n\n"))


def _list(paragraph: str) -> str:
    """A list, if every line of the paragraph begins an argument or is indented below one; else the paragraph."""
    lines = paragraph.split("\n")
    if not all(ARGUMENT.match(line) or line.startswith("    ") for line in lines):
        return paragraph
    items = (ARGUMENT.sub(lambda found: f"- **`{found[1]}`**: ", line) if line[:1] != " " else line for line in lines)
    return "\n".join(items) + END


def _is_module(cls: Class) -> bool:
    return any(getattr(base, "canonical_path", base) == "equinox.Module" for c in (cls, *cls.mro()) for base in c.bases)


def _parameters(cls: Class) -> list[Parameter]:
    """Fields of the bases first; those that are for keywords only at the end."""
    found: dict[str, Parameter] = {}
    for each in reversed((cls, *cls.mro())):
        for name, field in each.members.items():
            # A property, or a ClassVar, is no attribute of an instance.
            if isinstance(field, Attribute) and field.annotation and "instance-attribute" in field.labels:
                found[name] = _parameter(name, field)
    return sorted(found.values(), key=lambda parameter: parameter.kind is ParameterKind.keyword_only)


def _parameter(name: str, field: Attribute) -> Parameter:
    kind, default = ParameterKind.positional_or_keyword, field.value
    if str(getattr(default, "function", "")) == "eqx.field":
        options = {argument.name: argument.value for argument in default.arguments}  # pyright: ignore
        kind = ParameterKind.keyword_only if str(options.get("kw_only")) == "True" else kind
        default = options.get("default", "{}" if "default_factory" in options else None)
    return Parameter(name, annotation=field.annotation, kind=kind, default=default)

"""What a Python call declares – arguments, types, defaults, descriptions – read from its source without importing it.

The signature is the one definition of a command's flags, and the modules of the calls import torch, which takes seconds
that neither ``--help`` nor a mistyped flag should cost.
"""

import ast
import builtins
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

_IMPORTED = ("collections.abc", "pathlib", "typing", "bathyscope.options")
"""Modules whose names are taken from the modules themselves, which cost nothing."""
_ARGUMENT = re.compile(r"(\*{0,2}\w+(?:, \*{0,2}\w+)*): (.*)")

Call = str | Callable[..., Any]
"""``"package.module:name"``, or the function itself."""


@dataclass(frozen=True)
class Argument:
    """One argument of a call; classes that are not imported stand as ``Unknown`` in its type."""

    name: str
    hint: Any
    default: Any
    help: str


class _Anything(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls

    def __getitem__(cls, item: object) -> Any:
        return cls


class Unknown(metaclass=_Anything):
    """A class of a module that is not imported."""


def declared(call: Call) -> list[Argument]:
    """The named arguments of a call, in order; ``*args`` and ``**kwargs`` are left out."""
    if isinstance(call, str):
        module, _, name = call.partition(":")
        found, names = _function(module, name)
    else:
        function = inspect.unwrap(call)
        found, names = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0], _Names(function.__module__)
    assert isinstance(found, ast.FunctionDef), call
    texts = descriptions(ast.get_docstring(found) or "")
    own = found.args
    positional = [*own.posonlyargs, *own.args]
    defaults = [None] * (len(positional) - len(own.defaults)) + own.defaults + own.kw_defaults
    return [
        Argument(one.arg, _value(one.annotation, names), _value(default, names), texts.get(one.arg, ""))
        for one, default in zip([*positional, *own.kwonlyargs], defaults, strict=True)
    ]


def descriptions(docstring: str) -> dict[str, str]:
    """Argument → its description under ``Args:``, as one line; a shell cannot say None, it leaves the flag out."""
    found: dict[str, str] = {}
    names: list[str] = []
    for line in inspect.cleandoc(docstring).partition("Args:\n")[2].splitlines():
        if line and not line.startswith(" "):
            break
        start = _ARGUMENT.fullmatch(line.removeprefix("    "))
        if start is not None:
            names = start[1].replace("*", "").split(", ")
        for name in names:
            found[name] = f"{found.get(name, '')} {line.strip() if start is None else start[2]}".strip()
    return {name: _in_a_shell(text) for name, text in found.items()}


def _in_a_shell(text: str) -> str:
    """What says Python's values and calls, said in flags."""
    plain = re.sub(r"``(\w+)=\"(\w+)\"``", r"--\1 \2", text).replace("``", "")
    for value, word in {"None": "not given", "True": "yes", "False": "no"}.items():
        plain = plain.replace(f"{value} = ", f"{word} = ")
    return plain.replace(". not given = ", ". Not given = ")


class _Names(dict[str, Any]):
    """The names of a module, evaluated from its source when they are looked up."""

    def __init__(self, module: str) -> None:
        super().__init__()
        self.module = module

    def __missing__(self, name: str) -> Any:
        self[name] = self._found(name)
        return self[name]

    def _found(self, name: str) -> Any:
        for node in _statements(self.module):
            if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                alias = next((one.name for one in node.names if (one.asname or one.name) == name), None)
                if alias is not None and node.module in _IMPORTED:
                    return getattr(importlib.import_module(node.module), alias)
                if alias is not None:
                    ours = node.module.startswith((self.module.partition(".")[0], "bathyscope"))
                    return _Names(node.module)[alias] if ours else Unknown
            elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(isinstance(one, ast.Name) and one.id == name for one in targets):
                    return _value(node.value, self)
        return getattr(builtins, name, Unknown)


def _function(module: str, name: str) -> tuple[ast.AST, _Names]:
    """Where a function is defined, through the packages that only pass it on."""
    for node in _statements(module):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node, _Names(module)
        if isinstance(node, ast.ImportFrom) and node.module:
            for one in node.names:
                if (one.asname or one.name) == name:
                    return _function(node.module, one.name)
    raise LookupError(f"{module} has no function {name}")


def _value(expression: ast.expr | None, names: _Names) -> Any:
    if expression is None:
        return None
    return eval(compile(ast.Expression(expression), names.module, "eval"), {}, names)


def _statements(module: str) -> Iterator[ast.stmt]:
    """A module's own statements, those for type checkers included."""
    for node in _source(module).body:
        yield from node.body if isinstance(node, ast.If) else (node,)


@cache
def _source(module: str) -> ast.Module:
    package, *parts = module.split(".")
    place = files(package)
    for part in parts[:-1]:
        place = place / part
    last = place / parts[-1] if parts else place
    file = last / "__init__.py" if last.is_dir() else place / f"{parts[-1]}.py"
    return ast.parse(file.read_text(encoding="utf-8"))

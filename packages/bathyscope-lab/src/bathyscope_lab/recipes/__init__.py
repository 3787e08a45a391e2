"""Recipes that ship with the package, and how one is read: by name or from a file, with overrides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from bathyscope.core.strict import read_yaml
from bathyscope.errors import OptionError, did_you_mean
from bathyscope_lab.recipe import Recipe


def shipped() -> dict[str, Path]:
    """Name → file of every recipe of the package."""
    folder = Path(str(files("bathyscope_lab.recipes")))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def read_recipe(source: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """A recipe of the package by its name, or one from a YAML file.

    Args:
        source: a name such as ``smallest``, or a path.
        overrides: ``KEY=VALUE``, where the key is a path with dots (``model.num_hidden_layers=8``,
            ``stages.0.batch=32``) and the value is YAML.

    Raises:
        OptionError: no such recipe, not a mapping, or keys and values that are not allowed.
    """
    path = Path(source).expanduser()
    if not path.is_file():
        known = shipped()
        if str(source) not in known:
            raise OptionError(
                f"No recipe {str(source)!r}.{did_you_mean(str(source), known)} Give a YAML file or one of "
                f"{', '.join(known)}."
            )
        path = known[str(source)]
    try:
        content = read_yaml(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise OptionError(f"The recipe {path} is no YAML: {error}") from error
    if not isinstance(content, Mapping):
        raise OptionError(f"{path} holds {type(content).__name__}; a recipe is a mapping of option: value.")
    merged: Any = dict(content)
    for override in overrides:
        _put(merged, override)
    return Recipe.from_dict(merged)


def _put(content: Any, override: str) -> None:
    """Sets one ``KEY=VALUE`` in nested mappings and lists."""
    path, separator, text = override.partition("=")
    if not separator or not path:
        raise OptionError(f"{override!r} sets nothing; write KEY=VALUE, such as model.num_hidden_layers=8.")
    try:
        value = read_yaml(text)
    except ValueError as error:
        raise OptionError(f"{override!r}: the value is no YAML ({error}).") from error
    *parents, last = path.split(".")
    for name in parents:
        below = _member(content, name, override)
        if below is None:
            below = content[name] = {}
        content = below
    if isinstance(content, list):
        _member(content, last, override)
        content[int(last)] = value
    elif isinstance(content, dict):
        content[last] = value
    else:
        raise OptionError(f"{override!r}: {last!r} cannot be set in {content!r}; name an option of the recipe.")


def _member(content: Any, name: str, override: str) -> Any:
    """What stands under a name, or under an index of a list; None where there is nothing yet."""
    if isinstance(content, dict):
        return content.get(name)
    if isinstance(content, list) and name.isdecimal() and int(name) < len(content):
        return content[int(name)]
    raise OptionError(f"{override!r}: there is no {name!r} in {content!r}; name an option of the recipe.")

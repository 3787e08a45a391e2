"""A recipe: the Python call's arguments in a YAML file. Flags override it, one option at a time."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bathyscope.core.paths import given_path
from bathyscope.core.strict import read_yaml
from bathyscope.errors import OptionError

_KINDS = {list: "list", str: "text", int: "number", float: "number", bool: "truth value"}


def read_recipe(path: str | Path) -> dict[str, Any]:
    """The arguments that a recipe gives."""
    try:
        content = read_yaml(given_path(path, "recipe").read_text(encoding="utf-8"))
    except OSError as error:
        raise OptionError(f"The recipe {str(path)!r} cannot be read: {error.strerror}. Give a YAML file.") from error
    except ValueError as error:
        raise OptionError(f"The recipe {str(path)!r} is no YAML: {error}") from error
    if content is None:
        return {}
    if not isinstance(content, Mapping):
        raise OptionError(
            f"The recipe {str(path)!r} holds a {_KINDS.get(type(content), 'value')}; write one argument a line, such "
            "as 'prompts: gsm8k:10'."
        )
    return {str(name): value for name, value in content.items()}


def overlay(recipe: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the recipe with overrides in its place; options of a measure are replaced one by one."""
    merged = dict(recipe)
    for name, value in overrides.items():
        below = merged.get(name)
        both = isinstance(value, Mapping) and isinstance(below, Mapping)
        merged[name] = {**below, **value} if both else value  # type: ignore[dict-item]
    return merged

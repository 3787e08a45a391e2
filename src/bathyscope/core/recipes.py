"""A recipe: the Python call's arguments in a YAML file. Flags override it, one option at a time."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bathyscope.core.foreign import read_text
from bathyscope.core.paths import given_path
from bathyscope.core.strict import read_yaml
from bathyscope.core.text import elided
from bathyscope.errors import OptionError

_REMOTE_CODE = "trust_remote_code"
_MEASURES = "measures"
_ADDRESS = "address"
"""Of a cluster: its machines are sent the work as objects of Python, and send back theirs."""
_MOST_LISTED = 5
_LONGEST_CODE = 200
_LONGEST_REASON = 200
MOST_RECIPE: Final = 1 << 20
"""Bytes of a recipe, at most."""
_KINDS = {list: "list", str: "text", int: "number", float: "number", bool: "truth value"}


def read_recipe(path: str | Path) -> dict[str, Any]:
    """The arguments that a recipe gives."""
    try:
        content = read_yaml(read_text(given_path(path, "recipe"), most=MOST_RECIPE))
    except OSError as error:
        raise OptionError(f"The recipe {str(path)!r} cannot be read: {error.strerror}. Give a YAML file.") from error
    except UnicodeDecodeError as error:
        raise OptionError(
            f"The recipe {str(path)!r} is not UTF-8 text ({error.reason}); convert it to UTF-8."
        ) from error
    except ValueError as error:
        reason = elided(error, _LONGEST_REASON)
        raise OptionError(f"The recipe {str(path)!r} is no YAML: {reason}") from error
    if content is None:
        return {}
    if not isinstance(content, Mapping):
        raise OptionError(
            f"The recipe {str(path)!r} holds a {_KINDS.get(type(content), 'value')}; write one argument a line, such "
            "as 'prompts: gsm8k:10'."
        )
    return {str(name): value for name, value in content.items()}


def code_of(recipe: Mapping[str, Any]) -> list[str]:
    """Return what a recipe would run besides this program.

    Code of checkpoints, measures from files or modules, and what a cluster at an address sends.

    Example:
        >>> code_of({"model": "m", "trust_remote_code": True, "measures": ["lens", "mine.py:Wobble"]})
        ['trust_remote_code: true', 'measures: mine.py:Wobble']
    """
    if isinstance(recipe, list | tuple | set | frozenset):
        return [code for entry in recipe for code in code_of(entry)]
    if not isinstance(recipe, Mapping):
        return []
    codes = []
    for name, value in recipe.items():
        if name == _REMOTE_CODE and value is not False and value is not None:
            codes.append(f"{name}: {str(value).lower()}")
        elif name == _ADDRESS and value is not None:
            codes.append(f"{name}: {value}")
        elif name == _MEASURES:
            names = [part.strip() for text in _texts_in(value) for part in text.split(",")]
            codes += [f"{name}: {part}" for part in names if ":" in part]
        elif isinstance(value, Mapping | list | tuple | set | frozenset):
            codes += code_of(value)  # type: ignore[arg-type]
    return codes


def _texts_in(value: Any) -> list[str]:
    """Every text that may name a measure: in lists of any depth, and the names and plain texts of mappings."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        # options of a measure are mappings, whose texts name prompts and the like
        return [text for text in (*value, *value.values()) if isinstance(text, str)]
    return [text for entry in value for text in _texts_in(entry)] if isinstance(value, Iterable) else []


def require_no_code(recipe: Mapping[str, Any], path: str | Path, allowed: bool) -> None:
    """Refuse a recipe that runs code, unless the user says that it may.

    Args:
        recipe: what the file holds, without what the user has typed in place of it.
        path: of the file.
        allowed: the user has said so.

    Raises:
        OptionError: names the code.
    """
    help_ = "give these as flags, or --allow-code (allow_code=True)"
    require_allowed(f"The recipe {str(path)!r}", code_of(recipe), allowed, help_)


def require_allowed(subject: str, codes: Sequence[str], allowed: bool, help_: str) -> None:
    """Refuse a file that would run code, unless the user says that it may.

    Args:
        subject: what the file is called in a sentence.
        codes: what it would run.
        allowed: the user has said so.
        help_: how the user says so.

    Raises:
        OptionError: names the code.
    """
    if codes and not allowed:
        listed = ", ".join(elided(code, _LONGEST_CODE) for code in codes[:_MOST_LISTED])
        more = " …" if len(codes) > _MOST_LISTED else ""
        raise OptionError(
            f"{subject} would run code ({listed}{more}), and a file from elsewhere is no program. Read that code "
            f"first; then {help_}."
        )


def overlay(recipe: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the recipe with overrides in its place; options of a measure are replaced one by one."""
    merged = dict(recipe)
    for name, value in overrides.items():
        below = merged.get(name)
        both = isinstance(value, Mapping) and isinstance(below, Mapping)
        merged[name] = {**below, **value} if both else value  # type: ignore[dict-item]
    return merged

"""Where the configuration of a run and the one asked for differ, in lines a person can read."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bathyscope.errors import StoreError
from bathyscope.model.identity import ModelIdentity, compare_models
from bathyscope.model.unread import unread_in_words
from bathyscope.runs.folder import Kind
from bathyscope.runs.manifest import TOLD_LATER, Identity, plain

Configuration = Identity | Mapping[str, Any]

_WITHHELD = "prompts whose texts are not stored"
_LONGEST_VALUE = 120
_SHOWN = 12
_ASKED = "asked for"


def withheld(count: int) -> str:
    """Return what is in a manifest for prompts of a measure whose texts are not stored; their hash does too."""
    return f"{count} {_WITHHELD}"


def is_withheld(value: object) -> bool:
    """Say whether a value stands for prompts whose texts are not stored."""
    return isinstance(value, str) and value.endswith(_WITHHELD)


def require_same(folder: Path, kind: Kind, stored: Configuration, requested: Configuration) -> None:
    """Refuses to go on in a folder with another configuration than its own: says every difference, and two ways out."""
    lines = difference(stored, requested, kind.noun)
    if lines:
        raise StoreError(
            f"The {kind.noun} in {str(folder)!r} belongs to another configuration:\n{listed(lines)}\n"
            f"Either ask for the {kind.noun}'s own configuration, and it resumes, or give another folder "
            "(out=..., --out ...)."
        )


_REFERENCE = "reference_hash"
"""Among the options of a measure with prompts of its own."""
_ORIGIN = ("model", "revision", "gguf", "packing")
"""Where a model came from, which is of no account where its weights and settings are equal."""


def difference(
    stored: Configuration, requested: Configuration, noun: str = "run", other: str | None = None
) -> list[str]:
    """Where two configurations differ, one line each.

    What a run of an earlier schema does not tell is no difference. A model of the same weights and settings, or from
    the same folder, is the same model, whatever the name it is called by.

    Args:
        noun: what has the first.
        other: what has the second; None = it is asked for.

    Example:
        ``measures.skip.protect_first: run has 1, asked for 0``
    """
    old, new = _plain_fields(stored), _plain_fields(requested)
    # What an earlier schema did not tell cannot contradict what is asked for now.
    old = {name: value for name, value in old.items() if value is not None or name not in TOLD_LATER}
    new = {name: value for name, value in new.items() if name in old or name not in TOLD_LATER}
    if old.get("model") and new.get("model") and _resolved(old["model"]) == _resolved(new["model"]):
        old["model"] = new["model"]
    # The hashes are of every weight and setting, so that a model may have moved or been renamed.
    if compare_models(ModelIdentity.of_record(old), ModelIdentity.of_record(new)).same:
        old, new = ({name: value for name, value in identity.items() if name not in _ORIGIN} for identity in (old, new))
    if isinstance(old.get("measures"), dict) and isinstance(new.get("measures"), dict):
        old["measures"] = _without_texts(old["measures"], new["measures"])
        new["measures"] = _without_texts(new["measures"], old["measures"])
    unread = unread_in_words(new.get("weight_hash"), old.get("weight_hash"))
    if unread:
        old["weight_hash"] = new["weight_hash"] = ""
    lines = _differences("", old, new, noun, f"{other} has" if other else _ASKED)
    return [*([f"weight_hash: {unread}"] if unread else []), *lines]


def _without_texts(measures: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with the other side's word for prompts of the same hash whose texts it does not store.

    Earlier versions stored these texts.
    """
    options_by_measure = {}
    for name, options in measures.items():
        other = others.get(name)
        if isinstance(options, dict) and isinstance(other, dict) and options.get(_REFERENCE) == other.get(_REFERENCE):
            options = options | {key: value for key, value in other.items() if is_withheld(value) and key in options}
        options_by_measure[name] = options
    return options_by_measure


def version_difference(
    run: Mapping[str, str], installed: Mapping[str, str], noun: str = "run", other: str | None = None
) -> list[str]:
    """``torch: run has 2.12.0, installed is 2.13.0``, one line a library; ``noun`` and ``other`` as above."""
    names = sorted({*run, *installed})
    pairs = [(name, run.get(name, "none"), installed.get(name, "none")) for name in names]
    second = f"{other} has" if other else "installed is"
    return [f"{name}: {noun} has {old}, {second} {new}" for name, old, new in pairs if old != new]


def listed(lines: list[str]) -> str:
    """Lines for a message, the first dozen of them."""
    first_lines = [f"  {line}" for line in lines[:_SHOWN]]
    more = len(lines) - _SHOWN
    return "\n".join([*first_lines, f"  and {more} more"] if more > 0 else first_lines)


def _plain_fields(configuration: Configuration) -> dict[str, Any]:
    fields: dict[str, Any] = plain(asdict(configuration) if isinstance(configuration, Identity) else configuration, "")
    return fields


def _resolved(model: str) -> str:
    return os.path.realpath(os.path.expanduser(model))


def _differences(where: str, run: Any, requested: Any, noun: str, second: str) -> Iterator[str]:
    # Dicts and lists are compared item by item, so that a line names the option that differs.
    if run == requested:
        return
    if isinstance(run, dict) and isinstance(requested, dict):
        for key in [*run, *(key for key in requested if key not in run)]:
            name = f"{where}.{key}" if where else key
            if key not in requested:
                lacking = "not asked for" if second == _ASKED else f"{second} none"
                yield f"{name}: {noun} has {_short(run[key])}, {lacking}"
            elif key not in run:
                lacking = f"not in the {noun}" if second == _ASKED else f"{noun} has none"
                yield f"{name}: {lacking}, {second} {_short(requested[key])}"
            else:
                yield from _differences(name, run[key], requested[key], noun, second)
    elif isinstance(run, list) and isinstance(requested, list) and not (_fits(run) and _fits(requested)):
        if len(run) != len(requested):
            yield f"{where}: {noun} has {len(run)} entries, {second} {len(requested)}"
            return
        for i, (old, new) in enumerate(zip(run, requested, strict=True)):
            yield from _differences(f"{where}[{i}]", old, new, noun, second)
    else:
        yield f"{where}: {noun} has {_short(run)}, {second} {_short(requested)}"


def _fits(value: Any) -> bool:
    return len(repr(value)) <= _LONGEST_VALUE


def _short(value: Any) -> str:
    text = repr(value)
    return text if _fits(value) else f"{text[: _LONGEST_VALUE - 3]}..."

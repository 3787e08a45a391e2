"""Where the configuration of a run and the one asked for differ, in lines a person can read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, fields
from typing import Any

from bathyscope.store.manifest import Identity, plain

_LONGEST_VALUE = 120


def difference(run: Identity, asked: Identity) -> list[str]:
    """Where two configurations differ, one line each; what the run's schema did not tell is no difference.

    Example:
        ``measures.skip.protect_first: run has 1, asked for 0``
    """
    untold = {f.name for f in fields(Identity) if f.default is not MISSING and getattr(run, f.name) == f.default}
    kept, wanted = (
        {name: plain(value, "") for name, value in asdict(one).items() if name not in untold} for one in (run, asked)
    )
    return list(_differences("", kept, wanted))


def version_difference(run: Mapping[str, str], installed: Mapping[str, str]) -> list[str]:
    """``torch: run has 2.12.0, installed is 2.13.0``, one line a library."""
    names = sorted({*run, *installed})
    pairs = [(name, run.get(name, "none"), installed.get(name, "none")) for name in names]
    return [f"{name}: run has {old}, installed is {new}" for name, old, new in pairs if old != new]


def _differences(where: str, run: Any, asked: Any) -> Iterator[str]:
    if run == asked:
        return
    if isinstance(run, dict) and isinstance(asked, dict):
        for key in [*run, *(key for key in asked if key not in run)]:
            name = f"{where}.{key}" if where else key
            if key not in asked:
                yield f"{name}: run has {_short(run[key])}, not asked for"
            elif key not in run:
                yield f"{name}: not in the run, asked for {_short(asked[key])}"
            else:
                yield from _differences(name, run[key], asked[key])
    elif isinstance(run, list) and isinstance(asked, list) and not (_fits(run) and _fits(asked)):
        if len(run) != len(asked):
            yield f"{where}: run has {len(run)} entries, asked for {len(asked)}"
            return
        for i, (old, new) in enumerate(zip(run, asked, strict=True)):
            yield from _differences(f"{where}[{i}]", old, new)
    else:
        yield f"{where}: run has {_short(run)}, asked for {_short(asked)}"


def _fits(value: Any) -> bool:
    return len(repr(value)) <= _LONGEST_VALUE


def _short(value: Any) -> str:
    text = repr(value)
    return text if _fits(value) else f"{text[: _LONGEST_VALUE - 3]}..."

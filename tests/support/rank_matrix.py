"""What a model that is split over ranks gives, against the same model whole: every measure and every act, on each rank.

``examine`` runs on all ranks (``support.on_ranks``). The whole model is measured by rank 0 alone, in a process that
works by itself then; nothing of it is shared with the split one.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import xarray as xr
from support import zoo
from support.rank_outcomes import CRASHED, EQUAL, REFUSED, RIGHT, WRONG, Outcome

import bathyscope
from bathyscope import Prompt
from bathyscope.core.text import without_places
from bathyscope.measures.registry import MEASURES
from bathyscope.model.ranks import is_first, of_first, together

CLOSE: Final = 2e-5
LENGTHS: Final = (9, 9, 12, 12)
LONG: Final = (90,) * 6
"""Enough tokens for maps of a stream of width 64."""
TWO: Final = (9, 12)
HEADS: Final = 4
"""Of keys and values, where a model of fewer could not be split over four ranks."""
ALONE: Final = ("translated_lens",)
"""Measures with prompts of their own."""
BY_LARGEST: Final = ("hsic", "hsic_covariance")
"""Compared by the largest of their entries: sums that cancel, in powers of the units of the stream."""
QUOTIENTS: Final = ("recovered", "recovered_all")
"""Compared by what is divided, in nats: the way between two prompts' answers, the divisor, may be close to 0, and a
quotient by it is rounding enlarged. The way itself is compared as ``log_p``."""


def prompts_of(family: str, lengths: tuple[int, ...] = LENGTHS) -> list[Prompt]:
    """Prompts with answers, labels and pairs, so that every measure has what it needs."""
    drawn = zoo.prompts(zoo.build(family), lengths)
    pairs = [[first, *own[1:]] for first, own in zip([5, 6] * len(drawn), drawn)]
    return [
        Prompt(ids=own, answer_tokens=2, id=f"p{number}", labels={"pair": str(number // 2), "level": number // 2})
        for number, own in enumerate(pairs)
    ]


def options_of(measure: str, family: str) -> dict[str, Any]:
    """Options under which a measure suits a few short prompts."""
    declaration = MEASURES[measure]
    options = dict(declaration.example or {})
    if measure == "jacobian_lens":
        options = {"prompts": zoo.prompts(zoo.build(family), (12, 13, 14, 15), seed=3), "skip_first": 4}
    if measure == "patching":
        options |= {"pairs": "pair"}
    return options


_WHOLE: dict[Path, Any] = {}
"""The whole model of the family at work, on rank 0."""


def folder_of(family: str, ranks: int, place: Path) -> Path:
    """A checkpoint of a family; over four ranks with as many heads of keys as of queries, where it has fewer."""
    folder = place / f"{family}-{ranks}"
    if is_first() and not folder.exists():
        entry = zoo.entry(family)
        if ranks == HEADS and getattr(entry.config(), "num_key_value_heads", HEADS) not in (HEADS, None):
            entry = _with_heads(entry)
        entry.build().save_pretrained(folder)
    of_first(lambda: None)
    return folder


def _with_heads(entry: Any) -> Any:
    from dataclasses import replace

    def config() -> Any:
        changed = entry.config()
        changed.num_key_value_heads = HEADS
        return changed

    return replace(entry, config=config)


def examine(families: list[str], ranks: int, place: str, table: str, only: list[str] | None = None) -> None:
    """Measure families on all ranks; rank 0 adds a line for each outcome to a file of JSON lines."""
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    with together("auto"):
        for family in families:
            for outcome in outcomes_of(family, ranks, Path(place), only):
                if is_first():
                    with Path(table).open("a", encoding="utf-8") as file:
                        file.write(json.dumps(asdict(outcome)) + "\n")


def outcomes_of(family: str, ranks: int, place: Path, only: list[str] | None = None) -> Iterator[Outcome]:
    """Everything about one family: its loading, all measures, and acts."""
    try:
        folder = folder_of(family, ranks, place)
        model = bathyscope.load(str(folder), tensor_parallel=ranks)
    except Exception as error:
        yield _failed(family, ranks, "load", error)
        return
    whole = of_first(lambda: _alone(lambda one: one.weight_hash, folder))
    same = model.weight_hash == whole
    yield Outcome(family, ranks, "load", EQUAL if same else WRONG, note="" if same else "another hash of the weights")
    measures = [name for name in MEASURES if only is None or name in only]
    together_fit = [name for name in measures if name not in ALONE]
    yield from _measured(family, ranks, together_fit, model, folder)
    for name in measures:
        if name in ALONE:
            yield from _measured(family, ranks, [name], model, folder)
    for name, act in ACTS.items():
        if only is None or name in only:
            yield _outcome(family, ranks, name, *_both(model, folder, act))


def _measured(family: str, ranks: int, measures: list[str], model: Any, folder: Path) -> Iterator[Outcome]:
    """Measures in one survey; each in its own where the split or the whole model refuses some of them."""

    def survey(some: Any) -> Mapping[str, xr.Dataset]:
        prompts = prompts_of(family, LONG if measures == ["translated_lens"] else LENGTHS)
        options: dict[str, Any] = {name: options_of(name, family) for name in measures}
        run = bathyscope.survey(some, prompts, measures, progress=False, **options)
        return {name: run[name] for name in run.measures if name != "noise"}

    split, whole = _both(model, folder, survey)
    failed = isinstance(split, Exception) or isinstance(whole, str)
    if failed and len(measures) > 1:
        for name in measures:
            yield from _measured(family, ranks, [name], model, folder)
        return
    for name in measures:
        yield _outcome(family, ranks, name, _only(split, name), _only(whole, name))


def _only(results: Any, name: str) -> Any:
    """The results of one measure; an error as it is."""
    return {name: results[name]} if isinstance(results, dict) else results


def _both(model: Any, folder: Path, act: Callable[[Any], Mapping[str, xr.Dataset]]) -> tuple[Any, Any]:
    """What an act gives of the split model, or its error; and of the whole one, which rank 0 loads, or its text."""
    split: Mapping[str, xr.Dataset] | Exception
    try:
        split = act(model)
    except Exception as error:
        split = error
    return split, of_first(lambda: _alone(act, folder))


def _outcome(family: str, ranks: int, what: str, split: Any, whole: Any) -> Outcome:
    """An act on the split model against the same on the whole one."""
    if isinstance(split, Exception):
        if isinstance(whole, str) and str(split) == whole:
            return Outcome(family, ranks, what, REFUSED, note=f"as the whole model: {' '.join(whole.split())[:300]}")
        return _failed(family, ranks, what, split)
    if isinstance(whole, str):
        return Outcome(family, ranks, what, WRONG, note=f"the whole model is refused: {whole[:200]}")
    gap, where = gap_between(split, whole)
    outcome = EQUAL if gap == 0 else RIGHT if gap <= CLOSE else WRONG
    return Outcome(family, ranks, what, outcome, f"{gap:.1e}", "" if outcome != WRONG else where)


def _alone(act: Callable[[Any], Any], folder: Path) -> Any:
    """What an act gives of the whole model in a process that works alone; the text of its error."""
    from bathyscope.model import ranks

    team = ranks._TEAM[0]
    team.inside = False
    try:
        if folder not in _WHOLE:
            _WHOLE.clear()
            _WHOLE[folder] = bathyscope.load(str(folder))
        return act(_WHOLE[folder])
    except bathyscope.BathyscopeError as error:
        return str(error)
    finally:
        team.inside = True


def _failed(family: str, ranks: int, what: str, error: Exception) -> Outcome:
    text = without_places(" ".join(str(error).split()))
    if isinstance(error, bathyscope.BathyscopeError):
        return Outcome(family, ranks, what, REFUSED, note=text[:400])
    return Outcome(family, ranks, what, CRASHED, note=f"{type(error).__name__}: {text[:300]}")


def gap_between(ours: Mapping[str, xr.Dataset], theirs: Mapping[str, xr.Dataset]) -> tuple[float, str]:
    """The largest gap of all variables, and which has it; infinite where shapes, NaN or names differ."""
    worst, where = 0.0, ""
    if {*ours} != {*theirs}:
        return float("inf"), f"{sorted({*ours} ^ {*theirs})}"
    for name, dataset in theirs.items():
        for variable in dataset.variables:
            mine, other = ours[name].variables.get(variable), dataset[variable].variable
            if variable in QUOTIENTS and mine is not None and mine.dims == other.dims:
                mine, other = mine * way_of(ours[name]), other * way_of(dataset)
            gap = _gap_of(mine, other, variable in BY_LARGEST)
            if gap > worst:
                worst, where = gap, f"{name}.{variable}"
    return worst, where


def way_of(patching: xr.Dataset) -> xr.Variable:
    """The way from a prompt's answer to its source's, in nats, by which patching divides what is recovered."""
    log_p = patching["log_p"].variable
    margin = log_p.isel(answer=0) - log_p.isel(answer=1)
    return margin.isel(read_in=0) - margin.isel(read_in=1)


def _gap_of(mine: Any, other: xr.Variable, by_largest: bool) -> float:
    if mine is None or mine.shape != other.shape:
        return float("inf")
    ours, theirs = mine.values, other.values
    if theirs.dtype.kind != "f":
        return 0.0 if np.array_equal(ours, theirs) else float("inf")
    if not np.array_equal(np.isnan(ours), np.isnan(theirs)):
        return float("inf")
    # an infinite value, of a ratio, is one on both sides
    finite = np.isfinite(theirs)
    if not np.array_equal(ours[~finite], theirs[~finite], equal_nan=True):
        return float("inf")
    size = np.abs(theirs[finite])
    gaps = np.abs(ours[finite] - theirs[finite]) / np.maximum(1, size.max(initial=1) if by_largest else size)
    return float(gaps.max(initial=0.0))


def _schedule(model: Any) -> Mapping[str, xr.Dataset]:
    prompts = zoo.prompts(model.hf, TWO)
    run = bathyscope.survey(model, prompts, ["lens", "drop"], schedule="drop:2", progress=False)
    return {name: run[name] for name in ("lens", "drop")}


def _control(kind: str) -> Callable[[Any], Mapping[str, xr.Dataset]]:
    def act(model: Any) -> Mapping[str, xr.Dataset]:
        prompts = zoo.prompts(model.hf, TWO)
        run = bathyscope.survey(model, prompts, ["lens", "drop"], control=kind, progress=False)
        ((_, control),) = run.controls.items()
        return {name: control[name] for name in ("lens", "drop")}

    return act


def _written(model: Any) -> Mapping[str, xr.Dataset]:
    prompts = zoo.prompts(model.hf, TWO)
    run = bathyscope.survey(model, prompts, ["lens"], write=4, progress=False)
    ids = xr.DataArray([token for prompt in run.prompts for token in prompt.ids])
    return {"lens": run["lens"], "ids": xr.Dataset({"ids": ids})}


ACTS: Final[dict[str, Callable[[Any], Mapping[str, xr.Dataset]]]] = {
    "schedule": _schedule,
    "control shuffled_text": _control("shuffled_text"),
    "control shuffled_blocks": _control("shuffled_blocks"),
    "control untrained": _control("untrained"),
    "write": _written,
}

"""A course: the surveys of one training by step, as one dataset; made while it trains, or of its checkpoints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import xarray as xr

from bathyscope.core.progress import ProgressBar
from bathyscope.core.result import LabelledResult
from bathyscope.errors import ModelError, OptionError, StoreError, warn
from bathyscope.labels import Label, Table, interval, labelled
from bathyscope.model import load
from bathyscope.options import checked
from bathyscope.prompts.source import Source
from bathyscope.runs.folder import folder_path
from bathyscope.runs.manifest import RUN, load_manifest
from bathyscope.runs.run import Run, open_run
from bathyscope.statistics.bootstrap import mean_intervals
from bathyscope.surveying.engines import survey
from bathyscope.surveying.training.watch import MEASURES, STEP, idle_blocks

_STEP_OF_RUN: Final = re.compile(r"step-(\d+)")
_STEP_OF_CHECKPOINT: Final = re.compile(r"(?:checkpoint-|step-?)(\d+)")
_by_step = partial(Label, "step", source="own")
_by_block = partial(Label, "step block", source="own")
READINGS: Final = ("readable", "own", "later")
_TABLE: Final[Table] = {
    **{
        name: label
        for reading in READINGS
        for name, label in {
            reading: _by_step(f"the verdict's reading {reading}", "block", "mean over prompts"),
            **interval(reading, _by_step, f"the 95 % interval of {reading}", "block", "bootstrap over prompts"),
        }.items()
    },
    "idle_blocks": _by_step(
        "blocks whose drop changes the loss by less than 0.01 nats", "block", "test of equivalence"
    ),
    "loss": _by_step("cross-entropy of the prompts", "nats", "mean over prompts"),
    "added_loss": _by_block("loss added without a block", "nats", "mean over prompts"),
    **interval("added_loss", _by_block, "the 95 % interval of added_loss", "nats", "bootstrap over prompts"),
    "skip_effect": _by_block("effect of skipping a block on the output", "1", "mean over tokens and prompts"),
}


def open_course(folder: str | Path) -> LabelledResult:
    """Return the course in a folder: one labelled dataset with a ``step`` dimension.

    Args:
        folder: what a ``DepthCallback``, ``bathyscope.watch`` or ``bathyscope.course`` wrote.

    Returns:
        By ``step``: the verdict's readings with intervals, the idle blocks and the loss; by step and ``block``: the
        added loss without the block, with its interval, and the effect of skipping it.

    Raises:
        StoreError: there is no finished survey, or surveys of models of different depth or of different prompts.

    Example:
        >>> bathyscope.open_course("runs/course").readable.dims  # doctest: +SKIP
        ('step',)
    """
    place = folder_path(folder)
    runs = {step: open_run(run) for step, run in _finished(place).items()}
    if not runs:
        raise StoreError(f"There is no finished survey in {str(folder)!r}; give the folder of a course.")
    depths = {run.n_blocks for run in runs.values()}
    if len(depths) > 1:
        raise StoreError(f"The models of this course have {sorted(depths)} blocks; open its runs one by one.")
    _require_same_prompts(runs)
    rows = [_row(run) for run in runs.values()]
    values = {name: np.stack([row[name] for row in rows]) for name in _TABLE if all(name in row for row in rows)}
    n_blocks = depths.pop()
    data = labelled(_TABLE, values, {"step": list(runs), "block": np.arange(n_blocks)})
    return LabelledResult(data, _conclusion(data, n_blocks), _table_by_step)


@checked
def course(
    checkpoints: str | Path | Sequence[str | Path],
    prompts: Source,
    out: str | Path,
    *,
    revisions: tuple[str, ...] = (),
    measures: tuple[str, ...] = MEASURES,
    seed: int = 0,
    loading: Mapping[str, Any] | None = None,
    progress: bool = True,
) -> LabelledResult:
    """Survey the checkpoints of a training, a run a step in one folder; what is there already is not done again.

    Args:
        checkpoints: a folder of ``checkpoint-500``, ``checkpoint-1000`` …, a list of such folders, or a model on the
            hub with ``revisions``.
        prompts: as for ``survey``.
        out: folder of the course.
        revisions: of the model on the hub, such as ``step1000``; their numbers are the steps.
        measures, seed: as for ``survey``.
        loading: arguments of ``load``.
        progress: show a progress bar on standard error when it takes long.

    Returns:
        What ``open_course`` gives.

    Raises:
        OptionError: no checkpoint with a step in its name, or two of one step.
        ModelError, PromptError, StoreError: as ``survey``. A checkpoint that cannot be read, such as one that is still
            being written, is left out with a warning.

    Example:
        >>> bathyscope.course("output", "gsm8k:8", "runs/course").step.values  # doctest: +SKIP
        array([ 500, 1000])
    """
    folder = folder_path(out, "out")
    sources = _checkpoints(checkpoints, revisions)
    with ProgressBar(f"course of {len(sources)} checkpoints", len(sources), quiet=not progress) as bar:
        for step, (name, revision) in sorted(sources.items()):
            options: dict[str, Any] = {**(loading or {}), **({} if revision is None else {"revision": revision})}
            try:
                model = load(name, **options)
            except ModelError as error:
                warn(f"Step {step} is left out: {error}")
                continue
            survey(model, prompts, list(measures), out=folder / STEP.format(step), seed=seed, progress=False)
            bar.advance(1)
    return open_course(folder)


def _checkpoints(
    checkpoints: str | Path | Sequence[str | Path], revisions: Sequence[str]
) -> dict[int, tuple[str, str | None]]:
    """Return each step's folder, or name and revision."""
    if revisions:
        if not isinstance(checkpoints, str):
            raise OptionError("revisions are those of one model on the hub; give its name alone.")
        return _by_step_of(((revision, (checkpoints, revision)) for revision in revisions), "revision")
    if isinstance(checkpoints, str | Path):
        place = folder_path(checkpoints, "checkpoints")
        folders: list[Path] = sorted(place.glob("*")) if place.is_dir() else []
        folders = [path for path in folders if _STEP_OF_CHECKPOINT.search(path.name) and path.is_dir()]
    else:
        folders = [folder_path(path, "checkpoints") for path in checkpoints]
    if not folders:
        raise OptionError(
            f"There is no checkpoint-STEP in {str(checkpoints)!r}. Give the folder that holds the checkpoints."
        )
    return _by_step_of(((path.name, (str(path), None)) for path in folders), "checkpoint")


def _by_step_of(named: Iterable[tuple[str, tuple[str, str | None]]], kind: str) -> dict[int, tuple[str, str | None]]:
    """Return sources by the step in their names."""
    sources: dict[int, tuple[str, str | None]] = {}
    for name, source in named:
        match = _STEP_OF_CHECKPOINT.search(name)
        if match is None:
            raise OptionError(f"The {kind} {name!r} does not tell its step; name it such as checkpoint-500.")
        step = int(match[1])
        if step in sources:
            raise OptionError(f"Two {kind}s are of step {step}: {sources[step][0]} and {source[0]}. Give one of them.")
        sources[step] = source
    return sources


def _finished(folder: Path) -> dict[int, Path]:
    """Return the folders of the finished surveys by step, in order."""
    runs_by_step: dict[int, Path] = {}
    for path in folder.glob("step-*"):
        match = _STEP_OF_RUN.fullmatch(path.name)
        has_run = match is not None and (path / RUN.manifest).exists()
        if has_run and load_manifest(path).record.finished is not None:
            assert match is not None
            runs_by_step[int(match[1])] = path
    return dict(sorted(runs_by_step.items()))


def _require_same_prompts(runs: Mapping[int, Run]) -> None:
    """Refuse steps whose readings would differ without any training.

    Raises:
        StoreError: two steps were surveyed on different prompts.
    """
    first, *others = runs
    for step in others:
        if runs[step].prompts.hash != runs[first].prompts.hash:
            raise StoreError(
                f"The steps of this course were surveyed on different prompts (step {step} on others than step "
                f"{first}). Survey each set of prompts in a folder of its own."
            )


def _row(run: Run) -> dict[str, Any]:
    """Return the values of the table for one run, as far as its measures tell them."""
    row: dict[str, Any] = {}
    if "lens" in run:
        verdict = run.verdict
        for name, reading in zip(READINGS, (verdict.readable, verdict.own, verdict.later)):
            row |= {name: reading.value, f"{name}_low": reading.low, f"{name}_high": reading.high}
    if "drop" in run:
        added_PL = (run["drop"]["loss"] - run["drop"]["baseline_loss"]).transpose("prompt", "dropped").values
        ends = np.array(mean_intervals(added_PL))
        row |= {"added_loss": np.nanmean(added_PL, axis=0)}
        row |= {"added_loss_low": ends[:, 0], "added_loss_high": ends[:, 1]}
        row |= {"idle_blocks": float(idle_blocks(run).sum()), "loss": float(run["drop"]["baseline_loss"].mean())}
    if "skip" in run and "output_all" in run["skip"]:
        effect = run["skip"]["output_all"].sel(part="block", reduction="mean")
        row["skip_effect"] = effect.mean("prompt").transpose("skipped").values
    return row


def _conclusion(data: xr.Dataset, n_blocks: int) -> str:
    """Return from where to where the readings went, in at most three sentences."""
    first, last = (int(data["step"][place]) for place in (0, -1))
    if first == last:
        return _describe_step(data, n_blocks)
    text = f"{data.sizes['step']} steps were surveyed, {first} to {last}."
    if "readable" in data:
        ends = [f"{float(data['readable'][place]):.1f}" for place in (0, -1)]
        text += (
            f" A token is final after {ends[0]} of {n_blocks} blocks at step {first}, and after {ends[1]} at {last}."
        )
    if "idle_blocks" in data:
        counts = [int(data["idle_blocks"][place]) for place in (0, -1)]
        text += f" Blocks shown to be idle: {counts[0]} at step {first}, {counts[1]} at {last}."
    return text


def _describe_step(data: xr.Dataset, n_blocks: int) -> str:
    """Return the readings of the only step."""
    text = f"One step was surveyed, {int(data['step'][0])}."
    if "readable" in data:
        text += f" A token is final after {float(data['readable'][0]):.1f} of {n_blocks} blocks."
    if "idle_blocks" in data:
        text += f" Blocks shown to be idle: {int(data['idle_blocks'][0])}."
    return text


def _table_by_step(data: xr.Dataset) -> pd.DataFrame:
    """Return a row for every step; what is by block stays in the arrays."""
    by_step = [str(name) for name in data.data_vars if data[name].dims == ("step",)]
    return data[by_step].to_dataframe().reset_index()

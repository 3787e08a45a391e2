"""What the commands behind a reproduction are asked for, and where their results are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import xarray as xr

from bathyscope.between.maps import maps
from bathyscope.engines import survey
from bathyscope.errors import PromptError, StoreError
from bathyscope.evaluation import evaluate
from bathyscope.model import Model
from bathyscope.papers.presets import PRESETS
from bathyscope.papers.reproduction import Verb, Work
from bathyscope.performance import depth_performance
from bathyscope.probing.probe import probe
from bathyscope.probing.subjoiner import LEAST
from bathyscope.prompts.prompt import Prompt
from bathyscope.prompts.source import label_of
from bathyscope.prompts.spec import SourceSpec
from bathyscope.reproducing.data import VALIDATION, corpus_of, localised
from bathyscope.store.atomic import write_atomically
from bathyscope.store.run import Run, open_run
from bathyscope.store.shards import encode_results, read_results

_FILE: Final = "results.nc"
_ASKED: Final = "asked"


@dataclass(frozen=True)
class Asked:
    """What a work is asked for.

    Args:
        source: the models' hub names or folders, with blanks between them.
        folder: of the run or the file of results.
        preset: of surveys.
        measures: of a survey.
        data: data set → local file.
        count: prompts of each set (of each level) in place of the paper's number.
    """

    source: str
    folder: Path
    preset: str
    measures: tuple[str, ...]
    data: Mapping[str, str]
    count: int | None = None


def finished(work: Work, asked: Asked) -> Run | xr.Dataset | None:
    """The result, where it is there and is what is asked for."""
    try:
        if work.verb != "survey":
            found = read_results(asked.folder / _FILE)[work.verb]
            return found if found.attrs.get(_ASKED) == _told(work, asked) else None
        run = open_run(asked.folder)
    except (StoreError, KeyError):
        return None
    wanted = {"model": asked.source, "preset": asked.preset, "dataset": label_of(prompts_of(work, asked))}
    same = all(getattr(run.identity, name) == value for name, value in wanted.items())
    return run if same and set(asked.measures) <= set(run.measures) else None


def compute(work: Work, asked: Asked, models: Sequence[Model], progress: bool, command: str | None) -> Run | xr.Dataset:
    """The result, kept in its folder.

    Raises:
        BathyscopeError: whatever the command refuses.
    """
    if work.verb == "survey":
        given: dict[str, Any] = {"preset": asked.preset, "progress": progress, "command": command}
        given |= survey_options(work, asked)
        return survey(models[0], prompts_of(work, asked), asked.measures, asked.folder, **given)
    found = _COMPUTE[work.verb](work, asked, models, progress).assign_attrs({_ASKED: _told(work, asked)})
    asked.folder.mkdir(parents=True, exist_ok=True)
    write_atomically(asked.folder / _FILE, encode_results({work.verb: found}))
    return found


def prompts_of(work: Work, asked: Asked) -> SourceSpec | list[Prompt]:
    """The prompts of a survey."""
    if isinstance(work.data, str):
        return localised(work.data, asked.data, asked.count)
    return [Prompt(text=question + answer, answer=answer) for question, answer in work.data]


def survey_options(work: Work, asked: Asked) -> dict[str, dict[str, Any]]:
    """Measure → options beyond the preset's."""
    options = {measure: dict(own) for measure, own in work.options.items() if measure in asked.measures}
    if work.all_tokens_only:
        prompts = prompts_of(work, asked)
        number = prompts.count if isinstance(prompts, SourceSpec) else len(prompts)
        for measure in {"skip", "direct"} & set(asked.measures):
            options.setdefault(measure, {})["positions"] = [[]] * (number or 0)
    reference = PRESETS[asked.preset].options.get("erasure", {}).get("reference")
    if reference is not None and "erasure" in asked.measures:
        options.setdefault("erasure", {}).setdefault("reference", str(localised(reference, asked.data)))
    return options


def _told(work: Work, asked: Asked) -> str:
    """What a file of results says it is of."""
    files = [f"{name}={file}" for name, file in sorted(asked.data.items()) if name in str(work.data)]
    return " ".join([asked.source, str(work.data), f"count={asked.count}", *files])


def _maps(work: Work, asked: Asked, models: Sequence[Model], progress: bool) -> xr.Dataset:
    source, target = models
    return maps(source, target, prompts_of(work, asked), progress=progress, **work.options)


def _evaluated(work: Work, asked: Asked, models: Sequence[Model], progress: bool) -> xr.Dataset:
    tasks = str(work.data).split(",")
    files = {task: file for task, file in asked.data.items() if task in tasks}
    place = asked.folder / "benchmarks"
    found = evaluate(models[0], tasks, data=files, limit=asked.count, out=place, progress=progress, **work.options)
    return found.data.assign_attrs(n_blocks=models[0].n_blocks)


def _wic(work: Work, asked: Asked, models: Sequence[Model], progress: bool) -> xr.Dataset:
    files = [asked.data.get(name) for name in (str(work.data), VALIDATION)]
    return probe("wic", models[0], *files, progress=progress, **work.options)


def _subjoiner(work: Work, asked: Asked, models: Sequence[Model], progress: bool) -> xr.Dataset:
    few = {} if asked.count is None else {"count": max(LEAST, asked.count)}
    return probe("subjoiner", models[0], corpus_of(work.data, asked.data), progress=progress, **few, **work.options)


def _ing(work: Work, asked: Asked, models: Sequence[Model], progress: bool) -> xr.Dataset:
    few = {} if asked.count is None else {"contexts": max(LEAST, asked.count)}
    return probe("ing", models[0], corpus_of(work.data, asked.data), progress=progress, **few, **work.options)


def _depth_performance(work: Work, asked: Asked, models: Sequence[Model], progress: bool) -> xr.Dataset:
    name = Path(str(work.data)).stem
    if name not in asked.data:
        raise PromptError(
            f"The scores of published models are not on the hub; give a table of them: --data {name}=FILE.csv with the "
            "columns name, family, layers, d_model, d_ff, score."
        )
    return depth_performance(asked.data[name], **work.options)


_COMPUTE: Final[Mapping[Verb, Callable[[Work, Asked, Sequence[Model], bool], xr.Dataset]]] = {
    "maps": _maps,
    "evaluate": _evaluated,
    "wic": _wic,
    "subjoiner": _subjoiner,
    "ing": _ing,
    "depth_performance": _depth_performance,
}
TAKES: Final[Mapping[Verb, int]] = {"survey": 1, **dict.fromkeys(_COMPUTE, 1), "maps": 2, "depth_performance": 0}
"""How many models a work is of."""

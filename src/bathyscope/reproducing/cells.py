"""The units of a reproduction: one model on one set of prompts, which is one run in a folder of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bathyscope.errors import BathyscopeError, ModelError, StoreError
from bathyscope.model import Model, load
from bathyscope.papers.presets import PRESETS
from bathyscope.papers.reproduction import Survey
from bathyscope.prompts.prompt import Prompt
from bathyscope.prompts.source import Source, label_of
from bathyscope.prompts.spec import SourceSpec
from bathyscope.reproducing.data import localised
from bathyscope.reproducing.models import NamedModel
from bathyscope.store.run import Run, open_run
from bathyscope.surveying import survey as run_survey


@dataclass(frozen=True)
class Cell:
    """One survey of one model.

    Args:
        folder: of the run.
        preset: of the survey.
        prompts: as ``survey`` takes them.
        options: measure → options beyond the preset's.
    """

    model: NamedModel
    survey: Survey
    folder: Path
    preset: str
    prompts: Source
    options: Mapping[str, Any]

    def finished(self) -> Run | None:
        """The run, where it is there and is what is asked for; it is not computed again."""
        try:
            run = open_run(self.folder)
        except StoreError:
            return None
        asked = {"model": self.model.source, "preset": self.preset, "dataset": label_of(self.prompts)}
        return run if all(getattr(run.identity, name) == value for name, value in asked.items()) else None


@dataclass(frozen=True)
class Outcome:
    """A cell's run, or the reason why there is none, with the exit code of its kind."""

    cell: Cell
    run: Run | None
    reason: str = ""
    exit_code: int = 0


def planned(
    models: Iterable[NamedModel],
    surveys: Sequence[Survey],
    preset: str,
    out: Path,
    data: Mapping[str, str],
    count: int | None = None,
) -> list[Cell]:
    """All cells, model after model, so that each model is loaded once.

    Args:
        out: runs go to ``out/PRESET/MODEL/SURVEY``.
        data: data set → local file.
        count: prompts of each set (of each level) in place of the paper's number.
    """
    return [
        Cell(
            model,
            survey,
            out / preset / model.name / survey.name,
            preset,
            _prompts(survey, data, count),
            _options(survey, preset, data, count),
        )
        for model in models
        for survey in surveys
    ]


def measured(
    cells: Sequence[Cell], loading: Mapping[str, Any], progress: bool = True, command: str | None = None
) -> Iterator[Outcome]:
    """Every cell's run, computed where it is not there yet. What cannot be measured is told, and the next one begins.

    A model is loaded when the first of its cells needs it, and let go with the last one.

    Args:
        loading: arguments of ``load``.
        progress: show a progress bar for each cell.
        command: the command line to resume by.
    """
    held: _Held | None = None
    for cell in cells:
        if held is None or held.named != cell.model:
            held = _Held(cell.model, loading)
        run = cell.finished()
        if run is not None:
            yield Outcome(cell, run)
            continue
        try:
            run = run_survey(
                held.model(),
                cell.prompts,
                cell.survey.measures,
                cell.folder,
                preset=cell.preset,
                progress=progress,
                command=command,
                **cell.options,
            )
        except BathyscopeError as error:
            yield Outcome(cell, None, str(error), error.exit_code)
        else:
            yield Outcome(cell, run)


class _Held:
    """A model that is loaded when it is needed, at most once, also where it cannot be."""

    def __init__(self, named: NamedModel, loading: Mapping[str, Any]) -> None:
        self.named, self._loading = named, loading
        self._loaded: Model | ModelError | None = None

    def model(self) -> Model:
        """The model.

        Raises:
            ModelError: it cannot be loaded; every time.
        """
        if self._loaded is None:
            try:
                self._loaded = load(self.named.source, **self._loading)
            except ModelError as error:
                self._loaded = error
        if isinstance(self._loaded, ModelError):
            raise self._loaded
        return self._loaded


def _prompts(survey: Survey, data: Mapping[str, str], count: int | None) -> SourceSpec | list[Prompt]:
    if isinstance(survey.prompts, str):
        return localised(survey.prompts, data, count)
    return [Prompt(text=question + answer, answer=answer) for question, answer in survey.prompts]


def _options(survey: Survey, preset: str, data: Mapping[str, str], count: int | None) -> dict[str, dict[str, Any]]:
    options = {measure: dict(own) for measure, own in survey.options.items()}
    if survey.all_tokens_only:
        prompts = _prompts(survey, data, count)
        number = prompts.count if isinstance(prompts, SourceSpec) else len(prompts)
        for measure in {"skip", "direct"} & {*(survey.measures or PRESETS[preset].measures)}:
            options.setdefault(measure, {})["positions"] = [[]] * (number or 0)
    reference = PRESETS[preset].options.get("erasure", {}).get("reference")
    if reference is not None and "erasure" in (survey.measures or ()):
        options.setdefault("erasure", {})["reference"] = str(localised(reference, data))
    return options

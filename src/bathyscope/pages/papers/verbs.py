"""The units of a reproduction: one computation on a model, on two or on none, with one data set and one folder."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import xarray as xr

from bathyscope.analysis.between.maps import maps
from bathyscope.analysis.options import FEWEST_WORDS
from bathyscope.analysis.performance import depth_performance
from bathyscope.analysis.probes.probe import Kind, probe
from bathyscope.core.output import write_output
from bathyscope.errors import PromptError, StoreError
from bathyscope.model import Model
from bathyscope.pages.papers.data import VALIDATION, localised
from bathyscope.pages.papers.models import NamedModel
from bathyscope.prompts.parsed_source import SourceSpec
from bathyscope.prompts.prompt import Prompt
from bathyscope.prompts.source import label_of
from bathyscope.prompts.spec import parse
from bathyscope.runs.manifest import load_manifest
from bathyscope.runs.opening import open_run
from bathyscope.runs.run import Run
from bathyscope.runs.shards import encode_results, read_results
from bathyscope.surgery.benchmarks import evaluate
from bathyscope.surveying.engines import survey
from bathyscope.surveying.papers.presets import PRESETS
from bathyscope.surveying.papers.reproduction import Verb, Work

Result = Run | xr.Dataset

BENCHMARKS = "benchmarks"
_FILE: Final = "results.nc"
_ASKED: Final = "asked"


@dataclass(frozen=True)
class WorkCell:
    """One work with its models, and the folder of its run or its file of results.

    Args:
        measures: of a survey.
        data: data set → local file.
        count: prompts of each set (of each level) in place of the paper's number.
        lacks: why it cannot be computed, if that is known in advance.
        own_prompts: a source in place of the paper's.
    """

    models: tuple[NamedModel, ...]
    work: Work
    folder: Path
    preset: str
    measures: tuple[str, ...]
    data: Mapping[str, str]
    count: int | None = None
    lacks: str = ""
    own_prompts: str | None = None

    @property
    def name(self) -> str:
        """The models' names, as tables and figures show them."""
        return " → ".join(model.name for model in self.models) or "models of a table"

    @property
    def source(self) -> str:
        """The models' hub names or folders, with blanks between them."""
        return " ".join(model.source for model in self.models)

    @property
    def prompts(self) -> SourceSpec | list[Prompt]:
        """The prompts of a survey or of maps."""
        if self.own_prompts is not None:
            return parse(self.own_prompts)
        if isinstance(self.work.data, str):
            return localised(self.work.data, self.data, self.count)
        return [Prompt(text=question + answer, answer=answer) for question, answer in self.work.data]

    def finished(self) -> Result | None:
        """Return the stored result if it matches this request; None where it has to be computed."""
        try:
            if self.work.verb != "survey":
                stored = read_results(self.folder / _FILE)[self.work.verb]
                # A folder may hold results of other data or another count, which must not pass for these.
                return stored if stored.attrs.get(_ASKED) == self._request_text else None
            run = open_run(self.folder)
        except (StoreError, KeyError):
            return None
        expected = {"model": self.source, "preset": self.preset, "dataset": label_of(self.prompts)}
        same = all(getattr(run.identity, name) == value for name, value in expected.items())
        return run if same and set(self.measures) <= set(run.measures) else None

    def stored_shards(self) -> tuple[int, int]:
        """Return how many shards of an unfinished survey are stored, and of how many; 0 of 0 where none was begun."""
        try:
            manifest = load_manifest(self.folder)
        except StoreError:
            return 0, 0
        return len(manifest.record.shards), len(manifest.identity.plan)

    def compute(self, models: Sequence[Model], progress: bool, command: str | None) -> Result:
        """Compute the result and store it in its folder."""
        if self.work.verb == "survey":
            settings: dict[str, Any] = {
                "preset": self.preset,
                "progress": progress,
                "command": command,
                **self.options(),
            }
            return survey(models[0], self.prompts, self.measures, self.folder, **settings)
        dataset = _COMPUTE[self.work.verb](self, models, progress).assign_attrs({_ASKED: self._request_text})
        write_output(self.folder / _FILE, encode_results({self.work.verb: dataset}))
        return dataset

    def options(self) -> dict[str, dict[str, Any]]:
        """Measure → options of a survey beyond the preset's."""
        options = {
            measure: dict(measure_options)
            for measure, measure_options in self.work.options.items()
            if measure in self.measures
        }
        if self.work.all_tokens_only:
            prompts = self.prompts
            number = prompts.count if isinstance(prompts, SourceSpec) else len(prompts)
            for measure in {"skip", "direct"} & set(self.measures):
                # a single list is for all prompts, however many
                options.setdefault(measure, {})["positions"] = [[]] * (number or 1)
        reference = PRESETS[self.preset].options.get("erasure", {}).get("reference")
        if reference is not None and "erasure" in self.measures:
            options.setdefault("erasure", {}).setdefault("reference", str(localised(reference, self.data)))
        return options

    @property
    def _request_text(self) -> str:
        """The request that a file of results answers, as text."""
        read = f"{self.work.data} {VALIDATION}" if self.work.verb == "wic" else str(self.work.data)
        files = [f"{name}={file}" for name, file in sorted(self.data.items()) if name in read]
        return " ".join([self.source, self.own_prompts or str(self.work.data), f"count={self.count}", *files])


def _compute_maps(cell: WorkCell, models: Sequence[Model], progress: bool) -> xr.Dataset:
    source, target = models
    return maps(source, target, cell.prompts, progress=progress, **cell.work.options).data


def _compute_benchmarks(cell: WorkCell, models: Sequence[Model], progress: bool) -> xr.Dataset:
    tasks = str(cell.work.data).split(",")
    files = {task: file for task, file in cell.data.items() if task in tasks}
    settings: dict[str, Any] = {"limit": cell.count, "out": cell.folder / BENCHMARKS, **cell.work.options}
    return evaluate(models[0], tasks, data=files, progress=progress, **settings).data.assign_attrs(
        n_blocks=models[0].n_blocks
    )


def _compute_wic(cell: WorkCell, models: Sequence[Model], progress: bool) -> xr.Dataset:
    files = [cell.data.get(name) for name in (str(cell.work.data), VALIDATION)]
    return probe("wic", models[0], *files, progress=progress, **cell.work.options).data


def _compute_corpus_probe(
    kind: Kind, number: str, cell: WorkCell, models: Sequence[Model], progress: bool
) -> xr.Dataset:
    """Probe a text, with as many words or contexts as prompts were requested."""
    few = {} if cell.count is None else {number: max(FEWEST_WORDS, cell.count)}
    corpus = str(localised(str(cell.work.data), cell.data).path)
    return probe(kind, models[0], corpus, progress=progress, **few, **cell.work.options).data


def _compute_depth_performance(cell: WorkCell, models: Sequence[Model], progress: bool) -> xr.Dataset:
    name = Path(str(cell.work.data)).stem
    if name not in cell.data:
        raise PromptError(
            f"The hub has no scores of published models. Give a table with --data {name}=FILE.csv; its columns are "
            "name, family, layers, d_model, d_ff, score."
        )
    return depth_performance(cell.data[name], **cell.work.options).data


_COMPUTE: Final[Mapping[Verb, Callable[[WorkCell, Sequence[Model], bool], xr.Dataset]]] = {
    "maps": _compute_maps,
    "evaluate": _compute_benchmarks,
    "wic": _compute_wic,
    "subjoiner": partial(_compute_corpus_probe, "subjoiner", "count"),
    "ing": partial(_compute_corpus_probe, "ing", "contexts"),
    "depth_performance": _compute_depth_performance,
}
TAKES: Final[Mapping[Verb, int]] = {"survey": 1, **dict.fromkeys(_COMPUTE, 1), "maps": 2, "depth_performance": 0}
"""How many models a work takes."""

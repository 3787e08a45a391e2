"""The cells of a reproduction, and their outcomes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bathyscope.errors import BathyscopeError, ModelError, OptionError
from bathyscope.model import Model, load
from bathyscope.pages.papers.data import takes_own_prompts
from bathyscope.pages.papers.models import NamedModel
from bathyscope.pages.papers.verbs import BENCHMARKS, TAKES, Result, WorkCell
from bathyscope.runs.folder import require_own_folder
from bathyscope.surveying.papers.reproduction import Figure, Reproduction


@dataclass(frozen=True)
class Outcome:
    """A cell's result, or the reason for its absence with the exit code of its kind."""

    cell: WorkCell
    result: Result | None
    reason: str = ""
    exit_code: int = 0


def plan_cells(
    models: Sequence[NamedModel],
    paper: Reproduction,
    figures: Sequence[Figure],
    works: Mapping[str, tuple[str, ...]],
    preset: str,
    out: Path,
    data: Mapping[str, str],
    count: int | None = None,
    own_prompts: str | None = None,
) -> list[WorkCell]:
    """Plan all cells, model after model, so that each model is loaded once.

    Results go to ``out/PRESET/MODEL/WORK``.

    Args:
        models: in order; a work of two models takes the first two that it shows.
        works: names of the works behind the figures and tables → measures of their surveys.
        data, count, own_prompts: as in ``WorkCell``.

    Raises:
        StoreError: one of these folders is a link.
    """
    cells = []
    tabled = {name for table in paper.tables.values() for name in table.data}
    for name, measures in works.items():
        work, work_figures = paper.work(name), [figure for figure in figures if name in figure.data]
        work_models = [model for model in models if any(shows_model(paper, figure, model) for figure in work_figures)]
        work_models = work_models or [model for model in models if not work_figures and name in tabled]
        takes = TAKES[work.verb]
        groups = [(model,) for model in work_models] if takes == 1 else [tuple(work_models[:takes])]
        for group in groups:
            lacks = f"it takes {takes} models; give them with --models SOURCE TARGET" if len(group) < takes else ""
            place = out / preset / "-".join(model.name for model in group) / work.name
            require_own_folder(place / BENCHMARKS, "the results of a reproduction are in folders of its own", out)
            taken = own_prompts if takes_own_prompts(work) else None
            cells.append(WorkCell(group, work, place, preset, measures, data, count, lacks, taken))
    # All work of one model is done before the next model is loaded.
    order = {model.name: number for number, model in enumerate(models)}
    return sorted(cells, key=lambda cell: [order[model.name] for model in cell.models])


def shows_model(paper: Reproduction, figure: Figure, model: NamedModel) -> bool:
    """Return whether a figure shows a model: one of its own, or any that the paper does not have.

    A model that nobody can load is shown where a folder stands for it.
    """
    if model.published is None:
        return True
    listed = model.published in (figure.models or paper.models)
    return listed and not (figure.needs and model.source == model.published)


def measured(
    cells: Sequence[WorkCell], loading: Mapping[str, Any], progress: bool = True, command: str | None = None
) -> Iterator[Outcome]:
    """Yield every cell's result, computed unless stored; a failure is reported and the next cell begins.

    A model is loaded (with the arguments ``loading``) when the first of its cells needs it, and released after the
    last. ``command`` is the command line that resumes the reproduction.
    """
    loaded: dict[NamedModel, Model | ModelError] = {}
    for cell in cells:
        # Models that later cells do not need are released before the next one is loaded: two may not fit into memory.
        loaded = {named: model for named, model in loaded.items() if named in cell.models}
        try:
            result = cell.finished()
            if result is None:
                if cell.lacks:
                    raise OptionError(f"{cell.work.name}: {cell.lacks}.")
                models = [_load_once(named, loaded, loading) for named in cell.models]
                result = cell.compute(models, progress, command)
        except BathyscopeError as error:
            yield Outcome(cell, None, str(error), error.exit_code)
        else:
            yield Outcome(cell, result)


def _load_once(named: NamedModel, loaded: dict[NamedModel, Model | ModelError], loading: Mapping[str, Any]) -> Model:
    """Load the model at most once; if it cannot be loaded, raise the same ModelError every time."""
    if named not in loaded:
        try:
            loaded[named] = load(named.source, **loading)
        except ModelError as error:
            loaded[named] = error
    model = loaded[named]
    if isinstance(model, ModelError):
        raise model
    return model

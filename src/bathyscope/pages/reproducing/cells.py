"""Which cells a reproduction has, and what became of each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bathyscope.errors import BathyscopeError, ModelError, OptionError
from bathyscope.model import Model, load
from bathyscope.pages.reproducing.models import NamedModel
from bathyscope.pages.reproducing.verbs import TAKES, Cell, Result
from bathyscope.surveying.papers.reproduction import Figure, Reproduction


@dataclass(frozen=True)
class Outcome:
    """A cell's result, or the reason why there is none, with the exit code of its kind."""

    cell: Cell
    result: Result | None
    reason: str = ""
    exit_code: int = 0


def planned(
    models: Sequence[NamedModel],
    paper: Reproduction,
    figures: Sequence[Figure],
    works: Mapping[str, tuple[str, ...]],
    preset: str,
    out: Path,
    data: Mapping[str, str],
    count: int | None = None,
) -> list[Cell]:
    """All cells, model after model, so that each model is loaded once; results go to ``out/PRESET/MODEL/WORK``.

    Args:
        models: in order; a work of two models takes the first two that it shows.
        works: names of those that figures or tables are made of → measures of their surveys.
        data, count: as in ``Cell``.
    """
    cells = []
    tabled = {name for table in paper.tables.values() for name in table.data}
    for name, measures in works.items():
        work, drawn = paper.work(name), [one for one in figures if name in one.data]
        own = [one for one in models if any(shows(paper, figure, one) for figure in drawn)]
        own = own or [one for one in models if not drawn and name in tabled]
        takes = TAKES[work.verb]
        groups = [(one,) for one in own] if takes == 1 else [tuple(own[:takes])]
        for group in groups:
            lacks = f"it takes {takes} models; give them with --models SOURCE TARGET" if len(group) < takes else ""
            place = out / preset / "-".join(one.name for one in group) / work.name
            cells.append(Cell(group, work, place, preset, measures, data, count, lacks))
    order = {one.name: number for number, one in enumerate(models)}
    return sorted(cells, key=lambda cell: [order[one.name] for one in cell.models])


def shows(paper: Reproduction, figure: Figure, model: NamedModel) -> bool:
    """Whether a figure shows a model: one of its own, or any that the paper does not have. What nobody can load is
    shown where a folder stands for it."""
    if model.published is None:
        return True
    listed = model.published in (figure.models or paper.models)
    return listed and not (figure.needs and model.source == model.published)


def measured(
    cells: Sequence[Cell], loading: Mapping[str, Any], progress: bool = True, command: str | None = None
) -> Iterator[Outcome]:
    """Every cell's result, computed where it is not there yet; what cannot be computed is told, and the next begins.

    A model is loaded (``loading`` are the arguments) when the first of its cells needs it, and let go with the last
    one. ``command`` is the command line to resume by.
    """
    held: dict[NamedModel, Model | ModelError] = {}
    for cell in cells:
        held = {named: one for named, one in held.items() if named in cell.models}
        try:
            result = cell.finished()
            if result is None:
                if cell.lacks:
                    raise OptionError(f"{cell.work.name}: {cell.lacks}.")
                models = [_loaded(named, held, loading) for named in cell.models]
                result = cell.compute(models, progress, command)
        except BathyscopeError as error:
            yield Outcome(cell, None, str(error), error.exit_code)
        else:
            yield Outcome(cell, result)


def _loaded(named: NamedModel, held: dict[NamedModel, Model | ModelError], loading: Mapping[str, Any]) -> Model:
    """The model, loaded at most once, also where it cannot be: a ModelError every time."""
    if named not in held:
        try:
            held[named] = load(named.source, **loading)
        except ModelError as error:
            held[named] = error
    found = held[named]
    if isinstance(found, ModelError):
        raise found
    return found

"""The figures of a paper, drawn from the results of its works: all models of a figure in one picture."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import xarray as xr

from bathyscope.errors import OptionError
from bathyscope.pages.export import write_output
from bathyscope.pages.figures.kind import Drawing, Panel, arrange, headed
from bathyscope.pages.figures.kit.lines import mark, only
from bathyscope.pages.figures.of import depth_performance, evaluation, maps, probes, subjoiner
from bathyscope.pages.figures.registry import FIGURES
from bathyscope.pages.render import render
from bathyscope.pages.reproducing.cells import Outcome, shows
from bathyscope.pages.reproducing.verbs import Result
from bathyscope.pages.side_by_side import together
from bathyscope.runs.run import Run
from bathyscope.surveying.papers.reproduction import Figure, Reproduction

OTHERS: Final[Mapping[str, Callable[[xr.Dataset], Drawing]]] = {
    "maps": maps.drawing,
    "depth_performance": depth_performance.drawing,
    "subjoiner": subjoiner.drawing,
    "wic": probes.wic,
    "ing": probes.ing,
    "evaluation": evaluation.drawing,
}
"""Figures of what is no survey."""


@dataclass(frozen=True)
class Drawn:
    """A file of a figure, with the models and the data that it shows."""

    figure: Figure
    models: tuple[str, ...]
    data: tuple[str, ...]
    path: Path


def chosen_figures(paper: Reproduction, numbers: Sequence[str]) -> tuple[Figure, ...]:
    """The figures of these published numbers, all where none are given; an OptionError for one that is not here."""
    if not numbers:
        return paper.figures
    for number in numbers:
        if not any(figure.includes(number) for figure in paper.figures):
            listed = ", ".join(figure.label for figure in paper.figures)
            raise OptionError(f"{paper.paper} has no figure {number} here; it has {listed}.")
    return tuple(figure for figure in paper.figures if any(map(figure.includes, numbers)))


def measures_of(paper: Reproduction, work: str) -> tuple[str, ...]:
    """The measures that any figure or table takes from a survey, the same whichever of them are asked for."""
    kinds = [one.partition(".")[0] for figure in paper.figures if work in figure.data for one in figure.draws]
    found = [name for kind in kinds if kind in FIGURES for name in (FIGURES[kind].measure, *FIGURES[kind].others)]
    tabled = ["effective_depth" for table in paper.tables.values() if work in table.data]
    return tuple(dict.fromkeys([*found, *tabled]))


def draw(
    paper: Reproduction, figures: Iterable[Figure], outcomes: Sequence[Outcome], folder: Path, formats: Sequence[str]
) -> list[Drawn]:
    """Every figure for which there is anything, as ``folder/10-12b-22.png``."""
    drawn = []
    for figure in figures:
        there = [
            one
            for one in outcomes
            if one.result is not None
            and one.cell.work.name in figure.data
            and all(shows(paper, figure, model) for model in one.cell.models)
        ]
        panels = _panels(paper, figure, there)
        if not panels:
            continue
        made = arrange(f"{paper.paper}, figure {figure.label}: {figure.shows}", panels)
        models = tuple(dict.fromkeys(one.cell.name for one in there))
        data = tuple(dict.fromkeys(one.cell.work.name for one in there))
        for format_ in formats:
            path = folder / f"{re.sub(r'[^a-z0-9.]+', '-', figure.label).strip('-')}.{format_}"
            write_output(path, render(made, format_))
            drawn.append(Drawn(figure, models, data, path))
    return drawn


def _panels(paper: Reproduction, figure: Figure, outcomes: Sequence[Outcome]) -> list[Panel]:
    """For each set of data and each thing that is drawn all models together."""
    panels = []
    for work in figure.data:
        own = [one for one in outcomes if one.cell.work.name == work]
        for asked in figure.draws:
            kind, _, part = asked.partition(".")
            found = [(one, _chosen(_drawing(one.result, kind), part)) for one in own if one.result is not None]
            named = [(one, drawing) for one, drawing in found if drawing.panels]
            marks = _published(paper, asked, [one for one, _ in named])
            made = _together([(one.cell.name, drawing) for one, drawing in named], bool(marks))
            made = [mark(panel, marks, "published effective depth") for panel in made] if marks else made
            panels += [headed(panel, work) for panel in made] if len(figure.data) > 1 else made
    return panels


def _drawing(result: Result, kind: str) -> Drawing:
    if isinstance(result, Run):
        known = FIGURES.get(kind)
        return known.drawing(result) if known is not None and known.drawable(result) else Drawing([], "")
    return OTHERS[kind](result)


def _chosen(drawing: Drawing, part: str) -> Drawing:
    """All panels, those of a name (``prompt`` is prompt_1, prompt_2 …), or the curve of a variable."""
    if not part:
        return drawing
    panels = [one for one in drawing.panels if one.name == part or one.name.startswith(f"{part}_")]
    curves = (only(one, part) for one in drawing.panels)
    return replace(drawing, panels=panels or [one for one in curves if one is not None])


def _together(drawn: Sequence[tuple[str, Drawing]], even_one: bool) -> list[Panel]:
    """What models share in one picture, and everything else under the model's name."""
    if len(drawn) == 1 and not even_one:
        return list(drawn[0][1].panels)
    keys = Counter(shared.key for _, drawing in drawn for panel in drawing.panels for shared in panel.shared)
    least = 1 if even_one else 2
    beside = together([{"": drawing} for _, drawing in drawn], [name for name, _ in drawn], least)
    panels = list(beside[""].panels) if beside else []
    return panels + [
        headed(panel, name)
        for name, drawing in drawn
        for panel in drawing.panels
        if not any(keys[shared.key] >= least for shared in panel.shared)
    ]


def _published(paper: Reproduction, asked: str, outcomes: Iterable[Outcome]) -> dict[str, float]:
    """Model → its published depth as a share of its depth, where a table has one for what is drawn."""
    found: dict[str, float] = {}
    for table in (one for one in paper.tables.values() if asked in one.drawn):
        estimator = table.drawn[asked]
        for one in outcomes:
            (model,) = one.cell.models
            depth = table.published(model.published, estimator, one.cell.work.name)
            blocks = [other.published(model.published, "blocks") for other in paper.tables.values() if not other.data]
            if depth is not None and blocks and blocks[0] is not None:
                # cosine counts blocks, the others what enters a block
                found[model.name] = (depth + (0.5 if estimator == "cosine" else 0.0)) / blocks[0]
    return found

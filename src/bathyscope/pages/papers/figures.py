"""The figures of a paper from the results of its works: all models of a figure in one picture."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bathyscope.core.output import write_output
from bathyscope.errors import OptionError
from bathyscope.pages.comparison.side_by_side import join_drawings
from bathyscope.pages.figures.kind import Drawing, Panel, add_heading, arrange, drop_empty
from bathyscope.pages.figures.kit.lines import select_curve
from bathyscope.pages.figures.kit.lines_together import mark_depths
from bathyscope.pages.figures.registry import FIGURES
from bathyscope.pages.figures.render import render
from bathyscope.pages.figures.results import DRAWINGS
from bathyscope.pages.papers.cells import Outcome, shows_model
from bathyscope.pages.papers.verbs import Result
from bathyscope.runs.run import Run
from bathyscope.surveying.papers.reproduction import Figure, Reproduction


@dataclass(frozen=True)
class Drawn:
    """The file of a figure, with the models and data that it shows."""

    figure: Figure
    models: tuple[str, ...]
    data: tuple[str, ...]
    path: Path


def chosen_figures(paper: Reproduction, numbers: Sequence[str]) -> tuple[Figure, ...]:
    """Return the figures of these published numbers, or all figures; refuse an unknown number."""
    if not numbers:
        return paper.figures
    for number in numbers:
        if not any(figure.includes(number) for figure in paper.figures):
            listed = ", ".join(figure.label for figure in paper.figures)
            raise OptionError(f"{paper.paper} has no figure {number} here; it has {listed}.")
    return tuple(figure for figure in paper.figures if any(map(figure.includes, numbers)))


def measures_of(paper: Reproduction, work: str) -> tuple[str, ...]:
    """Return the measures that any figure or table takes from a survey, whichever of them are requested."""
    kinds = [
        drawing_name.partition(".")[0]
        for figure in paper.figures
        if work in figure.data
        for drawing_name in figure.draws
    ]
    measures = [name for kind in kinds if kind in FIGURES for name in (FIGURES[kind].measure, *FIGURES[kind].others)]
    tabled = ["effective_depth" for table in paper.tables.values() if work in table.data]
    return tuple(dict.fromkeys([*measures, *tabled]))


def draw(
    paper: Reproduction, figures: Iterable[Figure], outcomes: Sequence[Outcome], folder: Path, formats: Sequence[str]
) -> list[Drawn]:
    """Draw every figure that has results, as ``folder/10-12b-22.png``."""
    figure_files = []
    for figure in figures:
        shown_outcomes = [
            outcome
            for outcome in outcomes
            if outcome.result is not None
            and outcome.cell.work.name in figure.data
            and all(shows_model(paper, figure, model) for model in outcome.cell.models)
        ]
        panels = _draw_panels(paper, figure, shown_outcomes)
        if not panels:
            continue
        picture = arrange(f"{paper.paper}, figure {figure.label}: {figure.shows}", panels)
        models = tuple(dict.fromkeys(outcome.cell.name for outcome in shown_outcomes))
        data = tuple(dict.fromkeys(outcome.cell.work.name for outcome in shown_outcomes))
        for format_ in formats:
            # Labels such as "3a, 3b" become names that every file system takes.
            path = folder / f"{re.sub(r'[^a-z0-9.]+', '-', figure.label).strip('-')}.{format_}"
            write_output(path, render(picture, format_))
            figure_files.append(Drawn(figure, models, data, path))
    return figure_files


def _draw_panels(paper: Reproduction, figure: Figure, outcomes: Sequence[Outcome]) -> list[Panel]:
    """Draw all models together, for each data set and each drawing."""
    panels = []
    for work in figure.data:
        work_outcomes = [outcome for outcome in outcomes if outcome.cell.work.name == work]
        for drawing_name in figure.draws:
            kind, _, part = drawing_name.partition(".")
            outcome_drawings = [
                (outcome, _choose_panels(_draw_result(outcome.result, kind), part))
                for outcome in work_outcomes
                if outcome.result is not None
            ]
            named = [(outcome, drawing) for outcome, drawing in outcome_drawings if drawing.panels]
            marks = _read_published_depths(paper, drawing_name, [outcome for outcome, _ in named])
            drawn_panels = _join_models([(outcome.cell.name, drawing) for outcome, drawing in named], bool(marks))
            drawn_panels = (
                [mark_depths(panel, marks, "published effective depth") for panel in drawn_panels]
                if marks
                else drawn_panels
            )
            panels += [add_heading(panel, work) for panel in drawn_panels] if len(figure.data) > 1 else drawn_panels
    return panels


def _draw_result(result: Result, kind: str) -> Drawing:
    if isinstance(result, Run):
        figure_kind = FIGURES.get(kind)
        return (
            figure_kind.drawing(result) if figure_kind is not None and figure_kind.drawable(result) else Drawing([], "")
        )
    return DRAWINGS[kind](result)


def _choose_panels(drawing: Drawing, part: str) -> Drawing:
    """Return all panels, those of a name (``prompt`` is prompt_1, prompt_2 …), or a variable's curve."""
    if not part:
        return drawing
    panels = [panel for panel in drawing.panels if panel.name == part or panel.name.startswith(f"{part}_")]
    curves = (select_curve(panel, part) for panel in drawing.panels)
    return replace(drawing, panels=panels or drop_empty(curves))


def _join_models(named_drawings: Sequence[tuple[str, Drawing]], even_one: bool) -> list[Panel]:
    """Draw what models share in one picture, and everything else under the model's name."""
    if len(named_drawings) == 1 and not even_one:
        return list(named_drawings[0][1].panels)
    keys = Counter(shared.key for _, drawing in named_drawings for panel in drawing.panels for shared in panel.shared)
    least = 1 if even_one else 2
    joint = join_drawings([{"": drawing} for _, drawing in named_drawings], [name for name, _ in named_drawings], least)
    panels = list(joint[""].panels) if joint else []
    return panels + [
        add_heading(panel, name)
        for name, drawing in named_drawings
        for panel in drawing.panels
        if not any(keys[shared.key] >= least for shared in panel.shared)
    ]


def _read_published_depths(paper: Reproduction, drawing_name: str, outcomes: Iterable[Outcome]) -> dict[str, float]:
    """Return the published depth of each model as a share of its depth, where a table has one."""
    depth_shares: dict[str, float] = {}
    for table in (candidate for candidate in paper.tables.values() if drawing_name in candidate.marked):
        estimator = table.marked[drawing_name]
        for outcome in outcomes:
            (model,) = outcome.cell.models
            depth = table.published(model.published, estimator, outcome.cell.work.name)
            blocks = [other.published(model.published, "blocks") for other in paper.tables.values() if not other.data]
            if depth is not None and blocks and blocks[0] is not None:
                # The published cosine is an index of blocks, whose middle is half a block deeper; the others are
                # indices of block inputs.
                depth_shares[model.name] = (depth + (0.5 if estimator == "cosine" else 0.0)) / blocks[0]
    return depth_shares

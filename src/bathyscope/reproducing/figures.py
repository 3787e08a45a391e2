"""The figures of a paper, drawn from the runs of its surveys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bathyscope.errors import OptionError
from bathyscope.papers.reproduction import Figure, Reproduction, Survey
from bathyscope.report.export import write_output
from bathyscope.report.figures.kind import compose
from bathyscope.report.figures.options import FigureOptions
from bathyscope.report.figures.registry import FIGURES
from bathyscope.report.render import render
from bathyscope.reproducing.cells import Cell, Outcome
from bathyscope.store.run import Run


@dataclass(frozen=True)
class Drawn:
    """A file that belongs to a figure."""

    figure: Figure
    cell: Cell
    path: Path


def chosen_figures(reproduction: Reproduction, numbers: Sequence[int]) -> tuple[Figure, ...]:
    """The figures of these published numbers, all where none are given.

    Raises:
        OptionError: a number that the paper does not have here.
    """
    if not numbers:
        return reproduction.figures
    for number in numbers:
        if not any(figure.includes(number) for figure in reproduction.figures):
            listed = ", ".join(figure.label for figure in reproduction.figures)
            raise OptionError(f"{reproduction.paper} has no figure {number} here; it has {listed}.")
    return tuple(figure for figure in reproduction.figures if any(map(figure.includes, numbers)))


def surveys_of(reproduction: Reproduction, figures: Iterable[Figure]) -> tuple[Survey, ...]:
    """The surveys that figures are drawn from, in the paper's order."""
    names = {name for figure in figures for name in figure.surveys}
    return tuple(survey for survey in reproduction.surveys if survey.name in names)


def wanted(figures: Iterable[Figure], cell: Cell) -> bool:
    """Whether any figure shows this model and survey; models that the paper does not have belong to every figure."""
    return any(_shows(figure, cell) for figure in figures)


def draw(figures: Sequence[Figure], outcomes: Iterable[Outcome], folder: Path, formats: Sequence[str]) -> list[Drawn]:
    """Every figure's files, as ``folder/MODEL/SURVEY/skip.png``.

    Raises:
        OptionError: an unknown format.
        StoreError: the folder cannot be written.
    """
    drawn = []
    for outcome in outcomes:
        cell = outcome.cell
        shown = [figure for figure in figures if _shows(figure, cell)]
        if outcome.run is None or not shown:
            continue
        place = folder / cell.model.name / cell.survey.name
        kinds = {kind for figure in shown for kind in figure.draws}
        files = _save(outcome.run, [kind for kind in FIGURES if kind in kinds], place, formats)
        drawn += [
            Drawn(figure, cell, path) for figure in shown for kind in figure.draws for path in files.get(kind, ())
        ]
    return sorted(drawn, key=lambda one: figures.index(one.figure))


def _save(run: Run, kinds: Iterable[str], folder: Path, formats: Sequence[str]) -> dict[str, list[Path]]:
    """Files of the kinds that the run has anything for."""
    saved: dict[str, list[Path]] = {}
    for kind in kinds:
        panels = FIGURES[kind].panels(run, FigureOptions()) if FIGURES[kind].drawable(run) else ()
        if panels:
            figure = compose(run, panels)
            saved[kind] = [folder / f"{kind}.{format_}" for format_ in formats]
            for path, format_ in zip(saved[kind], formats):
                write_output(path, render(figure, format_))
    return saved


def _shows(figure: Figure, cell: Cell) -> bool:
    listed = not figure.models or cell.model.published is None or cell.model.published in figure.models
    return listed and cell.survey.name in figure.surveys

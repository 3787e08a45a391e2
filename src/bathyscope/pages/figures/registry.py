"""All figures in the order of a report: the package's own, those of plug-ins, and a default for other measures.

A measure's figure is drawn by the panels that its declaration lists, unless a module in ``of/`` of its name has a
``FIGURE``. Other packages have entry points in the group ``bathyscope.figures``, whose values are
:class:`~bathyscope.pages.figures.kind.FigureKind`.
"""

from collections.abc import Container
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from typing import Final

from bathyscope.core.plug_ins import declared, taken
from bathyscope.errors import OptionError, warn
from bathyscope.measures.registry import MEASURES
from bathyscope.pages.figures import by_dimensions
from bathyscope.pages.figures.kind import Drawing, FigureKind
from bathyscope.pages.figures.of import curves
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.figures.panels import PANELS
from bathyscope.runs.by_place import check_whole_depth
from bathyscope.runs.run import Run

GROUP: Final = "bathyscope.figures"
NO_FIGURE: Final = ("noise", "tokens")
"""Measures without a figure: captions state the noise, and the page's views show tokens."""


def _own_figures() -> dict[str, FigureKind]:
    """The package's figures in the order of a report; one without a module here is drawn by its panels' dimensions."""
    kinds = dict(curves.FIGURES)
    for name in PANELS:
        module = f"bathyscope.pages.figures.of.{name}"
        if name not in kinds:
            has_module = find_spec(module) is not None
            kinds[name] = (
                import_module(module).FIGURE
                if has_module
                else by_dimensions.figure(name, PANELS[name], MEASURES[name].summary)
            )
    return {name: kinds[name] for name in PANELS}


FIGURES: Final[dict[str, FigureKind]] = _own_figures()


@cache
def plugged_in() -> dict[str, FigureKind]:
    """Return figures of other packages by name; a broken one is left out with a warning that names it."""
    kinds: dict[str, FigureKind] = {}
    for entry in declared(GROUP):
        kind = taken(entry, "The figure", lambda entry: _read_kind(entry, {**FIGURES, **kinds}))
        if kind is not None:
            kinds[kind.name] = kind
    return kinds


def _read_kind(entry: EntryPoint, names: Container[str]) -> FigureKind:
    kind = entry.load()
    if not isinstance(kind, FigureKind):
        raise TypeError(f"expected a FigureKind, not {type(kind).__name__}")
    if kind.name in names:
        raise ValueError(f"another figure has the name {kind.name!r}")
    return kind


def figures_of(run: Run) -> dict[str, FigureKind]:
    """Return the figures for what a run holds. A measure that declares none gets one by its dimensions.

    Raises:
        OptionError: a run with only some of its blocks.
    """
    check_whole_depth(run)
    # The package's own figures come first, so a plug-in cannot change the order of a report.
    kinds = {**FIGURES, **plugged_in()}
    drawable = {name: kind for name, kind in kinds.items() if kind.drawable(run)}
    with_figure = {kind.measure for kind in kinds.values()}
    others = [name for name in run.measures if name not in with_figure and name not in NO_FIGURE]
    return {**drawable, **{name: by_dimensions.figure(name) for name in others}}


def drawings(run: Run, options: FigureOptions | None = None) -> dict[str, Drawing]:
    """Draw everything that a run has, by the figure's name; each figure is computed once.

    A figure that needs variables which were not selected is left out with a warning.

    Raises:
        OptionError: nothing to draw; a run with only some of its blocks.
    """
    drawing_by_name = {}
    for name, kind in figures_of(run).items():
        try:
            drawing = kind.drawing(run, options)
        # A selection of variables may leave too few for a figure; the report has the others.
        except OptionError as error:
            if "variables" not in run.cut:
                raise
            warn(f"A figure is left out. {error}")
            continue
        if drawing.panels:
            drawing_by_name[name] = drawing if run.cycle is None else replace(drawing, note=_in_loops(drawing, run))
    if not drawing_by_name:
        raise OptionError(
            f"Nothing to draw: the run holds {', '.join(run.measures) or 'no measure'}. Survey again with at least one "
            f"of {', '.join(FIGURES)}."
        )
    return drawing_by_name


def _in_loops(drawing: Drawing, run: Run) -> str:
    """Return a figure's caption, with what its blocks are in a looped model."""
    cycle = run.cycle
    assert cycle is not None
    if cycle.period is None:
        return f"{drawing.note} Blocks are steps of a looped model: each run of a block counts."
    first, last = cycle.loop.index(0), cycle.loop.index(0) + cycle.loops * cycle.period - 1
    return f"{drawing.note} Blocks {first} to {last} are {cycle.loops} loops of {cycle.period}."

"""All figures, in the order of a report: the package's own, those of plug-ins, and one by default for other measures.

A new figure is a module in ``of/`` with a ``FIGURE`` and the name of its measure, or an entry point in the group
``bathyscope.figures`` of another package, whose value is a :class:`~bathyscope.pages.figures.kind.FigureKind`.
"""

from collections.abc import Container
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
from bathyscope.runs.by_place import check_whole_depth
from bathyscope.runs.run import Run

GROUP: Final = "bathyscope.figures"
NO_FIGURE: Final = ("noise", "tokens")
"""What captions tell, or the page's views of tokens show, and no figure does."""

_FIRST: Final = "effective_depth"
_BEHIND: Final = {"swap": "drop_and_swap", "neurons": "prediction_fall"}
"""Measure → the figure of several measures that comes behind its own."""


def _own_figures() -> dict[str, FigureKind]:
    """The package's figures in the order of the measures; one without a module here is drawn by its dimensions."""
    kinds = dict(curves.FIGURES)
    in_order = [_FIRST, *(name for name in MEASURES if name != _FIRST)]
    names = [figure for name in in_order for figure in (name, _BEHIND.get(name)) if figure is not None]
    for name in names:
        module = f"bathyscope.pages.figures.of.{name}"
        if name not in kinds and find_spec(module) is not None:
            kinds[name] = import_module(module).FIGURE
    return {name: kinds[name] for name in names if name in kinds}


FIGURES: Final[dict[str, FigureKind]] = _own_figures()


@cache
def plugged_in() -> dict[str, FigureKind]:
    """Figures of other packages, by name; one that cannot be used is left out with a warning that names it."""
    found: dict[str, FigureKind] = {}
    for entry in declared(GROUP):
        kind = taken(entry, "The figure", lambda entry: _read(entry, {**FIGURES, **found}))
        if kind is not None:
            found[kind.name] = kind
    return found


def _read(entry: EntryPoint, known: Container[str]) -> FigureKind:
    kind = entry.load()
    if not isinstance(kind, FigureKind):
        raise TypeError(f"a FigureKind is expected, and {type(kind).__name__} was given")
    if kind.name in known:
        raise ValueError(f"another figure has the name {kind.name!r}")
    return kind


def figures_of(run: Run) -> dict[str, FigureKind]:
    """The figures for what a run holds. A measure without a figure of its own gets one by its dimensions.

    Raises:
        OptionError: a part of a run with some of its blocks.
    """
    check_whole_depth(run)
    known = {**FIGURES, **plugged_in()}
    drawn = {name: kind for name, kind in known.items() if kind.drawable(run)}
    with_figure = {kind.measure for kind in known.values()}
    others = [name for name in run.measures if name not in with_figure and name not in NO_FIGURE]
    return {**drawn, **{name: by_dimensions.figure(name) for name in others}}


def drawings(run: Run, options: FigureOptions | None = None) -> dict[str, Drawing]:
    """Everything that can be drawn from a run, by the figure's name; each figure is computed once.

    A figure that needs variables which were not selected is left out with a warning.

    Raises:
        OptionError: there is nothing; a part of a run with some of its blocks.
    """
    found = {}
    for name, kind in figures_of(run).items():
        try:
            drawing = kind.drawing(run, options)
        except OptionError as error:
            if "variables" not in run.cut:
                raise
            warn(f"A figure is left out. {error}")
            continue
        if drawing.panels:
            found[name] = drawing
    if not found:
        raise OptionError(
            f"There is nothing to draw: the run holds {', '.join(run.measures) or 'no measure'}, and figures "
            f"exist for {', '.join(FIGURES)}. Survey again with at least one of these."
        )
    return found

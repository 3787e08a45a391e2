"""Several runs side by side: the same map for every model in the same colours, or their curves in one picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from bathyscope.report.figures import multiples
from bathyscope.report.figures.heat_map import HeatMap
from bathyscope.report.figures.kind import Panel
from bathyscope.report.figures.options import FigureOptions
from bathyscope.report.figures.registry import FIGURES
from bathyscope.report.figures.token_map import panel_size
from bathyscope.store.names import run_names

if TYPE_CHECKING:
    from bathyscope.store.run import Run

_WIDEST: Final = 10.5
_BLOCK_CELL: Final = (2.6, 2.5)
_TOKEN_FRAME: Final = 0.6


def side_by_side(runs: Sequence[Run], options: FigureOptions | None = None) -> dict[str, list[Panel]]:
    """For every kind of figure with maps its maps that at least two runs have, a small multiple for each run; and the
    pictures in which a kind draws several runs together.

    Token maps are matched by data set and prompt; each run keeps its own tokens.

    Returns:
        Panels by the kind's name; empty for a single run.
    """
    names = run_names(runs)
    found: dict[str, list[Panel]] = {}
    for kind in FIGURES:
        matched = _matched(runs, names, kind, options or FigureOptions())
        found[kind] = [_panel(*shown) for shown in matched.values()]
        found[kind] += _together(runs, names, kind, options or FigureOptions())
    return {kind: panels for kind, panels in found.items() if panels}


def caption(kind: str, options: FigureOptions) -> str:
    """What is compared."""
    together = FIGURES[kind].together
    if together is not None:
        return together.note
    reduction = f" Shown: {options.reduction} over tokens." if kind in ("skip", "direct") else ""
    return (
        f"{FIGURES[kind].heading} of each model, as in the figures of the single runs below.{reduction} Equal colours "
        "are equal values within a row of maps; axes count each model's own blocks."
    )


Matched = tuple[str, str, list[HeatMap]]
"""Name and title of a map, and the map of every run that has it, under the run's name."""


def _matched(runs: Sequence[Run], names: Sequence[str], kind: str, options: FigureOptions) -> Mapping[str, Matched]:
    """By key, those that more than one run has."""
    found: dict[str, Matched] = {}
    maps = FIGURES[kind].maps
    for run, run_name in zip(runs, names):
        if maps is None or not FIGURES[kind].drawable(run):
            continue
        for name, shown in maps(run, options).items():
            matched = found.setdefault(shown.key or shown.title, (name, shown.title, []))
            matched[2].append(replace(shown, title=run_name))
    return {key: matched for key, matched in found.items() if len(matched[2]) > 1}


def _together(runs: Sequence[Run], names: Sequence[str], kind: str, options: FigureOptions) -> Sequence[Panel]:
    there = [(run, name) for run, name in zip(runs, names) if FIGURES[kind].drawable(run)]
    together = FIGURES[kind].together
    if together is None or len(there) < 2:
        return []
    return together.panels([run for run, _ in there], [name for _, name in there], options)


def _panel(name: str, title: str, maps: list[HeatMap]) -> Panel:
    if maps[0].columns.pieces is None:
        return multiples.panel(name, maps, title, cell=_BLOCK_CELL)
    sizes = [panel_size([shown], frame=_TOKEN_FRAME, narrowest=_BLOCK_CELL[0]) for shown in maps]
    cell = (max(width for width, _ in sizes), max(height for _, height in sizes))
    return multiples.panel(name, maps, title, cell=cell, columns=max(1, int(_WIDEST // cell[0])))

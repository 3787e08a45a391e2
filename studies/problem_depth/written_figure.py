"""What models answer that write their steps and models that do not, and how deep single written states are read.

Drawn from what ``studies.problem_depth.written`` gives.
"""

from __future__ import annotations

from functools import partial

import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase

from bathyscope.extend.figures import Panel, arrange, style, whole_numbers
from studies.common.console import capitalised
from studies.problem_depth.readings import READINGS

_COLOURS = (style.BLUE, style.VERMILION, style.GREEN, style.PURPLE, style.INK)
_LINES = ("-", "--", "-.", ":", "-")
_MARKS = ("o", "s", "^", "D", "v")
_READ = ("lens_prediction", "erasure")


def draw(found: xr.Dataset) -> Figure:
    """Right answers by steps, then readings of single written states by the steps of their problem."""
    made = [Panel("accuracy", partial(_accuracy, found=found), _said(found))]
    if "state_depth" in found:
        for name in _READ:
            title = f"{READINGS[name].title} of a written state, by the steps of its problem"
            made.append(Panel(name, partial(_states, found=found, name=name), title))
    return arrange(_caption(found), made)


def _caption(found: xr.Dataset) -> str:
    return (
        f"{found.attrs['asked']} held-out problems of each level, answers written by the model itself; written states "
        f"of {found.attrs['measured']} of them, given the true ones before. Lines: means over seeds; bands: range."
    )


def _said(found: xr.Dataset) -> str:
    last = found["accuracy"].isel(steps=-1).mean("seed")
    ends = "; ".join(f"{kind}: {float(last.sel(kind=kind)):.2f}" for kind in found["kind"].values.tolist())
    return f"Share of held-out problems answered rightly; at the most steps {ends}."


def _accuracy(figure: FigureBase, found: xr.Dataset) -> None:
    ax = figure.subplots()
    for number, kind in enumerate(found["kind"].values.tolist()):
        _line(ax, found["accuracy"].sel(kind=kind), number, kind)
    ax.set_ylim(-0.03, 1.03)
    ax.set_ylabel("held-out problems solved (share)")
    ax.set_title("Written steps against answers at once")
    _finish(figure, ax)


def _states(figure: FigureBase, found: xr.Dataset, name: str) -> None:
    ax = figure.subplots()
    depth = found["state_depth"].sel(reading=name).dropna("kind", how="all")
    for kind in depth["kind"].values.tolist():
        for moved, said in ((1, "changes"), (0, "stays")):
            number = len(ax.lines)
            _line(ax, depth.sel(kind=kind, moved=moved), number, f"{kind.partition(',')[0]}, state {said}")
    ax.set_ylim(bottom=0)
    ax.set_ylabel(f"depth ({READINGS[name].units})")
    ax.set_title(capitalised(READINGS[name].title))
    _finish(figure, ax)


def _line(ax: Axes, values: xr.DataArray, number: int, label: str) -> None:
    colour, line, mark = (own[number % 5] for own in (_COLOURS, _LINES, _MARKS))
    steps = values["steps"].values
    ax.plot(steps, values.mean("seed"), line, color=colour, marker=mark, markersize=3, label=label)
    ax.fill_between(steps, values.min("seed"), values.max("seed"), color=colour, alpha=0.15, linewidth=0)


def _finish(figure: FigureBase, ax: Axes) -> None:
    ax.xaxis.set_major_locator(whole_numbers())
    ax.set_xlabel("steps k of the problem")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=2)

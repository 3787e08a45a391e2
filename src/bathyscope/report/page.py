"""One self-contained HTML page of one or several runs: tables, figures, provenance; nothing is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bathyscope.errors import OptionError, did_you_mean
from bathyscope.report import provenance, side_by_side, table
from bathyscope.report.export import write_output
from bathyscope.report.figures import style
from bathyscope.report.figures.kind import Panel
from bathyscope.report.figures.options import FigureOptions
from bathyscope.report.figures.registry import FIGURES, drawable
from bathyscope.report.svg import inline_svg
from bathyscope.store.names import run_names
from bathyscope.store.run import Run

NO_LONGER: Final = {
    "interactive": "There is no option interactive any more: pages hold pictures that need no script. The values "
    "behind them are given by `bathyscope show RUN --measure MEASURE --format csv`, or by run[measure] in Python."
}
"""What is said to who gives an option that there was."""

# Letters of a panel then have about the size of the page's own notes.
_REM_PER_INCH: Final = 6.9


@dataclass(frozen=True)
class _Picture:
    svg: Markup
    alt: str
    width: str | None


@dataclass(frozen=True)
class _Figure:
    heading: str
    note: str
    panels: list[_Picture]


def report(
    runs: Run | Sequence[Run],
    out: str | Path,
    title: str | None = None,
    *,
    options: FigureOptions | None = None,
    **gone: object,
) -> Path:
    """Write a page and give back its path. The same runs give the same bytes.

    Args:
        runs: one or more; several are also compared by effective depth and map by map.
        out: the HTML file; it is wholly there or absent.
        title: of the page; default: model and data.
        options: weighting and bands of the curves, reduction and scale of the maps, prompts with own maps.

    Raises:
        OptionError: no run; a run with nothing to draw; an option that is not known, or no longer.
        StoreError: the file cannot be written.
    """
    _refuse(gone)
    runs = [runs] if isinstance(runs, Run) else list(runs)
    if not runs:
        raise OptionError("A report needs at least one run; give a list such as [run].")
    options = options or FigureOptions()
    names = run_names(runs)
    sections = [_section(run, f"run-{i + 1}", names[i], options) for i, run in enumerate(runs)]
    page = _template().render(
        title=title or (names[0] if len(runs) == 1 else f"{len(runs)} runs compared"),
        sections=sections,
        legend=table.LEGEND,
        comparison=_comparison(runs, names),
        side_by_side=_side_by_side(runs, options),
        style=Markup((files("bathyscope.report") / "templates" / "page.css").read_text(encoding="utf-8")),
        version=metadata.version("bathyscope"),
    )
    path = Path(out).expanduser()
    write_output(path, page.encode("utf-8"))
    return path


def _refuse(given: Iterable[str]) -> None:
    """Options that there are no more, or never were."""
    for name in given:
        if name in NO_LONGER:
            raise OptionError(NO_LONGER[name])
        known = ("runs", "out", "title", "options")
        raise OptionError(f"A report takes no {name!r}; allowed: {', '.join(known)}.{did_you_mean(name, known)}")


def _template() -> Any:
    environment = Environment(
        loader=PackageLoader("bathyscope.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template("page.html.j2")


def _section(run: Run, anchor: str, name: str, options: FigureOptions) -> dict[str, Any]:
    drawn = drawable(run, options)
    headings, rows, count = provenance.prompts(run)
    return {
        "anchor": anchor,
        "name": name,
        "verdict": run.headline(),
        "caption": run.caption(),
        "noise": _noise_note(run),
        "depth_headings": table.depth_headings(run) if table.MEASURE in run.measures else [],
        "depth_rows": [table.depth_cells(row) for row in _depth_rows(run)],
        "remarks": table.remarks(_depth_rows(run)),
        "figures": [_figure(run, kind, panels, anchor, options) for kind, panels in drawn.items()],
        "configuration": provenance.configuration(run),
        "record": provenance.record(run),
        "prompt_headings": headings,
        "prompt_rows": rows,
        "prompt_count": count,
    }


def _figure(run: Run, name: str, panels: Sequence[Panel], anchor: str, options: FigureOptions) -> _Figure:
    pictures = [_picture(panel, f"{anchor}-{name}-{panel.name}") for panel in panels]
    kind = FIGURES[name]
    return _Figure(kind.heading, kind.note(run, options), pictures)


def _picture(panel: Panel, anchor: str) -> _Picture:
    return _Picture(Markup(inline_svg(panel, anchor)), panel.alt, _page_width(panel.size[0]))


def _page_width(inches: float) -> str | None:
    """The width of what needs a row of its own; None where the page chooses."""
    return f"{inches * _REM_PER_INCH:.4g}rem" if inches > style.PAIRED_UP_TO else None


def _side_by_side(runs: Sequence[Run], options: FigureOptions) -> list[_Figure]:
    """Maps that several runs have in common."""
    return [
        _Figure(
            FIGURES[kind].heading,
            side_by_side.caption(kind, options),
            [_picture(panel, f"side-by-side-{kind}-{panel.name}") for panel in panels],
        )
        for kind, panels in side_by_side.side_by_side(runs, options).items()
    ]


def _noise_note(run: Run) -> str:
    if "noise" in run.measures:
        return (
            "The noise floor is how far an untouched control row in the same batches comes out from the "
            "plain forward pass: effects of that size are rounding."
        )
    return "No noise floor: this run has no measure that intervenes in the model."


def _depth_rows(run: Run) -> list[table.DepthRow]:
    return table.effective_depth_rows(run) if table.MEASURE in run.measures else []


def _comparison(runs: Sequence[Run], names: Sequence[str]) -> dict[str, Any] | None:
    """Effective depth, estimators × runs; None for one run or where no run has it."""
    by_run = [{row["estimator"]: row for row in _depth_rows(run)} for run in runs]
    estimators = list(dict.fromkeys(name for rows in by_run for name in rows))
    if len(runs) < 2 or not estimators:
        return None
    rows = [
        {
            "estimator": table.estimator_name(estimator),
            "cells": [_compared(rows.get(estimator)) for rows in by_run],
        }
        for estimator in estimators
    ]
    return {"names": names, "rows": rows}


def _compared(row: table.DepthRow | None) -> str:
    if row is None or row["depth"] is None:
        return "–"
    depth = table.show_depth(row["estimator"], row["depth"])
    share = "" if row["ratio"] is None else f", {row['ratio']:.2f} of L"
    return f"{depth} ({table.show_interval(row)}){share}"

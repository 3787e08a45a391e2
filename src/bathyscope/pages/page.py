"""One self-contained HTML page of one or several runs: tables, figures, provenance; nothing is loaded."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import xarray as xr
from markupsafe import Markup

from bathyscope.core.paths import given_path
from bathyscope.errors import OptionError
from bathyscope.options import checked
from bathyscope.pages import html, provenance, table
from bathyscope.pages.acts import act_section, heading_of
from bathyscope.pages.arguments import check_options, named, parted, typed
from bathyscope.pages.explorer import assets
from bathyscope.pages.explorer.answer import answer, plan_for
from bathyscope.pages.explorer.content import content
from bathyscope.pages.figures.kind import Drawing
from bathyscope.pages.figures.kit.lines import Number, numbers
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.figures.registry import drawings, figures_of
from bathyscope.pages.side_by_side import differences, together
from bathyscope.runs.prompts import PROMPTS
from bathyscope.runs.run import Run
from bathyscope.surgery.plan import Plan
from bathyscope.surgery.repaired import Repaired

_SUFFIXES: Final = (".html", ".htm")
"""Of a page, which overwrites what has its name: no prompts, no results."""


@checked
def report(
    runs: Run | Plan | Repaired | Sequence[Run | Plan | Repaired],
    out: str | Path,
    title: str | None = None,
    *,
    options: FigureOptions | None = None,
    text: bool = True,
    names: Sequence[str] | None = None,
    prompts: str | Sequence[int] | Sequence[str] | None = None,
    variables: str | Sequence[str] | None = None,
) -> Path:
    """Write a page and give back its path. The same runs give the same bytes.

    Args:
        runs: one or more; several are also compared by effective depth, map by map and curve by curve. What ``prune``
            and ``repair`` give may stand among them or alone: each has a section of its own, above the runs.
        out: the HTML file; it is wholly there or absent.
        title: of the page; default: model and data.
        options: weighting and bands of the curves, reduction and scale of the maps, prompts with own maps, and the
            label of prompts that all intervals resample as one (``cluster``).
        names: of the runs, in place of their models and data.
        prompts: draw some prompts of every run alone, by number (``"0-4,7"``), id or label (``"level=2"``).
        variables: draw the figures of some alone, such as ``"kl,entropy"``; answer, views and tables are the run's.
        text: show the words of prompts and predictions; without them the page shows token ids.

    Raises:
        OptionError: no run; a run with nothing to draw; a part of one with some of its blocks; an argument of another
            type.
        StoreError: the file cannot be written.

    Example:
        >>> run = bathyscope.survey(model, "prompts.jsonl", ["drop"])
        >>> bathyscope.report([run], "page.html", names=["mine"]).name
        'page.html'
    """
    _check(out, options)
    runs, acts = parted(runs)
    if not runs and not acts:
        raise OptionError("A report needs at least one run, plan or repair; give a list such as [run].")
    runs = runs if prompts is None else [run.select(prompts=prompts) for run in runs]
    names = named(runs, names) if runs or names is not None else []
    runs = runs if text else [_without_words(run) for run in runs]
    cluster = None if options is None else options.cluster
    # each figure of each run is computed once, for its section and for what stands side by side
    drawn = [drawings(run if variables is None else run.select(variables=variables), options) for run in runs]
    path = given_path(out, "out")
    plans = [act for act in acts if isinstance(act, Plan)]
    html.write_page(
        "page.html.j2",
        path,
        title=title or _title(names, acts),
        sections=[
            _section(run, f"run-{i + 1}", names[i], drawn[i], text, cluster, plan_for(run, plans))
            for i, run in enumerate(runs)
        ],
        acts=[act_section(act, f"act-{i + 1}") for i, act in enumerate(acts)],
        script=Markup(assets.script()),
        script_policy=Markup(assets.policy()),
        libraries=assets.packed_libraries(),
        library_names=assets.library_names(),
        legend=table.LEGEND,
        comparison=_comparison(runs, names),
        **_differences(runs, names, cluster),
        side_by_side=[html.figure(one, f"s{n}") for n, one in enumerate(together(drawn, names).values())],
    )
    return path


def _check(out: object, options: object) -> None:
    """Arguments are what they should be, before anything is drawn."""
    if not isinstance(out, str | Path):
        raise OptionError(f"A report's out is the path of an HTML file, such as 'page.html'; {typed(out)} was given.")
    if Path(out).suffix.lower() not in _SUFFIXES:
        raise OptionError(
            f"out={str(out)!r} is no name of a page, which is HTML; give one such as 'page.html'. Pictures are files "
            "of their own: bathyscope report RUN --figures FOLDER --formats pdf."
        )
    check_options(options)


def _without_words(run: Run) -> Run:
    """The same run without the words of tokens, in results or beside them."""
    groups = {f"/{name}": run[name].drop_vars("piece", errors="ignore") for name in run}
    kept = {name: own for name, own in run.files.items() if name != PROMPTS}
    return replace(run, tree=xr.DataTree.from_dict(groups), files=kept)


def _section(
    run: Run,
    anchor: str,
    name: str,
    drawn: Mapping[str, Drawing],
    text: bool,
    cluster: str | None,
    plan: Plan | None,
) -> dict[str, Any]:
    headings, rows, count = provenance.prompts(run)
    depths = _depth_rows(run)
    return {
        "anchor": anchor,
        "name": name,
        "answer": answer(run, cluster, plan),
        "content": content(run, name, text=text, cluster=cluster),
        "caption": run.caption(),
        "noise": _noise_note(run),
        "depth_headings": table.depth_headings(run) if depths else [],
        "depth_rows": [table.depth_cells(row) for row in depths],
        "remarks": table.remarks(depths),
        "figures": [
            html.figure(drawing, f"r{anchor.rpartition('-')[2]}-{n}", *_numbers(run, figure, drawing))
            for n, (figure, drawing) in enumerate(drawn.items())
        ],
        "configuration": provenance.configuration(run),
        "record": provenance.record(run),
        "prompt_headings": headings,
        "prompt_rows": rows,
        "prompt_count": count,
    }


def _title(names: Sequence[str], acts: Sequence[Plan | Repaired]) -> str:
    """Return a page's title: its one run, how many, or what was acted on."""
    if len(names) > 1:
        return f"{len(names)} runs compared"
    return names[0] if names else heading_of(acts[0])


def _numbers(run: Run, figure: str, drawing: Drawing) -> tuple[list[str], list[list[str]]]:
    """Means and bands of a figure's curves: headings, and a row for each block or boundary."""
    found = list(numbers(drawing, run[figures_of(run)[figure].measure]))
    curves = list(dict.fromkeys((one["what"], one["units"]) for one in found))
    told = {(one["what"], one["units"], one["place"]): _mean_of(one) for one in found}
    places = sorted({one["place"] for one in found})
    rows = [[str(place), *(told.get((*curve, place), "–") for curve in curves)] for place in places]
    return ["place", *(f"{what} ({units})" for what, units in curves)] if found else [], rows


def _mean_of(found: Number) -> str:
    mean, low, high = found["mean"], found["low"], found["high"]
    if math.isnan(mean):
        return "–"
    return f"{mean:.4g}" if math.isnan(low) else f"{mean:.4g} ({low:.4g} to {high:.4g})"


def _noise_note(run: Run) -> str:
    if "noise" in run.measures:
        what = (
            "The noise floor is how far an untouched control row in the same batches comes out from the plain forward "
            "pass"
        )
        if run.noise_holds:
            return f"{what}: effects of that size are rounding."
        return (
            f"{what}. In {run.identity.dtype} both round alike, but changed rows round elsewhere: effects well above "
            "this floor can still be rounding. A survey in float32 (--dtype float32) of some prompts tells how large."
        )
    if "prompts" in run.cut:
        return "No noise floor: where a run has one, it is of all its prompts together."
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
        [table.estimator_name(estimator), *(_compared(rows.get(estimator)) for rows in by_run)]
        for estimator in estimators
    ]
    return {"names": names, "rows": rows}


def _differences(runs: Sequence[Run], names: Sequence[str], cluster: str | None) -> dict[str, Any]:
    """The picture of them, or the reason why there is none; neither for one run."""
    found = differences(runs, names, cluster) if len(runs) > 1 else ""
    picture = None if isinstance(found, str) else html.figure(found, "differences")
    return {"differences": picture, "not_compared": found if isinstance(found, str) else ""}


def _compared(row: table.DepthRow | None) -> str:
    if row is None or row["depth"] is None:
        return "–"
    depth = table.show_depth(row["estimator"], row["depth"])
    share = "" if row["ratio"] is None else f", {row['ratio']:.2f} of L"
    return f"{depth} ({table.show_interval(row)}){share}"

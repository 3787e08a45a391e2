"""One self-contained HTML page of one or several runs: tables, figures, provenance; it loads no other file."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import xarray as xr
from markupsafe import Markup

from bathyscope.core.calls import takes
from bathyscope.core.cycles import with_address
from bathyscope.core.estimates import Estimate
from bathyscope.core.own_files import require_own_page
from bathyscope.core.paths import given_path, require_writable
from bathyscope.core.result import PageResult
from bathyscope.core.text import capitalised
from bathyscope.errors import OptionError, describe_type, warn
from bathyscope.pages.acts.models import tell_apart
from bathyscope.pages.acts.sections import act_section
from bathyscope.pages.comparison.picture import comparison_html
from bathyscope.pages.comparison.side_by_side import compare_named, draw_forest, join_drawings
from bathyscope.pages.explorer import assets, html
from bathyscope.pages.explorer.content import content
from bathyscope.pages.figures.arguments import check_options, name_runs, split_acts
from bathyscope.pages.figures.kind import Drawing
from bathyscope.pages.figures.kit.lines import numbers
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.figures.registry import drawings, figures_of
from bathyscope.pages.head.answer import plan_for
from bathyscope.pages.head.section import profile_html
from bathyscope.pages.options import PageOptions
from bathyscope.pages.text import provenance
from bathyscope.runs import depth_table as table
from bathyscope.runs.by_place import variables_at_boundaries
from bathyscope.runs.prompts import PROMPTS
from bathyscope.runs.run import Run

_SUFFIXES: Final = (".html", ".htm")
"""Endings of a page. It overwrites any file of its name, so the names of prompts and results are refused."""


@takes(PageOptions)
def report(
    runs: Run | PageResult | Sequence[Run | PageResult],
    out: str | Path,
    title: str | None = None,
    *,
    options: FigureOptions | None = None,
    text: bool = True,
    names: Sequence[str] | None = None,
    prompts: str | Sequence[int] | Sequence[str] | None = None,
    variables: str | Sequence[str] | None = None,
) -> Path:
    """Write a page and return its path. The same runs give the same bytes.

    Args:
        runs: one or more; several are also compared by effective depth, map by map and curve by curve. Results of
            ``prune``, ``repair``, ``diff`` and ``course`` may be among them or alone; each has its own section
            above the runs.
        ...: the options of ``PageOptions``.
        options: weighting and bands of the curves, reduction and scale of the maps, prompts with their own maps, and
            the label of prompts that all intervals resample as one (``cluster``).
        prompts: only these prompts of every run, by number (``"0-4,7"``), id or label (``"level=2"``).
        variables: only figures of these, such as ``"kl,entropy"``; answer, views and tables show the whole run.

    Raises:
        OptionError: no run; a run with nothing to draw, or with only some of its blocks; an argument of the wrong
            type.
        StoreError: the file cannot be written.

    Example:
        >>> run = bathyscope.survey(model, "prompts.jsonl", ["drop"])
        >>> bathyscope.report([run], "page.html", names=["mine"]).name
        'page.html'
    """
    path = check_page(out)
    check_options(options)
    runs, acts = split_acts(runs)
    runs = runs if prompts is None else [run.select(prompts=prompts) for run in runs]
    if not runs:
        _refuse_choices_of_runs(acts, options, prompts, variables)
    names = name_runs(runs, names) if runs or names is not None else []
    runs = runs if text else [_remove_words(run) for run in runs]
    cluster = None if options is None else options.cluster
    # Each figure of each run is computed once, for the run's section and for the comparison side by side.
    run_drawings = [drawings(run if variables is None else run.select(variables=variables), options) for run in runs]
    apart = tell_apart(runs, acts)
    for sentence in apart:
        warn(f"{capitalised(sentence)}: what one says does not hold for the other.")
    plans = [act for act in acts if act.kind == "plan"]
    noise_notes = [_write_noise_note(run) for run in runs]
    html.write_page(
        "page.html.j2",
        path,
        title=title or _choose_title(names, acts, apart=bool(apart)),
        apart=[capitalised(sentence) for sentence in apart],
        sections=[
            _make_section(
                run,
                f"run-{i + 1}",
                names[i],
                run_drawings[i],
                text,
                cluster,
                plan_for(run, plans),
                # A noise floor is explained on the page once, not in every run's section.
                "" if noise_notes[i] in noise_notes[:i] else noise_notes[i],
                named=len(runs) > 1 or bool(apart),
            )
            for i, run in enumerate(runs)
        ],
        acts=[act_section(act, f"act-{i + 1}", text=text) for i, act in enumerate(acts)],
        script=Markup(assets.script()),
        script_policy=Markup(assets.policy()),
        libraries=assets.packed_libraries(),
        library_names=assets.library_names(),
        legend=table.LEGEND,
        comparison=_compare_depths(runs, names),
        **_draw_differences(runs, names, cluster),
        side_by_side=[
            html.figure(drawing, f"s{n}") for n, drawing in enumerate(join_drawings(run_drawings, names).values())
        ],
    )
    return path


def check_page(out: object) -> Path:
    """Return the path of a page, which is refused before anything is computed where it cannot be one.

    Raises:
        OptionError: no path, or not that of an HTML file.
        StoreError: it cannot be written, or is there and is no page of this package.
    """
    if not isinstance(out, str | Path):
        raise OptionError(f"out must be the path of an HTML file, such as 'page.html', not {describe_type(out)}.")
    if Path(out).suffix.lower() not in _SUFFIXES:
        raise OptionError(
            f"out={str(out)!r} is not the name of an HTML page; give one such as 'page.html'. Tables are "
            "printed (--format csv); for pictures of a run use bathyscope report RUN --figures FOLDER --formats pdf."
        )
    path = given_path(out, "out")
    require_writable(path)
    require_own_page(path)
    return path


def _refuse_choices_of_runs(
    acts: Sequence[PageResult], options: FigureOptions | None, prompts: Any, variables: Any
) -> None:
    """Refuse what chooses among a run's figures and prompts where only plans, repairs and the like are shown.

    Raises:
        OptionError: with the first such argument.
    """
    usual = FigureOptions()
    chosen = {"prompts": prompts is not None, "variables": variables is not None}
    chosen |= {name: value != getattr(usual, name) for name, value in vars(options or usual).items()}
    name = next((name for name, is_chosen in chosen.items() if is_chosen), None)
    if name is not None:
        raise OptionError(
            f"{name} (--{name.replace('_', '-')}) is of runs, and none is given: a {acts[0].kind} is shown as it is. "
            f"Leave {name} out, or give a run too."
        )


def _remove_words(run: Run) -> Run:
    """Return the same run without the text of tokens, in results and in files."""
    # Words are in two places: coordinates of the results, and the stored file of prompts.
    groups = {f"/{name}": run[name].drop_vars("piece", errors="ignore") for name in run}
    files = {name: file for name, file in run.files.items() if name != PROMPTS}
    return replace(run, tree=xr.DataTree.from_dict(groups), files=files)


def _make_section(
    run: Run,
    anchor: str,
    name: str,
    run_drawings: Mapping[str, Drawing],
    text: bool,
    cluster: str | None,
    plan: PageResult | None,
    noise: str,
    *,
    named: bool,
) -> dict[str, Any]:
    headings, rows, count = provenance.prompts(run)
    depths = _list_depths(run)
    return {
        "anchor": anchor,
        "name": name,
        "profile": profile_html(run, cluster, plan, level=3 if named else 2, name=name if named else ""),
        "content": content(run, name, text=text, cluster=cluster),
        "caption": run.caption(noise=False),
        "noise": noise,
        "depth_headings": table.depth_headings(run) if depths else [],
        "depth_rows": [table.depth_cells(row) for row in depths],
        "remarks": table.remarks(depths),
        "figures": [
            html.figure(drawing, f"r{anchor.rpartition('-')[2]}-{n}", *_tabulate_curves(run, figure, drawing))
            for n, (figure, drawing) in enumerate(run_drawings.items())
        ],
        "configuration": provenance.configuration(run),
        "record": provenance.record(run),
        "prompt_headings": headings,
        "prompt_rows": rows,
        "prompt_count": count,
    }


def _choose_title(names: Sequence[str], acts: Sequence[PageResult], *, apart: bool) -> str:
    """Return a page's title: its one run, how many, or what was acted on; of several models none of them."""
    if apart:
        return "Results of different models"
    if len(names) > 1:
        return f"{len(names)} runs compared"
    return names[0] if names else acts[0].heading


def _tabulate_curves(run: Run, figure: str, drawing: Drawing) -> tuple[list[str], list[list[str]]]:
    """Return means and bands of a figure's curves: headings, and a row for each block or boundary."""
    points = list(numbers(drawing, run[figures_of(run)[figure].measure]))
    curves = list(dict.fromkeys((point["what"], point["units"]) for point in points))
    cells = {
        (point["what"], point["units"], point["place"]): f"{Estimate(point['mean'], point['low'], point['high']):.4g}"
        for point in points
    }
    places = sorted({point["place"] for point in points})
    data = run[figures_of(run)[figure].measure]
    # an address in the loops is that of a block, and boundaries lie between blocks
    at_boundaries = variables_at_boundaries(data)
    has_addresses = run.cycle is not None and all(
        point["variable"] in data and point["variable"] not in at_boundaries for point in points
    )
    names = {place: with_address(run.cycle if has_addresses else None, place) for place in places}
    rows = [[names[place], *(cells.get((*curve, place), "–") for curve in curves)] for place in places]
    heading = "boundary" if all(point["variable"] in at_boundaries for point in points) else "place"
    return [heading, *(f"{what} ({units})" for what, units in curves)] if points else [], rows


def _write_noise_note(run: Run) -> str:
    if "noise" in run.measures:
        what = (
            "The noise floor is the difference between an unchanged control row in the same batches and the plain "
            "forward pass"
        )
        if run.noise_holds:
            return f"{what}: effects of that size are rounding."
        return (
            f"{what}. In {run.identity.dtype} both round alike, but changed rows round differently: effects well above "
            "this floor can still be rounding. To measure it, survey some prompts in float32 (--dtype float32)."
        )
    if "prompts" in run.cut:
        return "No noise floor: it is known only for all prompts of a run together."
    return "No noise floor: no measure of this run intervenes in the model."


def _list_depths(run: Run) -> list[table.DepthRow]:
    return table.effective_depth_rows(run) if table.MEASURE in run.measures else []


def _compare_depths(runs: Sequence[Run], names: Sequence[str]) -> dict[str, Any] | None:
    """Return effective depth, estimators × runs; None for one run or where no run has it."""
    by_run = [{row["estimator"]: row for row in _list_depths(run)} for run in runs]
    estimators = list(dict.fromkeys(name for rows in by_run for name in rows))
    if len(runs) < 2 or not estimators:
        return None
    rows = [
        [table.estimator_name(estimator), *(_format_depth(rows.get(estimator)) for rows in by_run)]
        for estimator in estimators
    ]
    return {"names": names, "rows": rows}


def _draw_differences(runs: Sequence[Run], names: Sequence[str], cluster: str | None) -> dict[str, Any]:
    """Draw what differs between runs, or give the reason for its absence; neither for one run."""
    if len(runs) < 2:
        return {"compared": None, "differences": None, "not_compared": ""}
    comparison = compare_named(runs, names, cluster)
    if isinstance(comparison, str):
        return {"compared": None, "differences": None, "not_compared": comparison}
    forest = draw_forest(comparison)
    return {
        "compared": comparison_html(comparison),
        "differences": None if isinstance(forest, str) else html.figure(forest, "differences"),
        "not_compared": forest if isinstance(forest, str) else "",
    }


def _format_depth(row: table.DepthRow | None) -> str:
    if row is None or row["depth"] is None:
        return "–"
    share = "" if row["ratio"] is None else f", {row['ratio']:.2f} of L"
    return f"{table.write_depth(row)}{share}"

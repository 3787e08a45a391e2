"""``bathyscope show``: the results of a run on standard output, or its badge or card. Needs no model library."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import Parameter

import bathyscope
from bathyscope.cli.arguments import OptionalText, Partial, check_picture, make_app, open_run, write_picture
from bathyscope.cli.console import (
    Format,
    say,
    terminal_width,
    write,
)
from bathyscope.cli.printing import View, print_result
from bathyscope.cli.summary import headline_lines
from bathyscope.core.common_options import PromptCluster
from bathyscope.core.estimates import Estimate, write_number
from bathyscope.core.result import TableResult, rows_of
from bathyscope.core.tables import TextTable, frame_table
from bathyscope.errors import OptionError
from bathyscope.prompts.parts import resampled

if TYPE_CHECKING:
    import pandas as pd

    from bathyscope.runs.by_place import ByPlace

_BAR: Final = 24
"""Letters of the longest bar where there is room."""
_OTHER_COLUMNS: Final = 34
"""Letters of the columns next to the bars."""
_WIDE: Final = 120
"""With fewer columns of the terminal, the list of variables has fewer of its own."""
_READINGS: Final = """\
half, tokens_90: blocks from which half, and 90 %, of all tokens keep their final prediction.
readable: blocks until the likeliest token is the final one, a mean over tokens.
own: blocks until 90 % of the summed effect on the output of leaving out one.
later: the same of the effect on the output at later tokens only."""
_Document = Literal["badge", "card"]
"""Formats of a run as a whole, which may be written into a file."""
_EXAMPLES = """\
Examples:
  bathyscope show runs/qwen
  bathyscope show runs/books --measure verdict --cluster document
  bathyscope show runs/qwen --measure lens --prompts level=2 --blocks 0-5 --raw --format csv > lens.csv
  bathyscope show runs/qwen --measure effective_depth --format json | jq .
  bathyscope show runs/qwen --format card --out depth.md
  bathyscope show runs/qwen --among --out among.png

A card is Markdown with the depth profile, and the numbers as JSON; a badge is an SVG
of one line, for a README or a model card."""


def show_command(
    run: str,
    /,
    *,
    measure: OptionalText = None,
    cluster: Annotated[PromptCluster, Parameter(show_default=False)] = None,
    format: Annotated[
        Literal["table", "csv", "json", "badge", "card"],
        Parameter(
            help="of the output; missing numbers are empty in CSV and null in JSON; card = Markdown for a model card, "
            "badge = an SVG of one line."
        ),
    ] = "table",
    out: Annotated[Path | None, Parameter(show_default=False)] = None,
    raw: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    prompts: OptionalText = None,
    variables: OptionalText = None,
    blocks: OptionalText = None,
    among: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    partial: Partial = False,
) -> int:
    """Print results.

    Args:
        run: folder that a survey, course, prune, repair or evaluate wrote, or the file of maps or of a lens.
        measure: which measure, or verdict for the readings behind the verdict; without it, everything is listed.
        out: of a badge (.svg) or card (.md, with the picture next to it), the file; not given = standard output. With
            --among, the file of its picture (.png, .svg or .pdf).
        raw: every value of every prompt, in place of means by block with their intervals.
        prompts: some of them, by number (0-4,7), id, or label (level=2); of several, those that any of them names.
        variables: some of them, such as kl,entropy.
        blocks: some of them, and boundaries of the same numbers, such as 0-5.
        among: where the model is among those whose depths papers print, and among those measured for the package.
    """
    from bathyscope.pages.opening import is_single_file
    from bathyscope.runs.folder import is_course
    from bathyscope.surgery.benchmarks.shelf import is_evaluation
    from bathyscope.surgery.plan.opening import is_plan
    from bathyscope.surgery.repairing.repaired import is_repaired

    selection = {"prompts": prompts, "variables": variables, "blocks": blocks}
    if among:
        if measure is not None or cluster is not None or raw or format == "badge" or format == "card":
            raise OptionError("--among is a table of its own, and takes no --measure, --cluster, --raw, badge or card.")
        _show_among(_select(open_run(run, partial), selection), format, out)
        return 0
    if format == "badge" or format == "card":
        if measure is not None or cluster is not None or raw:
            raise OptionError(f"--measure, --cluster and --raw are of tables; leave them out with --format {format}.")
        _write_up(_select(open_run(run, partial), selection), format, out)
        return 0
    if out is not None:
        raise OptionError(
            "--out is the file of a badge or a card (--format); send a table to a file with > FILE. With --among it is "
            "that of the picture."
        )
    if is_plan(run) or is_repaired(run):
        _show_act(run, measure, format, cluster=cluster, raw=raw, partial=partial, **selection)
        return 0
    if is_course(run) or is_evaluation(run) or is_single_file(run):
        _show_whole(run, format, measure=measure, cluster=cluster, raw=raw, partial=partial, **selection)
        return 0
    opened = _select(open_run(run, partial), selection)
    if measure is None and cluster is None and not raw:
        # The list of variables is what the formats for programs hold, and not the run's record.
        contents = TableResult(opened.to_dataframe(), opened.text)
        print_result(contents, format, lambda: _contents_view(opened))
    elif measure == "verdict" and not raw:
        _show_verdict(opened, cluster, format)
    else:
        frame = bathyscope.show(opened, measure, cluster=cluster, raw=raw)
        depths = measure == "effective_depth" and cluster is None and not raw
        # arrays, which the help does not wait for
        from bathyscope.runs.by_place import cost_of_leaving_out, variables_at_boundaries

        def view() -> View:
            if depths:
                return View(opened.tables(), conclusion=())
            if measure == "tokens" and not raw:
                return _token_view(frame, run)
            cost = cost_of_leaving_out(opened, cluster) if measure == "drop" else None
            return _measure_view(frame, cluster, cost, variables_at_boundaries(opened[str(measure)]))

        # A table of one measure is read by eye and by other programs, so nothing is above its headings.
        print_result(TableResult(frame, opened.caption()), format, view)
    return 0


def _select(run: bathyscope.Run, selection: Mapping[str, str | None]) -> bathyscope.Run:
    return run if all(part is None for part in selection.values()) else run.select(**selection)


def _write_up(run: bathyscope.Run, format_: _Document, out: Path | None) -> None:
    """Write a run's badge or card into a file, or to standard output."""
    content = {"badge": bathyscope.badge, "card": bathyscope.card}[format_](run, out)
    if out is None:
        write(content)
    else:
        picture = f" and {out.with_suffix('.svg')}" if format_ == "card" else ""
        say(f"Written: {out}{picture}")


def _show_among(run: bathyscope.Run, format_: Format, out: Path | None) -> None:
    """Print where a run's model is among others, and write the picture where a file is named for it."""
    check_picture(out)
    standing = run.among()
    # before the table, which a pipe may read the first lines of
    write_picture(out, standing)
    print_result(standing, format_)


def _show_act(run: str, measure: str | None, format_: Format, **options: Any) -> None:
    """Print what prune or repair wrote; selections that it does not have are refused."""
    from bathyscope.cli.commands.prune import print_plan
    from bathyscope.cli.commands.repair import print_repair
    from bathyscope.surgery.plan.opening import is_plan

    # Called for its refusals: what prune and repair write has no measures to select.
    bathyscope.show(run, measure, **options)
    if is_plan(run):
        print_plan(bathyscope.open(run), format_)
    else:
        print_repair(bathyscope.open(run), format_)


def _show_whole(run: str, format_: Format, **options: Any) -> None:
    """Print a course, an evaluation, maps or a lens, which have no measures to select."""
    from bathyscope.runs.folder import course_in_words, is_course

    if all(value in (None, False) for value in options.values()):
        print_result(bathyscope.open(run), format_)
    elif is_course(run):
        # what is of single surveys is asked of their folders
        raise OptionError(f"{course_in_words(Path(run))}, or the course without options.")
    else:
        raise OptionError(
            f"{run!r} is an evaluation, maps or a lens, and is shown whole; leave out all but --format, or select from "
            f"the arrays of bathyscope.open({run!r})."
        )


def _show_verdict(run: bathyscope.Run, cluster: str | None, format_: Format) -> None:
    import pandas as pd

    verdict = run.verdict_by(cluster)
    rows = verdict.rows()
    frame = pd.DataFrame(rows, dtype=object)
    view = View(
        [frame_table(frame), _READINGS],
        conclusion=(verdict.text, *verdict.details, *([run.stopped] if run.stopped else [])),
    )
    print_result(TableResult(frame, verdict.text, fields=rows), format_, lambda: view)


def _token_view(frame: pd.DataFrame, run: str) -> View:
    """Return the values of tokens as they are, and which command shows the words of a prompt."""
    picture = f"bathyscope report plot {shlex.quote(run)} tokens --prompt 0 --out words.png"
    values = frame.to_string(index=False, na_rep="–", float_format="{:.4g}".format)
    return View([values, f"The words that each boundary predicts, as a picture: {picture}"], conclusion=())


def _measure_view(
    frame: pd.DataFrame, cluster: str | None, cost: ByPlace | None, at_boundaries: Collection[str]
) -> View:
    """Return a table for every variable, with its means as bars; values of prompts as they are.

    Args:
        cost: of each block, which is before all variables.
        at_boundaries: variables whose places are boundaries.
    """
    if "what" not in frame:
        return View([frame.to_string(index=False, na_rep="–", float_format="{:.4g}".format)], conclusion=())
    blocks: list[TextTable | str] = []
    if cost is not None:
        blocks += [f"{cost.label}, cheapest first ({cost.units})", _bar_table(_frame_cost(cost, frame))]
        blocks += [f"Without an interval: {cost.why_unbounded}."] if cost.unbounded else []
    for (variable, meaning, units), rows in frame.groupby(["variable", "what", "units"], sort=False):
        blocks.append(f"{meaning} ({units})" if units != "1" else str(meaning))
        blocks.append(_bar_table(rows, "Boundary" if variable in at_boundaries else "Place"))
    return View([*blocks, f"Intervals resample {resampled(cluster)}."], conclusion=())


def _frame_cost(cost: ByPlace, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the cost of each block with its interval, the cheapest block first, and its address in ``frame``."""
    import pandas as pd

    ends = {f"ci_{end}": [getattr(interval, end) for interval in cost.intervals] for end in ("low", "high")}
    costs = pd.DataFrame({"place": cost.places, "mean": cost.mean, **ends}).sort_values("mean")
    addresses = [name for name in ("loop", "block_in_loop") if name in frame]
    places = frame.loc[frame["variable"] == "loss", ["place", *addresses]]
    return costs.merge(places, on="place", how="left") if addresses else costs


def _bar_table(rows: pd.DataFrame, heading: str = "Place") -> TextTable:
    # Bars are comparable within a variable, and not between variables of different units.
    largest = float(rows["mean"].abs().max())
    longest = min(_BAR, max(1, terminal_width() - _OTHER_COLUMNS))
    columns = [rows[name].tolist() for name in ("place", "mean", "ci_low", "ci_high")]
    addresses = _addresses(rows)
    cells: list[list[str]] = []
    for place, mean, low, high in zip(*columns, strict=True):
        interval = Estimate(mean, low, high).interval(".4g")
        bar = _draw_bar(mean, largest, longest)
        cells.append([f"{place}{addresses[len(cells)]}", write_number(mean, ".4g"), interval, bar])
    return TextTable([heading, "Mean", "95 % interval", ""], cells)


def _addresses(rows: pd.DataFrame) -> list[str]:
    """Return where the step of each row is in the loops of its model; empty texts where it has no such place."""
    if "loop" not in rows or not rows["loop"].notna().all():
        return [""] * len(rows)
    places = zip(rows["loop"].astype(int), rows["block_in_loop"].astype(int), strict=True)
    return [f" (block {block})" if loop < 0 else f" (loop {loop}, block {block})" for loop, block in places]


def _draw_bar(mean: float, largest: float, longest: int) -> str:
    """Return a bar as long as the mean is against the largest one of the table; of ``-`` below 0."""
    if not largest > 0 or mean != mean:
        return ""
    return ("█" if mean > 0 else "-") * round(longest * abs(mean) / largest)


def _contents_view(run: bathyscope.Run) -> View:
    rows = rows_of(run.to_dataframe())
    if terminal_width() < _WIDE:
        return View([_narrow_contents(rows)], conclusion=headline_lines(run))
    # A measure's name stands once, in front of its first variable.
    names = [rows[0]["measure"], *("" if a["measure"] == b["measure"] else b["measure"] for a, b in pairwise(rows))]
    cells = [[name, *list(row.values())[1:]] for name, row in zip(names, rows, strict=True)]
    return View([TextTable([name.capitalize() for name in rows[0]], cells)], conclusion=headline_lines(run))


def _narrow_contents(rows: Sequence[Mapping[str, Any]]) -> TextTable:
    """Return the variables for a narrow terminal: a measure has a line of its own, and units follow the meaning."""
    cells: list[list[str]] = []
    for before, row in zip([None, *rows], rows):
        if before is None or before["measure"] != row["measure"]:
            cells.append([str(row["measure"]), "", ""])
        units = f" ({row['units']})" if row["units"] not in ("", "1") else ""
        cells.append([f"  {row['variable']}", str(row["dimensions"]), f"{row['meaning']}{units}"])
    return TextTable(["Variable", "Dimensions", "Meaning"], cells)


app = make_app(show_command, _EXAMPLES, usage="Usage: bathyscope show RUN [OPTIONS]")

"""``bathyscope show``: the results of a run on standard output. Needs no model library."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

import bathyscope
from bathyscope.cli.arguments import Given, Partial, Records, as_app
from bathyscope.cli.console import Format, width, write, write_data, write_rows, write_table
from bathyscope.cli.summary import write_effective_depth, write_headline
from bathyscope.prompts.parts import resampled

if TYPE_CHECKING:
    import pandas as pd

_BAR: Final = 24
"""Letters of the longest bar where there is room."""
_BESIDE_BARS: Final = 34
_READINGS: Final = """\
readable: blocks until the likeliest token is the final one, a mean over tokens.
own: blocks until 90 % of the summed effect on the output of leaving out one.
later: the same of the effect on the output at later tokens only."""
_EXAMPLES = """\
Examples:
  bathyscope show runs/qwen
  bathyscope show runs/books --measure verdict --cluster document
  bathyscope show runs/qwen --measure effective_depth
  bathyscope show runs/qwen --measure lens
  bathyscope show runs/qwen --measure lens --prompts level=2 --blocks 0-5 --raw --format csv > lens.csv
  bathyscope show runs/qwen --measure effective_depth --format json | jq ."""


def show_command(
    run: str,
    /,
    *,
    measure: Given = None,
    cluster: Given = None,
    format: Records = "table",
    raw: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    prompts: Given = None,
    variables: Given = None,
    blocks: Given = None,
    partial: Partial = False,
) -> int:
    """Print results.

    Args:
        run: folder that a survey, prune or repair wrote.
        measure: which measure, or verdict for the readings behind the verdict; without it, everything is listed.
        cluster: label of prompts that belong together, such as document; intervals resample them as one.
        raw: every value of every prompt, in place of means by block with their intervals.
        prompts: some of them, by number (0-4,7), id, or label (level=2).
        variables: some of them, such as kl,entropy.
        blocks: some of them, and boundaries of the same numbers, such as 0-5.
    """
    from bathyscope.surgery.plan import is_plan
    from bathyscope.surgery.repaired import is_repaired

    if is_plan(run) or is_repaired(run):
        from bathyscope.cli.commands.prune import show_plan
        from bathyscope.cli.commands.repair import show_repaired

        # refuses what a choice does not have
        some = {"prompts": prompts, "variables": variables, "blocks": blocks}
        bathyscope.show(run, measure, cluster=cluster, raw=raw, partial=partial, **some)
        if is_plan(run):
            show_plan(bathyscope.open_plan(run), format)
        else:
            show_repaired(bathyscope.open_repaired(run), format)
        return 0
    opened = bathyscope.open(run, partial=partial)
    if any(one is not None for one in (prompts, variables, blocks)):
        opened = opened.select(prompts=prompts, variables=variables, blocks=blocks)
    if measure is None and cluster is None and not raw:
        _show_contents(opened, format)
    elif format == "table" and measure == "effective_depth" and cluster is None and not raw:
        write_effective_depth(opened)
    elif measure == "verdict" and not raw:
        verdict = opened.verdict_by(cluster)
        if format == "table":
            for said in (verdict.text, *verdict.details):
                write(said)
        write_rows(verdict.rows(), format, _READINGS)
    else:
        frame = bathyscope.show(opened, measure, cluster=cluster, raw=raw)
        if format == "table" and "what" in frame:
            _show_summary(frame, cluster)
        elif not write_data(frame, format):
            write(frame.to_string(index=False, na_rep="–", float_format="{:.4g}".format))
    return 0


def _show_summary(frame: pd.DataFrame, cluster: str | None) -> None:
    """A table for every variable, its means as bars too."""
    for (_, what, units), own in frame.groupby(["variable", "what", "units"], sort=False):
        write(f"{what} ({units})" if units != "1" else str(what))
        most, longest = float(own["mean"].abs().max()), min(_BAR, max(1, width() - _BESIDE_BARS))
        columns = [own[name].tolist() for name in ("place", "mean", "ci_low", "ci_high")]
        cells = []
        for place, mean, low, high in zip(*columns, strict=True):
            interval = "–" if low != low else f"{low:.4g} to {high:.4g}"
            shown_mean = "–" if mean != mean else f"{mean:.4g}"
            cells.append([str(place), shown_mean, interval, _bar(mean, most, longest)])
        write_table(["Place", "Mean", "95 % interval", ""], cells)
    write(f"Intervals resample {resampled(cluster)}.")


def _bar(mean: float, most: float, longest: int) -> str:
    """As long as the mean is against the largest one of the table; of ``-`` below 0."""
    return "" if not most > 0 or mean != mean else ("█" if mean > 0 else "-") * round(longest * abs(mean) / most)


def _show_contents(run: bathyscope.Run, format_: Format) -> None:
    from bathyscope.pages.contents import contents

    rows = contents(run)
    if not write_data(rows, format_):
        write_headline(run)
        named = [rows[0]["measure"], *("" if a["measure"] == b["measure"] else b["measure"] for a, b in pairwise(rows))]
        cells = [[name, *list(row.values())[1:]] for name, row in zip(named, rows, strict=True)]
        write_table([name.capitalize() for name in rows[0]], cells)


app = as_app(show_command, _EXAMPLES)

"""Repeat: each block of a window runs several times in a row. Source: lad2024."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bathyscope.report.figures.curves import Change, schedule_figure
from bathyscope.report.figures.lines import PLACES
from bathyscope.report.provenance import measure_options

if TYPE_CHECKING:
    from bathyscope.store.run import Run


def _what(run: Run) -> str:
    options = measure_options(run, "repeat")
    window = f"window of {options['length']} blocks" if "length" in options else "window of blocks"
    often = f"{options['times'] + 1} times" if "times" in options else "more than once"
    return f"Each {window} in turn is repeated: every block of it runs {often} in a row."


FIGURE: Final = schedule_figure(
    Change(
        measure="repeat",
        heading="A window of blocks repeated",
        circumstance="with a window repeated",
        axis=PLACES["start"],
        what=_what,
    )
)

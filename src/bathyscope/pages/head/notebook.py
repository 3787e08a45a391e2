"""A run in a notebook: its profile without scripts, and under it what the run holds."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from bathyscope.core.tables import html_table
from bathyscope.core.text import legible
from bathyscope.pages.head.drawing import profile_style
from bathyscope.pages.head.section import profile_html

if TYPE_CHECKING:
    import xarray as xr

    from bathyscope.runs.run import Run

# A notebook has a theme of its own, which its colour of text tells.
_THEME: Final = (
    "--ink:currentColor;--muted:color-mix(in srgb,currentColor 68%,transparent);"
    "--grid:color-mix(in srgb,currentColor 20%,transparent);--paper:transparent;"
    "--cost0:color-mix(in srgb,currentColor 16%,transparent);--cost0-letter:currentColor"
)


def notebook_html(run: Run, place: str) -> str:
    """Return the HTML of a run.

    Args:
        place: where the run lies.
    """
    # A part of a run with some of its blocks has no profile, which is of the whole depth.
    head = "" if "blocks" in run.cut else f"<style>{profile_style()}</style>{profile_html(run)}"
    table = html_table(["measure", "variables"], [(name, _list_variables(run[name])) for name in run])
    return (
        f'<div style="{_THEME}">{head}<p>{escape(legible(run.caption()))}<br>'
        f"<small>{escape(legible(place))}</small></p>"
        f"<details><summary>What it holds</summary>{table}</details></div>"
    )


def _list_variables(dataset: xr.Dataset) -> str:
    return ", ".join(f"{name} ({', '.join(map(str, v.dims))})" for name, v in dataset.data_vars.items())

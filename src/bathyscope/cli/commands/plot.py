"""``bathyscope report plot``: one panel of runs as a file. Needs no model library."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

import bathyscope
from bathyscope.cli.arguments import Partial, make_app, open_run, take_options
from bathyscope.cli.console import write
from bathyscope.cli.flags import join_options
from bathyscope.core.commands import name_command
from bathyscope.core.own_files import require_own_picture
from bathyscope.core.paths import require_writable
from bathyscope.core.progress import announce_if_long
from bathyscope.errors import OptionError
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.options import PICTURE_FORMATS, PlotOptions

_EXAMPLES = """\
Examples:
  bathyscope report plot runs/qwen lens.kl --out kl.pdf --width 3.3
  bathyscope report plot runs/qwen skip --blocks 4-19 --reduction max --out skip.svg
  bathyscope report plot runs/qwen tokens --prompt 0 --tokens 0-11 --out words.png
  bathyscope report plot runs/qwen runs/llama lens.entropy --labels Qwen,Llama --out h.pdf
  bathyscope show names panels"""
_LOOKS = join_options(FigureOptions, leave_out=("reduction", "prompts_shown", "heading"))


def plot_command(
    *runs_and_panel: str,
    out: Annotated[Path | None, Parameter(show_default=False)] = None,
    partial: Partial = False,
    **options: Any,
) -> int:
    """Draw one panel of a run, or of several runs together, as a file for a paper.

    Args:
        runs_and_panel: folders that surveys wrote, and behind them the panel, such as lens.kl or tokens.
        out: the file; its ending says the format: .png, .svg, .pdf or .pgf (which needs TeX).
    """
    from bathyscope.core.output import write_output
    from bathyscope.pages.figures.render import render

    *runs, panel = runs_and_panel or ("",)
    if not runs:
        raise OptionError(
            f"Give a run and a panel: {name_command('plot')} runs/qwen lens.kl --out kl.pdf. "
            f"{name_command('list')} panels lists all."
        )
    if os.path.isdir(panel) and not os.path.isdir(runs[0]):
        raise OptionError(f"The panel stands behind the runs: {name_command('plot')} {panel} {runs[0]} --out FILE.")
    if out is None:
        raise OptionError(f"Nothing to write: give --out FILE, which ends in {_list_endings()}.")
    format_ = out.suffix.removeprefix(".").lower()
    if format_ not in PICTURE_FORMATS:
        raise OptionError(f"--out {out.name!r} has no ending that says a format. Allowed: {_list_endings()}.")
    require_writable(out)
    require_own_picture(out)
    opened = [open_run(run, partial) for run in runs]
    looks = take_options(_LOOKS, options)
    chosen = take_options(PlotOptions, options)
    with announce_if_long(f"Drawing {panel}."):
        figure = bathyscope.plot(opened, panel, options=FigureOptions(**looks), **_read_labels(chosen))
        write_output(out, render(figure, format_, own_style=True))
    write(str(out))
    return 0


def _list_endings() -> str:
    return ", ".join(f".{format_}" for format_ in PICTURE_FORMATS)


def _read_labels(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the choices; labels such as x=layer are pairs, others names in their order."""
    labels = chosen.get("labels")
    if labels is None:
        return dict(chosen)
    pairs = [label.partition("=") for label in labels]
    if all(separator for _, separator, _ in pairs):
        return {**chosen, "labels": {old: new for old, _, new in pairs}}
    return {**chosen, "labels": list(labels)}


app = make_app(
    plot_command,
    _EXAMPLES,
    join_options(PlotOptions, _LOOKS),
    usage=f"Usage: {name_command('plot')} RUNS... PANEL --out FILE [OPTIONS]",
)

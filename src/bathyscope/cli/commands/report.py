"""``bathyscope report``: the page and the figures of runs. Needs no model library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

import bathyscope
from bathyscope.cli.arguments import OptionalText, Partial, make_app, open_run, take_options
from bathyscope.cli.console import say, write
from bathyscope.cli.flags import join_options
from bathyscope.core.paths import require_writable
from bathyscope.core.progress import announce_if_long
from bathyscope.core.text import counted
from bathyscope.errors import OptionError
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.options import FileOptions, PageOptions
from bathyscope.runs.folder import require_own_folder

_SIDE_BY_SIDE = "side-by-side"
_EXAMPLES = """\
Examples:
  bathyscope report runs/qwen --out qwen.html
  bathyscope report runs/qwen runs/llama --out compared.html
  bathyscope report runs/qwen runs/qwen-pruned --out decided.html
  bathyscope report runs/course --out course.html
  bathyscope report runs/qwen-pruned repaired --out decided.html
  bathyscope report runs/qwen --figures pictures --formats svg,pdf"""


@dataclass(frozen=True)
class _Request:
    """What a report is made of: options of figures, of their files, and of the page."""

    figures: Path | None
    panels: bool
    variables: str | None
    figure_options: FigureOptions
    file_options: Mapping[str, Any]
    page_options: Mapping[str, Any]


def report_command(
    *runs: str,
    figures: Annotated[Path | None, Parameter(show_default=False)] = None,
    panels: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    prompts: OptionalText = None,
    variables: OptionalText = None,
    partial: Partial = False,
    **options: Any,
) -> int:
    """Draw runs.

    Args:
        runs: folders that surveys wrote; those that prune, repair or course wrote have a section each, and may stand
            alone.
        figures: folder for every figure as a file; several runs get a folder each inside, and one in which they
            stand side by side.
        prompts: some of them alone, by number (0-4,7), id, or label (level=2); of several, those that any names.
        variables: of the page's figures, those of some alone, such as kl,entropy.
        panels: with --figures, every panel as a file of a journal's width, with captions as text and numbers as csv.
    """
    # Options of figures, files and the page come as flags of one command and belong to three calls.
    request = _Request(
        figures,
        panels,
        variables,
        FigureOptions(**take_options(FigureOptions, options)),
        take_options(FileOptions, options),
        take_options(PageOptions, options),
    )
    if not runs:
        raise OptionError("No run given; say which: bathyscope report runs/qwen --out qwen.html")
    _refuse_flags_without_files(request)
    if "out" in request.page_options:
        from bathyscope.pages.page import check_page

        check_page(request.page_options["out"])
    if figures is not None:
        require_writable(figures, holds="figures", option="folder=..., --figures ...")
    opened, acts = _open_folders(runs, partial)
    if prompts is not None:
        opened = [run.select(prompts=prompts) for run in opened]
    if figures is not None:
        _write_figures(opened, figures, request)
    if "out" in request.page_options:
        from bathyscope.pages.page import report

        page_options = dict(request.page_options)
        path = page_options.pop("out")
        with announce_if_long(f"Drawing the page of {counted(len(opened) + len(acts), 'result')}."):
            page = report(
                [*opened, *acts],
                path,
                options=request.figure_options,
                # of runs, which are cut already, and refused where there are none
                prompts=None if opened else prompts,
                variables=variables,
                **page_options,
            )
        write(str(page))
    else:
        say("No page written; --out PAGE.html writes one.")
    return 0


def _refuse_flags_without_files(request: _Request) -> None:
    """Refuse a report that writes nothing, and flags for files that it does not write."""
    has_page = "out" in request.page_options
    if not has_page and request.figures is None:
        raise OptionError("Nothing to write: give --out PAGE.html, --figures FOLDER, or both.")
    if request.figures is None and (request.panels or request.file_options):
        raise OptionError("--panels and --formats are of the files that --figures FOLDER writes; give --figures too.")
    is_typed = {
        "--title": "title" in request.page_options,
        "--no-text": request.page_options.get("text") is False,
        "--variables": request.variables is not None,
    }
    flag = next((name for name, typed in is_typed.items() if typed), None)
    if not has_page and flag is not None:
        raise OptionError(
            f"{flag} is for the page alone, which --out PAGE.html writes; give --out too, or leave it out."
        )


def _open_folders(folders: tuple[str, ...], partial: bool) -> tuple[list[bathyscope.Run], list[Any]]:
    """Return the runs, and what prune, repair or a course wrote."""
    from bathyscope.runs.folder import is_course
    from bathyscope.surgery.plan.opening import is_plan
    from bathyscope.surgery.repairing.repaired import is_repaired

    acts: list[Any] = []
    runs: list[bathyscope.Run] = []
    for folder in folders:
        if is_plan(folder) or is_repaired(folder) or is_course(folder):
            acts.append(bathyscope.open(folder))
        else:
            runs.append(open_run(folder, partial))
    return runs, acts


def _write_figures(runs: list[bathyscope.Run], folder: Path, request: _Request) -> None:
    """Write every figure as a file, and print its path."""
    from bathyscope.pages.files.export import save_figures, save_side_by_side
    from bathyscope.pages.files.panel_files import save_panels

    if not runs:
        raise OptionError(
            "--figures writes the figures of runs, and only what prune or repair wrote was given; write its page with "
            "--out PAGE.html, or give a run."
        )
    # Panels are single columns of a journal; figures hold all panels of a measure.
    save = save_panels if request.panels else save_figures
    paths = [
        path
        for run, run_folder in zip(runs, _folders_of(runs, folder))
        for path in save(run, run_folder, options=request.figure_options, **request.file_options)
    ]
    if len(runs) > 1:
        names = request.page_options.get("names")
        paths += save_side_by_side(
            runs,
            folder / _SIDE_BY_SIDE,
            options=request.figure_options,
            names=names,
            **request.file_options,
        )
    for path in paths:
        write(str(path))


def _folders_of(runs: list[bathyscope.Run], folder: Path) -> list[Path]:
    if len(runs) == 1:
        return [folder]
    names = [run.path.name if run.path else "run" for run in runs]
    folders = [folder / f"{number}-{name}" for number, name in enumerate(names, start=1)]
    for path in (*folders, folder / _SIDE_BY_SIDE):
        require_own_folder(path, "the figures of each run are in a folder of their own")
    return folders


app = make_app(
    report_command,
    _EXAMPLES,
    join_options(PageOptions, FileOptions, FigureOptions),
    usage="Usage: bathyscope report RUNS... [OPTIONS]",
)

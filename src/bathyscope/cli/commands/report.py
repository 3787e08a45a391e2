"""``bathyscope report``: the page and the figures of runs. Needs no model library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

import bathyscope
from bathyscope.cli.arguments import Given, Partial, as_app, taken
from bathyscope.cli.console import say, write
from bathyscope.cli.flags import flags, options_of
from bathyscope.errors import OptionError
from bathyscope.pages.figures.options import FigureOptions

_PAGE = options_of("bathyscope:report", leave_out=("runs", "options", "prompts", "variables"))
_FILES = options_of("bathyscope.pages.export:save_figures", leave_out=("run", "folder", "options"))
_EXAMPLES = """\
Examples:
  bathyscope report runs/qwen --out qwen.html
  bathyscope report runs/qwen runs/llama --out compared.html
  bathyscope report runs/qwen runs/qwen-pruned --out decided.html
  bathyscope report runs/qwen-pruned repaired --out decided.html
  bathyscope report runs/qwen --figures pictures --formats svg,pdf"""


def report_command(
    *runs: str,
    figures: Annotated[Path | None, Parameter(show_default=False)] = None,
    panels: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    prompts: Given = None,
    variables: Given = None,
    partial: Partial = False,
    **given: Any,
) -> int:
    """Draw runs.

    Args:
        runs: folders that surveys wrote; those that prune or repair wrote have a section each, and may stand alone.
        figures: folder for every figure as a file; several runs get a folder each inside, and one in which they
            stand side by side.
        prompts: some of them alone, by number (0-4,7), id, or label (level=2).
        variables: of the page's figures, those of some alone, such as kl,entropy.
        panels: with --figures, every panel as a file of a journal's width, with captions as text and numbers as csv.
    """
    from bathyscope.pages.export import save_figures, save_side_by_side
    from bathyscope.pages.page import report
    from bathyscope.pages.plotting import save_panels
    from bathyscope.surgery.plan import is_plan
    from bathyscope.surgery.repaired import is_repaired

    options = FigureOptions(**taken(FigureOptions, given))
    files, page = taken(_FILES, given), taken(_PAGE, given)
    if not runs:
        raise OptionError("No run given; say which: bathyscope report runs/qwen --out qwen.html")
    if "out" not in page and figures is None:
        raise OptionError("Nothing to write: give --out PAGE.html, --figures FOLDER, or both.")
    if figures is None and (panels or files):
        raise OptionError("--panels and --formats are of the files that --figures FOLDER writes; give --figures too.")
    of_the_page = {
        "--title": "title" in page,
        "--no-text": page.get("text") is False,
        "--variables": variables is not None,
    }
    flag = next((name for name, was_given in of_the_page.items() if was_given), None)
    if "out" not in page and flag is not None:
        raise OptionError(
            f"{flag} is for the page alone, which --out PAGE.html writes; give --out too, or leave it out."
        )
    acts: list[Any] = [
        bathyscope.open_plan(run) if is_plan(run) else bathyscope.open_repaired(run)
        for run in runs
        if is_plan(run) or is_repaired(run)
    ]
    opened = [bathyscope.open(run, partial=partial) for run in runs if not is_plan(run) and not is_repaired(run)]
    if prompts is not None:
        opened = [run.select(prompts=prompts) for run in opened]
    if figures is not None and not opened:
        raise OptionError(
            "--figures writes the figures of runs, and only what prune or repair wrote was given; write its page with "
            "--out PAGE.html, or give a run."
        )
    if figures is not None:
        for run, folder in zip(opened, _folders(opened, figures)):
            for path in (save_panels if panels else save_figures)(run, folder, options=options, **files):
                write(str(path))
        if len(opened) > 1:
            beside = figures / "side-by-side"
            for path in save_side_by_side(opened, beside, options=options, names=page.get("names"), **files):
                write(str(path))
    if "out" in page:
        write(str(report([*opened, *acts], page.pop("out"), options=options, variables=variables, **page)))
    else:
        say("No page written; --out PAGE.html writes one.")
    return 0


def _folders(runs: list[bathyscope.Run], folder: Path) -> list[Path]:
    if len(runs) == 1:
        return [folder]
    names = [run.path.name if run.path else "run" for run in runs]
    return [folder / f"{number}-{name}" for number, name in enumerate(names, start=1)]


_DRAWN = [*flags(_FILES, texts={"formats": "of the files that --figures writes."}), *flags(FigureOptions)]
app = as_app(
    report_command, _EXAMPLES, beside=[*flags(_PAGE), *_DRAWN], usage="Usage: bathyscope report RUNS... [OPTIONS]"
)

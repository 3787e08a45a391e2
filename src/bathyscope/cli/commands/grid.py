"""``bathyscope survey grid``: many surveys from one file, and a table of what became of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

import bathyscope
from bathyscope.cli.arguments import RECIPE_CODE, Quiet, ResultFormat, make_app
from bathyscope.cli.console import quiet_libraries, say
from bathyscope.cli.printing import View, print_result
from bathyscope.core.common_options import FOLDER_OF_RUNS
from bathyscope.core.interrupts import INTERRUPTED
from bathyscope.core.tables import TextTable
from bathyscope.errors import BathyscopeError

if TYPE_CHECKING:
    from bathyscope.surveying.grids import Grid

_EXAMPLES = """\
Examples:
  bathyscope survey grid grid.yaml --out runs/grid
  bathyscope survey grid grid.yaml --out runs/grid --quiet

A grid is every model on every prompt set with every variant of the options:
  models: [gpt2, {model: Qwen/Qwen2.5-0.5B, dtype: float32}]
  prompts: [gsm8k:10, {prompts: stories.txt:20, name: stories}]
  options: [{name: usual}, {name: early, skip: {protect_first: 0}}]
  measures: [lens, skip]
Each is a run in a folder of its own; the same command resumes what is left."""
_UNEXPECTED = 1


def grid_command(
    recipe: Path,
    /,
    *,
    out: Annotated[Path, FOLDER_OF_RUNS],
    allow_code: Annotated[bool, Parameter(negative=()), RECIPE_CODE] = False,
    format: ResultFormat = "table",
    quiet: Quiet = False,
) -> int:
    """Survey every model on every prompt set with every variant of the options.

    Args:
        recipe: YAML file with lists of models, prompts and options; all other keys hold for every survey.
    """
    # Kept outside the call, so that an interrupted grid can still print what is done.
    latest: list[Grid] = []

    def report_progress(grid: Grid) -> None:
        latest[:] = [grid]
        started = [(n, cell) for n, cell in enumerate(grid.cells, 1) if cell.state != "waiting"]
        number, cell = started[-1]
        reason = f": {cell.said}" if cell.error else ""
        say(f"[{number}/{len(grid.cells)}] {cell.name}: {cell.state}{reason}", quiet)

    try:
        with quiet_libraries(downloads=not quiet):
            grid = bathyscope.grid(recipe, out, progress=not quiet, each=report_progress, allow_code=allow_code)
    except KeyboardInterrupt:
        if latest:
            print_result(latest[0], format, lambda: _view(latest[0]))
        say("Interrupted: finished surveys are saved, and the same command resumes.")
        return INTERRUPTED
    print_result(grid, format, lambda: _view(grid))
    if not grid.failed:
        return 0
    say(f"{len(grid.failed)} of {len(grid.cells)} surveys failed; the same command tries them again.")
    # One exit code for many failures: the first one's, as make has it.
    first = grid.failed[0].error
    return first.exit_code if isinstance(first, BathyscopeError) else _UNEXPECTED


def _view(grid: Grid) -> View:
    rows = [[cell.name, cell.state, cell.said] for cell in grid.cells]
    return View([TextTable(("Survey", "State", "What it says"), rows)])


app = make_app(grid_command, _EXAMPLES)

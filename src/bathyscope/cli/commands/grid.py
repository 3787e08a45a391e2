"""``bathyscope grid``: many surveys from one file, and a table of what became of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import bathyscope
from bathyscope.cli.arguments import Quiet, Records, as_app
from bathyscope.cli.console import quiet_libraries, say, write_data, write_table
from bathyscope.core.interrupts import INTERRUPTED
from bathyscope.errors import BathyscopeError

if TYPE_CHECKING:
    from bathyscope.surveying.grids import Grid

_EXAMPLES = """\
Examples:
  bathyscope grid grid.yaml --out runs/grid
  bathyscope grid grid.yaml --out runs/grid --quiet

A grid is every model on every prompt set with every variant of the options:
  models: [gpt2, {model: Qwen/Qwen2.5-0.5B, dtype: float32}]
  prompts: [gsm8k:10, {prompts: stories.txt:20, name: stories}]
  options: [{name: usual}, {name: early, skip: {protect_first: 0}}]
  measures: [lens, skip]
Each is a run in a folder of its own; the same command resumes what is left."""
_UNEXPECTED = 1


def grid_command(recipe: Path, /, *, out: Path, format: Records = "table", quiet: Quiet = False) -> int:
    """Survey every model on every prompt set with every variant of the options.

    Args:
        recipe: YAML file with lists of models, prompts and options; what stands beside them holds for all.
        out: folder of the runs, one folder each.
    """
    seen: list[Grid] = []

    def tell(found: Grid) -> None:
        seen[:] = [found]
        number, cell = next((n, one) for n, one in reversed([*enumerate(found.cells, 1)]) if one.state != "waiting")
        say(f"[{number}/{len(found.cells)}] {cell.name}: {cell.state}{f': {cell.said}' if cell.error else ''}", quiet)

    try:
        with quiet_libraries(downloads=not quiet):
            found = bathyscope.grid(recipe, out, progress=not quiet, each=tell)
    except KeyboardInterrupt:
        if seen:
            _show(seen[0], format)
        say("Interrupted: what is finished is kept, and the same command goes on.")
        return INTERRUPTED
    _show(found, format)
    if not found.failed:
        return 0
    say(f"{len(found.failed)} of {len(found.cells)} surveys failed; the same command tries them again.")
    first = found.failed[0].error
    return first.exit_code if isinstance(first, BathyscopeError) else _UNEXPECTED


def _show(found: Grid, format: Records) -> None:
    if write_data(found.table, format):
        return
    rows = [[cell.name, cell.state, cell.said] for cell in found.cells]
    done = sum(cell.state == "done" for cell in found.cells)
    write_table(("Survey", "State", "What it says"), rows, f"{done} of {len(rows)} surveys done")


app = as_app(grid_command, _EXAMPLES)

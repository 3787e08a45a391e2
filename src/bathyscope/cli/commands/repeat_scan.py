"""``bathyscope prune repeat-scan``: does it help to run some window of blocks twice?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import bathyscope
from bathyscope.cli.arguments import LOADING, ModelName, Quiet, ResultFormat, make_app, run_on_models
from bathyscope.cli.commands.survey import Sources, read_source
from bathyscope.cli.printing import TextTable, View, print_result
from bathyscope.surgery.options import RepeatScanOptions

if TYPE_CHECKING:
    from bathyscope.surgery.choosing.repeats import RepeatScan

_MOST_ROWS = 10
_EXAMPLES = """\
Examples:
  bathyscope prune repeat-scan ./model --prompts gsm8k:40
  bathyscope prune repeat-scan ./model --prompts problems.jsonl --over answer --longest 4
  bathyscope prune repeat-scan ./model --prompts "other.txt:80?window=256" --format csv > windows.csv"""


def repeat_scan_command(
    model: ModelName,
    /,
    *,
    prompts: Sources,
    format: ResultFormat = "table",
    quiet: Quiet = False,
    **options: Any,
) -> int:
    """Run every window of blocks twice in a row."""
    scan = run_on_models(
        bathyscope.repeat_scan,
        [model],
        read_source(prompts),
        options=options,
        quiet=quiet,
    )
    print_result(scan, format, lambda: View([_best_windows(scan)]))
    return 0


def _best_windows(scan: RepeatScan) -> TextTable:
    judged_by = "gain" if "gain" in scan.data else "cost"
    table = scan.to_dataframe().sort_values(judged_by, ascending=judged_by == "cost")
    columns = ["window", *(name for name in ("accuracy", "gain", "gain_low", "gain_high") if name in table)]
    columns += ["cost", "cost_low", "cost_high", "p_value"]
    rows = [[row[name] if name == "window" else f"{row[name]:.4g}" for name in columns] for _, row in table.iterrows()]
    title = f"The {min(_MOST_ROWS, len(rows))} best of {len(rows)} windows" if len(rows) > 1 else "The window"
    return TextTable([name.replace("_", " ") for name in columns], rows[:_MOST_ROWS], title)


app = make_app(repeat_scan_command, _EXAMPLES, RepeatScanOptions, loading=LOADING)

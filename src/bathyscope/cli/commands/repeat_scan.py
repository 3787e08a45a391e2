"""``bathyscope repeat-scan``: does it help to run some window of blocks twice?"""

from typing import Any

import bathyscope
from bathyscope.cli.arguments import LOADING, ModelName, Quiet, Records, as_app, on_models
from bathyscope.cli.commands.survey import Sources, one_source
from bathyscope.cli.console import write, write_data, write_json, write_table

_SHOWN = 10
_EXAMPLES = """\
Examples:
  bathyscope repeat-scan ./model --prompts gsm8k:40
  bathyscope repeat-scan ./model --prompts problems.jsonl --over answer --longest 4
  bathyscope repeat-scan ./model --prompts "other.txt:80?window=256" --format csv > windows.csv"""


def repeat_scan_command(
    model: ModelName, /, *, prompts: Sources, format: Records = "table", quiet: Quiet = False, **given: Any
) -> int:
    """Run every window of blocks twice in a row."""
    scan = on_models(bathyscope.repeat_scan, [model], one_source(prompts), given=given, quiet=quiet)
    if format == "json":
        write_json(scan.record())
        return 0
    if write_data(scan.table, format):
        return 0
    table = scan.table.sort_values("gain" if "gain" in scan.data else "cost", ascending="gain" not in scan.data)
    shown = ["window", *(name for name in ("accuracy", "gain", "gain_low", "gain_high") if name in table)]
    shown += ["cost", "cost_low", "cost_high", "p_value"]
    rows = [[row[name] if name == "window" else f"{row[name]:.4g}" for name in shown] for _, row in table.iterrows()]
    best = f"The {min(_SHOWN, len(rows))} best of {len(rows)} windows"
    write_table([name.replace("_", " ") for name in shown], rows[:_SHOWN], title=best)
    write(scan.text)
    return 0


app = as_app(repeat_scan_command, _EXAMPLES, "bathyscope:repeat_scan", loading=LOADING)

"""``bathyscope repeat-scan``: does it help to run some window of blocks twice?"""

from __future__ import annotations

from typing import Any

from cyclopts import App

import bathyscope
from bathyscope.cli.arguments import LOADING, Quiet, Records, load_all
from bathyscope.cli.commands.survey import Sources, one_source
from bathyscope.cli.console import quiet_libraries, write, write_data, write_table
from bathyscope.cli.flags import command, flags, options_of

_OPTIONS = options_of("bathyscope:repeat_scan", leave_out=("model", "prompts", "progress"))
_SHOWN = 10
_EXAMPLES = """\
Examples:
  bathyscope repeat-scan ./model --prompts gsm8k:40
  bathyscope repeat-scan ./model --prompts problems.jsonl --over answer --longest 4
  bathyscope repeat-scan ./model --prompts "other.txt:80?window=256" --format csv > windows.csv"""


def repeat_scan_command(
    model: str,
    /,
    *,
    prompts: Sources,
    format: Records = "table",
    quiet: Quiet = False,
    **given: Any,
) -> int:
    """Run every window of blocks twice in a row.

    Args:
        model: name on the hub, or a local folder.
    """
    [loaded] = load_all([model], given, quiet)
    with quiet_libraries(downloads=not quiet):
        scan = bathyscope.repeat_scan(loaded, one_source(prompts), progress=not quiet, **given)
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


app = App(name="repeat-scan", help_epilogue=_EXAMPLES)
app.default(command(repeat_scan_command, [*flags(LOADING), *flags(_OPTIONS)]))

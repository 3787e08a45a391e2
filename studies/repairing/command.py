"""``python -m studies.repairing``: a quarter and a half of a model's blocks dropped, and repaired in three ways."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cyclopts import App

from studies.common.command import Quiet
from studies.common.console import quiet_libraries, say, write_table
from studies.repairing.experiment import repairing


def repairing_command(
    *,
    calibration: str,
    test: str,
    out: Path,
    model: str = "checkpoints/depth_12",
    drop: str = "25,50",
    minutes: float = 10.0,
    quiet: Quiet = False,
) -> int:
    """Drop blocks one by one, the cheapest first, and measure each rung of the ladder of repairs.

    An interrupted training goes on when the same command is given again.

    Args:
        calibration: prompts that blocks are chosen by, maps fitted to, and training sees.
        test: other prompts, that everything is measured on.
        out: folder of the results and of the training's state.
        model: the whole model.
        drop: shares of the blocks, in percent.
        minutes: of processor time that healing takes.
    """
    from studies.common.files import write_file

    shares = [float(one) / 100 for one in drop.split(",")]
    found = []
    with quiet_libraries(downloads=not quiet):
        for one in repairing(model, calibration, test, shares, minutes, out, progress=not quiet):
            found.append(one)
            write_file(out / "repairing.json", (json.dumps(found, indent=2) + "\n").encode())
            rows = [
                [rung["name"], _shown(rung, "cost", ".3f"), _shown(rung, "recovered", ".0%")] for rung in one["rungs"]
            ]
            title = f"{one['schedule']}: cost on test prompts, nats a token, 95 % intervals"
            write_table(("repair", "cost", "recovered"), rows, title)
    say(f"Written: {out / 'repairing.json'}", quiet)
    return 0


def _shown(rung: dict[str, Any], name: str, form: str) -> str:
    value, low, high = (format(rung[key], form) for key in (name, f"{name}_low", f"{name}_high"))
    return f"{value} ({low} to {high})"


app = App(name="repairing")
app.default(repairing_command)

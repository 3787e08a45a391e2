"""``python -m studies.growth``: are the blocks used that a model was grown by?"""

from __future__ import annotations

import json
from pathlib import Path

from cyclopts import App

from studies.common.command import Quiet
from studies.common.console import quiet_libraries, say, write_table

app = App(name="growth")


@app.default
def growth_command(*, out: Path, seeds: int = 3, steps: int = 400, yardstick: bool = True, quiet: Quiet = False) -> int:
    """Train, grow, train on; survey every kept step next to a model of the same size from nothing.

    An interrupted experiment goes on when the same command is given again.

    Args:
        out: folder of models, courses, pages, figure and results.
        seeds: trainings of each kind.
        steps: before the growth, and as many after it.
        yardstick: also train models of the full depth from nothing, which takes most of the time.
    """
    from bathyscope.extend.figures import render
    from studies.common.files import write_file
    from studies.growth.experiment import growth, record_of
    from studies.growth.figure import draw

    with quiet_libraries(downloads=not quiet):
        record = record_of(growth(out, range(seeds), steps, yardstick=yardstick, progress=not quiet))
    write_file(out / "growth.json", (json.dumps(record, indent=1) + "\n").encode())
    write_file(out / "growth.png", render(draw(record), "png"))
    rows = [
        [
            name,
            f"{row['mean']:.3f} ({row['low']:.3f} to {row['high']:.3f})",
            ", ".join(f"{v:.3f}" for v in row["seeds"]),
        ]
        for name, row in record["summary"].items()
    ]
    write_table(("nats per token", "mean over seeds (95 % interval)", "seeds"), rows, "Loss added without a block")
    say(f"Written: {out / 'growth.json'}", quiet)
    return 0

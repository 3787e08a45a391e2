"""``python -m studies.records``: measures the models of the package beside untrained ones, and writes their depths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cyclopts import App

from studies.common.command import Quiet
from studies.common.console import quiet_libraries, say


def records_command(*, data: Path, runs: Path, out: Path, quiet: Quiet = False) -> int:
    """Measure what is left, and write the records of all models.

    Args:
        data: folder with the data sets.
        runs: folder of the surveys; those that are there are opened and not measured again.
        out: the file (CSV).
        quiet: no progress and no messages; warnings and errors remain.
    """
    import pandas as pd

    import bathyscope
    from studies.common.files import write_file
    from studies.records.measuring import CONTROLS, MEASURES, SUBJECTS, rows_of

    rows: list[dict[str, Any]] = []
    with quiet_libraries(downloads=not quiet):
        for subject in SUBJECTS:
            run = bathyscope.survey(
                subject.model,
                subject.source(data),
                measures=list(MEASURES),
                control=f"untrained:{CONTROLS}",
                out=runs / subject.name,
                progress=not quiet,
            )
            rows += rows_of(run, subject)
    frame = pd.DataFrame(rows).round({"share": 6, "low": 6, "high": 6})
    write_file(out, frame.to_csv(index=False, lineterminator="\n").encode("utf-8"))
    say(f"Written: {out}", quiet)
    return 0


app = App(name="records")
app.default(records_command)

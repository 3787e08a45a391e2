"""``python -m studies.pruning``: what search, cheap rules and all subsets choose, and what that costs on other text."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from cyclopts import App

from studies.common.command import Quiet
from studies.common.console import Format, capitalised, quiet_libraries, say, write, write_data, write_table
from studies.common.flags import add_flags, options_flags
from studies.pruning.experiment import Pruning, answers, pruning


def pruning_command(*, out: Path, format: Format = "table", quiet: Quiet = False, **given: Any) -> int:
    """Choose blocks of several models on some text and judge the choices on other text.

    An interrupted experiment goes on when the same command is given again.

    Args:
        out: folder of what is finished, of the results (CSV) and the figure.
        format: of the output; missing numbers are empty in CSV and null in JSON.
        quiet: no progress and no messages; warnings and errors remain.
    """
    from bathyscope.extend.figures import render
    from studies.common.files import write_file
    from studies.pruning.figure import draw

    out.mkdir(parents=True, exist_ok=True)
    options = Pruning(**{field.name: given[field.name] for field in fields(Pruning) if field.name in given})
    with quiet_libraries(downloads=not quiet):
        found = pruning(options, out, progress=not quiet)
    write_file(out / "pruning.png", render(draw(found), "png"))
    say(f"Written: {out / 'results.csv'}, {out / 'pruning.png'}", quiet)
    if not write_data(found, format):
        for (model, share), own in found.groupby(["model", "share"], sort=False):
            rows = [
                [
                    str(row.candidate),
                    str(row.subset),
                    f"{row.calibration_cost:.4f}",
                    f"{row.test_cost:.4f} ({row.test_cost_low:.4f} to {row.test_cost_high:.4f})",
                    f"{row.p_value:.2g}",
                    "yes" if row.indistinguishable else "no",
                ]
                for row in own.itertuples()
            ]
            headings = ("", "left out", "calibration", "test", "p", "as good as the best")
            write_table(headings, rows, title=f"{model}, {share} %")
        for asked, told in answers(found).items():
            write(f"{capitalised(asked)}: {told}.")
    return 0


app = App(name="pruning")
app.default(add_flags(pruning_command, options_flags(Pruning)))

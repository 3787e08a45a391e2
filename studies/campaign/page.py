"""One page of a campaign: what was measured next to what was printed and predicted, and what was not run, with why."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bathyscope.errors import StoreError
from studies.campaign.running import Campaign
from studies.campaign.stages import TABLE, Stage

CELLS: Final = 108
"""Of hu2025's Table 1: twelve models, three data sets, three criteria."""
Score = dict[str, Any]


def scores_of(campaign: Campaign, stages: Sequence[Stage]) -> dict[str, list[Score]]:
    """Return the numbers of every stage that has some, as ``reproduce --score`` compares them.

    Raises:
        StoreError: a record cannot be read.
    """
    return {stage.name: _score(campaign, stage) for stage in stages if campaign.record(stage).is_file()}


def _score(campaign: Campaign, stage: Stage) -> list[Score]:
    record = campaign.record(stage)
    command = [sys.executable, "-m", "bathyscope", "reproduce", "--score", str(record), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StoreError(f"{record} cannot be scored: {done.stderr.strip()} Delete it to measure its stage again.")
    scores: list[Score] = json.loads(done.stdout)
    return scores


def page_of(campaign: Campaign, stages: Sequence[Stage], scores: dict[str, list[Score]]) -> str:
    """Return the page, in Markdown."""
    measured = [stage for stage in stages if stage.name in scores]
    done = [stage for stage in measured if campaign.is_done(stage)]
    stand_ins = sorted({f"{stage.model} = {Path(stage.place).name}" for stage in measured if stage.place})
    lines = [
        "# The papers' numbers, measured",
        "",
        f"{len(done)} of {len(stages)} stages are done, in {campaign.hours:.1f} hours. {_counted(scores)}",
    ]
    if stand_ins:
        lines += [
            "",
            f"**Folders in place of the papers' models** ({'; '.join(stand_ins)}): their numbers say nothing "
            "of the papers.",
        ]
    for stage in measured:
        lines += ["", f"## {stage.model}: {stage.target}", "", *_table(scores[stage.name])]
    left = [stage for stage in stages if stage not in done]
    if left:
        failures = campaign.failures()
        rows = [[stage.model, stage.target, failures.get(stage.name, "not run")] for stage in left]
        lines += ["", "## Not done", "", *_markdown(["model", "target", "why"], rows)]
    return "\n".join(lines) + "\n"


def _counted(scores: dict[str, list[Score]]) -> str:
    """How many cells of the table there are, and how many numbers are as printed and as predicted."""
    cells = [one for name, rows in scores.items() if name.startswith(TABLE) for one in rows if _is_known(one)]
    printed = [one for one in cells if one["published"] is not None]
    predicted = [one for rows in scores.values() for one in rows if one["as_predicted"] is not None]
    equal, within = sum(one["agrees"] for one in printed), sum(one["as_predicted"] for one in predicted)
    return (
        f"Of the {CELLS} cells of hu2025's Table 1, {len(printed)} are measured, and {equal} equal what is printed; of "
        f"{len(predicted)} numbers with bounds, {within} are within them."
    )


def _is_known(one: Score) -> bool:
    return one["value"] is not None


def _table(rows: Sequence[Score]) -> list[str]:
    cells = [
        [
            one["work"],
            one["quantity"],
            _number(one["value"]),
            "" if one["ci_low"] is None else f"{_number(one['ci_low'])} to {_number(one['ci_high'])}",
            _number(one["published"]),
            ""
            if one["predicted_low"] is None
            else f"{_number(one['predicted_low'])} to {_number(one['predicted_high'])}",
            {None: "", True: "yes", False: "**no**"}[one["as_predicted"]],
        ]
        for one in rows
    ]
    headings = ["data", "quantity", "measured", "95 % interval", "printed", "predicted", "as predicted"]
    return _markdown(headings, cells)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table; what others wrote cannot end a cell."""
    cells = [[" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in (headings, ["---"] * len(headings), *cells)]

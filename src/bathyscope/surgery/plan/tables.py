"""A plan's tables: candidates, what the choice changes, how sure it is, and what tasks say of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

from bathyscope.core.cycles import cycle_in, with_address
from bathyscope.core.estimates import Estimate, write_plainly
from bathyscope.core.tables import TextTable
from bathyscope.core.text import capitalised
from bathyscope.surgery.plan.at_random import random_sentence
from bathyscope.surgery.plan.price import unit_of
from bathyscope.surgery.plan.stability_text import block_of, excess
from bathyscope.surgery.plan.task_table import CUT_OFF

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

_DROPPED: Final = re.compile(r"drop:\d+")
_LEFT_OUT: Final = "left out"
_ENDS: Final = "answers that still end"


def candidate_table(data: xr.Dataset) -> TextTable:
    """Return a row for every candidate; costs in nats per token, or per token of its answer."""
    rows, knows_ends = [], "ends_kept" in data
    for place, name in enumerate(data["candidate"].values.tolist()):
        candidate = data.isel(candidate=place)
        numbers = [float(candidate[key]) for key in ("test_kl", "test_agreement", "p_value")]
        rows.append(
            [
                name,
                str(candidate["subset"].item()),
                float(candidate["calibration_cost"]),
                Estimate.of(candidate, "test_cost"),
                *numbers,
                _yes_or_no(bool(candidate["indistinguishable"])),
                *([float(candidate["ends_kept"])] if knows_ends else []),
            ]
        )
    forms = {"calibration": ".4f", "test (interval)": ".4f", "KL": ".4f", "top-1": ".3f", "p": ".2g"}
    return TextTable(
        ["candidate", _LEFT_OUT, *forms, "as good as the best", *([_ENDS] if knows_ends else [])],
        rows,
        f"Costs in {unit_of(data.attrs)}",
        list(filter(None, [random_sentence(data)])),
        optional=("calibration", "KL"),
        forms=forms | ({_ENDS: ".0%"} if knows_ends else {}),
        # a file keeps the schedules that --schedule takes; a terminal has room for the numbers of the blocks alone
        short={_LEFT_OUT: shorten_schedule},
    )


def change_table(before_after: pd.DataFrame, left_out: str, speed: str) -> TextTable:
    """Return what the choice changes.

    Args:
        speed: a sentence on it; empty where nothing was timed.
    """
    return TextTable(
        list(before_after.columns),
        list(before_after.itertuples(index=False, name=None)),
        f"What {left_out} changes",
        [f"Speed: {speed}"] if speed else [],
        forms={"before": write_plainly, "after": write_plainly},
    )


def again_table(data: xr.Dataset) -> TextTable | None:
    """Return a row for every block or part that may go, the surest first; None for plans of earlier versions."""
    if "blocks_again" not in data:
        return None
    chosen = set(str(data["subset"].values[0]).split(","))
    shares = zip(data["unit"].values.tolist(), data["blocks_again"].values.tolist())
    # stable, so that unknown shares stay in the order of the blocks
    ordered = sorted(shares, key=lambda pair: 0.0 if np.isnan(pair[1]) else -pair[1])
    cycle = cycle_in(data.attrs)
    return TextTable(
        ("may go", "chosen again", _LEFT_OUT),
        [[with_address(cycle, block_of(unit), unit), share, _yes_or_no(unit in chosen)] for unit, share in ordered],
        "How sure the choice is: share of bootstraps of the calibration prompts",
        forms={"chosen again": ".0%"},
    )


def transfer_table(data: xr.Dataset) -> TextTable:
    """Return a row for every choice: its cost on each domain above that of the domain's own choice."""
    headings = [f"excess on {domain}" for domain in data["domain"].values.tolist()]
    return TextTable(
        ["chosen on", *headings],
        [
            [row, *(excess(data, row, column) for column in data["domain"].values.tolist())]
            for row in data["chosen_on"].values.tolist()
        ],
        f"{capitalised(unit_of(data.attrs))} more than the domain's own choice, on its test prompts; "
        "intervals hold together",
        forms=dict.fromkeys(headings, ".4g"),
    )


def task_table(data: xr.Dataset, left_out: str) -> TextTable:
    """Return a row for every task and metric, with the shares of cut answers where models wrote any."""
    forms = {"full model": ".3g", "pruned": ".3g", "difference (interval)": "+.3g"}
    cut_off = dict(zip(("cut off, full", "cut off, pruned"), CUT_OFF)) if CUT_OFF[0] in data else {}
    rows = [data.isel(row=number) for number in range(data.sizes["row"])]
    return TextTable(
        ("task", "metric", "documents", *forms, *cut_off),
        [
            [
                *(row[name].item() for name in ("task", "metric", "documents")),
                *(Estimate.of(row, name) for name in ("full", "pruned", "difference")),
                *(row[name].item() for name in cut_off.values()),
            ]
            for row in rows
        ],
        f"Tasks without {left_out}",
        ["cut off: share of answers that the limit of tokens ended."] if cut_off else [],
        forms=forms | dict.fromkeys(cut_off, ".1%"),
    )


def _yes_or_no(holds: bool) -> str:
    return "yes" if holds else "no"


def shorten_schedule(schedule: str) -> str:
    """Return ``1,4,7`` for ``drop:1,drop:4,drop:7``; another schedule as it is."""
    parts = schedule.split(",")
    return ",".join(part.removeprefix("drop:") for part in parts) if all(map(_DROPPED.fullmatch, parts)) else schedule

"""What a stored plan of blocks says, in the sentences of today."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from bathyscope import Plan


def plan_conclusion(record: Mapping[str, Any]) -> str:
    """Return what the numbers of a stored plan of blocks say, in the sentences that ``prune`` prints today.

    A record holds the sentences of the version that measured it, which may claim more than later ones do.
    """
    columns = {name for row in record["candidates"] for name in row} - {"candidate", "subset"}
    values: dict[str, Any] = {
        # JSON has no NaN
        name: ("candidate", [np.nan if row.get(name) is None else row[name] for row in record["candidates"]])
        for name in columns
    }
    values["subset"] = ("candidate", [row["subset"] for row in record["candidates"]])
    if record.get("blocks_again"):
        share = record["chosen_again"]["choice"]
        values["chosen_again"] = ("candidate", [share, *[np.nan] * (len(record["candidates"]) - 1)])
        values["blocks_again"] = ("unit", [row["chosen_again"] for row in record["blocks_again"]])
        values["unit"] = [row["unit"] for row in record["blocks_again"]]
    settings, test = record["settings"], record["data"]["test"]
    losses = next((row for row in record.get("before_after", []) if str(row["quantity"]).startswith("loss")), None)
    if losses is not None:
        values["full_loss"] = ("prompt", np.full(test["prompts"], losses["before"]))
        # costs of single prompts are not stored; their mean is that of the choice, and the others' are unknown
        difference = np.full((len(record["candidates"]), test["prompts"]), np.nan)
        difference[0] = losses["after"] - losses["before"]
        values["cost"] = (("candidate", "prompt"), difference)
    if "p_against_choice" not in columns:
        values["p_against_choice"] = ("candidate", _p_against_choice(record["candidates"]))
    data = xr.Dataset(
        values,
        coords={"candidate": [row["candidate"] for row in record["candidates"]], "prompt": range(test["prompts"])},
        attrs={
            **settings,
            "size": settings.get("drop", len(str(record["candidates"][0]["subset"]).split(","))),
            "n_units": record["model"]["n_blocks"],
        },
    )
    return Plan(data).text


def _p_against_choice(candidates: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return p of no difference from the choice, of records that hold p of no difference from the best alone.

    Where the choice is not the best, p is known only to be below 1 - level, of candidates whose interval has nothing in
    common with that of the choice: a difference deviates by no more than both together.
    """
    if min(candidates, key=lambda row: row["test_cost"]) is candidates[0]:
        return [row["p_value"] for row in candidates]
    choice = candidates[0]
    return [
        0.0
        if row["test_cost_low"] > choice["test_cost_high"] or row["test_cost_high"] < choice["test_cost_low"]
        else np.nan
        for row in candidates
    ]

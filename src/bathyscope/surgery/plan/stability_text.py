"""How sure a choice is, in words and tables: how often it would be made again, and what it costs on other domains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bathyscope.core.estimates import Estimate
from bathyscope.core.text import capitalised

if TYPE_CHECKING:
    import xarray as xr

FEWEST_DISTINCT: Final = 5
"""Calibration prompts, copies counted once, of which bootstraps say how often a choice would be made again."""


def block_of(unit: str) -> int:
    """Return the number of the block, or step, that a part of a plan names: 3 of ``drop:3`` and of ``mlp:3``."""
    return int(unit.rpartition(":")[2])


def stability_sentences(data: xr.Dataset) -> list[str]:
    """Return how often the choice would be made again, and whether it carries over to other domains."""
    text = []
    if reason := unknown_shares(data):
        text.append(f"{reason}.")
    elif "blocks_again" in data and data.attrs.get("fits", 1):
        chosen = str(data["subset"].values[0]).split(",")
        share_by_unit = dict(zip(data["unit"].values.tolist(), data["blocks_again"].values.tolist()))
        rarest = min(chosen, key=lambda unit: share_by_unit[unit])
        again = f"In {float(data['chosen_again'][0]):.0%} of bootstraps of the calibration prompts the same set is best"
        member = "" if len(chosen) == 1 else f"; the least sure of it, {rarest}, is in {share_by_unit[rarest]:.0%}"
        text.append(f"{again}{member}.")
    if "transfer" in data:
        text += _transfer_sentences(data)
    return text


def unknown_shares(data: xr.Dataset) -> str:
    """Return why no share of bootstraps is known; empty where one is, or nothing is said of it."""
    distinct = data.attrs.get("calibration_distinct")
    if distinct is None or "chosen_again" not in data or not np.isnan(float(data["chosen_again"][0])):
        return ""
    label = data.attrs.get("calibration_cluster")
    noun = f"{'prompt' if label is None else 'cluster'}{'' if int(distinct) == 1 else 's'}"
    by = "" if label is None else f" by {label}"
    return (
        f"How often other calibration prompts would choose the same is unknown: {int(distinct)} distinct "
        f"{noun}{by}{_of_domain(data)} cannot tell, at least {FEWEST_DISTINCT} can"
    )


def _of_domain(data: xr.Dataset) -> str:
    return " of a domain" if "joint" in data.attrs else ""


def _transfer_sentences(data: xr.Dataset) -> list[str]:
    """Return which choices are shown to cost more on another domain than that domain's own choice."""
    worse = [
        f"the choice from {row} costs {excess(data, row, column):.4g} more on {column}"
        for row in data["chosen_on"].values.tolist()
        for column in data["domain"].values.tolist()
        if float(data["transfer_low"].sel(chosen_on=row, domain=column)) > 0
    ]
    if not worse:
        return ["No choice is shown to cost more on a domain than that domain's own choice."]
    listed = "; ".join(worse)
    return [f"{capitalised(listed)}, in nats, than that domain's own choice."]


def domain_sentences(data: xr.Dataset) -> list[str]:
    """Return what the choice costs on each domain, and which of these costs the others are combined of."""
    if "domain_cost" not in data or "joint" not in data.attrs:
        return []
    cells = data.isel(chosen_on=-1)
    costs = {domain: cells.sel(domain=domain) for domain in data["domain"].values.tolist()}
    listed = "; ".join(f"{domain} {Estimate.of(cell, 'domain_cost'):.4g}" for domain, cell in costs.items())
    combined = "means over domains" if data.attrs["joint"] == "mean" else "those on the domain where each costs most"
    return [f"By domain the choice costs: {listed}. The costs of all candidates are {combined}."]


def excess(data: xr.Dataset, chosen_on: str, domain: str) -> Estimate:
    """Return what a choice costs on a domain above that of the domain's own choice."""
    return Estimate.of(data.sel(chosen_on=chosen_on, domain=domain), "transfer")

"""A plan in words and as a printed table: what it costs, whether that is proved, and what cannot be told from it.

A block "can go" only within a bound on the cost that the user gave; without one a plan says what leaving it out costs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from bathyscope.core.cycles import cycle_in
from bathyscope.core.estimates import Estimate, write_number
from bathyscope.core.text import capitalised
from bathyscope.prompts.samples import by_clusters
from bathyscope.runs.by_place import LOSS_FALLS
from bathyscope.surgery.plan.answer_ends import AnswerEnds
from bathyscope.surgery.plan.at_random import RANDOM, random_sentence
from bathyscope.surgery.plan.bound import bound_text
from bathyscope.surgery.plan.price import Price
from bathyscope.surgery.plan.stability_text import block_of, domain_sentences, stability_sentences

if TYPE_CHECKING:
    import xarray as xr

_EQUAL: Final = 1e-12
"""Nats, or a share, by which means of equal costs may differ."""
CHEAP: Final = ("block influence", "angular distance", "one-shot loss", "last", "random")
"""Candidates that need no search."""


def sentences(data: xr.Dataset) -> list[str]:
    """Return what the choice costs, whether that is proved, what is as good, and what is worse."""
    choice = data.isel(candidate=0)
    names = data["candidate"].values.tolist()
    alike = [name for name, is_alike in zip(names, data["indistinguishable"].values) if is_alike]
    by_name = {name: data.isel(candidate=place) for place, name in enumerate(names)}
    better = place_of_better(data)
    text = [
        *_lead_sentences(data, better),
        *([] if (ending := AnswerEnds.of(data)) is None else [ending.text]),
        *domain_sentences(data),
        *_address_sentences(data),
        *stability_sentences(data),
    ]
    best = names[_best_place(data)]
    leads_with = _compared_first(data, better)
    if best not in (names[0], leads_with):
        subset = data["subset"].values[_best_place(data)]
        text.append(f"{_candidate_title(best)} ({subset}) costs least here: {_cost_text(by_name[best])}.")
    # candidates are compared with the best one, which a plan that is not proved has next to its choice
    with_choice = better is None and _knows_choice(data)
    other = "the choice" if with_choice else _candidate_title(best, False)
    dearer = []
    for name in CHEAP:
        if name not in alike or name in (names[0], best, leads_with):
            continue
        candidate = by_name[name]
        if candidate["subset"].item() == choice["subset"].item():
            text.append(f"{_candidate_title(name)} leaves out the same.")
        elif with_choice and is_dearer_than_choice(data, name):
            dearer.append(name)
        else:
            p_value = _p_text(_p_against_choice(data, name) if with_choice else float(candidate["p_value"]))
            tie = f"{_candidate_title(name)} cannot be told from {other} here"
            text.append(f"{tie}: {_cost_text(candidate)}, p = {p_value}.")
    worse = [name for name in names[1:] if name not in alike]
    for reference, group in (("the choice", dearer), ("the best", worse)):
        if group:
            listed = ", ".join(f"{name} ({float(by_name[name]['test_cost']):.4g})" for name in group)
            text.append(f"Worse than {reference}: {listed}.")
    return [*text, *filter(None, [random_sentence(data)])]


def _address_sentences(data: xr.Dataset) -> list[str]:
    """Return where what the choice leaves out is in the loops of a looped model."""
    if (cycle := cycle_in(data.attrs)) is None:
        return []
    units = str(data["subset"].values[0]).split(",")
    listed = "; ".join(f"{unit} is {cycle.name(block_of(unit))}" for unit in units)
    return [f"This model runs blocks several times, and costs are of single runs: {listed}."]


def is_like_chance(data: xr.Dataset) -> bool:
    """Return whether random subsets are not shown to cost more than the choice, so that nothing of a search is proved.

    A bound on the cost is proved by the interval of the choice alone.
    """
    if data.attrs.get("max_cost") or RANDOM not in data["candidate"].values:
        return False
    return not is_dearer_than_choice(data, RANDOM)


def is_dearer_than_choice(data: xr.Dataset, name: str) -> bool:
    """Return whether a candidate is shown to cost more than the choice on the test prompts; False for none such.

    One without a number costs more than any that has one.
    """
    if name not in data["candidate"].values:
        return False
    cost, choice = float(data["test_cost"].sel(candidate=name)), float(data["test_cost"][0])
    return not math.isnan(choice) and (math.isnan(cost) or (cost > choice and _is_told_from_choice(data, name)))


def place_of_better(data: xr.Dataset) -> int | None:
    """Return the cheapest of the candidates shown to cost less than the choice on the test prompts; None without any.

    Where the one that costs least is unsure, another may be shown to be better than the choice.
    """
    names, costs = data["candidate"].values.tolist(), data["test_cost"].values
    cheaper = [
        place for place, name in enumerate(names) if costs[place] < costs[0] and _is_told_from_choice(data, name)
    ]
    if cheaper:
        return min(cheaper, key=lambda place: float(costs[place]))
    return None if bool(data["indistinguishable"].values[0]) else _best_place(data)


def _is_told_from_choice(data: xr.Dataset, name: str) -> bool:
    return _p_against_choice(data, name) < 1 - float(data.attrs["level"])


def _p_against_choice(data: xr.Dataset, name: str) -> float:
    """Return p of no difference from the choice; NaN = unknown, as in older plans whose choice was not the best."""
    if not _knows_choice(data):
        return math.nan
    return float(data["p_against_choice" if "p_against_choice" in data else "p_value"].sel(candidate=name))


def _knows_choice(data: xr.Dataset) -> bool:
    """Return whether a plan tells how far candidates are from its choice."""
    return "p_against_choice" in data or _best_place(data) == 0


def refusal(data: xr.Dataset) -> str:
    """Return what was asked and did not stay within the bound, and what to do."""
    price = Price.of(data)
    prompts = f"{data.sizes['prompt']} test prompts{by_clusters(data.attrs)}"
    bound = bound_text(data.attrs).removesuffix(" nats")
    return (
        f"Not shown to stay below max_cost={bound}: the choice of the calibration prompts, "
        f"{data['subset'].values[0]}, costs {price.cost:.4g} nats{price.where} ({price.interval}) on {prompts}; "
        f"no other was put to this test. {_refusal_remedy(data, price)}"
    )


def _refusal_remedy(data: xr.Dataset, price: Price) -> str:
    """Return what could help: further test prompts only where the interval reaches below the bound."""
    over = data["over_bound_low"][0] if "over_bound_low" in data else price.low - float(data.attrs["max_cost"])
    if float(over) >= 0:
        return "Its whole interval lies above the bound, where more test prompts do not help; allow a higher cost."
    return "Allow a higher cost, or give more test prompts."


def _within_sentences(data: xr.Dataset) -> list[str]:
    """Return which other candidates stayed below the bound, where the choice did not."""
    limit = float(data.attrs["max_cost"])
    over = data["over_bound_high"].values if "over_bound_high" in data else data["test_cost_high"].values - limit
    below = [
        f"{_candidate_title(name, False)} ({subset}), {_cost_text(data.isel(candidate=place))}"
        for place, (name, subset) in enumerate(zip(data["candidate"].values.tolist(), data["subset"].values.tolist()))
        if place and name != RANDOM and over[place] < 0
    ]
    if not below:
        return []
    listed = "; ".join(below)
    return [
        f"Below it on these test prompts, though not chosen by the calibration prompts: {listed}. "
        "Other calibration prompts may choose it, and further test prompts would have to judge it."
    ]


def _unit(data: xr.Dataset) -> str:
    return "block" if "block" in str(data.attrs["parts"]) else "part"


def _lead_sentences(data: xr.Dataset, better: int | None) -> list[str]:
    """Return the first sentences: what the choice costs, and whether that is proved."""
    attrs = data.attrs
    choice = data.isel(candidate=0)
    price = Price.of(data)
    searched = f"{float(choice['calibration_cost']):.4g} on the calibration prompts that chose it; {attrs['how']}."
    if not attrs.get("fits", 1):
        return [refusal(data), *_within_sentences(data), f"It costs {price.text}, and {searched}"]
    subset = choice["subset"].item()
    counted = f"{int(attrs['size'])} of {int(attrs['n_units'])} {_unit(data)}s"
    prompts = f"{data.sizes['prompt']} test prompts{by_clusters(attrs)}"
    within = f" within {bound_text(attrs)}" if attrs.get("max_cost") else ""
    price_sentence = f"It costs {price.text}, and {searched}"
    if price.falls:
        return [
            f"Not proved on {prompts}: without the choice ({subset}, {counted}{within}) {price.loss} falls; "
            f"{LOSS_FALLS}.",
            price_sentence,
        ]
    if better is None and is_like_chance(data):
        random = data.sel(candidate=RANDOM)
        remedy = (
            "Both cost the same on every prompt, so that more prompts like these would not tell them apart."
            if _costs_the_same_everywhere(choice, random)
            else "Give more test prompts."
        )
        return [
            f"Not proved on {prompts}: the choice ({subset}, {counted}) cannot be told from random subsets there "
            f"({_cost_text(random)}; p = {_p_text(_p_against_choice(data, RANDOM))}). {remedy}",
            price_sentence,
        ]
    best = data.isel(candidate=_best_place(data) if better is None else better)
    name = _candidate_title(str(best["candidate"].item()), False)
    # of older plans it is known how far the best is from the choice
    apart = (
        float(choice["p_value"])
        if better in (None, _best_place(data))
        else _p_against_choice(data, best["candidate"].item())
    )
    if better is None:
        others = "no candidate costs less"
        if float(best["test_cost"]) < float(choice["test_cost"]):
            others = (
                f"no candidate is shown to cost less: {name} ({best['subset'].item()}) costs {_cost_text(best)}, "
                f"a difference within chance (p = {_p_text(apart)})"
            )
        if within:
            lead = f"Proved on {prompts}: {counted} can go{within}, {subset}, at a cost of {price.text}; {others}."
        else:
            lead = f"Measured on {prompts}: leaving out {subset}, {counted}, costs {price.text}; {others}."
        return [lead, f"It costs {searched}"]
    return [
        f"Not proved on {prompts}: the choice ({subset}, {counted}{within}) does not carry over, since {name} "
        f"({best['subset'].item()}) is better ({_cost_text(best)}; p = {_p_text(apart)}).",
        price_sentence,
    ]


def _compared_first(data: xr.Dataset, better: int | None) -> str:
    """Return the candidate that the first sentences compare with the choice; empty where they name none."""
    if not data.attrs.get("fits", 1) or Price.of(data).falls:
        return ""
    if better is None and is_like_chance(data):
        return RANDOM
    return str(data["candidate"].values[_best_place(data) if better is None else better])


def _costs_the_same_everywhere(candidate: xr.Dataset, other: xr.Dataset) -> bool:
    """Return whether two candidates cost the same on each test prompt; a mean of equal costs may round.

    False where a record tells no costs of single prompts.
    """
    if "cost" not in candidate:
        return False
    return bool(np.allclose(candidate["cost"].values, other["cost"].values, rtol=_EQUAL, atol=_EQUAL))


def _best_place(data: xr.Dataset) -> int:
    """Return which candidate costs least on the test prompts, the first of equal ones; NaN is no cost."""
    costs = data["test_cost"].values
    return 0 if np.isnan(costs).all() else int(np.nanargmin(costs))


def _cost_text(candidate: xr.Dataset) -> str:
    return f"{Estimate.of(candidate, 'test_cost'):.4g}"


def _candidate_title(name: str, first: bool = True) -> str:
    title = {"last": "dropping the last", "random": "a random subset"}.get(name, name)
    return capitalised(title) if first else title


def _p_text(value: float) -> str:
    return write_number(value, ".2g")

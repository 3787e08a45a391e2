"""A plan in words and as a printed table: first whether it is proved, then what it costs, and what does as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bathyscope.core.cycles import cycle_in, with_address
from bathyscope.core.text import capitalised
from bathyscope.prompts.samples import by_clusters

if TYPE_CHECKING:
    import xarray as xr

RANDOM: Final = "random"
CHEAP: Final = ("block influence", "angular distance", "one-shot loss", "last", "random")
"""Candidates that need no search."""
HEADINGS: Final = {
    "subset": "left out",
    "calibration_cost": "calibration",
    "test_cost": "test (interval)",
    "test_kl": "KL",
    "test_agreement": "top-1",
    "p_value": "p",
    "indistinguishable": "as good as the best",
}
"""Columns of the table as it is printed, after the candidate's name; costs in nats per token."""
_COLUMNS: Final = ("calibration_cost", "test_cost", "test_cost_low", "test_cost_high", *list(HEADINGS)[3:])


def cells(data: xr.Dataset) -> list[list[str]]:
    """Return the printed table, a row for every candidate."""
    rows = []
    for place, name in enumerate(data["candidate"].values.tolist()):
        candidate = data.isel(candidate=place)
        number = {key: float(candidate[key]) for key in _COLUMNS}
        interval = f"{number['test_cost']:.4f} ({number['test_cost_low']:.4f} to {number['test_cost_high']:.4f})"
        texts = {
            "subset": str(candidate["subset"].item()),
            "calibration_cost": f"{number['calibration_cost']:.4f}",
            "test_cost": interval,
            "test_kl": _number_text(number["test_kl"], 4),
            "test_agreement": _number_text(number["test_agreement"], 3),
            "p_value": _p_text(number["p_value"]),
            "indistinguishable": "yes" if number["indistinguishable"] else "no",
        }
        rows.append([name, *(texts[key] for key in HEADINGS)])
    return rows


def sentences(data: xr.Dataset) -> list[str]:
    """Return whether the choice is proved, what it costs, what is as good, and what is worse."""
    choice = data.isel(candidate=0)
    names = data["candidate"].values.tolist()
    alike = [name for name, is_alike in zip(names, data["indistinguishable"].values) if is_alike]
    by_name = {name: data.isel(candidate=place) for place, name in enumerate(names)}
    text = [
        *_lead_sentences(data, names[0] in alike),
        *_address_sentences(data),
        *_warning_sentences(choice),
        *stability_sentences(data),
    ]
    best = names[_best_place(data)]
    # candidates are compared with the best one, which a plan that is not proved has next to its choice
    matched = "here" if names[0] in alike else f"as {_candidate_title(best, False)} here"
    for name in CHEAP:
        if name not in alike or name in (names[0], best):
            continue
        if name == RANDOM and is_like_chance(data):
            continue  # the first sentence says so
        candidate = by_name[name]
        if candidate["subset"].item() == choice["subset"].item():
            text.append(f"{_candidate_title(name)} leaves out the same.")
        else:
            p_value = _p_text(float(candidate["p_value"]))
            text.append(f"{_candidate_title(name)} does as well {matched}: {_cost_text(candidate)}, p = {p_value}.")
    worse = [name for name in names[1:] if name not in alike]
    if worse:
        listed = ", ".join(f"{name} ({float(by_name[name]['test_cost']):.4g})" for name in worse)
        text.append(f"Worse than the best: {listed}.")
    return text


def block_of(unit: str) -> int:
    """Return the number of the block, or step, that a part of a plan names: 3 of ``drop:3`` and of ``mlp:3``."""
    return int(unit.rpartition(":")[2])


def _address_sentences(data: xr.Dataset) -> list[str]:
    """Return where what the choice leaves out stands in the loops of a looped model."""
    if (cycle := cycle_in(data.attrs)) is None:
        return []
    units = str(data["subset"].values[0]).split(",")
    listed = "; ".join(f"{unit} is {cycle.name(block_of(unit))}" for unit in units)
    return [f"This model runs blocks several times, and costs are of single runs: {listed}."]


def stability_sentences(data: xr.Dataset) -> list[str]:
    """Return how often the choice would be made again, and whether it carries over to other domains."""
    text = []
    if "blocks_again" in data and data.attrs.get("fits", 1):
        chosen = str(data["subset"].values[0]).split(",")
        share_by_unit = dict(zip(data["unit"].values.tolist(), data["blocks_again"].values.tolist()))
        rarest = min(chosen, key=lambda unit: share_by_unit[unit])
        again = f"In {float(data['chosen_again'][0]):.0%} of bootstraps of the calibration prompts the same set is best"
        member = "" if len(chosen) == 1 else f"; the least sure of it, {rarest}, is in {share_by_unit[rarest]:.0%}"
        text.append(f"{again}{member}.")
    if "transfer" in data:
        text += _transfer_sentences(data)
    return text


def _transfer_sentences(data: xr.Dataset) -> list[str]:
    """Return which choices are shown to cost more on another domain than that domain's own choice."""
    worse = [
        f"the choice from {row} costs {_excess_text(data.sel(chosen_on=row, domain=column))} more on {column}"
        for row in data["chosen_on"].values.tolist()
        for column in data["domain"].values.tolist()
        if float(data["transfer_low"].sel(chosen_on=row, domain=column)) > 0
    ]
    if not worse:
        return ["No choice is shown to cost more on a domain than that domain's own choice."]
    listed = "; ".join(worse)
    return [f"{capitalised(listed)}, in nats, than that domain's own choice."]


def _excess_text(cell: xr.Dataset) -> str:
    mean, low, high = (float(cell[f"transfer{end}"]) for end in ("", "_low", "_high"))
    return f"{mean:.4g} ({low:.4g} to {high:.4g})"


AGAIN_HEADINGS: Final = ("may go", "chosen again", "left out")


def again_cells(data: xr.Dataset) -> list[list[str]]:
    """Return a row for every block or part that may go, the surest first; none for plans of earlier versions."""
    if "blocks_again" not in data:
        return []
    chosen = set(str(data["subset"].values[0]).split(","))
    shares = zip(data["unit"].values.tolist(), data["blocks_again"].values.tolist())
    ordered = sorted(shares, key=lambda pair: -pair[1])
    cycle = cycle_in(data.attrs)
    return [
        [with_address(cycle, block_of(unit), unit), f"{share:.0%}", "yes" if unit in chosen else "no"]
        for unit, share in ordered
    ]


def transfer_headings(data: xr.Dataset) -> list[str]:
    """Return the headings of the transfer table."""
    return ["chosen on", *(f"excess on {domain}" for domain in data["domain"].values.tolist())]


def transfer_cells(data: xr.Dataset) -> list[list[str]]:
    """Return a row for every choice: its cost on each domain above that of the domain's own choice."""
    return [
        [row, *(_excess_text(data.sel(chosen_on=row, domain=column)) for column in data["domain"].values.tolist())]
        for row in data["chosen_on"].values.tolist()
    ]


def loss_falls(data: xr.Dataset) -> bool:
    """Return whether the test prompts show that the loss is lower without the choice: they cannot judge it then."""
    return float(data.isel(candidate=0)["test_cost_high"]) < 0


def is_like_chance(data: xr.Dataset) -> bool:
    """Return whether random subsets cannot be told from the best candidate, so that nothing of a search is proved.

    A bound on the cost is proved by the interval of the choice alone.
    """
    if data.attrs.get("max_cost") or RANDOM not in data["candidate"].values:
        return False
    return bool(data["indistinguishable"].sel(candidate=RANDOM))


def refusal(data: xr.Dataset) -> str:
    """Return why no block can go, and what to do."""
    attrs = data.attrs
    choice = data.isel(candidate=0)
    cost, low, high = (float(choice[f"test_cost{end}"]) for end in ("", "_low", "_high"))
    unit = "block" if "block" in str(attrs["parts"]) else "part"
    return (
        f"No {unit} can go: leaving out {choice['subset'].item()}, the cheapest, costs {cost:.4g} nats per token on "
        f"the test prompts ({float(attrs['level']):.0%} interval {low:.4g} to {high:.4g}), and the upper end has to "
        f"stay below max_cost={float(attrs['max_cost']):g}. Allow a higher cost, or give more test prompts."
    )


def _lead_sentences(data: xr.Dataset, as_good: bool) -> list[str]:
    """Return the first sentences: proved or not, and at which cost."""
    attrs = data.attrs
    choice = data.isel(candidate=0)
    if not attrs.get("fits", 1):
        return [refusal(data), f"{_candidate_title(str(attrs['how']))}."]
    size, units = int(attrs["size"]), int(attrs["n_units"])
    unit = "block" if "block" in str(attrs["parts"]) else "part"
    prompts = f"{data.sizes['prompt']} test prompts{by_clusters(attrs)}"
    within = f" within {float(attrs['max_cost']):g} nats" if attrs.get("max_cost") else ""
    subset = choice["subset"].item()
    price = (
        f"It costs {_cost_text(choice)} nats per token there ({float(attrs['level']):.0%} interval), "
        f"{float(choice['calibration_cost']):.4g} on the calibration prompts that chose it; {attrs['how']}."
    )
    if loss_falls(data):
        return [
            f"Not proved on {prompts}: without the choice ({subset}, {size} of {units} {unit}s{within}) the loss "
            "falls, so this text is not what the model was trained on; do not decide on it.",
            price,
        ]
    if as_good and is_like_chance(data):
        random = data.sel(candidate=RANDOM)
        return [
            f"Not proved on {prompts}: the choice ({subset}, {size} of {units} {unit}s) cannot be told from random "
            f"subsets there ({_cost_text(random)}; p = {_p_text(float(random['p_value']))}). Give more test prompts.",
            price,
        ]
    best = data.isel(candidate=_best_place(data))
    name = _candidate_title(str(best["candidate"].item()), False)
    if as_good:
        others = "nothing is better"
        if float(best["test_cost"]) < float(choice["test_cost"]):
            others = (
                f"nothing is shown to be better: {name} ({best['subset'].item()}) costs less there, "
                f"{_cost_text(best)}, a difference within chance (p = {_p_text(float(choice['p_value']))})"
            )
        return [f"Proved on {prompts}: {size} of {units} {unit}s can go{within}, {subset}, and {others}.", price]
    return [
        f"Not proved on {prompts}: the choice ({subset}, {size} of {units} {unit}s{within}) does not carry over, since "
        f"{name} ({best['subset'].item()}) is better ({_cost_text(best)}; p = {_p_text(float(choice['p_value']))}).",
        price,
    ]


def _best_place(data: xr.Dataset) -> int:
    """Return which candidate costs least on the test prompts, the first of equal ones."""
    return int(np.argmin(data["test_cost"].values))


def _warning_sentences(choice: xr.Dataset) -> list[str]:
    """Return how many predictions change, and a warning where the loss falls.

    Leaving blocks out of a trained model raises the loss on text like its training text. Where the loss falls, the text
    is of another kind, and costs on it do not say what the model loses.
    """
    changed = 1 - float(choice["test_agreement"])
    text = [f"{changed:.0%} of the top-1 tokens change."]
    # where it falls for sure, the first sentence says so
    if float(choice["test_cost"]) < 0 <= float(choice["test_cost_high"]):
        text.append(
            "Warning: the cost is below 0, so the model predicts this text better without them: a sign of text unlike "
            "what the model was trained on; judge on other text before deciding."
        )
    return text


def _cost_text(candidate: xr.Dataset) -> str:
    cost, low, high = (float(candidate[f"test_cost{end}"]) for end in ("", "_low", "_high"))
    return f"{cost:.4g} ({low:.4g} to {high:.4g})"


def _candidate_title(name: str, first: bool = True) -> str:
    title = {"last": "dropping the last", "random": "a random subset"}.get(name, name)
    return capitalised(title) if first else title


def _p_text(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.2g}"


def _number_text(value: float, digits: int) -> str:
    return "–" if np.isnan(value) else f"{value:.{digits}f}"

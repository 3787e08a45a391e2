"""What is said of two models that part: where, by which blocks, and which of these changed more than they matter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bathyscope.core.estimates import Estimate
from bathyscope.core.result import rows_of, tabulate_over
from bathyscope.core.tables import TextTable, frame_table
from bathyscope.core.text import capitalised, visible

SCALING_OF_ADAPTERS: Final = "the scaling of the adapters"
_FACTOR: Final = 2.0
"""A change or an effect is large at this multiple of the median of all changed blocks, small at the median over it."""
_LARGE_CHANGE: Final = 0.1
_FAINT: Final = 1e-4
"""Nats per squared change: an effect below this is small whatever other blocks do; random changes have about 1."""
_COLUMNS: Final = (
    *("block", "drift_mean", "drift_low", "drift_high", "beyond", "graft_mean", "graft_low", "graft_high"),
    *("graft_back_mean", "graft_back_low", "graft_back_high", "weight_change"),
)
_MOST_PLACES: Final = 4
_NONE_DIFFERS: Final = "No block differs by itself"


def beyond_rounding(drift: NDArray[np.float64], floor: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return where rounding does not explain a difference: prompt by prompt, which is no question of sampling."""
    return np.asarray(drift > floor)


def first_beyond(data: xr.Dataset) -> int | None:
    """Return the first block behind which the drift of any prompt exceeds its own rounding; 0 also in front of it."""
    boundaries = np.flatnonzero(_beyond(data, "drift", "noise_floor").any(0))
    return max(int(boundaries[0]) - 1, 0) if boundaries.size else None


def begins_apart(data: xr.Dataset) -> bool:
    """Return whether the streams part in front of all blocks, in the embedding."""
    return bool(_beyond(data, "drift", "noise_floor")[:, 0].any())


def predictions_differ(data: xr.Dataset) -> bool:
    """Return whether the predictions of any prompt differ by more than its own rounding."""
    return bool(_beyond(data, "output", "output_floor").any())


def _beyond(data: xr.Dataset, name: str, floor: str) -> NDArray[np.bool_]:
    return beyond_rounding(data[name].values, data[floor].values)


def conclude(data: xr.Dataset, first: int | None) -> str:
    """Return where the models part, which graft is the largest, and which blocks change more than they matter.

    Models of two families are named first: their blocks have nothing in common but their place.
    """
    return _name_families(data) + _conclude(data, first)


def _name_families(data: xr.Dataset) -> str:
    """Return that blocks of two families are compared by their places; empty for models of one."""
    if "other_family" not in data.attrs:
        return ""
    families = f"{data.attrs['family']} and {data.attrs['other_family']}"
    return f"These are models of two families ({families}), whose blocks are paired by their place alone. "


def _conclude(data: xr.Dataset, first: int | None) -> str:
    models, weights = f"{data.attrs['model']} and {data.attrs['other']}", _tell_weights(data)
    if first is None and predictions_differ(data):
        reason = weights or "the final norm or the unembedding is another"
        return (
            f"The streams of {models} do not part beyond rounding on these prompts, and their predictions differ by "
            f"{float(data['output_mean']):.4g} nats a token: {reason}."
        )
    if first is None:
        changed = data.attrs.get("weights_differ") or data.attrs.get("adapters_in")
        reason = f", though {weights}: the effect is not distinguishable from rounding" if changed else ""
        agreed = f"; {weights}" if weights and not changed else ""
        return f"{models} are equal up to rounding on these prompts{reason}{agreed}."
    parting = "before block 0, in the embedding" if begins_apart(data) else f"at block {first}"
    sentences = [f"The streams part {parting}{f'; {weights}' if weights else ''}.", _tell_grafts(data)]
    quiet, loud = mismatched(data)
    named = [
        f"{label}: {', '.join(_tell_change(data, block) for block in blocks)}"
        for label, blocks in (("Large change, small effect", quiet), ("small change, large effect", loud))
        if blocks
    ]
    if named:
        text = "; ".join(named)
        sentences.append(f"{capitalised(text)}.")
    return " ".join(sentences)


def _tell_grafts(data: xr.Dataset) -> str:
    """Return which single graft is the largest, all of them where several are; and what all blocks do together."""
    output, graft = float(data["output_mean"]), data["graft_mean"].values
    together = f"all blocks together {float(data['cumulative_mean'].values[-1]):.4g}, the whole models {output:.4g}"
    if not np.nan_to_num(graft).any():
        subject = "No single graft changes a prediction that is scored" if _has_changed(data) else _NONE_DIFFERS
        return f"{subject} ({together} nats a token).{_tell_unscored(data)}"
    largest = float(np.nanmax(graft))
    if not _beyond_output(data).any():
        return (
            f"No single graft is distinguishable from rounding (at most {largest:.4g} nats a token; {together})."
            f"{_tell_unscored(data)}"
        )
    blocks = np.flatnonzero(graft == largest).tolist()
    if len(blocks) == 1:
        return f"The largest single graft is block {blocks[0]} ({largest:.4g} nats a token; {together})."
    return f"The largest single grafts are blocks {_listed(blocks)} ({largest:.4g} nats a token each; {together})."


def _has_changed(data: xr.Dataset) -> bool:
    """Return whether any block of one model is another than that of the other, in its weights or otherwise."""
    changed = bool((np.nan_to_num(data["weight_change"].values, nan=1.0) > 0).any())
    return changed or bool(data.attrs.get("settings_differ") or data.attrs.get("adapters_in"))


def unscored(data: xr.Dataset) -> float:
    """Return the largest difference of predictions of last tokens, in nats, where these alone differ; 0 elsewhere.

    What follows a last token is unknown, so that grafts are not scored there: of prompts of two tokens the first is
    scored alone, and attends to nothing but itself.
    """
    # results of earlier versions lack the tokens
    if predictions_differ(data) or "token_kl" not in data:
        return 0.0
    kl_PT = data["token_kl"].values
    kl_P = np.array([kl_T[np.isfinite(kl_T)][-1] if np.isfinite(kl_T).any() else 0.0 for kl_T in kl_PT])
    is_beyond_P = beyond_rounding(kl_P, data["output_floor"].values)
    return float(kl_P[is_beyond_P].max()) if is_beyond_P.any() else 0.0


def _tell_unscored(data: xr.Dataset) -> str:
    """Return that last tokens, which are not scored, are predicted otherwise; empty where others are as well."""
    largest = unscored(data)
    if not largest:
        return ""
    return f" Only predictions at last tokens, which are not scored, differ (by up to {largest:.4g} nats)."


def _beyond_output(data: xr.Dataset) -> NDArray[np.bool_]:
    """Return the blocks whose graft, on any prompt, is above what rounding does to predictions, [blocks]."""
    beyond: NDArray[np.bool_] = beyond_rounding(data["graft"].values, data["output_floor"].values[:, None])
    return np.asarray(beyond.any(0))


def _tell_weights(data: xr.Dataset) -> str:
    """Return in which weights the models differ as numbers, or in what else; empty where that is unknown."""
    settings = data.attrs.get("settings_differ", [])
    if places := data.attrs.get("adapters_in"):
        return f"adapters are in {name_places(places)}"
    places = data.attrs.get("weights_differ")
    if places:
        details = data.attrs.get("setting_details", [])
        scaled = "".join(f", with {detail}" for detail in details if detail.startswith(SCALING_OF_ADAPTERS))
        return f"the weights of {name_places(places)} differ{scaled}"
    if places is None:
        states = [
            detail for detail in data.attrs.get("setting_details", []) if detail.startswith("the state of the ad")
        ]
        return f"{states[0]} differs" if states else ""
    if settings:
        # results of earlier versions tell kinds alone
        details = data.attrs.get("setting_details") or [f"the {name}" for name in settings]
        verb = "differ" if len(details) > 1 or details[0] == "the constants" else "differs"
        return f"all weights are equal, and {_listed(details)} {verb}"
    return "all weights are equal"


def name_places(places: Sequence[str]) -> str:
    """Return places in words: a block as a whole where several of its parts are among them; many places in numbers."""
    outside = [place for place in places if not place.startswith("block ")]
    parts_by_block: dict[str, list[str]] = {}
    for place in places:
        if place.startswith("block "):
            block, _, part = place.partition(", ")
            parts_by_block.setdefault(block, []).append(part)
    blocks = [_name_block(block, parts) for block, parts in parts_by_block.items()]
    if len(blocks) > _MOST_PLACES:
        numbers = sorted(int(block.split()[1]) for block in parts_by_block)
        blocks = [f"{len(blocks)} blocks (from {numbers[0]} to {numbers[-1]})"]
    words = [f"the {place}" if place in ("embedding", "final norm", "unembedding") else place for place in outside]
    if len(words) > _MOST_PLACES:
        words = [f"{len(words)} modules outside of the blocks"]
    return _listed([*words, *blocks])


def _name_block(block: str, parts: Sequence[str]) -> str:
    if len(parts) > 1 or not parts[0]:
        return block
    return f"{block}'s {'MLP' if parts[0] == 'mlp' else parts[0]}"


def _listed(words: Sequence[object]) -> str:
    """Return words with commas, and the last one behind "and"."""
    *before, last = map(str, words or [""])
    return f"{', '.join(before)} and {last}" if before else last


def _tell_change(data: xr.Dataset, block: int) -> str:
    change, graft = float(data["weight_change"].values[block]), float(data["graft_mean"].values[block])
    within = "" if _beyond_output(data)[block] else ", not distinguishable from rounding"
    return f"block {block} (weights by {change:.2%}, {graft:.2g} nats a token{within})"


def mismatched(data: xr.Dataset) -> tuple[list[int], list[int]]:
    """Return the blocks that changed much with little effect, and those that changed little with much effect.

    Much and little are said of changed blocks among themselves, by a factor of two from their median, and of effects as
    surely as their intervals allow. A change of a tenth of the weights or more is large and an effect that rounding
    explains, or below 1e-4 nats per squared change, is small whatever the other blocks do. Where predictions differ at
    last tokens alone, which are not scored, no effect is said to be small.
    """
    if unscored(data):
        return [], []
    change, graft = data["weight_change"].values, data["graft_mean"].values
    low, high = (
        np.where(np.isnan(data[f"graft_{end}"].values), graft, data[f"graft_{end}"].values) for end in ("low", "high")
    )
    # Where weights are equal, as in a copy of another precision, only the computing differs.
    changed = np.isfinite(change) & (change > 0) & np.isfinite(graft)
    if not changed.any():
        return [], []
    usual_change, usual_effect = np.median(change[changed]), np.median(graft[changed])
    faint = ~_beyond_output(data) | (high <= _FAINT * np.square(change))
    quiet = (change >= _FACTOR * usual_change) & (high <= usual_effect / _FACTOR) | (change >= _LARGE_CHANGE) & faint
    loud = (change <= usual_change / _FACTOR) & (low >= _FACTOR * usual_effect) & _beyond_output(data)
    return np.flatnonzero(quiet & changed).tolist(), np.flatnonzero(loud & changed & ~quiet).tolist()


def fields(data: xr.Dataset, first: int | None) -> dict[str, Any]:
    """Return what the JSON record holds behind the conclusion."""
    quiet, loud = mismatched(data)
    totals = {
        name: [float(data[f"{name}_{end}"]) for end in ("mean", "low", "high")] for name in ("unexplained", "output")
    }
    return {
        **data.attrs,
        "first": first,
        "embedding": begins_apart(data),
        "predictions": predictions_differ(data),
        "large_change_small_effect": quiet,
        "small_change_large_effect": loud,
        **{name: [None if np.isnan(value) else value for value in values] for name, values in totals.items()},
        "tokens": rows_of(parting_tokens(data)),
        "blocks": rows_of(tabulate(data)),
    }


def parting_tokens(data: xr.Dataset, most: int = 12) -> pd.DataFrame:
    """Return the tokens at which the models predict different next ones, the largest difference first.

    Prompts that begin alike are compared once up to where they stop doing so.

    Returns:
        Columns prompt, token (position), piece, predicted (by A), other (by B) and kl (nats).
    """
    kl_PT = data["token_kl"].values
    parts_PT = np.isfinite(kl_PT) & (data["predicted"].values != data["other"].values)
    pieces = data["piece"].values.tolist()
    first_with = {tuple(pieces[p][: t + 1]): (p, t) for p, t in reversed(list(zip(*np.nonzero(parts_PT))))}
    places = sorted(first_with.values(), key=lambda place: -kl_PT[place])[:most]
    rows = [
        {
            "prompt": str(data["prompt"].values[prompt]),
            "token": int(token),
            **{name: str(data[name].values[prompt, token]) for name in ("piece", "predicted", "other")},
            "kl": float(kl_PT[prompt, token]),
        }
        for prompt, token in places
    ]
    return pd.DataFrame(rows, columns=["prompt", "token", "piece", "predicted", "other", "kl"])


def tabulate(data: xr.Dataset) -> pd.DataFrame:
    """Return a row for every block, with the drift of the boundary behind it."""
    behind = data.isel(boundary=slice(1, None)).drop_vars("boundary").rename(boundary="block")
    return tabulate_over(behind, _COLUMNS, ("block",))


def lay_out(data: xr.Dataset) -> list[TextTable]:
    """Return the blocks, what they do together, and the tokens at which the models part."""
    sums = [
        [label, _mean_over_prompts(data, name)]
        for label, name in (
            ("predictions of A against B", "output"),
            ("all blocks of B in A", "cumulative"),
            ("left unexplained by single grafts, B in A", "unexplained"),
            ("left unexplained by single grafts, A in B", "unexplained_back"),
        )
    ]
    mean = "mean (interval)"
    tables = [frame_table(tabulate(data)), TextTable(["nats per token", mean], sums, forms={mean: ".4g"})]
    parted = parting_tokens(data)
    rows = [
        [
            f"{row.prompt}, token {row.token}",
            *(visible(str(word)) for word in (row.piece, row.predicted, row.other)),
            row.kl,
        ]
        for row in parted.itertuples()
    ]
    names = (f"A: {data.attrs['model']}", f"B: {data.attrs['other']}")
    headings = ["where they part", "behind", *names, "KL (nats)"]
    return [*tables, *([TextTable(headings, rows, forms={"KL (nats)": ".3g"})] if rows else [])]


def _mean_over_prompts(data: xr.Dataset, name: str) -> Estimate:
    """Return mean and interval over prompts; of a curve its last place."""
    return Estimate(*(float(np.ravel(data[f"{name}_{end}"].values)[-1]) for end in ("mean", "low", "high")))

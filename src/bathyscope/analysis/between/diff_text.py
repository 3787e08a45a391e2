"""What is said of two models that part: where, by which blocks, and which of these changed more than they matter."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd
import xarray as xr

from bathyscope.core.result import rows_of, tabulate_over

_SHARE: Final = 4
"""A block whose rank among weight changes and among grafts differs by more than L over this is named."""
_COLUMNS: Final = (
    *("block", "drift_mean", "drift_low", "drift_high", "graft_mean", "graft_low", "graft_high"),
    *("graft_back_mean", "graft_back_low", "graft_back_high", "weight_change"),
)


def first_beyond(data: xr.Dataset) -> int | None:
    """Return the first block behind which the drift surely exceeds the noise floor."""
    low = data["drift_low"].values
    # A single prompt has no interval; its own drift decides.
    drift = np.where(np.isnan(low), data["drift_mean"].values, low)
    beyond = np.flatnonzero(drift[1:] > data["noise_floor"].values[1:])
    return int(beyond[0]) if beyond.size else None


def _begins_apart(data: xr.Dataset) -> bool:
    """Return whether the streams part in front of all blocks, in the embedding."""
    return bool(data["drift_mean"].values[0] > data["noise_floor"].values[0])


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
    output = float(data["output_mean"])
    if first is None:
        models = f"{data.attrs['model']} and {data.attrs['other']}"
        if output <= float(data["output_floor"]):
            return f"{models} do not part beyond rounding on these prompts."
        return (
            f"The streams of {models} do not part beyond rounding on these prompts, and their predictions differ by "
            f"{output:.4g} nats a token: the final norm or the unembedding is another."
        )
    graft = data["graft_mean"].values
    together = f"all blocks together {float(data['cumulative_mean'].values[-1]):.4g}, the whole models {output:.4g}"
    parting = "before block 0, in the embedding" if _begins_apart(data) else f"at block {first}"
    sentences = [f"The streams part {parting}."]
    if graft.any():
        largest = int(graft.argmax())
        sentences.append(
            f"The largest single graft is block {largest} ({graft[largest]:.4g} nats a token; {together})."
        )
    else:
        sentences.append(f"No block differs by itself ({together} nats a token).")
    quiet, loud = _mismatched(data)
    if quiet or loud:
        named = [
            f"{label}: {', '.join(map(str, blocks))}"
            for label, blocks in (("Large change, small effect", quiet), ("small change, large effect", loud))
            if blocks
        ]
        sentences.append("; ".join(named).capitalize() + ".")
    return " ".join(sentences)


def _mismatched(data: xr.Dataset) -> tuple[list[int], list[int]]:
    """Return the blocks that changed much with little effect, and those that changed little with much effect."""
    change, graft = data["weight_change"].values, data["graft_mean"].values
    if np.isnan(change).any():
        return [], []
    gap = pd.Series(change).rank().to_numpy() - pd.Series(graft).rank().to_numpy()
    limit = max(1.0, len(gap) / _SHARE)
    # Where weights changed alike, as in a copy of another precision, the order of the grafts alone would name blocks.
    is_large, is_small = change > np.median(change), change < np.median(change)
    return np.flatnonzero(is_large & (gap > limit)).tolist(), np.flatnonzero(is_small & (gap < -limit)).tolist()


def fields(data: xr.Dataset, first: int | None) -> dict[str, Any]:
    """Return the JSON record."""
    quiet, loud = _mismatched(data)
    totals = {
        name: [float(data[f"{name}_{end}"]) for end in ("mean", "low", "high")] for name in ("unexplained", "output")
    }
    return {
        "kind": "diff",
        **data.attrs,
        "first": first,
        "embedding": _begins_apart(data),
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

"""Is exchanging two neighbouring blocks milder than leaving one out? Paired by prompt, by place and over all places.

Blocks ℓ and ℓ+1 exchanged (``swap``) are compared with the mean of leaving out ℓ and leaving out ℓ+1 (``drop``), so
that both touch the same two blocks. Source: lad2024, layer interventions.
"""

from functools import partial
from typing import Final

import numpy as np
import xarray as xr

from bathyscope.core.calls import checked
from bathyscope.core.common_options import Level, PromptResamples
from bathyscope.errors import OptionError
from bathyscope.labels import Label, Table, interval, labelled, mean_limits, token_weights
from bathyscope.runs.by_place import is_filled
from bathyscope.runs.run import Run
from bathyscope.statistics.difference import paired_difference
from bathyscope.statistics.reading import Reading, only_entry
from bathyscope.statistics.sampling import Sampling

EVERYWHERE = "all"
"""The place that is the mean over all."""
_QUANTITIES = {"kl": ("KL from the normal prediction", "nats"), "top1_agreement": ("share of top-1 tokens kept", "1")}
_label = partial(Label, "quantity place", units="", source="lad2024, layer interventions")
_TABLE: Final[Table] = {
    "dropped": _label("one block left out, mean of the two of the pair"),
    "swapped": _label("two neighbouring blocks exchanged"),
    "difference": _label("swap − drop, paired by prompt"),
    **interval("difference", _label, "its interval"),
    "p_value": _label("two-sided p-value of no difference"),
}


@checked
def milder(
    run: Run, *, cluster: str | None = None, resamples: PromptResamples = 2000, level: Level = 0.95, seed: int = 0
) -> xr.Dataset:
    """What swap and drop do to the prediction, and their paired difference, at each place and in the mean.

    Args:
        run: with drop and swap, on their own tokens (each prompt counts the same).
        cluster: label of prompts that belong together; they are resampled as one.
        seed: of the resampling.

    Returns:
        By (quantity, place): ``dropped``, ``swapped``, ``difference`` (swapped − dropped: below 0 in KL, and above 0
        in the share of top-1 tokens kept, swap is milder), ``difference_low``, ``difference_high`` and ``p_value``. A
        place is the first block of the pair as a text, or ``all``.

    Raises:
        OptionError: a run without drop or swap, or whose drop put means in the place of blocks; without a pair of
            blocks that both measured; or options out of range.
    """
    missing = [name for name in ("drop", "swap") if name not in run]
    if missing:
        raise OptionError(
            f"This run has no {' and no '.join(missing)}; it has {', '.join(run)}. Survey with "
            "measures=['drop', 'swap']."
        )
    if is_filled(run):
        raise OptionError(
            "This run's drop put a mean in the place of each contribution (drop.replace=mean), and swap is compared "
            "with leaving blocks out. Survey again without replace."
        )
    drop, swap = run["drop"], run["swap"]
    dropped = set(drop["dropped"].values.tolist())
    pairs = [block for block in swap["swapped"].values.tolist() if {block, block + 1} <= dropped]
    if not pairs:
        raise OptionError(
            "No pair of blocks was both exchanged and left out, one after the other; survey drop and swap of the same "
            "blocks (drop.blocks, swap.blocks)."
        )
    member = run.clusters(cluster)
    # 1 for every prompt that has tokens to read: each counts the same, long or short.
    weights = np.sign(token_weights(drop))
    sampling = Sampling(resamples, level, seed)
    numbers = np.full((len(_QUANTITIES), len(pairs) + 1, 6), np.nan)
    for row, quantity in enumerate(_QUANTITIES):
        without = drop[quantity].transpose("prompt", "dropped")
        # Swapping touches two blocks, so that it is compared with the mean of dropping either of them.
        each = [without.sel(dropped=[block, block + 1]).mean("dropped").values for block in pairs]
        exchanged = swap[quantity].transpose("prompt", "swapped").sel(swapped=pairs).values
        first, second = np.stack(each, axis=1), np.asarray(exchanged, dtype=np.float64)
        limits = mean_limits(quantity, np.stack([first, second]))
        for place in range(len(pairs) + 1):
            chosen = slice(None) if place == len(pairs) else slice(place, place + 1)
            readings = [
                Reading(values[:, chosen].mean(axis=1)[:, None], weights, only_entry, limits, cluster=member)
                for values in (first, second)
            ]
            difference = paired_difference(readings[0], readings[1], sampling)
            numbers[row, place] = (
                *difference.estimates,
                difference.estimate,
                difference.ci_low,
                difference.ci_high,
                difference.p_value,
            )
    data = {name: numbers[..., number] for number, name in enumerate(_TABLE)}
    coords = {
        "quantity": list(_QUANTITIES),
        "place": [*map(str, pairs), EVERYWHERE],
        "unit": ("quantity", [unit for _, unit in _QUANTITIES.values()]),
        "long_name": ("quantity", [text for text, _ in _QUANTITIES.values()]),
    }
    attrs = {"run": run.caption(), "level": level, "resamples": resamples}
    return labelled(_TABLE, data, coords).assign_attrs(attrs)

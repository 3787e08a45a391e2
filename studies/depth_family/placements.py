"""What the place of norms changes: members of one depth and seed beside each other, paired by prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Final

import xarray as xr

from bathyscope import Run, compare
from bathyscope.extend.statistics import Sampling, Term, contrast, holm
from studies.depth_family.members import Member
from studies.depth_family.trend import SCORES, n_blocks, score_readings

_DIFFERENCE: Final = {
    "difference": "difference",
    "ci_low": "difference_low",
    "ci_high": "difference_high",
    "p_value": "difference_p_value",
}
"""What is kept of a comparison, and its name here."""


def placements(members: Sequence[Member], runs: Sequence[Run]) -> list[tuple[int, int]]:
    """(reference, other): members of equal depth and seed, the first of them against those with norms elsewhere."""
    found = []
    for (a, one), (b, other) in combinations(enumerate(members), 2):
        alike = (n_blocks(runs[a]), one.recipe.seed) == (n_blocks(runs[b]), other.recipe.seed)
        if alike and one.norms == members[0].norms and one.norms != other.norms:
            found.append((a, b))
    return found


def differences(
    members: Sequence[Member], runs: Sequence[Run], pairs: Sequence[tuple[int, int]], settings: Mapping[str, Any]
) -> xr.Dataset:
    """Differences of the ratio between places of norms.

    Returns:
        By ``pair`` and ``estimator``: ``difference``, ``difference_low``, ``difference_high``, ``difference_p_value``,
        ``difference_p_holm``. ``placement`` names the two recipes of a pair, whatever its seed.
    """
    data = compare(runs, pairs=pairs, **settings).data
    kept = data[list(_DIFFERENCE)].rename({**_DIFFERENCE, "comparison": "pair"}).reset_coords(drop=True)
    labels = [f"{members[b].name} − {members[a].name}" for a, b in pairs]
    parts = [kept.assign_coords(pair=labels)]
    readings = [score_readings(run) for run in runs]
    if all(readings):
        sampling = Sampling(**settings)
        found = [
            [contrast([[Term(readings[a][k], -1.0), Term(readings[b][k], 1.0)]], sampling) for k in SCORES]
            for a, b in pairs
        ]
        fields = zip(("estimate", "ci_low", "ci_high", "p_value"), _DIFFERENCE.values())
        values = {
            name: (("pair", "estimator"), [[getattr(c, own) for c in row] for row in found]) for own, name in fields
        }
        parts.append(xr.Dataset(values, {"pair": labels, "estimator": list(SCORES)}))
    made = xr.concat(parts, "estimator", combine_attrs="override")
    p_value = made["difference_p_value"]
    p_holm = p_value.copy(data=holm(p_value.values))
    recipes = [f"{members[b].recipe.name} − {members[a].recipe.name}" for a, b in pairs]
    return made.assign(difference_p_holm=p_holm).assign_coords(placement=("pair", recipes))

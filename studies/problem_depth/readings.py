"""How deep a model works on one problem, read in several ways from one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import xarray as xr

from bathyscope import Run
from studies.common.erasure import persistence


@dataclass(frozen=True)
class Reading:
    """What a reading is.

    Args:
        title: as a figure names it.
        units: block or boundary.
        formula: what it is for one problem.
    """

    title: str
    units: str
    formula: str


READINGS: Final = {
    "skip_layer": Reading(
        "depth score by layer effect",
        "block",
        "Σ_s s·e_s / Σ_s e_s, e_s the mean effect of block s at earlier tokens on later blocks where the answer is "
        "predicted",
    ),
    "skip_output": Reading(
        "depth score by output effect",
        "block",
        "the same, e_s the effect on the answer's probabilities",
    ),
    "lens_settle": Reading(
        "settle depth of the answer",
        "boundary",
        "min{b : JSD₂(p_b, p_L) ≤ 0.5} where the answer is predicted",
    ),
    "lens_prediction": Reading(
        "prediction depth of the answer",
        "boundary",
        "min{b : argmax p_j = argmax p_L for all j ≥ b} where the answer is predicted",
    ),
    "erasure": Reading(
        "boundaries at which a token matters",
        "boundary",
        "Σ_t Σ_b e[b, t] / Σ_t max_b e[b, t] over the tokens of the question between its first and its last",
    ),
}
MEASURES: Final = ("lens", "depth_score", "erasure")
OPTIONS: Final[dict[str, Any]] = {"lens": {"positions": "answer"}, "erasure": {"max_tokens": None}}
"""Of ``MEASURES``: the answer's positions alone, and problems of any length."""
READERS: Final = {"lens": "readable", "translated": "decodable"}
"""Reader of ``translated_lens`` → what its depth is called."""


def readings(run: Run) -> xr.DataArray:
    """Every reading of every problem, [reading, prompt], with the prompts' labels.

    Args:
        run: with ``MEASURES``.
    """
    scores = run["depth_score"].sel(reduction="max")
    lens = run["lens"]
    found = {
        "skip_layer": scores["prompt_score_layer"].values,
        "skip_output": scores["prompt_score_output"].values,
        "lens_settle": lens["settle_depth"].values,
        "lens_prediction": lens["prediction_depth"].values,
        "erasure": persistence(run["erasure"]),
    }
    assert found.keys() == READINGS.keys()
    labels = {name: coord for name, coord in lens.coords.items() if coord.dims == ("prompt",)}
    return xr.DataArray(
        np.stack([found[name] for name in READINGS]), {"reading": list(READINGS), **labels}, ("reading", "prompt")
    )

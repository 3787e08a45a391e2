"""How long the question's tokens matter: one depth of an erasure map."""

from __future__ import annotations

import numpy as np
import xarray as xr

from studies.common.arrays import FloatArray


def persistence(erasure: xr.Dataset) -> FloatArray:
    """At how many boundaries a token of the question matters, by prompt: 0 … L, a mean over tokens that do matter.

    A token counts by the largest effect that erasing it has at any boundary, so that tokens that say nothing do not
    count. The first token is left out: it opens every prompt, and later ones attend to it where nothing else is to be
    read. So is the token that predicts the answer: what stands there matters up to the last boundary whatever the model
    does; and h_L, which is the same.
    """
    effect_PBT = erasure["effect"].transpose("prompt", "boundary", "token").values[:, :-1]
    tokens = np.arange(effect_PBT.shape[2])
    asked_PT = (tokens > 0) & (tokens < erasure["answer_start"].values[:, None] - 1)
    effect_PBT = np.where(asked_PT[:, None], effect_PBT, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(effect_PBT.sum((1, 2)) / effect_PBT.max(1).sum(1), dtype=np.float64)

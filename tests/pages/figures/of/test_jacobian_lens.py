"""What the figure of the Jacobian lens says of its band."""

from __future__ import annotations

import math

import xarray as xr
from support.artists import caption_of
from support.synthetic import replaced
from support.synthetic_tokens import complete_run

from bathyscope.pages.figures.of.jacobian_lens import FIGURE

RUN = complete_run(L=5)


def caption(prompts: int = 6, **values: float) -> str:
    run = complete_run(L=5, prompts=prompts)
    return caption_of(FIGURE, replaced(run, "jacobian_lens", run["jacobian_lens"].assign(values)))


def test_a_band_is_named_with_its_ends_its_gain_and_its_p_value() -> None:
    text = caption()
    band = "Band: at each boundary from 1 (1 to 1) to 4 (4 to 4) the Jacobian lens is nearer to the final prediction"
    assert band in text
    assert "(p ≤ 0.01, corrected for all boundaries), by 0.4 nats (0.2 to 0.6) on average." in text


def test_no_band_says_why() -> None:
    nowhere = caption(band_first=math.nan, band_last=math.nan, band_p=0.3, band_gain=math.nan)
    assert "No band: the Jacobian lens is nowhere shown to be nearer to the final prediction (p = 0.3)." in nowhere
    wide = caption(band_first=math.nan, band_last=math.nan, band_gain_low=-0.1)
    assert "(p = 0.01, but the mean gain is 0.4 nats (-0.1 to 0.6))." in wide


def test_few_prompts_cannot_tell() -> None:
    assert "4 prompts cannot tell whether there is a band" in caption(4)
    assert "One prompt cannot tell whether there is a band" in caption(1)
    assert "cannot tell" not in caption(5)


def test_a_band_of_an_earlier_version_is_not_stated() -> None:
    """Its p-value was of another run of boundaries than the one that it names."""
    data: xr.Dataset = RUN["jacobian_lens"]
    names = ["band_gain", "band_gain_low", "band_gain_high"]
    text = caption_of(FIGURE, replaced(RUN, "jacobian_lens", data.drop_vars(names)))
    assert "Band:" not in text
    assert "No band" not in text

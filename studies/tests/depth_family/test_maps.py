"""The share of variance that maps between best partners explain, by hand."""

from __future__ import annotations

import pytest
import xarray as xr

from studies.depth_family.maps import explained


def test_variance_explained_is_that_of_the_best_partners() -> None:
    own = xr.Dataset(
        {
            "r2": (("source", "target"), [[0.9, 0.1, 0.2], [0.3, 0.8, 0.4]]),
            "best_target": ("source", [0, 2]),
            "best_source": ("target", [0, 1, 1]),
        },
        {"source": [0, 1], "target": [0, 1, 2], "direction": ["best_target", "best_source"]},
    )
    found = explained(own)
    forth, back = (found.sel(direction=name) for name in ("best_target", "best_source"))
    assert [float(forth[name]) for name in ("r2", "r2_least", "r2_most")] == pytest.approx([0.65, 0.4, 0.9])
    assert [float(back[name]) for name in ("r2", "r2_least", "r2_most")] == pytest.approx([0.7, 0.4, 0.9])

"""A model in which running a window twice does help: the scan names its windows and no other."""

from __future__ import annotations

import pytest

import bathyscope
from studies.planted.again import BLOCKS, HELPING, half_a_chain, problems


def test_the_scan_names_the_planted_windows_and_no_other() -> None:
    model = half_a_chain()
    scan = bathyscope.repeat_scan(bathyscope.load(model), problems(model, 24), progress=False)
    data = scan.data
    found = {(int(i), int(j)) for i, j, helps in zip(data["first"], data["last"], data["helps"].values) if helps}
    assert found == HELPING
    assert data.sizes["window"] == BLOCKS * (BLOCKS + 1) // 2
    assert scan.helping[0] == "2…3"
    assert float(data["accuracy"].sel(window="2…3")) == 1.0
    assert data.attrs["full_accuracy"] == 0.0
    assert scan.text.startswith("9 of 21 windows run twice in a row, 24 prompts")
    assert "2…3 (1 instead of 0; +0.7" in scan.text
    assert "to +1)" in scan.text


def test_an_order_of_ones_own_stands_beside_the_windows() -> None:
    model = half_a_chain()
    scan = bathyscope.repeat_scan(
        bathyscope.load(model), problems(model, 24), longest=1, orders=["order:0-2-3-2-3-5"], progress=False
    )
    assert scan.helping == ["order:0-2-3-2-3-5"]
    assert scan.data.sizes["window"] == BLOCKS + 1


def test_windows_longer_than_the_model_are_refused() -> None:
    model = half_a_chain()
    with pytest.raises(
        bathyscope.OptionError, match="longest=7 is out of range; this model has 6 blocks, allowed: 1 to 6"
    ):
        bathyscope.repeat_scan(bathyscope.load(model), problems(model, 2), longest=7)

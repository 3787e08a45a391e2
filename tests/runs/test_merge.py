"""Shards become one dataset: prompts in order, shorter dimensions padded, partial sums added."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import xarray as xr
from support.synthetic_runs import bits, length, shard

from bathyscope.errors import OptionError, StoreError
from bathyscope.runs.canonical import canonical
from bathyscope.runs.merge import merge, require_by_prompt


def kept(first: int, last: int) -> dict[str, xr.Dataset]:
    return {name: canonical(dataset, name) for name, dataset in shard(first, last).items()}


def one(values: object, dims: tuple[str, ...] = ("prompt", "token"), **coords: object) -> dict[str, xr.Dataset]:
    return {"m": xr.Dataset({"x": (dims, np.asarray(values))}, coords=coords)}


@pytest.mark.parametrize("cuts", [[0, 7], [0, 1, 2, 3, 4, 5, 6, 7], [0, 3, 7], [0, 6, 7]])
def test_any_cut_into_shards_gives_the_same_bits_as_one_shard(cuts: list[int]) -> None:
    merged = merge([kept(first, last) for first, last in pairwise(cuts)])
    whole = kept(0, 7)
    total = merged["erasure"]["total"].item()
    for name in whole:
        # A sum over shards is rounded in the order of the shards, so it is compared on its own.
        assert bits(merged[name].drop_vars("total", errors="ignore")) == bits(
            whole[name].drop_vars("total", errors="ignore")
        )
    assert total == pytest.approx(whole["erasure"]["total"].item(), rel=1e-12)


def test_padding_is_nan_beyond_each_prompts_tokens() -> None:
    effect = merge([kept(0, 1), kept(1, 3), kept(3, 4)])["erasure"]["effect"]
    assert effect.dtype == np.float32
    for p in range(4):
        assert np.isfinite(effect.values[p, : length(p)]).all()
        assert np.isnan(effect.values[p, length(p) :]).all()


@pytest.mark.parametrize(
    ("short", "long", "expected"),
    [
        ([[1, 2]], [[3, 4, 5]], np.array([[1, 2, np.nan], [3, 4, 5]])),
        ([[True]], [[False, True]], np.array([[1.0, np.nan], [0.0, 1.0]])),
        (np.array([[1.5]], "f4"), np.array([[2, 3]], "f4"), np.array([[1.5, np.nan], [2, 3]], "f4")),
        ([["a"]], [["bcd", "e"]], np.array([["a", ""], ["bcd", "e"]])),
    ],
)
def test_padded_types(short: list, long: list, expected: np.ndarray) -> None:
    for parts, rows in (([short, long], slice(None)), ([long, short], slice(None, None, -1))):
        x = merge([one(part) for part in parts])["m"]["x"].values
        assert x.dtype == expected.dtype
        np.testing.assert_array_equal(x, expected[rows])


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.bool_, np.float32])
def test_unpadded_types_stay(dtype: type) -> None:
    large = [[1, 0]] if dtype != np.int64 else [[2**62 + 1, 0]]
    x = merge([one(np.array(large, dtype)), one(np.array([[0, 1]], dtype))])["m"]["x"]
    assert x.dtype == dtype
    assert x.values.tolist() == np.array([*large, [0, 1]], dtype).tolist()


def test_labels_of_a_padded_dimension_are_the_longest() -> None:
    merged = merge([one([[1.0]], token=[0]), one([[1.0, 2.0]], token=[0, 1])])["m"]
    assert merged["token"].values.tolist() == [0, 1]


def test_sums_are_added_in_the_order_of_the_shards() -> None:
    def part(value: float) -> dict[str, xr.Dataset]:
        return {"cka": xr.Dataset({"products": (("a",), np.array([value]), {"merge": "sum", "units": "1"})})}

    products = merge([part(1e16), part(1.0), part(-1e16), part(3.0)])["cka"]["products"]
    assert products.values.tolist() == [((1e16 + 1.0) - 1e16) + 3.0]
    assert products.attrs == {"merge": "sum", "units": "1"}


def test_attributes_that_shards_do_not_share_are_left_out() -> None:
    def part(seconds: float) -> dict[str, xr.Dataset]:
        attrs = {"units": "nats", "seconds": seconds, "nan": float("nan")}
        return {"m": xr.Dataset({"x": (("prompt",), np.zeros(1), attrs)}, attrs=attrs)}

    merged = merge([part(1.0), part(2.0)])["m"]
    assert sorted(merged.attrs) == sorted(merged["x"].attrs) == ["nan", "units"]


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        (one([[1.0]]), {"other": one([[1.0]])["m"]}, r"run disagree: measures \['other'\] and \['m'\]"),
        (one([[1.0]]), {"m": one([[1.0]])["m"].rename(x="y")}, r"m disagree: variables \['y'\] and \['x'\]"),
        (one([[1.0]]), one([[1.0]], ("prompt", "block")), r"m\.x disagree: dimensions"),
        (one([[1.0]]), one([[1]]), r"m\.x disagree: types int64 and float64"),
        (one([[1.0]], token=[0]), one([[1.0]], token=[1]), r"m\.token disagree: labels \[1\] and \[0\]"),
    ],
)
def test_shards_of_different_form_are_refused(first: dict, second: dict, found: str) -> None:
    with pytest.raises(StoreError, match=f"The shards of {found}.*delete the run's folder and measure again"):
        merge([first, second])


@pytest.mark.parametrize(
    "variable",
    [(("block",), np.zeros(4)), (("block", "prompt"), np.zeros((4, 3))), (("prompt",), np.zeros(3))],
)
def test_variable_without_its_prompts_is_refused(variable: tuple) -> None:
    with pytest.raises(OptionError, match=r"skip gives x with the dimensions .*; allowed: a dimension 'prompt' of 2"):
        require_by_prompt({"skip": xr.Dataset({"x": variable})}, 2)


def test_per_prompt_variables_and_partial_sums_are_accepted() -> None:
    variables = {
        "x": (("prompt", "block"), np.zeros((2, 4))),
        "y": (("norm", "prompt"), np.zeros((3, 2))),
        "s": (("a",), np.zeros(3), {"merge": "sum"}),
    }
    results = {"skip": xr.Dataset(variables)}
    require_by_prompt(results, 2)
    merged = merge([results, results])["skip"]
    assert {name: values.sizes.get("prompt") for name, values in merged.items()} == {"x": 4, "y": 4, "s": None}
    with pytest.raises(OptionError, match="skip gives x with the dimensions"):
        require_by_prompt(results, 3)


def test_prompts_of_parts_come_back_in_their_order() -> None:
    """Batches gather prompts of like length; a shard has them as they were given."""
    numbers = [4, 0, 3, 1, 2, 6, 5]
    parts = [kept(4, 5), kept(0, 1), kept(3, 4), kept(1, 3), kept(6, 7), kept(5, 6)]
    merged, whole = merge(parts, numbers), kept(0, 7)
    assert bits(merged["skip"]) == bits(whole["skip"])
    assert bits(merged["erasure"].drop_vars("total")) == bits(whole["erasure"].drop_vars("total"))
    assert merged["erasure"]["total"].item() == pytest.approx(whole["erasure"]["total"].item(), rel=1e-12)
    sums = {"m": xr.Dataset({"x": ((), 1.0, {"merge": "sum"})})}
    assert merge([sums, sums], [1, 0])["m"]["x"].item() == 2.0

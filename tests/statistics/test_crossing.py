from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from bathyscope.statistics.crossing import (
    KL_FRACTION,
    OVERLAP_THRESHOLD,
    Criterion,
    centre_of_mass,
    cosine_depth,
    crossing_reason,
    kl_depth,
    layer_effect,
    overlap_depth,
)

NAN = math.nan

# Few distinct values, so that plateaus and entries exactly at a threshold are common.
COSINES = st.sampled_from([-1.0, -0.5, -0.25, -0.0, 0.0, 0.125, 0.5, NAN]) | st.floats(-1, 1)
KLS = st.sampled_from([0.0, 1.0, 2.0, 4.0, NAN, math.inf]) | st.floats(0, 20)
OVERLAPS = st.sampled_from([0.0, 0.2, 0.3, 0.4, 1.0, NAN]) | st.floats(0, 1)
SHAPES = array_shapes(min_dims=1, max_dims=3, max_side=9)


def share_of_the_way(start: float, end: float, at: float) -> float:
    """Plain division: the slope that np.interp takes first overflows where start and end are almost the same."""
    return (at - start) / (end - start)


def cosine_by_loop(mu: list[float]) -> tuple[float, float]:
    if not all(math.isfinite(value) for value in mu):
        return NAN, NAN
    found = (NAN, NAN)
    for block in range(len(mu) - 1):
        if mu[block] < 0 <= mu[block + 1]:
            found = (block, block + share_of_the_way(mu[block], mu[block + 1], 0.0))
    return found


def first_below_by_loop(curve: list[float], threshold: float) -> tuple[float, float]:
    for b in range(len(curve) - 1):
        if curve[b] < threshold:
            if b == 0:
                return 0.0, 0.0
            return b, b - 1 + share_of_the_way(curve[b - 1], curve[b], threshold)
    return NAN, NAN


def kl_by_loop(kl: list[float], fraction: float) -> tuple[float, float]:
    if not all(math.isfinite(value) for value in kl):
        return NAN, NAN
    return first_below_by_loop(kl, fraction * max(kl))


def overlap_by_loop(overlap: list[float], threshold: float) -> tuple[float, float]:
    if not all(math.isfinite(value) for value in overlap):
        return NAN, NAN
    return first_below_by_loop([-value for value in overlap], -threshold)


def assert_rows_equal(got: np.ndarray, curves: np.ndarray, by_loop: list[float], atol: float = 0.0) -> None:
    assert got.shape == curves.shape[:-1]
    np.testing.assert_allclose(got.ravel(), by_loop, rtol=0, atol=atol)


@given(arrays(float, SHAPES, elements=COSINES))
def test_cosine_depth_agrees_with_a_loop(curves: np.ndarray) -> None:
    loops = [cosine_by_loop(list(curve)) for curve in curves.reshape(-1, curves.shape[-1])]
    assert_rows_equal(cosine_depth(curves), curves, [whole for whole, _ in loops])
    assert_rows_equal(cosine_depth(curves, interpolate=True), curves, [real for _, real in loops], 1e-9)


@given(arrays(float, SHAPES, elements=KLS), st.sampled_from([0.25, 0.5, 1.0]))
@example(np.array([2.2e-311, 0.0, 0.0]), 0.25)
def test_kl_depth_agrees_with_a_loop(curves: np.ndarray, fraction: float) -> None:
    loops = [kl_by_loop(list(curve), fraction) for curve in curves.reshape(-1, curves.shape[-1])]
    assert_rows_equal(kl_depth(curves, fraction=fraction), curves, [whole for whole, _ in loops])
    got = kl_depth(curves, fraction=fraction, interpolate=True)
    assert_rows_equal(got, curves, [real for _, real in loops], 1e-9)


@given(arrays(float, SHAPES, elements=OVERLAPS), st.sampled_from([0.0, 0.3, 0.6]))
def test_overlap_depth_agrees_with_a_loop(curves: np.ndarray, threshold: float) -> None:
    loops = [overlap_by_loop(list(curve), threshold) for curve in curves.reshape(-1, curves.shape[-1])]
    assert_rows_equal(overlap_depth(curves, threshold=threshold), curves, [whole for whole, _ in loops])
    got = overlap_depth(curves, threshold=threshold, interpolate=True)
    assert_rows_equal(got, curves, [real for _, real in loops], 1e-9)


@pytest.mark.parametrize(
    ("mu", "whole", "real"),
    [
        ([-0.3, -0.1, 0.3, 0.4], 1, 1.25),
        ([-0.1, 0.1, -0.3, 0.1], 2, 2.75),
        ([-0.1, 0.0, 0.0, 0.2], 0, 1.0),
        ([0.2, -0.1, -0.0, 0.1], 1, 2.0),
        ([-0.4, -0.4, -0.4, 0.4], 2, 2.5),
        ([0.1, 0.2, 0.3], NAN, NAN),
        ([-0.1, -0.2, -0.3], NAN, NAN),
        ([0.1, -0.2, -0.3], NAN, NAN),
        ([-1.0, 1.0], 0, 0.5),
        ([-1.0], NAN, NAN),
        ([-1.0, NAN, 1.0, -1.0, 1.0], NAN, NAN),
    ],
)
def test_cosine_depth_of_known_curves(mu: list[float], whole: float, real: float) -> None:
    np.testing.assert_allclose(cosine_depth(mu), whole)
    np.testing.assert_allclose(cosine_depth(mu, interpolate=True), real, rtol=1e-12)


@pytest.mark.parametrize(
    ("kl", "whole", "real"),
    [
        ([8.0, 8.0, 6.0, 2.0, 0.5], 3, 2.5),
        ([4.0, 8.0, 4.0, 4.0, 0.0, 0.0], 4, 3.0),
        ([1.0, 8.0, 8.0, 1.0], 0, 0.0),
        ([20.0, 9.0, 8.0, 8.0, 7.0], 1, 1 - 1 / 11),
        ([8.0, 8.0, 8.0, 1.0], NAN, NAN),
        ([0.0, 0.0, 0.0], NAN, NAN),
        ([1.0, 8.0], 0, 0.0),
        ([8.0, 1.0], NAN, NAN),
        ([8.0], NAN, NAN),
    ],
)
def test_kl_depth_of_known_curves(kl: list[float], whole: float, real: float) -> None:
    np.testing.assert_allclose(kl_depth(kl), whole)
    np.testing.assert_allclose(kl_depth(kl, interpolate=True), real, rtol=1e-12)


def test_one_high_entry_draws_the_kl_depth_to_the_front() -> None:
    kl = [9.0, 9.0, 9.0, 9.0, 8.0, 3.0, 1.0, 0.5]
    assert kl_depth(kl) == 5
    assert kl_depth([19.0, *kl[1:]]) == 1


@pytest.mark.parametrize(
    ("overlap", "whole", "real"),
    [
        ([0.0, 0.1, 0.2, 0.4, 0.9], 3, 2.5),
        ([0.0, 0.3, 0.3, 0.5, 0.9], 3, 2.0),
        ([0.5, 0.1, 0.9], 0, 0.0),
        ([0.0, 0.1, 0.9], NAN, NAN),
        ([0.0, 0.3, 0.3, 0.3], NAN, NAN),
        ([0.5], NAN, NAN),
        ([0.5, 0.0], 0, 0.0),
    ],
)
def test_overlap_depth_of_known_curves(overlap: list[float], whole: float, real: float) -> None:
    np.testing.assert_allclose(overlap_depth(overlap), whole)
    np.testing.assert_allclose(overlap_depth(overlap, interpolate=True), real, rtol=1e-12)


@given(
    arrays(float, array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=9), elements=st.floats(0.01, 1)),
    st.sampled_from([0.125, 4.0, 1024.0]),
)
def test_depths_keep_under_a_change_of_unit(curves: np.ndarray, scale: float) -> None:
    np.testing.assert_array_equal(kl_depth(scale * curves), kl_depth(curves))
    signed = curves - 0.5
    for interpolate in (False, True):
        np.testing.assert_allclose(
            cosine_depth(scale * signed, interpolate=interpolate),
            cosine_depth(signed, interpolate=interpolate),
        )


@given(arrays(float, 7, elements=st.floats(-1, 1)))
def test_whole_depths_depend_only_on_the_side_of_the_threshold(curve: np.ndarray) -> None:
    bent = np.cbrt(curve)
    np.testing.assert_array_equal(cosine_depth(bent), cosine_depth(curve))
    overlap = (curve + 1) / 2
    sides = np.where(overlap > 0.3, 0.9, 0.1)
    np.testing.assert_array_equal(overlap_depth(sides), overlap_depth(overlap))


@given(arrays(float, (4, 8), elements=st.floats(-1, 1)))
def test_interpolated_positions_lie_in_the_segment_of_the_whole_depth(curves: np.ndarray) -> None:
    whole, real = cosine_depth(curves), cosine_depth(curves, interpolate=True)
    np.testing.assert_array_equal(np.isnan(whole), np.isnan(real))
    met = ~np.isnan(whole)
    assert ((whole[met] <= real[met]) & (real[met] <= whole[met] + 1)).all()
    for depth in (kl_depth, overlap_depth):
        whole, real = depth(curves + 1), depth(curves + 1, interpolate=True)
        np.testing.assert_array_equal(np.isnan(whole), np.isnan(real))
        met = ~np.isnan(whole)
        assert ((np.maximum(whole[met] - 1, 0) <= real[met]) & (real[met] <= whole[met])).all()


def test_layer_effect_and_centre_of_mass_agree_with_a_loop() -> None:
    rng = np.random.default_rng(0)
    effect = np.triu(rng.random((3, 6, 6)), k=1)
    e = layer_effect(effect)
    for prompt in range(3):
        by_loop = []
        for s in range(6):
            total = sum(effect[prompt, s, block] for block in range(6))
            by_loop.append(total / max(6 - 1 - s, 1))
        np.testing.assert_allclose(e[prompt], by_loop, rtol=1e-12)
        expected = sum(s * by_loop[s] for s in range(6)) / sum(by_loop)
        np.testing.assert_allclose(centre_of_mass(e)[prompt], expected, rtol=1e-12)


def test_centre_of_mass_of_known_effects() -> None:
    assert centre_of_mass([0.0, 0.0, 3.0, 0.0]) == 2
    assert centre_of_mass([1.0, 0.0, 0.0, 1.0]) == 1.5
    assert centre_of_mass([2.0]) == 0
    got = centre_of_mass([[0.0, 0.0], [1.0, NAN], [1.0, math.inf], [1.0, 1.0]])
    np.testing.assert_array_equal(got, [NAN, NAN, NAN, 0.5])


NO_RISE = "no sign change from negative to positive: the mean cosine "


@pytest.mark.parametrize(
    ("criterion", "curve", "reason"),
    [
        ("cosine", [0.1, 0.2], NO_RISE + "is nowhere below zero"),
        ("cosine", [-0.1, -0.2], NO_RISE + "is below zero at every block"),
        ("cosine", [0.1, -0.2], NO_RISE + "only falls from positive to negative"),
        ("cosine", [-0.2], "the model has a single block, and a depth needs two"),
        ("cosine", [NAN, 0.1, 0.2], "the cosine curve has no finite value at 1 of 3 entries"),
        (
            "kl",
            [4.0, 3.0, 0.0],
            "KL never falls below 0.5 of its maximum before the last block (lowest there: 0.75 of it)",
        ),
        ("kl", [0.0, 0.0, 0.0], "KL is zero at every block input"),
        (
            "overlap",
            [0.0, 0.25, 0.6],
            "overlap never exceeds 0.3 before the last block (highest there: 0.25)",
        ),
        ("overlap", [NAN, NAN], "the overlap curve has no finite value at 2 of 2 entries"),
    ],
)
def test_reasons_are_plain_words(criterion: Criterion, curve: list[float], reason: str) -> None:
    limit = {"cosine": 0.0, "kl": KL_FRACTION, "overlap": OVERLAP_THRESHOLD}[criterion]
    assert crossing_reason(criterion, limit, curve) == reason

"""Influence given and received: means over the cells a skip can reach, written out cell by cell."""

from __future__ import annotations

import numpy as np

from bathyscope.statistics.crossing import layer_effect
from bathyscope.statistics.influence import influence_given, influence_received

EFFECT = np.array(
    [
        [1.0, 0.4, 0.2, 0.6],
        [0.0, 1.0, 0.3, 0.1],
        [0.0, 0.0, 1.0, 0.2],
        [0.0, 0.0, 0.0, 1.0],
    ]
)


def test_means_of_the_columns_above_and_the_rows_beyond_the_diagonal() -> None:
    np.testing.assert_allclose(influence_received(EFFECT), [np.nan, 0.4, 0.25, 0.3])
    np.testing.assert_allclose(influence_given(EFFECT), [0.4, 0.2, 0.2, np.nan])


def test_cells_that_are_fixed_by_definition_have_no_say() -> None:
    future = np.triu(EFFECT, k=1)
    odd = np.where(np.tri(4, dtype=bool), 99.0, EFFECT)
    for changed in (future, odd):
        np.testing.assert_array_equal(influence_received(changed), influence_received(EFFECT))
        np.testing.assert_array_equal(influence_given(changed), influence_given(EFFECT))
    np.testing.assert_allclose(influence_given(future)[:-1], layer_effect(future)[:-1])


def test_missing_cells_are_left_out_prompt_by_prompt() -> None:
    effect = np.stack([EFFECT, EFFECT, EFFECT])
    effect[1, 0, 3] = np.nan
    effect[2] = np.nan
    received, given = influence_received(effect), influence_given(effect)
    assert (received.shape, given.shape) == ((3, 4), (3, 4))
    np.testing.assert_array_equal(received[0], influence_received(EFFECT))
    np.testing.assert_allclose(received[1], [np.nan, 0.4, 0.25, 0.15])
    np.testing.assert_allclose(given[1], [0.3, 0.2, 0.2, np.nan])
    assert np.isnan(received[2]).all()
    assert np.isnan(given[2]).all()

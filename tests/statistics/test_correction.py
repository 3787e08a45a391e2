"""Holm's correction: its known values, and what is no p-value."""

import numpy as np
import pytest

from bathyscope.errors import OptionError
from bathyscope.extend.statistics import holm


def test_a_list_and_an_array_are_corrected_alike() -> None:
    # the smallest times 3, the next times 2, and never less than the one before
    assert holm([0.01, 0.04, 0.03]).tolist() == pytest.approx([0.03, 0.06, 0.06])
    assert holm(np.array([[0.01], [0.04]])).tolist() == [[0.02], [0.04]]
    assert holm([]).shape == (0,)
    assert np.isnan(holm([np.nan])).all()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0.1, 2.0], "A p-value of 2 is out of range; allowed: 0 to 1, or NaN for a test not made."),
        ([-0.1], "A p-value of -0.1 is out of range"),
        ([np.inf], "A p-value of inf is out of range"),
        (["a"], r"p_values=\['a'\] are no numbers; give those of all tests."),
        ([[0.1], [0.1, 0.2]], "are no numbers"),
    ],
)
def test_what_is_no_p_value_is_refused(values: object, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        holm(values)  # type: ignore[arg-type]

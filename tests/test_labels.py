"""Labels: what an array says of itself, and how a table is held against a result."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import xarray as xr
from support.misfits import misfits

from bathyscope.errors import OptionError, StoreError
from bathyscope.labels import Label, documented, labelled, token_weights, variable

TABLE = {
    "kl": Label("[norm] prompt boundary", "KL", "nats", "KL(p ‖ p̄), k = {k=5}", "a paper", "0 = equal"),
    "top": Label("prompt", "top |h|", optional=True),
}


def result(**changes: xr.Variable) -> xr.Dataset:
    return labelled(TABLE, {"kl": np.zeros((2, 3)), "top": torch.zeros(2)}).assign(changes)


def test_a_variable_takes_what_numpy_does_not_have() -> None:
    made = variable(("prompt",), torch.tensor([1.5, -2.0], dtype=torch.bfloat16), "KL", "nats", source="own")
    np.testing.assert_array_equal(made.values, np.array([1.5, -2.0], np.float32))


def test_a_variable_carries_what_it_is() -> None:
    made = variable(("prompt",), torch.ones(2), "KL", "nats", source="a paper", formula="KL(p ‖ p̄)")
    assert made.attrs == {"long_name": "KL", "units": "nats", "formula": "KL(p ‖ p̄)", "source": "a paper"}
    assert isinstance(made.values, np.ndarray)


def test_blanks_are_filled_with_what_is_known() -> None:
    assert labelled(TABLE, {"kl": np.zeros((2, 3))}, k=7)["kl"].attrs["formula"] == "KL(p ‖ p̄), k = 7"
    assert result()["kl"].attrs["formula"] == "KL(p ‖ p̄), k = 5"


def test_a_dimension_in_brackets_is_there_where_values_have_it() -> None:
    assert result()["kl"].dims == ("prompt", "boundary")
    assert labelled(TABLE, {"kl": np.zeros((4, 2, 3))})["kl"].dims == ("norm", "prompt", "boundary")


def test_a_name_that_is_in_no_table_is_an_error() -> None:
    with pytest.raises(KeyError, match="kll"):
        labelled(TABLE, {"kll": np.zeros((2, 3))})


def test_results_that_fit() -> None:
    assert list(misfits(TABLE, result())) == []
    assert list(misfits(TABLE, result().drop_vars("top"))) == []
    assert list(misfits(TABLE, labelled(TABLE, {"kl": np.zeros((2, 3))}, k="many"))) == []


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (result().drop_vars("kl"), "kl is missing"),
        (result(extra=xr.Variable("prompt", np.zeros(2))), "extra is not in its table"),
        (result().rename(boundary="block"), "kl has the dimensions ('prompt', 'block')"),
        (result(top=Label("prompt", "top", "1").of(np.zeros(2))), "top says long_name 'top'; in its table 'top |h|'"),
        (result(top=Label("prompt", "top |h|", "bits").of(np.zeros(2))), "top says units 'bits'; in its table '1'"),
    ],
)
def test_results_that_do_not_fit(found: xr.Dataset, said: str) -> None:
    assert [text for text in misfits(TABLE, found) if said in text]


def test_a_table_as_a_document_has_it() -> None:
    assert documented(TABLE) == [
        "| `kl` | prompt, boundary | nats | KL | KL(p ‖ p̄), k = 5 | a paper |",
        "| `top` | prompt | 1 | top \\|h\\| |  |  |",
    ]


def test_numbers_of_tokens_that_are_none_are_one_error() -> None:
    for name in ("n_averaged", "n_averaged_kl", "n_tokens"):
        with pytest.raises(StoreError, match=f"{name} of these results holds no numbers of tokens"):
            token_weights(xr.Dataset({name: ("prompt", np.array(["a", "b"]))}), "kl")


@pytest.mark.parametrize(
    ("dims", "values"), [(("prompt",), np.zeros((2, 3))), ("prompt", np.zeros(2)), (("prompt", "block"), np.zeros(2))]
)
def test_dimensions_that_are_not_those_of_the_values_are_refused(dims: object, values: object) -> None:
    with pytest.raises(
        OptionError, match=r"do not name the axes of an array of shape .*; give a list with one name for"
    ):
        variable(dims, values, "spread", "1", source="own")  # type: ignore[arg-type]


@pytest.mark.parametrize("limits", [(1, 0), (float("nan"), 1)])
def test_limits_that_are_no_range_are_refused(limits: tuple[float, float]) -> None:
    with pytest.raises(OptionError, match="are no range; give the smallest value first"):
        variable(["prompt"], np.zeros(2), "spread", "1", source="own", limits=limits)

"""Differences of groups next to the same differences of untrained models: values by hand, and what is said of them."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from support import waves, zoo

import bathyscope
from bathyscope import Prompt
from bathyscope.analysis.depths.group_context import compare_with_untrained

QUICK = {"resamples": 100, "permutations": 99}
KINDS = np.array(["a", "b"] * 5)


def surveyed(control: str | None) -> bathyscope.Run:
    ids = zoo.prompts(zoo.build("llama"), [9, 12] * 5)
    prompts = [Prompt(ids=each, labels={"kind": kind}) for each, kind in zip(ids, KINDS)]
    return bathyscope.survey(waves.loaded("llama"), prompts, ["lens"], control=control, progress=False)


def test_untrained_differences_are_those_of_the_controls_groups() -> None:
    run = surveyed("untrained:2")
    result = bathyscope.group(run, "kind", **QUICK)  # type: ignore[arg-type]
    assert result["untrained"].values.tolist() == ["untrained-0", "untrained-1"]
    for label, control in run.controls.items():
        lens = control["lens"]
        for name, variable in (("settle", "settle_depth"), ("prediction", "prediction_depth")):
            depth = lens[variable].values
            expected = (depth[KINDS == "b"].mean() - depth[KINDS == "a"].mean()) / run.n_blocks
            cell = result.data["untrained_difference"].sel(untrained=label, pair="b − a", estimator=name)
            assert cell.item() == pytest.approx(expected, abs=1e-12)
    # whole-numbered estimators have no test to stand next to
    assert result.data["untrained_difference"].sel(estimator=["kl", "overlap"]).isnull().all()
    table = result.tables()[-1]
    assert table.headings[-1] == "Untrained"
    assert table.caption[-1].startswith("Untrained: mean of the same difference")
    without = bathyscope.group(surveyed(None), "kind", **QUICK)  # type: ignore[arg-type]
    assert "untrained_difference" not in without.data
    assert "untrained" not in without.text
    assert "Untrained" not in without.tables()[-1].headings


@pytest.mark.parametrize(
    ("difference", "untrained", "said"),
    [
        (0.2, [0.1, 0.25], " Of 1 that can be compared, 1 is as large in one of the 2 untrained models."),
        (-0.2, [-0.1, -0.25], " Of 1 that can be compared, 1 is as large in one of the 2 untrained models."),
        (0.2, [0.1, -0.25], " Of 1 that can be compared, 0 are as large in one of the 2 untrained models."),
        (0.2, [0.1], " Of 1 that can be compared, 0 are as large in the untrained model."),
        (0.2, [np.nan], ""),
        (0.01, [0.3], ""),
    ],
)
def test_a_difference_is_as_large_untrained_where_it_is_in_the_same_direction(
    difference: float, untrained: list[float], said: str
) -> None:
    dims = ("pair", "estimator")
    ends = {"difference": difference, "difference_low": difference - 0.05, "difference_high": difference + 0.05}
    data = xr.Dataset(
        {name: (dims, [[value]]) for name, value in ends.items()}
        | {"untrained_difference": (("untrained", *dims), [[[value]] for value in untrained])},
        {"untrained": range(len(untrained))},
    )
    assert compare_with_untrained(data) == said

"""Which factors of a permutation problem are the inputs of its steps, followed by hand."""

from __future__ import annotations

from itertools import cycle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from bathyscope.errors import OptionError
from studies.problem_depth import operands
from studies.problem_depth.operands import main, moving_factors


def test_factors_that_move_the_point_are_the_inputs_in_order() -> None:
    words = ["<|begin|>", "compose", "(15)", "()", "(14)", "(23)", "(12345)", "of", "4", ":", "2"]
    # 4 is left by (15), goes to 1 by (14), is left by (23), and goes on to 2 by (12345)
    assert moving_factors([f" {word}" for word in words]) == [4, 6]


def test_a_question_for_the_product_has_no_point() -> None:
    with pytest.raises(OptionError, match="give permutations with answer=image"):
        moving_factors(["compose", " 21345", " :", " 21345"])


def test_trained_models_stand_beside_the_untrained_ones_of_their_shape(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Fake(dict[str, xr.Dataset]):
        """A run as far as the table looks at it."""

        def __init__(self, slope: float, controls: dict[str, Any]) -> None:
            data: dict[str, Any] = {f"operand_slope{end}": slope for end in ("", "_low", "_high")}
            super().__init__(patching=xr.Dataset({**data, "operand_left": (("prompt", "operand"), np.ones((12, 2)))}))
            self.controls = controls

    trained, untrained = (2.02, 1.63, 1.89), (1.27, 1.82, 1.62)
    controls = {f"untrained-{n}": Fake(slope, {}) for n, slope in enumerate(untrained)}
    runs = cycle([Fake(slope, controls) for slope in trained])
    monkeypatch.setattr(operands, "load", lambda *given, **named: SimpleNamespace(n_blocks=12))
    monkeypatch.setattr(operands, "patched", lambda model: next(runs))
    main(["a", "b", "c"])
    printed = capsys.readouterr().out
    wanted = stats.ttest_ind(trained, untrained, equal_var=False).confidence_interval(0.95)
    assert f"trained less untrained: +0.28 ({wanted.low:+.2f} to {wanted.high:+.2f}) (Welch)" in printed
    assert "+1.85" in printed
    assert "+1.57" in printed
    main(["a"])
    assert "Welch" not in capsys.readouterr().out

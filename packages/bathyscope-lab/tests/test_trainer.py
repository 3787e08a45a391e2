"""Learning rates over a run."""

from __future__ import annotations

import pytest
from bathyscope_lab.recipe import Optimisation
from bathyscope_lab.trainer import learning_rate


def test_rates_rise_and_fall() -> None:
    plateau = Optimisation(schedule="plateau", warmup_steps=10, decay=0.5, final_ratio=0.1)
    assert learning_rate(plateau, step=0, share=0.0) == pytest.approx(0.1)
    assert learning_rate(plateau, step=9, share=0.1) == learning_rate(plateau, step=50, share=0.5) == 1.0
    assert learning_rate(plateau, step=75, share=0.75) == pytest.approx(0.1 + 0.9 * 0.5)
    assert learning_rate(plateau, step=99, share=1.0) == pytest.approx(0.1)
    cosine = Optimisation(warmup_steps=10, final_ratio=0.1)
    assert learning_rate(cosine, step=4, share=0.0) == pytest.approx(0.5)
    assert learning_rate(cosine, step=50, share=0.5) == pytest.approx(0.55)
    assert learning_rate(cosine, step=99, share=1.0) == pytest.approx(0.1)

"""The first picture of the README shows the model beside its controls."""

from __future__ import annotations

from pathlib import Path

import pytest

from bathyscope.extend import bundled_model
from studies.real_model.models import SMOLLM2
from studies.real_model.profile import draw_profile, survey_profile


@pytest.mark.thorough
def test_the_profile_shows_the_model_beside_its_controls(tmp_path: Path) -> None:
    prompts = [list(range(1, 17)), list(range(20, 36))]
    run = survey_profile(bundled_model(), tmp_path / "run", prompts, "untrained:2")
    assert list(run.controls) == ["untrained-0", "untrained-1"]
    draw_profile(run, tmp_path / "profile.svg")
    picture = (tmp_path / "profile.svg").read_text(encoding="utf-8")
    assert SMOLLM2.origin in picture
    assert "grey: 2 untrained, the same prompts" in picture
    assert "untrained: half final from" in picture
    assert "prefers-color-scheme:dark" in picture
    before = picture
    # what is stored is not measured again
    draw_profile(survey_profile(bundled_model(), tmp_path / "run", prompts, "untrained:2"), tmp_path / "profile.svg")
    assert (tmp_path / "profile.svg").read_text(encoding="utf-8") == before

"""The first picture of the README shows the model beside its controls."""

from __future__ import annotations

import re
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


def test_pages_say_what_the_picture_says() -> None:
    """The picture is drawn from a run that is not stored, the share of predictions from stored surveys."""
    docs = Path(__file__).parents[3] / "docs"
    readme, untrained, landing = (
        " ".join(place.read_text(encoding="utf-8").split())
        for place in (docs.parent / "README.md", docs / "experiments" / "untrained.md", docs / "index.md")
    )
    picture = " ".join(re.sub(r"<[^>]*>", " ", (docs / "images" / "profile.svg").read_text(encoding="utf-8")).split())
    [prompts, earlier, most, least, later, ends] = re.search(
        r"(\d+) prompts, .* −(\d\.\d) blocks \(95 % interval −(\d\.\d) to −(\d\.\d)\) .* "
        r"effect on output: \+(\d\.\d) blocks \((\+\d\.\d to \+\d\.\d)\)",
        picture,
    ).groups()
    assert f"On these {prompts} prompts the two readings lie apart in opposite directions from untrained" in readme
    assert (
        f"keep their prediction {earlier} ({least} to {most}) blocks earlier on average, 90 % of the effect" in readme
    )
    assert f"on the output is done {later} ({ends.replace('+', '')}) blocks later;" in readme
    assert f"90 % is done {later} blocks of 30 later ({ends}) than in untrained models" in untrained
    shares = re.search(
        r"without one middle block \| 0\.(\d+) \(0\.(\d+) to 0\.(\d+)\) \| 0\.(\d+) to 0\.(\d+) ", landing
    ).groups()
    assert "{} % ({} to {} %) of the top-1 predictions stay".format(*shares[:3]) in readme
    assert "and in untrained models {} to {} %".format(*shares[3:]) in readme

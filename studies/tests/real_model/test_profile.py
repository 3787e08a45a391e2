"""The first picture of the README shows the model beside its controls."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from bathyscope.extend import bundled_model
from studies.real_model.measuring import results_folder
from studies.real_model.models import REAL_MODELS, SMOLLM2, RealModel
from studies.real_model.profile import READINGS, STORED, draw_profile, stored_readings, survey_profile

DOCS = Path(__file__).parents[3] / "docs"


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
    stored = stored_readings(run)
    assert (stored["prompts"], stored["tokens"]) == (2, 32)
    for reading in map(stored.get, READINGS):
        assert reading["difference"] == pytest.approx(reading["value"] - reading["untrained"], abs=1e-3)
    before = picture
    # what is stored is not measured again
    draw_profile(survey_profile(bundled_model(), tmp_path / "run", prompts, "untrained:2"), tmp_path / "profile.svg")
    assert (tmp_path / "profile.svg").read_text(encoding="utf-8") == before


@pytest.mark.parametrize("real", REAL_MODELS.values(), ids=REAL_MODELS)
def test_the_picture_says_what_is_stored(real: RealModel) -> None:
    stored = json.loads((results_folder(real) / STORED).read_text(encoding="utf-8"))
    picture = (DOCS / "images" / f"profile{real.suffix}.svg").read_text(encoding="utf-8")
    assert stored["weights"] == real.origin
    assert f"{stored['prompts']} prompts, {stored['tokens']} tokens" in picture
    words = {"half": "Half of the tokens final from", "own": "90 % of the effect on output by"}
    for name, begin in words.items():
        reading = stored[name]
        assert f"{begin} {reading['value']:.1f} blocks ({reading['low']:.1f} to {reading['high']:.1f})" in picture
        assert f"Untrained: {begin[0].lower()}{begin[1:]} {reading['untrained']:.1f} (" in picture
    assert stored["headline"].startswith(" ".join(re.findall(r">(Half of [^<]*|\d+ blocks on;[^<]*)<", picture)))


def test_pages_say_what_is_stored() -> None:
    readme, untrained, landing, gemma = (
        " ".join(place.read_text(encoding="utf-8").split())
        for place in (
            DOCS.parent / "README.md",
            DOCS / "experiments" / "untrained.md",
            DOCS / "index.md",
            DOCS / "real_model.md",
        )
    )
    (smollm2, smollm2_half), (gemma3, gemma3_half) = (
        [{key: abs(number) for key, number in stored[name].items()} for name in ("own", "half")]
        for stored in (json.loads((results_folder(real) / STORED).read_text("utf-8")) for real in REAL_MODELS.values())
    )
    later = "{difference:.1f} ({difference_low:.1f} to {difference_high:.1f})"
    earlier = "{difference:.1f} ({difference_high:.1f} to {difference_low:.1f})"
    assert f"done {later.format(**smollm2)} blocks later than in untrained models" in readme
    assert (
        "{difference:.1f} blocks earlier is open ({difference_high:.1f} later to {difference_low:.1f} earlier)".format(
            **smollm2_half
        )
        in readme
    )
    assert f"reads {later.format(**gemma3)} later and {earlier.format(**gemma3_half)} earlier of 18 blocks" in readme
    assert f"from {smollm2_half['value']:.1f} of 30 blocks on](docs/images/profile.svg)" in readme
    assert f"({smollm2['difference']:.1f} of 30 and {gemma3['difference']:.1f} of 18 blocks)" in landing
    assert f"holds in Gemma 3 ({gemma3_half['difference']:.1f} blocks) and is open in SmolLM2" in landing
    assert f"keep their prediction {earlier.format(**gemma3_half)} blocks earlier than untrained models' do" in gemma
    assert f"the output is done {later.format(**gemma3)} blocks later." in gemma
    ends = "+{difference_low:.1f} to +{difference_high:.1f}".format(**smollm2)
    assert f"90 % is done {smollm2['difference']:.1f} blocks of 30 later ({ends}) than in untrained models" in untrained
    shares = re.search(
        r"without one middle block \| 0\.(\d+) \(0\.(\d+) to 0\.(\d+)\) \| 0\.(\d+) to 0\.(\d+) ", landing
    ).groups()
    assert "{} % ({} to {} %) of SmolLM2's top-1 predictions stay".format(*shares[:3]) in readme
    assert "and in untrained models {} to {} %".format(*shares[3:]) in readme

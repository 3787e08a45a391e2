"""Trained models beside untrained ones: what is printed and drawn is what was surveyed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib.axes import Axes

import bathyscope
from bathyscope.errors import OptionError
from bathyscope.extend import bundled_model
from studies.common.program import main
from studies.nulls.command import app
from studies.nulls.experiment import KEPT, Nulls
from studies.nulls.figure import draw

TEXTS = (
    "Once there was a boat that nobody wanted, and it lay by the lake all summer.",
    "The sun was warm and Tom sat down by the wall with his sister and her dog.",
    "A bird sang in the old tree, and the children ran out to see what it was.",
)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("prompts") / "texts.jsonl"
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def out(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nulls")
    asked = ["--models", f"{bundled_model()}={texts}", "--out", str(folder), "--quiet", "--device", "cpu"]
    assert main([*asked, "--format", "json"], app, "python -m studies.nulls") == 0
    return folder


@pytest.mark.thorough
def test_the_table_is_the_verdict_of_a_survey_with_controls(
    out: Path, texts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = bathyscope.load(bundled_model(), dtype="float32", device="cpu")
    verdict = bathyscope.survey(model, str(texts), ["lens", "skip"], control="untrained:3", progress=False).verdict
    with xr.open_dataset(out / "nulls.nc", engine="h5netcdf") as found:
        assert found["verdict"].values.tolist() == [verdict.text]
        for name in ("readable", "own", "later"):
            one, reading = found.isel(model=0).sel(reading=name), getattr(verdict, name)
            assert float(one["value"]) == reading.value
            np.testing.assert_array_equal(one["untrained"], reading.null.by_control.mean(1))
            assert (float(one["moved_low"]), float(one["moved_high"])) == reading.null.interval
        assert found["depth_untrained"].dims == ("model", "estimator", "control")
        (ax, *others) = draw(found.load()).findobj(Axes)
    trained, untrained = (np.asarray(line.get_xdata()) for line in ax.lines[:2])
    assert trained.item() == pytest.approx(verdict.readable.ratio)
    np.testing.assert_allclose(untrained, verdict.readable.null.by_control.mean(1) / verdict.n_blocks)
    assert len(others) == 2
    # a finished table is read again, not surveyed again
    again = ["--models", f"{bundled_model()}={texts}", "--out", str(out), "--device", "cpu", "--quiet"]
    assert main(again, app, "python -m studies.nulls") == 0
    printed = capsys.readouterr().out
    assert f"{verdict.own.value:.2f}" in printed
    assert f"{verdict.own.null.moved:+.2f}" in printed


def test_mistakes_are_told_before_anything_is_loaded() -> None:
    assert [one.model for one in Nulls().pairs] == [text.partition("=")[0] for text in KEPT]
    with pytest.raises(OptionError, match=r"'my/model' names no prompts; write MODEL=PROMPTS"):
        Nulls(models=("my/model",))
    with pytest.raises(OptionError, match=r"controls=2 says nothing of training.*give 3 or more"):
        Nulls(controls=2)

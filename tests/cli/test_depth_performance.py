"""``bathyscope compare depth-performance``: what is printed is what the Python call gives."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bathyscope
from bathyscope.cli import main


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draw = np.random.default_rng(0)
    layers, d_model = draw.integers(6, 60, 16), 64 * draw.integers(8, 64, 16)
    table = {"name": [f"m{n}" for n in range(16)], "family": ["a", "b"] * 8, "layers": layers, "d_model": d_model}
    table |= {"d_ff": d_model * draw.integers(1, 9, 16), "score": 0.004 * layers + 0.03 * draw.normal(size=16)}
    path = tmp_path_factory.mktemp("data") / "models.csv"
    pd.DataFrame(table).to_csv(path, index=False)
    return path


def test_csv_and_json_are_the_regression(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fitted = bathyscope.depth_performance(models, covariates=["d_model"], level=0.9)
    asked = ["compare", "depth-performance", str(models), "--covariates", "d_model", "--level", "0.9"]
    assert main([*asked, "--format", "json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    assert [(row["term"], row["errors"]) for row in found] == [
        (term, kind) for kind in ("plain", "hc3") for term in ("intercept", "layers", "d_model")
    ]
    assert err == ""
    assert list(found[1]) == [
        *("term", "errors", "coefficient", "standard_error", "ci_low", "ci_high", "p_value", "partial_r2", "vif")
    ]
    for row in found:
        assert row["coefficient"] == float(fitted["coefficient"].sel(term=row["term"]))
        assert row["p_value"] == float(fitted["p_value"].sel(term=row["term"], errors=row["errors"]))
    assert found[0]["vif"] is None
    assert main([*asked, "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [float(row["ci_low"]) for row in rows] == fitted["ci_low"].transpose(
        "errors", "term"
    ).values.ravel().tolist()
    assert rows[0]["vif"] == ""


def test_the_table_and_the_figure(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figure = tmp_path / "new" / "depth.svg"
    assert main(["compare", "depth-performance", str(models), "--fixed-effects", "--out", str(figure)]) == 0
    out, err = capsys.readouterr()
    assert "16 models of 2 families; R²" in out
    assert "layers" in out
    assert f"Written: {figure}" in err
    assert "<svg" in figure.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["FILE", "--score", "mmlu"], 2, "The table has no column 'mmlu'."),
        (["nowhere.csv"], 3, "nowhere.csv does not exist"),
        (["FILE", "--out", "figure.gif"], 2, "Figure format 'gif' is unknown; allowed: png, svg, pdf."),
        ([], 2, "TABLE"),
    ],
)
def test_mistakes(arguments: list[str], code: int, said: str, models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "depth-performance", *(text.replace("FILE", str(models)) for text in arguments)]) == code
    assert said in capsys.readouterr().err

"""``python -m studies.sharing``: what is printed is what the results hold, and mistakes name what is allowed."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import xarray as xr

from studies.common.program import main
from studies.sharing.command import _show_correlations, app

RECIPE = """\
name: {name}
model: {{type: bathyscope_universal, hidden_size: 16, num_attention_heads: 2, head_dim: 8, group_size: {group},
  repeats: {repeats}, intermediate_size: 16, max_position_embeddings: 128}}
task: {{name: arithmetic, options: {{modules: [mul], entropy: [2, 2]}}}}
tokenizer: characters
stages: [{{context: 96, batch: 4}}]
budget: {{steps: 9}}
evaluation: {{every: 1000, problems: 2, final_problems: 2}}
"""


@pytest.mark.thorough
def test_the_results_are_written_and_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / "plain.yaml", tmp_path / "shared.yaml"]
    for path, (group, repeats) in zip(paths, ((2, 1), (1, 2))):
        path.write_text(RECIPE.format(name=path.stem, group=group, repeats=repeats), encoding="utf-8")
    out = tmp_path / "out"
    arguments = ["--out", str(out), "--recipes", ",".join(map(str, paths)), "--losses", "answer"]
    arguments += ["--seeds", "0", "--asked", "4", "--measured", "2", "--tolerance", "0.5", "--device", "cpu"]
    assert main([*arguments, "--set", "budget.steps=3", "--format", "json"], app, "python -m studies.sharing") == 0
    printed = capsys.readouterr()
    assert f"Written: {out / 'sharing.png'}, {out / 'sharing.nc'}" in printed.err
    every = json.loads(printed.out)
    rows = {row["quantity"]: row for row in every if "quantity" in row}
    correlations = [row for row in every if "depth_of" in row]
    with xr.open_dataset(out / "sharing.nc", engine="h5netcdf") as found:
        own = found.sel(loss="answer", quantity="training_loss")
        row = rows["training_loss"]
        assert row["plain"] == pytest.approx(float(own["mean"].sel(recipe="plain")))
        assert row["difference"] == pytest.approx(row["plain"] - row["shared"])
        assert row["difference_low"] is None
        assert row["pairs"] == 1
        assert len(rows) == found.sizes["quantity"]
        assert len(correlations) == 2 * found.sizes["depth_of"]
        assert all(row["correlation"] is None and row["models"] <= 2 for row in correlations)
    assert main([*arguments, "--set", "budget.steps=3", "--quiet"], app, "python -m studies.sharing") == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "Means over 1 seeds" in printed.out
    assert f"{rows['training_loss']['plain']:.2f}" in printed.out


def test_mistakes_name_what_is_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--out", "unused", "--losses", "anser"], app, "python -m studies.sharing") == 2
    assert "losses: 'anser' is not allowed. Did you mean 'answer'? Allowed: all, answer." in capsys.readouterr().err


def test_correlations_are_printed_where_there_are_any(capsys: pytest.CaptureFixture[str]) -> None:
    values = {"correlation": 0.61, "correlation_low": 0.05, "correlation_high": 0.88}
    row = {"depth_of": "ratio/settle", "over": "within", **values, "correlation_p": 0.04, "correlation_holm": 0.2}
    _show_correlations([{**row, "models": 12}, {**row, "depth_of": "ratio/kl", "correlation": math.nan, "models": 2}])
    printed = capsys.readouterr().out
    assert "within recipe and loss" in printed
    assert "0.61 (0.05 to 0.88)" in printed
    assert "ratio/kl" not in printed

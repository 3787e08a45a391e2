"""``bathyscope diff maps``: what is printed and written is what the Python call gives."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
import xarray as xr
from support import zoo

import bathyscope
from bathyscope.analysis.between.map_results import open_maps
from bathyscope.cli import main
from bathyscope.errors import PromptError

OPTIONS = ["--resamples", "20", "--quiet"]


@pytest.fixture(scope="module")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty prompts of twenty token ids."""
    path = tmp_path_factory.mktemp("prompts") / "ids.jsonl"
    rows = [json.dumps({"ids": ids}) for ids in zoo.prompts(zoo.build("llama"), (20,) * 30)]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def arguments(model: Path, prompts: Path, *more: str) -> list[str]:
    return ["diff", "maps", str(model), str(model), "--prompts", str(prompts), *OPTIONS, *more]


def test_a_row_for_every_pair(model_folder: Path, prompts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(arguments(model_folder, prompts, "--ridge", "0,1e-3", "--sources-per-pass", "4", "--format", "csv")) == 0
    )
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    expected = bathyscope.maps(
        model_folder, model_folder, prompts, ridge=(0, 1e-3), sources_per_pass=4, resamples=20, progress=False
    )
    for row in rows:
        source, target = int(row["source"]), int(row["target"])
        for name in ("relative_error", "relative_error_low", "relative_error_high", "summed_error", "r2", "ridge"):
            assert float(row[name]) == expected[name].values[source, target]
    assert len(rows) == 36
    assert {row["ridge"] for row in rows} == {"0.0", "0.001"}


def test_the_table_says_where_the_diagonal_is_and_files_are_written(
    model_folder: Path, prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / "new" / name for name in ("maps.nc", "maps.png")]
    assert main(arguments(model_folder, prompts, *(part for file in files for part in ("--out", str(file))))) == 0
    printed = capsys.readouterr().out
    assert main(["show", str(files[0])]) == 0
    assert capsys.readouterr().out == printed
    out = " ".join(printed.split())
    assert "source relative depth best target relative depth relative error R²" in out
    assert "Best target of each source, by relative depth: slope 1.00 (1.00 to 1.00); mean distance 0.00" in out
    assert "of 95% over 6 test prompts; maps fitted to 399 tokens, ridge chosen on 57." in out
    expected = bathyscope.maps(model_folder, model_folder, prompts, resamples=20, progress=False)
    xr.testing.assert_identical(open_maps(files[0]).data, expected.data)
    assert files[1].read_bytes().startswith(b"\x89PNG")


def test_mistakes_are_told_before_a_model_is_loaded(prompts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nowhere = Path("no-such-model")
    for out, said in (
        ("maps.gif", "--out 'maps.gif' names no kind of file; allowed: .nc, .png, .svg, .pdf."),
        ("maps", "--out 'maps' names no kind of file; allowed: .nc, .png, .svg, .pdf."),
    ):
        assert main(arguments(nowhere, prompts, "--out", out)) == 2
        assert capsys.readouterr().err == f"error: {said}\n"
    assert main(arguments(nowhere, prompts, "--ridge", "0,small")) == 2
    assert "--ridge: 'small' is not a number; write it in digits, such as 0.5. See" in capsys.readouterr().err


def test_too_little_text(model_folder: Path, prompts_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(model_folder, prompts_file)) == PromptError.exit_code
    assert "Maps need at least 4 prompts" in capsys.readouterr().err

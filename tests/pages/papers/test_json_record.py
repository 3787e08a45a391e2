"""A record holds what was measured, and is scored against papers and predictions without the runs."""

from __future__ import annotations

import csv
import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from support import stand_ins

from bathyscope.cli import main
from bathyscope.errors import OptionError, StoreError
from bathyscope.pages.papers.json_record import read_record, score, write_record
from bathyscope.pages.papers.reproduce import Reproduced, Target
from bathyscope.runs.opening import open_run
from bathyscope.surveying.papers.predictions import PREDICTIONS, QUANTITIES, numbers
from bathyscope.surveying.papers.reproductions import REPRODUCTIONS

MODEL = "Qwen2.5-1.5B-Instruct"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("records")
    stand_ins.checkpoint(home / "model")
    stand_ins.data(home / "data")
    return home


@pytest.fixture(scope="module")
def file(home: Path) -> Path:
    """The record of a stand-in for a model of hu2025's Table 1, without one of its three data sets."""
    file = home / "records" / "table1.json"
    arguments = ["reproduce", "hu2025-table1", "--models", f"{MODEL}={home / 'model'}", "--data", str(home / "data")]
    arguments += ["--prompts", "2", "--out", str(home / "out"), "--quiet", "--record", str(file), "--format", "json"]
    with redirect_stdout(io.StringIO()):
        assert main(arguments) != 0, "aime2024 cannot be had here"
    return file


def printed(arguments: list[str]) -> str:
    output = io.StringIO()
    with redirect_stdout(output):
        assert main(arguments) == 0
    return output.getvalue()


def test_a_record_names_weights_settings_versions_and_prompts(file: Path, home: Path) -> None:
    content = json.loads(file.read_text())
    assert content["record"] == 1
    assert content["target"] == "hu2025"
    assert set(content["versions"]) == {"bathyscope", "torch", "transformers"}
    runs = {run["work"]: run for run in content["runs"]}
    assert set(runs) == {"hellaswag", "gsm8k"}
    identity = open_run(home / "out" / "hu2025" / MODEL / "gsm8k").identity
    for key in ("weight_hash", "config_hash", "prompt_hash", "dtype", "prompts"):
        assert runs["gsm8k"][key] == getattr(identity, key)
    assert runs["gsm8k"]["source"] == f"Qwen/{MODEL}"


def test_a_score_is_the_runs_own_number_beside_the_papers(file: Path, home: Path) -> None:
    scores = {(entry.work, entry.quantity): entry for entry in score(file)}
    run = open_run(home / "out" / "hu2025" / MODEL / "gsm8k")
    depth = run["effective_depth"]["index"]
    for quantity, published, margin in (("cosine", 20, 2), ("kl", 22, 1), ("overlap", 23, 1)):
        entry = scores["gsm8k", quantity]
        value = float(depth.sel(estimator=quantity))
        assert entry.value == (None if np.isnan(value) else value)
        assert entry.published == published
        assert entry.agrees is False
        assert (entry.predicted_low, entry.predicted_high) == (published - margin, published + margin)
        assert entry.as_predicted is False
    curve = run["lens"]["kl_lens_final"].mean("prompt").values
    assert scores["gsm8k", "lens_kl_half"].value == pytest.approx(curve[2] / curve.max())
    assert scores["gsm8k", "lens_kl_half"].as_predicted is None, "nothing was predicted of it on this paper's models"
    assert not any(work == "aime2024" for work, _ in scores)


def test_a_record_is_scored_in_every_format(file: Path) -> None:
    table = printed(["reproduce", "--score", str(file)])
    assert "0 of 6 numbers are as published." in table
    assert "0 of 6 numbers are as predicted." in table
    rows = json.loads(printed(["reproduce", "--score", str(file), "--format", "json"]))
    lines = list(csv.DictReader(io.StringIO(printed(["reproduce", "--score", str(file), "--format", "csv"]))))
    assert len(rows) == len(lines) == len(score(file))


def test_predictions_are_compared(file: Path, tmp_path: Path) -> None:
    content = json.loads(file.read_text())
    row = {"model": "llama", "source": "meta-llama/Llama-3.1-8B", "work": "gsm8k-20", "ci_low": None, "ci_high": None}
    content |= {"target": "csordas2025"}
    content["numbers"] = [
        {**row, "quantity": "lens_kl_half", "value": 0.9},
        {**row, "quantity": "contribution_halves", "value": 0.9},
        {**row, "quantity": "cosine_turn", "value": None},
    ]
    (tmp_path / "record.json").write_text(json.dumps(content))
    first, second, third = score(tmp_path / "record.json")
    assert (first.predicted_low, first.predicted_high, first.as_predicted) == (0.6, 1.0, True)
    assert second.as_predicted is False
    assert third.as_predicted is False, "a criterion that is not met is not as predicted"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"record": 2}, "is a record of version 2; this bathyscope reads version 1. Write it again with reproduce"),
        ({"record": None}, "is a record of version None; this bathyscope reads version 1."),
        ({"target": "nobody"}, "is a damaged record: its target or its numbers cannot be read. Write it again."),
        ({"numbers": [{"model": "m"}]}, "is a damaged record: its target or its numbers cannot be read."),
    ],
)
def test_other_records_are_refused(change: dict[str, Any], message: str, file: Path, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(StoreError) as caught:
        read_record(path)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [{"value": {"a": 1}}, {"value": "0.5"}, {"value": True}, {"ci_high": [1]}, {"source": [1, 2]}, {"quantity": {}}],
)
def test_numbers_of_a_record_are_of_their_kind(change: dict[str, Any], file: Path, tmp_path: Path) -> None:
    row = {"model": "m", "source": "m", "work": "w", "quantity": "lens_kl_half", "value": 1, "ci_low": 0, "ci_high": 2}
    content = {**json.loads(file.read_text()), "numbers": [row]}
    (tmp_path / "record.json").write_text(json.dumps(content))
    assert len(score(tmp_path / "record.json")) == 1
    (tmp_path / "record.json").write_text(json.dumps({**content, "numbers": [row | change]}))
    with pytest.raises(StoreError, match="is a damaged record: its target or its numbers cannot be read"):
        score(tmp_path / "record.json")


def test_a_record_replaces_an_older_one_as_a_whole(tmp_path: Path) -> None:
    """Another link to the older file sees whether it was written into, as a crash would leave it half."""
    file, link = tmp_path / "record.json", tmp_path / "link.json"
    file.write_text("older")
    link.hardlink_to(file)
    reproduced = Reproduced(Target.of("hu2025-table1"), (), (), {})
    write_record(reproduced, file)
    assert link.read_text() == "older"
    assert read_record(file)["target"] == "hu2025"
    with pytest.raises(StoreError, match=r"Cannot write '.*nested.json': .* Choose a folder that you can write to"):
        write_record(reproduced, file / "nested.json")


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        StoreError, match=r"cannot be read: No such file or directory. Give a file that --record wrote."
    ):
        read_record(tmp_path / "none.json")
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(StoreError, match=r"is not JSON. Give a file that reproduce --record wrote."):
        read_record(tmp_path / "a.json")
    # the last is the manifest of a run
    for content in ("{}", '{"record": {"versions": {}}}'):
        (tmp_path / "a.json").write_text(content)
        with pytest.raises(StoreError, match="is not a record of a reproduction"):
            read_record(tmp_path / "a.json")


def test_a_score_is_asked_for_alone(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "hu2025", "--score", str(file)]) == OptionError.exit_code
    assert "--score reads a record and measures nothing; give it alone" in capsys.readouterr().err
    assert main(["reproduce"]) == OptionError.exit_code
    assert "What is to be reproduced?" in capsys.readouterr().err


def test_quantities_are_those_of_known_curves() -> None:
    place = np.arange(11)
    cosine = np.where(np.arange(10) <= 5, -0.1, 0.1)
    effect = np.where(np.arange(10) < 5, 4.0, 1.0)
    choice = (("prompt", "part", "reduction", "skipped"), np.stack([effect] * 2)[:, None, None])
    coordinates = {"part": ["block"], "reduction": ["max"]}
    datasets = {
        "residual": xr.Dataset(
            {"ratio_block": (("prompt", "block"), [effect] * 2), "cos_block": (("prompt", "block"), [cosine] * 2)}
        ),
        "lens": xr.Dataset(
            {
                "kl_lens_final": (("prompt", "boundary"), [10.0 - place] * 2),
                "overlap": (("prompt", "boundary"), [place / 10] * 2),
            }
        ),
        "skip": xr.Dataset({"given_future": choice, "output_future": choice}, coordinates),
        "drop": xr.Dataset({"top1_agreement": (("prompt", "dropped"), [[0.0, *[0.8] * 8, 0.0]] * 2)}),
    }
    assert numbers(datasets) == pytest.approx(
        {
            "contribution_halves": 0.25,
            "cosine_turn": 0.6,
            "lens_kl_half": 0.5,
            "lens_overlap_half": 0.5,
            "skip_given_halves": 0.25,
            "skip_output_halves": 0.25,
            "drop_agreement": 0.8,
        }
    )


def test_every_prediction_is_of_a_work_and_a_figure_of_its_paper() -> None:
    for prediction in PREDICTIONS:
        paper = REPRODUCTIONS[prediction.paper]
        assert prediction.quantity in QUANTITIES
        assert prediction.low < prediction.high
        assert {work.name for work in paper.works} >= set(prediction.works)
        assert any(figure.includes(prediction.figure) for figure in paper.figures), prediction.figure


def test_the_page_has_every_prediction() -> None:
    page = (Path(__file__).parents[3] / "docs" / "predictions.md").read_text(encoding="utf-8")
    for prediction in PREDICTIONS:
        row = f"| {prediction.figure} | {', '.join(name.rpartition('/')[2] for name in prediction.models)} "
        row += f"| `{prediction.quantity}` | {prediction.low:g} to {prediction.high:g} |"
        assert row in page, row

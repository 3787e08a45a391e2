"""Cells: where runs go, what they are asked for, and what is told of those that cannot be measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import stand_ins

from bathyscope.papers.reproduction import Survey
from bathyscope.papers.reproductions import REPRODUCTIONS
from bathyscope.reproducing import cells as module
from bathyscope.reproducing.cells import measured, planned
from bathyscope.reproducing.data import local_data
from bathyscope.reproducing.models import NamedModel, chosen_models

SUMS = Survey("sums", (("1 + 1 = ", "2"),), ("erasure",))
CORPUS_MODELS = chosen_models([], REPRODUCTIONS["csordas2025"].models)


def test_folders_model_after_model() -> None:
    survey = Survey("gsm8k", "gsm8k:10")
    cells = planned(CORPUS_MODELS[:2], (survey, SUMS), "csordas2025", Path("out"), {})
    assert [str(cell.folder) for cell in cells] == [
        f"out/csordas2025/{model}/{name}"
        for model in ("Meta-Llama-3.1-8B", "Meta-Llama-3.1-70B")
        for name in ("gsm8k", "sums")
    ]


def test_all_tokens_only_leaves_every_position_out() -> None:
    survey = Survey("all", "gsm8k:20", ("lens", "skip"), all_tokens_only=True)
    one = planned(CORPUS_MODELS[:1], (survey,), "csordas2025", Path("out"), {}, 3)[0]
    assert one.options == {"skip": {"positions": [[], [], []]}}


def test_the_reference_of_erasure_is_read_locally_too() -> None:
    one = planned(CORPUS_MODELS[:1], (SUMS,), "csordas2025", Path("out"), {"gsm8k": "rows.jsonl"}, 3)[0]
    assert one.options == {"erasure": {"reference": "gsm8k:10@rows.jsonl"}}
    assert [(prompt.text, prompt.answer) for prompt in one.prompts] == [("1 + 1 = 2", "2")]


def test_a_model_is_loaded_once_even_where_it_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []
    load = module.load
    monkeypatch.setattr(module, "load", lambda source, **given: (tries.append(source), load(source, **given))[1])
    absent = NamedModel("absent", str(tmp_path / "absent"), None)
    surveys = (Survey("one", "gsm8k:1"), Survey("two", "gsm8k:2"))
    outcomes = list(measured(planned([absent], surveys, "hu2025", tmp_path, {}), {}, progress=False))
    assert [outcome.run for outcome in outcomes] == [None, None]
    assert all(outcome.reason.startswith(f"There is no folder {absent.source}") for outcome in outcomes)
    assert tries == [absent.source]


def test_a_run_of_other_prompts_is_not_taken_for_the_asked_one(tmp_path: Path) -> None:
    named = NamedModel("tiny", str(stand_ins.checkpoint(tmp_path / "model")), None)
    rows = local_data([str(stand_ins.data(tmp_path / "data"))])
    survey = (Survey("gsm8k", "gsm8k:10", ("lens",)),)
    first, second = (
        next(measured(planned([named], survey, "hu2025", tmp_path / "out", rows, count), {}, progress=False))
        for count in (2, 1)
    )
    assert first.run is not None
    assert first.cell.finished() is not None
    assert second.run is None
    assert "gsm8k:2" in second.reason

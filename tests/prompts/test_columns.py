"""Any data set by its columns, read from a folder of the hub's layout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bathyscope.errors import PromptError
from bathyscope.prompts.source import resolve
from bathyscope.prompts.spec import parse

ROWS = [
    {"question": "2 + 2 =", "answer": "4", "level": 1, "choices": ["3", "4"]},
    {"question": "Say it:\n", "answer": "it", "level": 2, "choices": []},
    {"question": "The answer is no", "answer": "no", "level": 2, "choices": []},
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    there = tmp_path / "made" / "data"
    there.mkdir(parents=True)
    (there / "test-00000.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return tmp_path / "made"


def test_rows_are_prompts_by_their_columns(folder: Path) -> None:
    found = resolve(f"hf:{folder}?split=test&text=question&answer=answer&labels=level")
    assert [(one.text, one.answer, dict(one.labels)) for one in found.prompts] == [
        ("2 + 2 = 4", "4", {"level": 1}),
        ("Say it:\n", "it", {"level": 2}),
        ("The answer is no", "no", {"level": 2}),
    ]
    assert [one.text for one in resolve(f"hf:{folder}:2?split=test&text=question").prompts] == ["2 + 2 =", "Say it:\n"]
    assert found.dataset == "made?split=test&text=question&answer=answer&labels=level"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("?split=test&text=qestion", r"has no column 'qestion'; it has question, answer, .* Did you mean 'question'\?"),
        ("?split=test&text=level", "row 1: column 'level' must hold text, not int"),
        ("?split=test&text=question&answer=choices", "column 'choices' must hold text or a number, not list"),
        (":9?split=test&text=question", r"has 3 rows and 9 were asked for"),
        ("?split=train&text=question", "could not be loaded from the hub: .*train"),
        ("?text=question", r"split= is missing; write which split, and which column"),
        ("?split=test&txt=question", r"unknown option 'txt'\. Did you mean 'text'\?"),
    ],
)
def test_what_cannot_be_read_is_said(folder: Path, options: str, message: str) -> None:
    with pytest.raises(PromptError, match=message):
        resolve(f"hf:{folder}{options}")


def test_a_name_on_the_hub_is_read_back_as_written() -> None:
    text = "hf:openai/gsm8k:10?split=test&text=question&answer=answer&config=main"
    spec = parse(text)
    assert (str(spec), spec.label, spec.count, spec.kind) == (text, text, 10, "hub data set")


def test_an_answer_that_may_stand_in_its_text_is_not_put_behind_it(folder: Path) -> None:
    rows = [{"question": "The answer is No. ", "answer": "no"}, {"question": "Is it No?", "answer": "no"}]
    rows += [{"question": "The answer is No.", "answer": "no"}]
    (folder / "data" / "test-00000.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = resolve(f"hf:{folder}?split=test&text=question&answer=answer")
    assert [one.text for one in found.prompts] == ["The answer is No. ", "Is it No? no", "The answer is No."]

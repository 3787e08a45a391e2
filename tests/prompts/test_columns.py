"""Data sets of the hub and tables of one's own, of which the source names the columns."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from bathyscope.errors import PromptError
from bathyscope.prompts.source import require_there, resolve
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


def write_table(folder: Path, suffix: str) -> Path:
    """The rows as somebody else's tool writes them."""
    place = folder / f"rows{suffix}"
    frame = pd.DataFrame(ROWS).drop(columns="choices")
    if suffix == ".parquet":
        frame.to_parquet(place)
    elif suffix.removesuffix(".gz") in (".csv", ".tsv"):
        frame.to_csv(place, index=False, sep="\t" if ".tsv" in suffix else ",")
    else:
        frame.to_json(place, orient="records", lines=True)
    return place


TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz")


@pytest.mark.parametrize("suffix", TABLES)
def test_a_table_of_ones_own_is_read_by_its_columns(tmp_path: Path, suffix: str) -> None:
    place = write_table(tmp_path, suffix)
    prompts = resolve(f"{place}:3?text=question&answer=answer&label.grade=level").prompts
    # a CSV table holds texts alone
    grade = str if ".csv" in suffix or ".tsv" in suffix else int
    assert [(prompt.text, prompt.answer, dict(prompt.labels)) for prompt in prompts] == [
        ("2 + 2 = 4", "4", {"grade": grade(1)}),
        ("Say it:\n", "it", {"grade": grade(2)}),
        ("The answer is no", "no", {"grade": grade(2)}),
    ]
    assert resolve(f"{place}:1?text=question&labels=level,answer").prompts[0].labels == {
        "level": grade(1),
        "answer": "4",
    }


@pytest.mark.parametrize(
    ("suffix", "options", "message"),
    [
        (
            ".csv",
            "",
            r"text= is missing; write which column the text is in: .*rows.csv:10\?text=question&answer=answer",
        ),
        (".tsv", "?answer=answer", r"text= is missing"),
        (
            ".csv",
            "?text=qestion",
            r"has no column 'qestion'; it has question, answer, level\. Did you mean 'question'\?",
        ),
        (".csv", ":9?text=question", "has 3 rows and 9 were asked for"),
        (".parquet", "?text=level", "row 1: column 'level' must hold text, not int"),
        (".csv", "?text=question&split=test", r"unknown option 'split'\. A table takes: text=, answer=, labels="),
        (".csv", "?text=question&label.=level", "unknown option 'label.'"),
        (".csv", "?text=question&label.a=", "label.a= has no value"),
        (".csv", "?text=question&labels=level&label.a=level", "give one of the two"),
        (".jsonl", "?answer=answer", "answer= goes with text=, the column that the text is in"),
    ],
)
def test_what_is_wrong_with_a_table_is_said_before_anything_is_loaded(
    tmp_path: Path, suffix: str, options: str, message: str
) -> None:
    place = write_table(tmp_path, suffix)
    with pytest.raises(PromptError, match=message):
        require_there(f"{place}{options}")


def test_tabs_separate_the_columns_of_a_tsv_table(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("q\tn\nOne, two\t1\nThree\t2\t3\n")
    with pytest.raises(PromptError, match="more values than the 2 columns; put a value that holds tabs"):
        resolve(f"{tmp_path / 'a.tsv'}?text=q")
    assert resolve(f"{tmp_path / 'a.tsv'}:1?text=q").prompts[0].text == "One, two"


def test_the_same_table_is_another_source_by_other_columns() -> None:
    specs = [parse(f"a.csv:2?text=q&label.x={column}") for column in ("n", "m")]
    assert len({str(spec) for spec in specs}) == 2
    assert all(parse(str(spec)) == spec for spec in specs)

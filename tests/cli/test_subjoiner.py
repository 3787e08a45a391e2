"""``bathyscope probe subjoiner``: what is printed is what the Python call gives."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from support import zoo
from support.piece_tokenizer import CONTEXT, WHOLES, piece_tokenizer, split_words

from bathyscope.analysis.probes import subjoiner
from bathyscope.cli import main
from bathyscope.errors import PromptError

COLUMNS = {
    "rank": "rank",
    "top_block": "block",
    "top_head": "head",
    "top_score": "score",
    "ci_low": "ci_low",
    "ci_high": "ci_high",
    "top_split": "split",
    "top_whole": "whole",
}
"""Variable → column."""
OPTIONS = ["--context", CONTEXT, "--resamples", "50", "--top", "3", "--quiet"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    zoo.build("llama").save_pretrained(folder)
    piece_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "words.txt"
    path.write_text("\n".join([*split_words(4), *WHOLES]), encoding="utf-8")
    return path


def printed(model: Path, words: Path, *more: str) -> list[str]:
    return ["probe", "subjoiner", str(model), "--words", str(words), *OPTIONS, *more]


def test_a_row_for_every_head_with_a_rank(model: Path, words: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(printed(model, words, "--format", "csv")) == 0
    out, err = capsys.readouterr()
    assert err == ""
    rows = list(csv.DictReader(io.StringIO(out)))
    expected = subjoiner(model, words, context=CONTEXT, resamples=50, top=3, progress=False)
    assert [int(row["rank"]) for row in rows] == [0, 1, 2]
    for name, column in COLUMNS.items():
        assert [float(row[column]) for row in rows] == expected[name].values.tolist()
    assert main(printed(model, words, "--format", "json")) == 0
    heads = json.loads(capsys.readouterr().out)
    assert [list(head) for head in heads] == [list(COLUMNS.values())] * 3
    for name, column in COLUMNS.items():
        assert [head[column] for head in heads] == expected[name].values.tolist()


def test_the_table_says_what_is_compared_and_a_figure_is_written(
    model: Path, words: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(printed(model, words, "--out", str(tmp_path / "new" / "heads.png"))) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "rank block head score ci low ci high split whole" in out
    assert "to the 3 tokens before it" in out
    assert "on 41 and 12 held-out words" in out
    assert (tmp_path / "new" / "heads.png").read_bytes().startswith(b"\x89PNG")


def test_mistakes_are_told_before_the_model_is_loaded_or_measured(
    model: Path, words: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(printed(model, words, "--out", "heads.gif")) == 2
    assert capsys.readouterr().err == "error: Figure format 'gif' is unknown; allowed: png, svg, pdf.\n"
    assert main(printed(model, words, "--pieces", "9")) == PromptError.exit_code
    assert "0 of the 105 words are split into 9 tokens" in capsys.readouterr().err


def test_help_lists_it_among_the_probes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "--help"]) == 0
    assert "Find heads that gather the tokens of a word." in capsys.readouterr().out

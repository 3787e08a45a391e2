"""Refusals that name the right reason, and advise only what is allowed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support import zoo

import bathyscope
from bathyscope import ModelError, OptionError, PromptError
from bathyscope.analysis.probes.words import place_words
from bathyscope.cli import main
from bathyscope.measures.jacobian.matrices import FittedLens, LensOrigin
from bathyscope.model.load_errors import unloadable
from bathyscope.prompts.files import read_rows
from bathyscope.surgery.choosing.removable import kinds_of


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], r"parts=\[\] leaves nothing out\. Give block, or attention"),
        ("mlp,mlp", r"parts=\['mlp', 'mlp'\] names a part twice\. Give block"),
        ("block,mlp", "a block is both of its parts, and would be counted twice"),
    ],
)
def test_parts_to_leave_out(parts: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        kinds_of(parts)


@pytest.mark.parametrize(("tokens", "advice"), [(0, False), (1, False), (2, True), (9, True)])
def test_a_window_is_advised_only_where_it_is_allowed(tokens: int, advice: bool) -> None:
    """A window is more than the pieces of a word, of which there are two here."""

    def tokenizer(*_: object, **__: object) -> dict[str, list[int]]:
        return {"input_ids": [1] * tokens}

    with pytest.raises(OptionError) as caught:
        place_words(
            ["word"],
            tokenizer,  # type: ignore[arg-type]
            (2, 1),
            context="some context",
            window=16,
            count=1,
            least=1,
            seed=0,
        )
    assert (f", or window={tokens + 1}." in str(caught.value)) is advice
    assert "give a longer one" in str(caught.value)


def test_a_boundary_is_shown_as_it_was_given() -> None:
    sums_HBDD, squares_B = torch.eye(4).expand(2, 3, 4, 4), torch.ones(3, dtype=torch.float64)
    lens = FittedLens(LensOrigin("m"), [0, 1, 2], sums_HBDD, [1, 1], squares_B)
    with pytest.raises(OptionError, match=r"no matrix of boundary '0'; it has those of 0 to 2"):
        lens.matrix("0")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("name;family;score\na;b;0,5\n", "its columns are separated by ';'; write it with commas"),
        ("name\tfamily\na\tb\n", r"its columns are separated by '\\t'"),
        ('name,family\n"a,b\nc,d\n', "is not a CSV table: unexpected end of data"),
    ],
)
def test_tables_of_another_dialect(content: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text(content)
    with pytest.raises(PromptError, match=message):
        list(read_rows(file))


def test_tables_that_are_read(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text('text,name\n"one; ""two""",5" wide\n')
    assert list(read_rows(file)) == [{"text": 'one; "two"', "name": '5" wide'}]
    file.write_text('text\n"a; b"\n')
    assert list(read_rows(file)) == [{"text": "a; b"}]


def test_a_folder_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match="is a folder; give a file"):
        bathyscope.depth_performance(tmp_path)


@pytest.mark.parametrize("address", ["hf://models/a/b", "https://x.y/z", "s3://a/b"])
def test_addresses_that_hold_no_run(address: str) -> None:
    with pytest.raises(OptionError, match=rf"'{address}' is no address of a run; of the hub, give hf://datasets/owner"):
        bathyscope.open(address)


@pytest.mark.parametrize("error", [KeyError("sillu"), ZeroDivisionError("modulo by zero"), AttributeError("float7")])
def test_values_that_the_library_fails_on_are_looked_for_in_the_configuration(error: Exception) -> None:
    assert "Its config.json has a value that transformers cannot use" in unloadable("folder/model", error)
    assert "config.json" not in unloadable("folder/model", ValueError("no such thing"))


def test_a_configuration_of_a_misspelt_activation(tmp_path: Path) -> None:
    zoo.entry("llama").build().save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "hidden_act": "sillu"}))
    with pytest.raises(
        ModelError, match=r"KeyError: 'sillu'\. Its config\.json has a value \(hidden_act\) that transf"
    ):
        bathyscope.load(tmp_path)


ESTIMATES: dict[str, tuple[Callable[[str], Any], str]] = {
    "answers": (lambda m: bathyscope.estimate(m, tokens=10, measures="depth_score"), "^depth_score needs prompts with"),
    "option": (lambda m: bathyscope.estimate(m, tokens=10, zz=1), r"^There is no option 'zz'\."),
    "rates": (lambda m: bathyscope.estimate(m, tokens=10, rates=lambda *_: None), "rates= gave None, and a Rates is"),
}


@pytest.mark.parametrize("name", ESTIMATES)
def test_estimates_that_cannot_be_made(name: str, tmp_path: Path) -> None:
    zoo.entry("llama").build().save_pretrained(tmp_path)
    call, message = ESTIMATES[name]
    with pytest.raises(OptionError, match=message):
        call(str(tmp_path))


def test_data_of_a_reproduction_may_be_one_text() -> None:
    with pytest.raises(PromptError, match=r"--data 'zz' is not a folder"):
        bathyscope.reproduce("hu2025-table1", data="zz")


def test_a_step_is_named_that_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "course.json").write_text("{}")
    for runs, example in ((False, ""), (True, ", such as")):
        if runs:
            (tmp_path / "step-00000007").mkdir()
        assert main(["show", str(tmp_path), "--raw"]) == OptionError.exit_code
        message = " ".join(capsys.readouterr().err.split())
        assert "step-00000000" not in message
        assert ("step-00000007" in message) is runs
        assert f"give one of these{example}" in message


def test_an_evaluation_is_called_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "evaluation.json").write_text("{}")
    assert main(["show", str(tmp_path), "--measure", "arc_easy"]) == OptionError.exit_code
    message = " ".join(capsys.readouterr().err.split())
    assert "is an evaluation, maps or a lens, and is shown whole; leave out all but --format" in message


def test_capitals_are_a_near_miss() -> None:
    with pytest.raises(OptionError, match=r"lens has no option 'K'\. Did you mean 'k'\? Allowed: k, norm"):
        bathyscope.survey("model", ["a text"], ["lens"], lens={"K": 3})

"""``bathyscope check``: what is printed is what the checks at load measured, and refusals are exit code 4."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import zoo

import bathyscope
from bathyscope.cli import main
from bathyscope.core.strict import plain
from bathyscope.model import load


def test_json_holds_the_measured_gaps(model_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(model_folder), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == plain(bathyscope.check(model_folder))
    checks = load(model_folder).checks
    assert (found["family"], found["blocks"], found["width"], found["vocabulary"]) == ("llama", 5, 64, 120)
    assert found["contributions"] == list(checks.contributions)
    assert found["tail"] == {str(start): gap for start, gap in checks.tail.items()}
    assert (found["no_op"], found["readout"]) == (checks.no_op, checks.readout)
    assert found["accepted"] is found["parts"] is found["tails"] is True


def test_table_has_every_check_and_every_block(model_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(model_folder), "--dtype", "bfloat16"]) == 0
    printed = capsys.readouterr().out
    assert "family llama (LlamaForCausalLM), 5 blocks × width 64, vocabulary 120, bfloat16" in printed
    for words in ("no-op parity", "contribution identity", "readout identity", "tail equivalence"):
        assert words in printed
    rows = [line.split() for line in printed.split("block by block:")[1].splitlines()]
    assert [row[0] for row in rows if len(row) == 3 and row[2] == "yes"] == ["0", "1", "2", "3", "4"]
    assert "Tail rows on shared keys and values: yes" in printed
    assert "A batch may hold: prompts of different lengths, padded" in printed


def test_where_tails_do_not_hold_the_reason_is_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = next(entry.name for entry in zoo.entries(plain=True) if entry.tails is False)
    zoo.build(name).save_pretrained(tmp_path)
    assert main(["check", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    reason = load(tmp_path).checks.tail_reason
    assert reason
    assert f"Tail rows on shared keys and values: no: full rows are computed ({reason})" in printed


def test_a_refused_family_is_exit_code_4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = zoo.entries(refused=True)[0].name
    zoo.entry(name).build().save_pretrained(tmp_path)
    assert main(["check", str(tmp_path)]) == 4
    printed, said = capsys.readouterr()
    assert printed == ""
    assert "cannot be measured" in said
    assert main(["check", str(tmp_path), "--format", "json"]) == 4
    found = json.loads(capsys.readouterr().out)
    assert found["accepted"] is False
    assert found["reason"] in said


def test_help_names_no_option_that_the_command_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--help"]) == 0
    words = " ".join(capsys.readouterr().out.replace("│", "").split())
    assert "all of them. Not given = one process has the whole model. Not with --device. Not with --placement." in words
    assert "--gguf-file" not in words.replace("gguf_file", "--gguf-file")

"""``bathyscope export`` and ``bathyscope repair``: folders written, texts printed, errors by their exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support import zoo
from transformers import AutoConfig

from bathyscope.cli.main import main
from bathyscope.surgery.repairing.repaired import Repaired


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    zoo.build("llama").save_pretrained(tmp_path / "llama")
    return tmp_path / "llama"


def prompts(file: Path, seed: int) -> str:
    lines = [json.dumps({"ids": ids}) for ids in zoo.prompts(zoo.build("llama"), (30,) * 6, seed)]
    file.write_text("\n".join(lines) + "\n")
    return str(file)


def test_a_checkpoint_is_written(llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["export", str(llama), "--schedule", "drop:1,drop:2", "--out", str(out)]) == 0
    assert AutoConfig.from_pretrained(out).num_hidden_layers == 3
    said = capsys.readouterr().err
    assert f"Written: {out}" in said
    assert "without a tokenizer" in said


def test_texts_for_other_tools_are_printed(llama: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(llama), "--schedule", "drop:1", "--emit", "layers"]) == 0
    assert capsys.readouterr().out == "0,2,3,4\n"
    assert main(["export", str(llama), "--schedule", "drop:1", "--emit", "mergekit"]) == 0
    assert "layer_range: [2, 5]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--schedule", "drop:9", "--emit", "layers"], 2, "block 9 is out of range"),
        (["--schedule", "drop:1"], 2, "neither asked for"),
        (["--schedule", "drop:1", "--out", "{llama}"], 5, "is the folder of the model that is exported"),
    ],
)
def test_errors_have_their_exit_codes(
    llama: Path, words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(llama), *(word.format(llama=llama) for word in words)]) == code
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_tokenizer_that_nobody_could_read_is_refused(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = tmp_path / "model", tmp_path / "out"
    shutil.copytree(model_folder, folder)
    text = (folder / "tokenizer.json").read_text()
    for broken in (text[: len(text) // 2], '{"version": "1.0"}'):
        (folder / "tokenizer.json").write_text(broken)
        assert main(["export", str(folder), "--schedule", "drop:3", "--out", str(out)]) == 4
        said = " ".join(capsys.readouterr().err.split())
        assert "tokenizer.json cannot be read (" in said
        assert "and the copy would have it too. Restore the file" in said
        assert not out.exists()


def test_a_repaired_model_is_measured_and_written(
    llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Repaired, "chosen", "heal")
    monkeypatch.setattr(Repaired, "proved", True)
    words = ["--calibration", prompts(tmp_path / "known.jsonl", 1), "--test", prompts(tmp_path / "unseen.jsonl", 2)]
    words += ["--schedule", "drop:2", "--how", "heal", "--tokens", "300", "--format", "json"]
    assert main(["repair", str(llama), *words, "--out", str(tmp_path / "out")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [rung["name"] for rung in found["rungs"]] == ["none", "scale", "linear", "heal"]
    assert AutoConfig.from_pretrained(tmp_path / "out").num_hidden_layers == 4
    assert "| heal |" in (tmp_path / "out/README.md").read_text()


def test_a_folder_that_is_taken_is_refused_before_anything_is_repaired(
    llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bathyscope.surgery.repairing.repair.climb_ladder", lambda *_, **__: pytest.fail("repaired"))
    words = ["--calibration", prompts(tmp_path / "known.jsonl", 1), "--test", prompts(tmp_path / "unseen.jsonl", 2)]
    assert main(["repair", str(llama), *words, "--schedule", "drop:2", "--out", str(llama)]) == 5
    assert "exists and holds something else" in " ".join(capsys.readouterr().err.split())

"""Folders that come with code of their own: run where that is asked for, measured as any model, and not exported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import stand_ins, zoo

import bathyscope
from bathyscope.cli import main

CODE = """
from transformers import LlamaConfig, LlamaForCausalLM

class OwnConfig(LlamaConfig):
    model_type = "bathyscope_own_code"

class OwnForCausalLM(LlamaForCausalLM):
    config_class = OwnConfig
"""
IDS = [[5, 6, 7, 8, 9, 10, 11], [15, 16, 17, 18, 19]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny Llama whose classes are in a file of the folder; ``plain`` next to it is the same without."""
    # transformers copies such code into its cache before it runs it
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.syspath_prepend(tmp_path / "modules")
    hf = zoo.build("llama")
    for name in ("plain", "own"):
        hf.save_pretrained(stand_ins.checkpoint(tmp_path / name))
    place = tmp_path / "own"
    (place / "own_code.py").write_text(CODE, encoding="utf-8")
    config = json.loads((place / "config.json").read_text(encoding="utf-8"))
    config |= {"model_type": "bathyscope_own_code", "architectures": ["OwnForCausalLM"]}
    config["auto_map"] = {"AutoConfig": "own_code.OwnConfig", "AutoModelForCausalLM": "own_code.OwnForCausalLM"}
    (place / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return place


def test_a_model_of_its_own_code_is_measured_as_the_same_without(folder: Path) -> None:
    model = bathyscope.load(folder, trust_remote_code=True)
    assert type(model.hf).__name__ == "OwnForCausalLM"
    assert type(model.hf).__module__.startswith("transformers_modules")
    plain = bathyscope.load(folder.with_name("plain"))
    assert model.weight_hash == plain.weight_hash
    measures = ["residual", "lens", "drop"]
    own, other = (bathyscope.survey(some, IDS, measures, progress=False) for some in (model, plain))
    for measure in measures:
        for name, values in other[measure].data_vars.items():
            # the same calls in the same shapes
            assert own[measure][name].equals(values), (measure, name)


def test_commands_run_it_where_they_are_asked_to(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text("\n".join(json.dumps({"ids": ids}) for ids in IDS), encoding="utf-8")
    trust = "--trust-remote-code"
    survey = ["survey", str(folder), "--prompts", str(tmp_path / "p.jsonl"), "--measures", "lens", "--quiet", "--out"]
    assert main([*survey, str(tmp_path / "refused")]) != 0
    assert not (tmp_path / "modules").exists(), "code was copied, to be run, that nobody asked for"
    assert main(["check", str(folder), trust]) == 0
    assert main([*survey, str(tmp_path / "run"), trust]) == 0
    assert bathyscope.open(tmp_path / "run").measures[0] == "lens"


def test_a_paper_is_repeated_on_it(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its sizes, which are read off the configuration, and its measured depths; neither where nobody asks for it."""
    data = str(stand_ins.data(tmp_path / "data"))

    def rows(table: str, out: str, *more: str) -> list[dict[str, Any]]:
        words = ["--models", str(folder), "--data", data, "--quiet", "--format", "json", "--out", str(tmp_path / out)]
        main(["reproduce", f"hu2025-{table}", *words, *more])
        measured: list[dict[str, Any]] = json.loads(capsys.readouterr().out)[table]
        return measured

    for row in rows("table1", "refused", "--prompts", "3") + rows("table2", "refused"):
        assert "--trust-remote-code" in row["reason"]
    assert not (tmp_path / "modules").exists(), "code was copied, to be run, that nobody asked for"
    trust = "--trust-remote-code"
    assert [row["measured"] for row in rows("table2", "out", trust)] == [5, 4, 2]
    blocks = {row["data"]: row["blocks"] for row in rows("table1", "out", "--prompts", "3", trust)}
    assert blocks["gsm8k"] == blocks["hellaswag"] == 5


def test_no_checkpoint_of_it_is_written(folder: Path, tmp_path: Path) -> None:
    """Neither from the folder nor from the model in memory, whose code transformers would have to have."""
    for source in (folder, bathyscope.load(folder, trust_remote_code=True)):
        with pytest.raises(bathyscope.BathyscopeError, match="code"):
            bathyscope.export(source, "drop:1", tmp_path / "copy")
        assert not (tmp_path / "copy").exists()

"""A published run names no place on anybody's disk, and is the same run otherwise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import waves

import bathyscope
from bathyscope.core.text import without_places
from bathyscope.runs.manifest import load_manifest
from bathyscope.runs.publishing import write_without_places


@pytest.mark.parametrize(
    ("text", "public"),
    [
        ("survey /home/ada/tiny --prompts ~/texts/mine.jsonl:40", "survey tiny --prompts mine.jsonl:40"),
        ("--out=/home/ada/x", "--out=x"),
        ("['/home/ada/x', \"/y/z\"]", "['x', \"z\"]"),
        ("C:\\Users\\ada\\x.jsonl:4", "x.jsonl:4"),
        ("text:/home/ada/a.txt file:///home/ada/b.txt C:/Users/ada/m", "text:a.txt b.txt m"),
        ("'/home/ada lovelace/x y.jsonl' ../../home/ada/z ./home/ada/q", "'x y.jsonl' z q"),
        ("\\\\srv\\ada\\m --prompts gsm8k:10@/home/ada/s.jsonl", "m --prompts gsm8k:10@s.jsonl"),
        ("/home/ada/measure.py:Class", "measure.py:Class"),
        ("https://a.b/c/d hf://datasets/u/n", "https://a.b/c/d hf://datasets/u/n"),
        ("Qwen/Qwen2.5 gsm8k:10 n/a 1/2 </div>", "Qwen/Qwen2.5 gsm8k:10 n/a 1/2 </div>"),
    ],
)
def test_absolute_paths_are_their_last_names(text: str, public: str) -> None:
    assert without_places(text) == public


def test_a_run_is_copied_without_its_places(tmp_path: Path) -> None:
    home = tmp_path / "secret home"
    home.mkdir()
    file = home / "mine.jsonl"
    file.write_text("".join(json.dumps({"ids": ids}) + "\n" for ids in ([11, 12, 13], [19, 18, 17, 16])))
    hf = waves.loaded("llama").hf
    hf.save_pretrained(home / "tiny")
    run = bathyscope.survey(str(home / "tiny"), str(file), ["lens", "drop"], home / "run", progress=False)
    write_without_places(home / "run", load_manifest(home / "run"), tmp_path / "public")
    for path in (tmp_path / "public").iterdir():
        assert b"secret" not in path.read_bytes(), path
    public = bathyscope.open(tmp_path / "public")
    assert public.identity.model == "tiny"
    assert public.identity.dataset == "mine.jsonl"
    assert public.prompts.hash == run.prompts.hash
    assert public.measures == run.measures
    for name in ("lens", "drop"):
        left = run[name].drop_vars("dataset").drop_attrs(deep=False)
        assert public[name].drop_vars("dataset").drop_attrs(deep=False).identical(left)
    listed = run.push("user/name", dry_run=True)
    assert "Would publish" in listed
    assert "manifest.json (" in listed
    assert "secret" not in listed

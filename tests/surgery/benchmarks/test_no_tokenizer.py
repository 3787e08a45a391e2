"""Tasks are texts: a model without a tokenizer is refused with what helps where it came from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import zoo

import bathyscope
from bathyscope.errors import PromptError
from bathyscope.surgery.benchmarks import evaluating


def test_a_folder_without_a_tokenizer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluating, "load_benchmarks", lambda *_: ())
    zoo.entry("llama").build().save_pretrained(tmp_path / "model")
    stored, in_memory = bathyscope.load(tmp_path / "model"), bathyscope.load(zoo.entry("llama").build())
    message = rf"The folder '{re.escape(str(tmp_path / 'model'))}' holds no tokenizer, .* put its files there"
    with pytest.raises(PromptError, match=message):
        evaluating.require_answerable(stored, ["arc_easy"], None, None, 1)
    with pytest.raises(PromptError, match=r"^This model has no tokenizer; give one: load"):
        evaluating.require_answerable(in_memory, ["arc_easy"], None, None, 1)

"""What is said where the hub's rows cannot be had; the rows themselves are tested with the data sets."""

from __future__ import annotations

import sys

import pytest

from bathyscope.errors import PromptError
from bathyscope.prompts.hub import hub_rows


def test_without_the_library_the_command_that_installs_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    message = r"openai/gsm8k \(split 'test'\) is on the hub, .*\(pip install datasets\)\. Without it give a file\."
    with pytest.raises(PromptError, match=message):
        hub_rows("openai/gsm8k", "main", "test", "give a file")

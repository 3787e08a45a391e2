"""The numbers of the page on files of others are those that the code has."""

from __future__ import annotations

from pathlib import Path

import pytest

from bathyscope import errors
from bathyscope.core import expanding, foreign, recipes, schedule_text, strict
from bathyscope.core.text import in_bytes
from bathyscope.model import adapter_settings, configuration
from bathyscope.model.streaming import files as streamed_files
from bathyscope.prompts import chat, rendering, tokenize, tokenizer_growth
from bathyscope.prompts import files as prompt_files

PAGE = " ".join((Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8").split())
WORDS = {100: "a hundred times"}
SECONDS = {5.0: "five seconds", 10.0: "ten seconds"}

SENTENCES = {
    "separators": f"documents of more than {strict._MOST_SEPARATORS:,} lines, commas, colons and brackets",
    "blocks": f"models of more than {configuration._MOST_BLOCKS:,} blocks or {configuration._MOST_LABELS:,} labels",
    "steps": f"schedules of more than {schedule_text.MOST_STEPS:,} blocks or steps",
    "headers": f"headers of more than {streamed_files._MOST_HEADER / 1e6:.0f} MB",
    "unpacked": f"more than {in_bytes(expanding.SMALL)} and {WORDS[expanding._MOST_TIMES]} their size",
    "a line": f"a line of more than {in_bytes(foreign.MOST_TEXT)}",
    "recipes": f"Recipes have at most {in_bytes(recipes.MOST_RECIPE)}, a chat {chat._MOST_TURNS:,} turns",
    "letters": f"{tokenize._LETTERS_OF_TOKEN} letters for each token of the model's context",
    "columns": f"A parquet table has at most {prompt_files._MOST_COLUMNS:,} columns",
    "patterns": f"not matched in {SECONDS[adapter_settings._SECONDS]} (Linux)",
    "rounds": f"more than {adapter_settings._MOST_ROUNDS:,} rounds of approximation",
    "messages": f"Messages end after {errors._LONGEST_MESSAGE:,} letters",
    "tokenizers": f"a text more than {tokenizer_growth._MOST_TIMES:,} times as long",
    "templates": f"takes more than {SECONDS[rendering._SECONDS]}, whatever it is doing",
    "memory": f"it takes at most {in_bytes(rendering._MEMORY)}",
}


@pytest.mark.parametrize("sentence", SENTENCES)
def test_the_page_has_the_numbers_of_the_code(sentence: str) -> None:
    assert SENTENCES[sentence] in PAGE

"""Texts whose letters were lost in decoding are said to be such, wherever they come from."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from support.word_tokenizer import word_tokenizer

from bathyscope import Prompt
from bathyscope.model.reading import tokenized
from bathyscope.prompts.corpus import corpus_prompts
from bathyscope.prompts.padding import EdgeTokens


class StandIn:
    """What of a model is asked for where prompts are read."""

    name = "small"
    max_tokens = None
    vocabulary = predictable = None
    has_position_table = False
    edges = EdgeTokens()

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer


def said_of(prompts: list[Any]) -> list[str]:
    tokenizer = word_tokenizer(["caf\ufffd", "café", "two", "a"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tokenized(StandIn(tokenizer), prompts, add_special_tokens=False)
    return [str(warning.message) for warning in caught if "U+FFFD" in str(warning.message)]


def test_prompts_with_lost_letters_are_counted_and_the_first_is_named() -> None:
    assert said_of(["two café", "a café"]) == []
    [said] = said_of(["two café", "a caf\ufffd", Prompt("a two caf\ufffd", answer=" caf\ufffd", id="third")])
    assert said.startswith("2 of 3 prompts hold U+FFFD (\ufffd), first in prompt 1: it stands for letters")
    [said] = said_of([Prompt("a two caf\ufffd", id="menu")])
    assert said.startswith("1 of 1 prompts hold U+FFFD (\ufffd), first in prompt 'menu'")


def test_a_file_with_lost_letters_is_named_once(tmp_path: Path) -> None:
    file = tmp_path / "menu.txt"
    tokenizer = word_tokenizer(["caf\ufffd", "café", "two", "a"])
    for text, count in (("two café a café " * 3000, 0), ("two caf\ufffd a café " * 3000, 1)):
        file.write_text(text, encoding="utf-8")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            corpus_prompts(str(file), tokenizer=tokenizer, window=8)
        assert len([w for w in caught if str(w.message).startswith(f"{file} holds U+FFFD")]) == count

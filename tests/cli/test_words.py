"""Descriptions of options in the words of a shell."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_verbs import VERBS

from bathyscope.cli.contents import every_command
from bathyscope.cli.words import name_flag, write_for_shells
from bathyscope.core.commands import name_command
from bathyscope.core.descriptions import texts_of
from bathyscope.measures.registry import MEASURES

OPTIONS = ["until", "batch_tokens", "placement"]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("of the ``thing``; None = all.", "of the thing; not given = all."),
        ("as said. None = all.", "as said. Not given = all."),
        ("True = run them, False = refuse them.", "yes = run them, no = refuse them."),
        ("seconds; allowed: 1 or more, or None (3600).", "seconds; allowed: 1 or more, or not given (3600)."),
        ("time after which ``until`` ends.", "time after which --until ends."),
        ("as ``batch_tokens``.", "as --batch-tokens."),
        ('short for ``placement="stream"``.', "short for --placement stream."),
        ("such as ``until=0.5``.", "such as --until 0.5."),
        ('``"until"`` = a value of that name.', "until = a value of that name."),
        ("such as ``drop:7`` or ``x=layer``.", "such as drop:7 or x=layer."),
        ("``bathyscope.join`` makes one run.", "bathyscope survey join makes one run."),
        ("None of them, and nothing is True.", "None of them, and nothing is True."),
    ],
)
def test_words_of_a_shell(text: str, written: str) -> None:
    assert write_for_shells(text, OPTIONS) == written


def test_flags_of_a_measure_have_its_name() -> None:
    assert name_flag("protect_first", "own_skip") == "--own-skip.protect-first"
    assert write_for_shells("as ``until``.", OPTIONS, "lens") == "as --lens.until."


@given(st.lists(st.sampled_from([*OPTIONS, "None = ", "``until``", "``x``", ". ", "some words, "]), max_size=8))
def test_what_is_written_for_shells_stays_as_it_is(parts: list[str]) -> None:
    once = write_for_shells("".join(parts), OPTIONS)
    assert write_for_shells(once, OPTIONS) == once
    assert "``" not in once
    assert "None = " not in once


def test_commands_in_descriptions_are_commands() -> None:
    """Of a verb that only Python has, the docstring of the call says it."""
    commands = {f"bathyscope {' '.join(words)}" for words in every_command()}
    types = [*VERBS, *(declaration.options_type for declaration in MEASURES.values())]
    named = {
        verb for kind in types for text in texts_of(kind).values() for verb in re.findall(r"bathyscope\.(\w+)", text)
    }
    assert named
    assert {name_command(verb.replace("_", "-")) for verb in named} <= commands

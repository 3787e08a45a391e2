"""Warnings of several surveys of the same prompts: shown once where they are the same, else as often as they arise."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from support.equal_functions import tiny

import bathyscope
from bathyscope.core.repeated import leaving_out, noting

PROMPTS = [[3, 4, 5, 6], [7, 8, 9], [3, 4, 5, 6], [5, 6], [5, 9, 8, 7, 6]]
"""With a copy, and too short for the positions of skip."""


def shown_by(act: Callable[[], object]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        act()
    return [str(warning.message) for warning in caught]


def test_noted_warnings_are_shown_and_left_out_afterwards() -> None:
    def act() -> None:
        with noting() as remarks:
            warnings.warn("one", stacklevel=1)
            warnings.warn("one", stacklevel=1)
        assert remarks == {(UserWarning, "one")}
        with leaving_out(remarks):
            warnings.warn("one", stacklevel=1)
            warnings.warn("one", RuntimeWarning, stacklevel=1)
            warnings.warn("two", stacklevel=1)
            warnings.warn("two", stacklevel=1)
        warnings.warn("one", stacklevel=1)

    assert shown_by(act) == ["one", "one", "one", "two", "two", "one"]


def test_what_a_filter_hides_is_not_noted() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with noting() as remarks:
            warnings.warn("one", stacklevel=1)
    assert remarks == set()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with leaving_out({(UserWarning, "one")}), pytest.raises(UserWarning, match="one"):
            warnings.warn("one", stacklevel=1)


def test_a_control_does_not_say_again_what_its_run_has_said() -> None:
    hf = tiny()
    messages = shown_by(
        lambda: bathyscope.survey(
            hf, PROMPTS, ["lens", "skip"], control=["untrained:2", "shuffled_text"], progress=False
        )
    )
    assert len([message for message in messages if "have the tokens of others" in message]) == 1
    assert len([message for message in messages if "too short for a sampled position" in message]) == 1
    assert len(messages) == len({*messages})


@pytest.mark.parametrize("kind", ["course", "watch"])
def test_every_step_reads_the_same_prompts_and_says_so_once(kind: str, tmp_path: Path) -> None:
    def steps() -> None:
        hf = tiny()
        if kind == "course":
            for step in (10, 20, 30):
                hf.save_pretrained(tmp_path / "training" / f"checkpoint-{step}")
            bathyscope.course(tmp_path / "training", PROMPTS, tmp_path / "runs", progress=False)
        else:
            watch = bathyscope.watch(hf, PROMPTS, out=tmp_path / "runs", every=10, progress=False)
            for step in (0, 10, 20):
                assert "depth/half" in watch(step)

    messages = shown_by(steps)
    for words in ("have the tokens of others", "too short for a sampled position"):
        assert len([message for message in messages if words in message]) == 1
    assert len(bathyscope.open(tmp_path / "runs").data.step) == 3

"""The verdict on models whose depth is known: where readings agree they are right. Who is fooled: test_table.py."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bathyscope import Run
from studies.planted import CONSTRUCTIONS, Cell
from studies.planted import Verdict as Judged

ADDED = {"unused_copy", "either", "mixture"}
"""Built to tell what is decodable, or spared, from what is used, and a median from a mean; the readings' records are of
the others."""
RECORD = {"half": 12, "tokens_90": 11, "readable": 12, "own": 11, "later": 12}
WRONG_ON_ADDED = {"readable": {"mixture"}}
CLOSE = 1.0
"""Blocks by which two readings may differ and still agree."""
Cells = Callable[[str], dict[str, Cell]]
Runs = Callable[[str], Run]


@pytest.mark.thorough
@pytest.mark.parametrize("reading", RECORD)
def test_the_record_of_the_readings(reading: str, cells_of: Cells) -> None:
    right = {name for name in CONSTRUCTIONS if cells_of(name)[f"verdict_{reading}"].verdict is Judged.RIGHT}
    assert len(CONSTRUCTIONS) - len(ADDED) == 13
    assert len(right - ADDED) == RECORD[reading]
    assert ADDED - right == WRONG_ON_ADDED.get(reading, set())


@pytest.mark.thorough
def test_where_tokens_and_effects_agree_the_depth_is_that_of_the_last_needed_block(run_of: Runs) -> None:
    verdicts = {name: run_of(name).verdict for name in CONSTRUCTIONS}
    agreeing = {name for name, found in verdicts.items() if found.agreement == "within"}
    assert set(CONSTRUCTIONS) - agreeing >= {"shared_weights", "backup"}
    for name in agreeing:
        assert abs(verdicts[name].own.value - (max(CONSTRUCTIONS[name].truth.needed) + 1)) <= CLOSE, name


def test_reasons_name_what_was_planted(run_of: Runs) -> None:
    assert "share weights" in run_of("shared_weights").verdict.reasons[0]
    assert "back each other up" in run_of("backup").verdict.reasons[0]

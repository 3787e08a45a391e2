"""The verdict on models whose depth is known: where readings agree they are right. Who is fooled: test_table.py."""

from __future__ import annotations

import pytest

from bathyscope.store.run import Run
from bathyscope.verdict import CLOSE, Verdict, verdict_of
from studies.planted import CONSTRUCTIONS, surveyed


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Verdict]:
    def judged(run: Run) -> Verdict:
        return verdict_of({name: run[name] for name in run})

    return {name: judged(surveyed(one)) for name, one in CONSTRUCTIONS.items()}


def test_where_readings_agree_the_depth_is_that_of_the_last_needed_block(verdicts: dict[str, Verdict]) -> None:
    agreeing = {name: found.depth for name, found in verdicts.items() if found.depth is not None}
    assert set(CONSTRUCTIONS) - set(agreeing) == {"shared_weights", "backup"}
    for name, depth in agreeing.items():
        assert abs(depth - (max(CONSTRUCTIONS[name].truth.needed) + 1)) <= CLOSE, name


def test_reasons_name_what_was_planted(verdicts: dict[str, Verdict]) -> None:
    assert "share weights" in verdicts["shared_weights"].reasons[0]
    assert "back each other up" in verdicts["backup"].reasons[0]

"""The verdict on models whose depth is known: three readings, and the rule that agreement is right."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bathyscope.store.run import Run
from bathyscope.verdict import CLOSE, Verdict, verdict_of
from studies.planted import CONSTRUCTIONS, surveyed

# what is known to fool each reading: docs/design/planted_depth.md says why
FOOLED = {"readable": {"rotated"}, "own": {"shared_weights", "backup"}, "later": {"shared_weights"}}


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Verdict]:
    def judged(run: Run) -> Verdict:
        return verdict_of({name: run[name] for name in run})

    return {name: judged(surveyed(one)) for name, one in CONSTRUCTIONS.items()}


@pytest.mark.parametrize("reading", FOOLED)
def test_only_known_models_fool_a_reading(reading: str, verdicts: dict[str, Verdict]) -> None:
    truths = {
        "readable": lambda truth: truth.depth,
        "own": lambda truth: max(truth.needed) + 1,
        "later": lambda truth: max(source for source, _ in truth.uses_across) + 1,
    }
    truth_of: Callable[..., int] = truths[reading]
    wrong = {
        name
        for name, found in verdicts.items()
        if abs(getattr(found, reading).value - truth_of(CONSTRUCTIONS[name].truth)) > CLOSE
    }
    assert wrong == FOOLED[reading]


def test_where_readings_agree_the_depth_is_that_of_the_last_needed_block(verdicts: dict[str, Verdict]) -> None:
    agreeing = {name: found.depth for name, found in verdicts.items() if found.depth is not None}
    assert set(CONSTRUCTIONS) - set(agreeing) == {"shared_weights", "backup"}
    for name, depth in agreeing.items():
        assert abs(depth - (max(CONSTRUCTIONS[name].truth.needed) + 1)) <= CLOSE, name


def test_reasons_name_what_was_planted(verdicts: dict[str, Verdict]) -> None:
    assert "share weights" in verdicts["shared_weights"].reasons[0]
    assert "back each other up" in verdicts["backup"].reasons[0]

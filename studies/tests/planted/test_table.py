"""Every measure on every planted model: right where it must be, fooled or silent where that is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from support.planted import swept

from bathyscope import Run
from studies.planted import CONSTRUCTIONS, READINGS, Cell, Verdict, table

CONTRADICTED = {
    # reading → planted models that it is known to be wrong about, whatever else changes
    "frozen_kl": {"rescaling", "rotated", "detour"},
    "cosine": {"near_identity", "unread", "busy", "rotated", "sink", "backup"},
    "kl": {"rotated", "detour"},
    "centre_of_mass": {"busy", "shared_weights", "unused_copy"},
    "drop": {"shared_weights", "backup", "either"},
    "skip_all": {"near_identity", "rescaling", "busy", "shared_weights", "backup", "unused_copy"},
    "translated_lens": {"detour", "shared_weights", "backup", "unused_copy", "either"},
    "patching": {"shared_weights"},
    "erasure": {"shared_weights", "busy"},
    "prediction": {"rotated", "mixture"},
    "verdict_half": {"rotated"},
    "verdict_tokens_90": {"rotated", "shared_weights"},
    "verdict_readable": {"rotated", "mixture"},
    "swap": set[str](),
}


@pytest.mark.parametrize("name", swept(CONSTRUCTIONS))
def test_every_measure_is_right_unless_it_is_known_to_be_fooled(
    name: str, cells_of: Callable[[str], dict[str, Cell]]
) -> None:
    found = {measure: cell.verdict for measure, cell in cells_of(name).items()}
    assert found == {measure: CONSTRUCTIONS[name].expected(measure) for measure in READINGS}


@pytest.mark.thorough
@pytest.mark.parametrize("measure", CONTRADICTED)
def test_the_known_failures_of_a_measure(measure: str, cells_of: Callable[[str], dict[str, Cell]]) -> None:
    fooled = {name for name in CONSTRUCTIONS if cells_of(name)[measure].verdict is Verdict.FOOLED}
    assert fooled == CONTRADICTED[measure]


@pytest.mark.thorough
def test_no_single_measure_can_be_trusted_alone_but_each_is_right_somewhere(
    cells_of: Callable[[str], dict[str, Cell]],
) -> None:
    for measure in READINGS:
        right = [name for name in CONSTRUCTIONS if cells_of(name)[measure].verdict is Verdict.RIGHT]
        assert right, measure
        assert len(right) < len(CONSTRUCTIONS) or measure == "swap", measure


def test_every_estimator_is_read(run_of: Callable[[str], Run]) -> None:
    assert len(CONSTRUCTIONS) >= 8
    estimators = run_of("relay")["effective_depth"]["estimator"].values.tolist()
    assert len(estimators) == 9
    assert set(estimators) <= set(READINGS)


@pytest.mark.parametrize("name", CONSTRUCTIONS)
def test_departures_name_readings_once_and_say_why(name: str) -> None:
    departures = CONSTRUCTIONS[name].departures
    listed = Counter(measure for departure in departures for measure in departure.measures)
    assert set(listed) <= set(READINGS)
    assert set(listed.values()) <= {1}
    for departure in departures:
        assert departure.verdict is not Verdict.RIGHT
        assert departure.why.endswith(".")


def test_the_table_of_chosen_models_surveys_them_anew(cells_of: Callable[[str], dict[str, Cell]]) -> None:
    found = table([CONSTRUCTIONS["relay"]])
    assert list(found) == ["relay"]
    assert found["relay"] == cells_of("relay")

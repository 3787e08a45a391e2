"""The stored table of quantised checkpoints: complete, and what the code says."""

from __future__ import annotations

import pytest

import docs.quantised as table


def test_every_kind_is_in_the_table_and_none_gives_other_numbers() -> None:
    outcomes = table.read_table()
    assert list(outcomes) == table.kinds()
    for kind, row in outcomes.items():
        acts = {row.survey, row.prune, row.export}
        assert acts == ({table.REFUSED} if kind in table.TO_TRANSFORMERS else {table.MEASURED}), kind
        # one of both: what a run says of its weights, or why there is none
        assert bool(row.weights) != bool(row.note), kind


@pytest.mark.parametrize(
    "kind",
    [
        "gptq-4",
        "nf4-double",
        *(pytest.param(kind, marks=pytest.mark.thorough) for kind in ("gptq-3", "awq", "int4-zeros", "bits-8", "fp8")),
    ],
)
def test_what_is_stored_is_what_the_code_says(kind: str) -> None:
    assert table.examine(kind) == table.read_table()[kind]


@pytest.mark.parametrize("kind", table.TO_TRANSFORMERS)
def test_what_is_left_to_transformers_is_measured_or_refused_with_a_reason(kind: str) -> None:
    """Which of both depends on the packages and the device, and the reason is the library's."""
    outcome = table.examine(kind)
    assert outcome.survey == table.MEASURED or outcome.note.startswith("MODEL cannot be loaded as a causal language")

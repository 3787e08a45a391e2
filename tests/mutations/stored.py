"""Bugs in what is asked of stored states before they are measured."""

from __future__ import annotations

from bug import Bug

BUGS: tuple[Bug, ...] = (
    Bug(
        "model/states/embedding",
        "states-are-of-any-head",
        "if len(apart) > _APART * len(agrees):",
        "if not agrees:",
        "model/states/test_checks.py::test_a_training_that_moved_the_embedding_a_little_is_another_model",
    ),
    Bug(
        "model/states/head",
        "equal-rows-are-a-head",
        "    _require_rows_that_differ(name, readout)\n",
        "",
        "model/states/test_checks.py::test_a_head_whose_rows_are_all_equal_is_refused",
    ),
    Bug(
        "model/guessing",
        "a-head-worse-than-guesses-is-trusted",
        "if not mean <= factor * guesses:",
        "if False:",
        "model/states/test_checks.py::test_a_head_that_is_turned_round_reads_worse_than_guesses",
    ),
    Bug(
        "analysis/depths/side",
        "a-comparison-needs-what-no-estimator-needs",
        "if measure in map(measure_of, chosen))",
        "if measure)",
        "surveying/test_stored.py::test_runs_of_states_are_compared_by_the_estimators_that_states_tell",
    ),
    Bug(
        "runs/verdict",
        "predictions-of-a-head-are-those-that-were-served",
        "if not self.confirmed:",
        "if False:",
        "surveying/test_stored.py::test_a_verdict_says_whether_its_predictions_were_served",
    ),
)

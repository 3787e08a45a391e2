"""Bugs where two results meet: whether they are of one model, one training and different prompts."""

from __future__ import annotations

from bug import Bug

BUGS: tuple[Bug, ...] = (
    Bug(
        "model/identity",
        "a-configuration-is-no-difference",
        "elif first.configuration and second.configuration and first.configuration != second.configuration:",
        "elif False:",
        "measures/jacobian/test_origins.py::test_a_stored_lens_of_another_configuration_is_no_answer",
    ),
    Bug(
        "model/weights",
        "adapters-without-scaling-have-no-state",
        'if not has_scaling and (not names or (len(names) == 1 and not getattr(module, "disable_adapters", False))):',
        "if not has_scaling:",
        "model/test_identity.py::test_the_state_of_every_kind_of_adapter_counts",
    ),
    Bug(
        "measures/jacobian/fitting",
        "a-stored-lens-is-that-of-any-model",
        "if agreement.differences:",
        "if False:",
        "measures/jacobian/test_origins.py::test_a_stored_lens_of_other_adapters_is_no_answer",
    ),
    Bug(
        "measures/jacobian/fitting",
        "copies-of-a-prompt-are-fitted-to",
        "[prompt.ids for prompt in each_once(usable)]",
        "[prompt.ids for prompt in usable]",
        "measures/jacobian/test_origins.py::test_copies_count_once_and_halves_are_of_different_prompts",
    ),
    Bug(
        "measures/jacobian/matrices",
        "a-prompt-in-two-lenses-counts-twice",
        "both = len({*first} & {*second})",
        "both = 0",
        "measures/jacobian/test_origins.py::test_a_prompt_in_two_lenses_counts_once",
    ),
    Bug(
        "measures/jacobian_lens",
        "fitted-prompts-are-surveyed",
        "self._require_others(self.lens.origin.fitted)",
        "self._require_others([])",
        "measures/jacobian/test_origins.py::test_what_a_lens_was_fitted_to_is_not_read_with_it",
    ),
    Bug(
        "surgery/plan_models",
        "a-plan-is-of-any-configuration",
        "    if not agreement.differences:\n",
        '    if "weights" not in agreement.differences:\n',
        "surgery/test_plan_models.py::test_a_plan_is_of_one_model",
    ),
    Bug(
        "pages/models",
        "results-of-two-models-are-one-page",
        "for other in others if (sentence := _contradiction(first, other))",
        "for other in others[:0] if (sentence := _contradiction(first, other))",
        "pages/test_models.py::test_a_plan_of_another_model_decides_nothing_of_a_run",
    ),
    Bug(
        "pages/explorer/answer",
        "a-plan-of-another-configuration-decides",
        'if not agreement.differences.keys() <= {"precision"}:',
        'if "weights" in agreement.differences:',
        "pages/test_models.py::test_a_plan_of_another_model_decides_nothing_of_a_run",
    ),
    Bug(
        "surveying/training/folder",
        "options-of-a-training-are-not-compared",
        "if name in course_options and course_options[name] != value",
        "if False",
        "surveying/training/test_two_trainings.py::test_a_training_with_another_rate_is_refused_before_its_first_step",
    ),
    Bug(
        "surveying/training/evidence",
        "a-step-between-those-of-another-training-is-added",
        "last = max(self._stored - self._shared, default=None)",
        "last = None",
        "surveying/training/test_evidence.py::test_every_step_of_a_course_is_of_one_training",
    ),
)

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
        "surgery/plan/export",
        "a-plan-is-of-any-configuration",
        "    if not agreement.differences:\n",
        '    if "weights" not in agreement.differences:\n',
        "surgery/plan/test_models.py::test_a_plan_is_of_one_model",
    ),
    Bug(
        "pages/acts/models",
        "results-of-two-models-are-one-page",
        "for other in others if (sentence := _contradiction(first, other))",
        "for other in others[:0] if (sentence := _contradiction(first, other))",
        "pages/acts/test_models.py::test_a_plan_of_another_model_decides_nothing_of_a_run",
    ),
    Bug(
        "pages/head/answer",
        "a-plan-of-another-configuration-decides",
        'if not agreement.differences.keys() <= {"precision"}:',
        'if "weights" in agreement.differences:',
        "pages/acts/test_models.py::test_a_plan_of_another_model_decides_nothing_of_a_run",
    ),
    Bug(
        "surveying/training/folder",
        "options-of-a-training-are-not-compared",
        "if name in course_options and course_options[name] != json.loads(json.dumps(value))",
        "if False",
        "surveying/training/test_two_trainings.py::test_a_training_with_another_rate_is_refused_before_its_first_step",
    ),
    Bug(
        "surveying/training/watch",
        "a-step-between-those-of-another-training-is-added",
        "elif not self._is_known:",
        "elif False:",
        "surveying/training/test_two_trainings.py"
        "::test_a_loop_without_options_adds_nothing_to_a_course_that_may_be_anothers",
    ),
    Bug(
        "model/constants",
        "replaced-methods-are-no-constants",
        "code = {**replaced_methods(hf), **registered_functions(hf), **_own_classes(hf)}\n    unread",
        "code = {**registered_functions(hf), **_own_classes(hf)}\n    unread",
        "model/test_replaced.py::test_a_replaced_method_is_named_and_another_model",
    ),
    Bug(
        "model/contents",
        "what-a-replaced-method-holds-is-not-looked-at",
        "enclosed = dict(zip(function.__code__.co_freevars, map(_held_in, function.__closure__ or ())))",
        "enclosed: dict[str, Any] = {}",
        "model/test_replaced.py::test_the_hash_tells_what_a_method_holds_and_forgets_what_was_undone",
    ),
    Bug(
        "model/origins",
        "a-wrapper-is-what-it-wraps",
        'names = getattr(definition, "__globals__", None)',
        "names = None",
        "model/test_replaced.py::test_a_replaced_method_is_named_and_another_model",
    ),
    Bug(
        "surveying/untrained",
        "an-untrained-model-has-no-replaced-methods",
        "    if replaced:\n        raise _refused(",
        "    if not hf:\n        raise _refused(",
        "model/test_replaced.py::test_what_is_built_from_the_configuration_is_refused",
    ),
    Bug(
        "surgery/checkpoint/source",
        "files-hold-replaced-methods",
        "if replaced := replaced_in_words(model.hf):",
        'if replaced := "":',
        "model/test_replaced.py::test_files_of_a_streamed_model_do_not_hold_its_methods",
    ),
    Bug(
        "wavefront/adapters",
        "adapters-that-are-off-differ",
        "    if not is_on:\n        return ()\n",
        "",
        "analysis/between/test_diff_places.py::test_adapters_that_do_nothing_are_no_difference",
    ),
    Bug(
        "wavefront/adapters",
        "a-model-is-compared-with-itself",
        "if not any(acting_adapters(layer) for layer in layers):",
        "if not layers:",
        "analysis/between/test_diff_places.py::test_a_model_whose_adapters_are_off_is_not_compared_with_itself",
    ),
    Bug(
        "wavefront/adapters",
        "biases-of-adapters-are-not-said",
        "    if biased:\n",
        "    if not layers:\n",
        "analysis/between/test_diff_places.py::test_biases_that_were_trained_with_an_adapter_are_said_to_stay",
    ),
    Bug(
        "analysis/between/weights",
        "what-follows-from-a-setting-differs-too",
        "if departures[0] != departures[1]:",
        "if True:",
        "analysis/between/test_diff_places.py"
        "::test_a_setting_of_the_configuration_is_named_and_not_the_constants_that_follow",
    ),
    Bug(
        "surveying/execution",
        "prompts-that-were-removed-stay-away",
        "if PROMPTS in writer.lost:",
        "if False:",
        "runs/test_prompts.py::test_a_removed_file_is_written_again_by_the_same_command",
    ),
    Bug(
        "surveying/training/steps",
        "steps-of-two-precisions-are-alike",
        "if len(steps_by_precision) < 2:",
        "if steps_by_precision:",
        "surveying/training/test_course.py::test_each_precision_is_said_with_its_steps",
    ),
)

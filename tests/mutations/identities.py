"""Bugs in telling one model from another by what its modules compute."""

from __future__ import annotations

from bug import Bug

BUGS: tuple[Bug, ...] = (
    Bug(
        "model/constants/departure",
        "somebodys-classes-are-known-by-name",
        "**registered_functions(hf), **own_classes(hf)}\n    unread",
        "**registered_functions(hf)}\n    unread",
        "model/test_contents.py::test_two_values_are_two_models_and_the_same_value_is_one",
    ),
    Bug(
        "model/constants/departure",
        "registered-attention-is-no-other-model",
        "**registered_functions(hf), **own_classes(hf)}\n    unread",
        "**own_classes(hf)}\n    unread",
        "model/test_contents.py::test_a_registered_attention_is_another_model_and_the_librarys_are_one",
    ),
    Bug(
        "model/contents",
        "arrays-are-known-by-their-shape",
        "str(value.shape), value.tobytes().hex())",
        "str(value.shape))",
        "model/test_contents.py::test_one_other_number_is_another_content",
    ),
    Bug(
        "model/identity",
        "what-cannot-be-read-is-equal",
        "unread = unread_in_words(second.weights, first.weights)",
        'unread = ""',
        "model/test_contents.py::test_what_cannot_be_read_is_named_and_equal_to_nothing",
    ),
    Bug(
        "analysis/between/weights",
        "another-attention-is-no-other-function",
        "if names[0] != names[1]:",
        "if False:",
        "analysis/between/test_diff_functions.py::test_an_attention_implementation_is_named",
    ),
    Bug(
        "analysis/between/diff",
        "a-block-thought-to-be-equal-is-not-grafted",
        "        differs=[True] * len(weights.differs),\n",
        "",
        "analysis/between/test_diff_functions.py::test_a_block_that_parts_for_unknown_reasons_is_grafted",
    ),
    Bug(
        "analysis/between/weights",
        "the-scaling-of-adapters-is-of-no-account",
        "if acting[0] != acting[1]:",
        "if False:",
        "analysis/between/test_diff_functions.py::test_the_state_of_adapters_is_named",
    ),
    Bug(
        "surveying/controls",
        "a-control-may-be-the-model-itself",
        "if _hold_the_same(fresh, model.hf):",
        "if False:",
        "surveying/test_controls.py::test_a_control_is_never_the_model_itself",
    ),
    Bug(
        "runs/paired",
        "an-untrained-model-that-is-measured-twice-is-two",
        "    if kind == _UNTRAINED and control.identity.weight_hash:\n        return True\n",
        "    if kind == _UNTRAINED and control.identity.weight_hash:\n"
        '        return bool(control["lens"].equals(other["lens"]))\n',
        "runs/test_paired.py::test_an_untrained_model_that_is_measured_twice_is_one_draw",
    ),
    Bug(
        "runs/paired",
        "a-copied-order-is-a-further-draw",
        'return control["lens"].equals(other["lens"]) if None in seeds else len(seeds) == 1',
        "return False",
        "runs/test_paired.py::test_a_copied_order_counts_once",
    ),
    Bug(
        "runs/paired",
        "shuffled-text-of-any-weights-is-the-runs-own",
        'and len({measured.weight_hash, control.weight_hash} - {""}) < 2',
        "",
        "runs/test_paired.py::test_a_control_that_keeps_the_weights_has_those_of_the_run",
    ),
    Bug(
        "surveying/controls",
        "blocks-in-another-order-do-not-say-whose-they-are",
        '{WEIGHTS: model.weight_hash} if self.kind == "shuffled_blocks" else {}',
        "{}",
        "runs/test_paired.py::test_a_control_that_keeps_the_weights_has_those_of_the_run",
    ),
    Bug(
        "surveying/training/folder",
        "a-step-of-another-training-is-the-courses",
        "if noted is not None and noted != weights:",
        "if False:",
        "surveying/training/test_course.py::test_the_same_step_of_another_training_is_refused",
    ),
    Bug(
        "surveying/training/folder",
        "a-survey-that-nobody-compared-is-a-step",
        "others = [step for step in runs_by_step if str(step) not in weights_by_step]",
        "others: list[int] = []",
        "surveying/training/test_course.py"
        "::test_a_survey_that_the_course_did_not_make_is_left_out_until_it_is_compared",
    ),
    Bug(
        "surveying/training/folder",
        "steps-of-an-earlier-version-are-not-taken-over",
        "steps = [step] if isinstance(noted, dict) else list(finished_runs(folder))",
        "steps = [step]",
        "surveying/training/test_course.py::test_the_steps_of_an_earlier_version_are_taken_over_with_the_next_one",
    ),
    Bug(
        "surveying/training/watch",
        "a-survey-that-was-finished-is-not-noted",
        "            note_step(self.folder, step)\n            return open_run(out)\n",
        "            return open_run(out)\n",
        "surveying/training/test_course.py::test_a_watch_notes_a_survey_that_it_finds_finished",
    ),
    Bug(
        "surveying/training/course",
        "each-checkpoint-reads-tokens-of-its-own",
        'elif _read_hash(model, source, remarks, seed, reading) != about["prompts"]["hash"]:',
        "elif False:",
        "surveying/training/test_course.py::test_a_checkpoint_that_reads_other_tokens_is_left_out",
    ),
    Bug(
        "prompts/label_checks",
        "a-label-may-be-infinite",
        "if isinstance(plain, float) and math.isinf(plain):",
        "if False:",
        "prompts/test_label_checks.py",
    ),
    Bug(
        "runs/paired",
        "a-folder-of-any-name-is-a-kind-of-control",
        "    if actual:\n        return",
        "    if actual and kind in (*_BY_MODEL, *_BY_DATASET):\n        return",
        "runs/test_paired.py::test_a_folder_that_names_no_control_holds_none",
    ),
    Bug(
        "surveying/training/folder",
        "one-thing-differ",
        "'differ' if len(changed) > 1 or changed[0] in _SEVERAL else 'differs'",
        "'differs' if changed in (['model'], [CONFIGURATION]) else 'differ'",
        "surveying/training/test_callback.py::test_the_course_of_another_training_is_refused",
    ),
)

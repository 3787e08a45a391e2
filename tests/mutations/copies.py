"""Bugs of prompts and results that stand twice: copies, ties, a run as its own control, one precision for another."""

from __future__ import annotations

from bug import Bug

_COPIES = "runs/test_copies.py"

BUGS: tuple[Bug, ...] = (
    Bug(
        "prompts/parts",
        "copies-are-draws-of-their-own",
        "if len(first) < len(numbers) else None",
        "if False else None",
        f"{_COPIES}::test_readings_have_the_intervals_of_prompts_given_once",
    ),
    Bug(
        "prompts/parts",
        "results-do-not-say-which-prompts-are-copies",
        'return results.assign_coords({COPY_OF: ("prompt", numbers)})',
        "return results",
        f"{_COPIES}::test_what_a_page_draws_has_them_too",
    ),
    Bug(
        "surveying/execution",
        "derived-measures-draw-copies-by-themselves",
        "{name: with_copies(values, copy_of) for name, values in {**merged, **results}.items()}",
        "{**merged, **results}",
        f"{_COPIES}::test_derived_measures_have_them_too",
    ),
    Bug(
        "analysis/depths/grouping",
        "groups-deal-copies-by-themselves",
        "member = opened.clusters(cluster)",
        "member = None if cluster is None else opened.clusters(cluster)",
        f"{_COPIES}::test_groups_and_comparisons_find_what_they_find_in_prompts_given_once",
    ),
    Bug(
        "analysis/written",
        "copies-are-observations-of-their-own",
        "np.unique(numbers[answered], return_index=True)[1]",
        "np.arange(answered.sum())",
        f"{_COPIES}::test_written_answers_count_once",
    ),
    Bug(
        "analysis/written",
        "labels-of-given-texts-are-answers",
        " and WRITTEN in run.identity.dataset",
        "",
        "analysis/test_written.py::test_labels_of_given_texts_are_no_answers",
    ),
    Bug(
        "analysis/written",
        "a-relation-without-exception-is-not-shown",
        "min(self.solved, self.prompts - self.solved) > 1 if math.isnan(low) else low > 0 or high < 0",
        "low > 0 or high < 0",
        "analysis/test_written.py::test_a_relation_without_exception_is_shown",
    ),
    Bug(
        "statistics/permutation",
        "rounding-decides-ties",
        ">= test.statistic - tolerance",
        ">= test.statistic",
        "statistics/test_permutation.py::test_equal_differences_are_equal_whatever_they_round_to",
    ),
    Bug(
        "runs/paired",
        "the-run-itself-is-an-untrained-model",
        "others = [run, *(",
        "others = [*(",
        "runs/test_paired.py::test_the_run_itself_is_no_untrained_model",
    ),
    Bug(
        "core/text",
        "a-small-move-reads-0",
        'f"{value:+.1g}" if 0 < abs(value) < 0.05 else ',
        "",
        "core/test_text.py::test_a_signed_number_is_0_only_where_it_is",
    ),
    Bug(
        "pages/head/answer",
        "a-plan-of-another-precision-decides",
        "        if agreement.differences:\n",
        '        if agreement.differences.keys() - {"precision"}:\n',
        "pages/head/test_answer.py::test_a_plan_of_other_weights_is_no_plan_of_the_model",
    ),
    Bug(
        "prompts/chat",
        "an-answer-before-its-question-is-read",
        "if not _writes(QUESTION, frame_before):",
        "if False:",
        "prompts/test_chat.py::test_a_template_that_writes_the_answer_before_the_question_is_refused",
    ),
    Bug(
        "prompts/chat",
        "what-a-template-draws-is-one-text",
        "self._render(markers, frame.as_parts) != frame.text for _ in",
        "False for _ in",
        "prompts/test_chat.py::test_a_template_that_draws_what_it_writes_is_refused",
    ),
    Bug(
        "analysis/between/weights",
        "a-scaling-of-adapters-is-a-weight",
        "for name in names})\n        scaled_places",
        "for name in [*names, *scaled]})\n        scaled_places",
        "analysis/between/test_diff_places.py::test_only_active_adapters_are_named",
    ),
    Bug(
        "surgery/plan/text",
        "the-best-is-not-named",
        "if best not in (names[0], leads_with):",
        "if False:",
        "surgery/plan/test_text.py::test_no_sentence_says_more_than_the_arrays",
    ),
    Bug(
        "measures/translated_lens",
        "copies-of-what-is-read-are-fitted-to",
        "self.options.test_share, seed, copies_in(prompts))",
        "self.options.test_share, seed)",
        "measures/test_translated_lens.py::test_copies_of_what_is_read_are_not_fitted_to",
    ),
    Bug(
        "surveying/training/steps",
        "a-course-draws-copies-by-themselves",
        "replace(sampling, cluster=clusters_in(drop, None))",
        "sampling",
        "surveying/training/test_course.py::test_copies_of_prompts_show_no_more_than_the_prompts_given_once",
    ),
    Bug(
        "surveying/training/steps",
        "copies-of-one-prompt-show-idle-blocks",
        "has_value.sum() if sampling.cluster is None else np.unique(sampling.cluster[has_value]).size",
        "has_value.sum()",
        "surveying/training/test_course.py::test_copies_of_one_prompt_leave_open_what_one_prompt_does",
    ),
    Bug(
        "analysis/depths/draws",
        "prompts-of-another-order-are-other-draws",
        "return numbers if has_copies or overlap else",
        "return numbers if has_copies else",
        "analysis/depths/test_draws.py::test_prompts_in_another_order_and_file_are_the_same_draws",
    ),
    Bug(
        "analysis/depths/draws",
        "pairs-of-two-tokenizers-are-other-draws",
        "linked[places[second][pairs.second]] = places[first][pairs.first]",
        "pass",
        "analysis/depths/test_draws.py::test_copies_are_paired_under_two_tokenizers",
    ),
    Bug(
        "analysis/depths/draws",
        "equal-numbers-are-equal-texts",
        "differ = len({*tokenizers} - {None}) > 1",
        "differ = False",
        "analysis/depths/test_draws.py::test_equal_tokens_of_two_tokenizers_are_not_the_same_text",
    ),
)

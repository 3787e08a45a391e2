"""Bugs in what sentences say of few prompts, of copies, of what was written, and in what order levels stand."""

from __future__ import annotations

from bug import Bug

BUGS: tuple[Bug, ...] = (
    Bug(
        "statistics/difference",
        "prompts-that-agree-are-certain",
        "agreed = [part.agreed for part in parts if part.variance == 0]",
        "agreed: list[Agreed] = []",
        "statistics/test_difference.py::test_interval_and_tests_say_the_same",
    ),
    Bug(
        "statistics/uncertainty",
        "one-unlike-prompt-is-all-that-may-be-unseen",
        "return 1 - tail ** (1 / units)",
        "return tail / units",
        "statistics/test_difference.py::test_few_prompts_of_few_tokens_have_an_interval_that_holds",
    ),
    Bug(
        "runs/readings",
        "training-moved-all-prompts-alike-and-so-all-others",
        "if prompt_variance <= _NO_SPREAD else []",
        "if prompt_variance < 0 else []",
        "runs/test_verdict.py::test_prompts_that_move_alike_leave_open_what_others_do",
    ),
    Bug(
        "analysis/written",
        "the-question-is-what-was-written",
        'if positions != "answer":',
        'if positions == "inner":',
        "analysis/test_written.py::test_a_lens_of_the_question_says_nothing_of_what_was_written",
    ),
    Bug(
        "analysis/depths/questions",
        "the-largest-number-of-a-name-is-its-size",
        "if len(sizes) != 1 or",
        "if not sizes or",
        "analysis/depths/test_questions.py::test_size_may_be_the_parameters_that_names_tell",
    ),
    Bug(
        "analysis/depths/sentences",
        "copies-count-among-the-prompts-that-are-needed",
        "prompts = _head_counts(comparison, number)[1]",
        "prompts = _head_counts(comparison, number)[0]",
        "analysis/depths/test_counts.py::test_copies_add_nothing_to_what_is_proved",
    ),
    Bug(
        "analysis/depths/sentences",
        "the-head-is-of-the-prompts-of-the-estimators",
        'return int(counts["n_prompts"]), int(counts["n_units"])',
        'return (int(comparison.data["n_prompts"].values[number].max()),) * 2',
        "analysis/depths/test_counts.py::test_the_head_counts_its_own_prompts",
    ),
    Bug(
        "prompts/parts",
        "numbers-in-texts-have-no-sign",
        'return -value if match["sign"] else value',
        "return value",
        "prompts/test_parts.py::test_numbers_in_texts_stand_in_their_order",
    ),
    Bug(
        "prompts/parts",
        "equal-numbers-are-groups-of-their-own",
        "return [value if value is None else _written(value) for value in values]",
        "return [value if value is None else str(value) for value in values]",
        "prompts/test_parts.py::test_equal_numbers_are_one_group_however_they_are_written",
    ),
    Bug(
        "analysis/written",
        "one-quantity-that-is-alike-speaks-for-all",
        'places = np.flatnonzero(~np.isnan(self.data["correlation"].values))',
        'places = np.flatnonzero(~np.isnan(self.data["correlation"].values[:1]))',
        "analysis/test_written.py::test_a_quantity_that_is_alike_leaves_the_next_to_tell",
    ),
    Bug(
        "analysis/depths/sentences",
        "an-estimator-gives-the-reason-of-the-head",
        'return str(head["reason"].item()) or "the readings have no interval"',
        "pass",
        "analysis/depths/test_counts.py::test_it_is_the_heads_own_reason_that_leaves_it_untested",
    ),
    Bug(
        "analysis/depths/sentences",
        "clusters-that-are-needed-are-called-prompts",
        'clusters = " clusters" if "cluster" in comparison.data.attrs else ""',
        'clusters = ""',
        "analysis/depths/test_counts.py::test_what_is_needed_is_counted_in_what_is_drawn",
    ),
    Bug(
        "analysis/depths/sentences",
        "a-headline-hides-its-level",
        'return "" if comparison.level == USUAL_LEVEL else',
        'return "" if comparison.level else',
        "analysis/depths/test_leading.py::test_a_headline_names_a_level_that_is_not_the_usual_one",
    ),
    Bug(
        "analysis/depths/pairing",
        "prompts-of-two-samples-are-not-said-to-be-the-same",
        "return Match(note=_pairs_taken_apart(first, second))",
        "return Match()",
        "analysis/depths/test_leading.py::test_prompts_that_two_samples_share_are_said_to_count_twice",
    ),
    Bug(
        "surgery/choosing/judging",
        "a-random-subset-counts-as-often-as-it-was-drawn",
        "different = len(set(subsets))",
        "different = len(subsets)",
        "surgery/choosing/test_pruning.py::test_random_subsets_are_counted_once_each",
    ),
    Bug(
        "runs/readings",
        "prompts-that-agree-are-certain",
        "if self.units > 1 and agree(values):",
        "if False:",
        "runs/test_verdict.py::test_prompts_that_agree_leave_as_much_open_as_a_difference_of_them",
    ),
    Bug(
        "statistics/uncertainty",
        "rounding-is-a-spread",
        "<= _ROUNDING * np.abs(values).max()",
        "<= 0",
        "runs/test_verdict.py::test_prompts_that_agree_leave_as_much_open_as_a_difference_of_them",
    ),
)

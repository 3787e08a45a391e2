"""Bugs in what acts on depth: choosing, repairing, exporting and leaving early."""

from __future__ import annotations

from bug import Bug

BUGS: tuple[Bug, ...] = (
    Bug(
        "surgery/plan/text",
        "random-subsets-are-compared-with-the-best",
        'return _p_against_choice(data, name) < 1 - float(data.attrs["level"])',
        'return float(data["p_value"].sel(candidate=name)) < 1 - float(data.attrs["level"])',
        "surgery/plan/test_text.py::test_random_subsets_are_compared_with_the_choice_and_not_with_the_best",
    ),
    Bug(
        "surgery/plan/text",
        "the-choice-is-compared-with-the-best-alone",
        "if costs[place] < costs[0] and _is_told_from_choice(data, name)",
        "if place == _best_place(data) and costs[place] < costs[0] and _is_told_from_choice(data, name)",
        "surgery/plan/test_text.py::test_a_candidate_that_is_better_than_the_choice_need_not_be_the_best",
    ),
    Bug(
        "surgery/plan/text",
        "cheap-rules-are-compared-with-the-best",
        "elif with_choice and is_dearer_than_choice(data, name):",
        "elif False:",
        "surgery/plan/test_text.py::test_cheap_rules_are_compared_with_the_choice_and_not_with_the_best",
    ),
    Bug(
        "surgery/exits/times",
        "a-check-is-cheaper-than-a-step",
        "np.maximum(self.forward(draft + 1) + round_, plain)",
        "(self.forward(draft + 1) + round_)",
        "surgery/exits/test_times.py::test_nothing_is_faster_than_its_tokens_per_pass_whatever_the_clocks_say",
    ),
    Bug(
        "surgery/repairing/repaired",
        "a-gain-that-may-be-nothing-is-a-proof",
        "self.best.gain_low > 0",
        "self.best.gain > -1",
        "surgery/repairing/test_repair.py::test_the_rung_is_chosen_on_calibration_prompts_and_proved_on_others",
    ),
    Bug(
        "surgery/repairing/ladder",
        "weights-are-those-of-the-last-rung",
        "hf=climb.restore(repaired.chosen).hf",
        "hf=climb.last.hf",
        "surgery/repairing/test_repair.py"
        "::test_the_weights_are_those_of_the_chosen_rung_though_training_went_on_from_it",
    ),
    Bug(
        "surgery/checkpoint/integrity",
        "infinite-weights-are-copied",
        "torch.isfinite(values).all()",
        "(~torch.isnan(values)).all()",
        "surgery/checkpoint/test_integrity.py::test_numbers_that_are_none_are_refused",
    ),
    Bug(
        "surgery/plan/plan",
        "a-plan-that-does-not-fit-leaves-its-block-out",
        'self.left_out if self.fits else "standard"',
        "self.left_out",
        "surgery/choosing/test_pruning.py::test_where_no_block_can_go_it_says_so_and_holds_the_numbers",
    ),
    Bug(
        "surgery/repairing/cuts",
        "nothing-is-divided-by-nothing",
        "factor = float(np.trace(fitted.xy_DE)) / size if size else 0.0",
        "factor = float(np.trace(fitted.xy_DE) / np.float64(size))",
        "surgery/repairing/test_cuts.py::test_an_mlp_that_adds_nothing_is_multiplied_by_one",
    ),
)

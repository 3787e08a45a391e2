"""Bugs in what heads a run, a comparison and a control, and in intervals of what is bounded."""

from __future__ import annotations

from bug import Bug

ONE_HEAD = "pages/test_one_head.py::test_every_printer_says_the_head_of_the_tokens"

SENTENCES = "pages/head/test_sentences.py"

BUGS: tuple[Bug, ...] = (
    Bug(
        "runs/head",
        "a-run-is-headed-by-a-mean-over-tokens",
        "half if KEPT in lens else readable",
        "readable",
        ONE_HEAD,
    ),
    Bug(
        "pages/figures/of/effective_depth",
        "the-figure-of-estimates-has-another-depth-as-half",
        'reading.value, reading.low, reading.high, "D"',
        'verdict.readable.value, reading.low, reading.high, "D"',
        ONE_HEAD,
    ),
    Bug(
        "runs/kept",
        "a-control-is-read-by-another-quantile",
        "kept_reading(seed_of.by_prompt, seed_of.tokens, quantile, cluster)",
        "kept_reading(seed_of.by_prompt, seed_of.tokens, 0.9, cluster)",
        ONE_HEAD,
    ),
    Bug(
        "runs/head",
        "the-last-blocks-share-is-read-a-boundary-early",
        "before_last = -2 if n_blocks else -1",
        "before_last = -3 if n_blocks > 1 else -1",
        ONE_HEAD,
    ),
    Bug(
        "runs/kept",
        "prompts-count-alike-whatever-their-tokens",
        "np.where(tokens > 0, tokens, 1.0), _known_boundaries(read))",
        "np.ones(len(tokens)), _known_boundaries(read))",
        ONE_HEAD,
    ),
    Bug(
        "pages/comparison/picture",
        "a-comparison-marks-another-depth-than-it-states",
        "(profile.head.tokens.value, *profile.head.tokens.interval)",
        "(profile.head.effect.value, *profile.head.tokens.interval)",
        "pages/test_one_head.py::test_a_comparison_is_headed_by_what_its_picture_draws",
    ),
    Bug(
        "runs/verdict",
        "agreement-is-of-unequal-shares",
        "both = (self.tokens_90.statistic, self.own.statistic)",
        "both = (self.half.statistic, self.own.statistic)",
        "runs/test_verdict.py::test_the_difference_at_equal_shares_is_paired_by_prompt",
    ),
    Bug(
        "statistics/hsic",
        "a-similarity-has-an-interval-beyond-one",
        "low, high = np.tanh(z - z_reach), np.tanh(z + z_reach)",
        "low, high = ratio - reach, ratio + reach",
        "test_ranges.py::test_a_similarity_is_between_minus_one_and_one_as_a_whole",
    ),
    Bug(
        "measures/settling",
        "a-token-is-kept-from-the-boundary-after",
        "return (depth_N <= boundaries[:, None]).double()",
        "return (depth_N < boundaries[:, None]).double()",
        "measures/test_lens.py::test_shares_of_kept_tokens_are_those_of_their_depths",
    ),
    Bug(
        "pages/head/sentences",
        "one-prompt-names-what-carries-the-model",
        "if class_of(costs.joint_low[place]) >= CARRIES)",
        "if class_of(costs.mean[place]) >= CARRIES and not costs.joint_low[place] <= 0)",
        f"{SENTENCES}::test_what_is_not_shown_to_carry_the_model_is_not_said_to",
    ),
    Bug(
        "statistics/rare",
        "the-prompt-more-is-no-farther-than-others",
        "_FARTHER: Final = 3.0",
        "_FARTHER: Final = 1.0",
        "statistics/test_rare.py::test_an_end_is_that_of_one_prompt_more",
    ),
    Bug(
        "statistics/rare",
        "few-prompts-do-not-show-that-few-carry-a-cost",
        "is_few = few_X.any() if len(values) < _OWN_SHAPE else few_X.sum() > tells_X.sum() / 2",
        "is_few = False",
        "statistics/test_rare.py::test_one_cost_that_few_carry_speaks_for_others_of_few_prompts",
    ),
    Bug(
        "statistics/rare",
        "what-few-prompts-carry-has-an-interval-of-few",
        "ENOUGH_OF_FEW: Final = 40",
        "ENOUGH_OF_FEW: Final = 4",
        "statistics/test_rare.py::test_intervals_that_are_given_hold_at_every_number_of_prompts",
    ),
    Bug(
        "surgery/choosing/judging",
        "what-chose-does-not-tell-that-few-carry-a-cost",
        "both_CP = np.hstack([calibration_CP, cost_CP])",
        "both_CP = np.hstack([cost_CP, cost_CP])",
        "surgery/choosing/test_pruning.py::test_calibration_prompts_tell_that_few_carry_a_cost",
    ),
    Bug(
        "runs/by_place",
        "costs-that-few-carry-are-bounded-as-others",
        'is_cost=units == "nats"',
        "is_cost=False",
        "pages/head/test_answer.py::test_a_block_that_few_prompts_need_is_not_called_cheap",
    ),
    Bug(
        "wavefront/gradients/chain",
        "logits-are-attributed-as-probabilities",
        'logits_MV.softmax(-1) if target == "probability" else logits_MV',
        "logits_MV.softmax(-1)",
        "measures/test_integrated_gradients.py::test_parity_of_logits_with_one_pass_per_step",
    ),
    Bug(
        "surveying/training/idle_blocks",
        "few-prompts-show-idle-blocks",
        "is_enough = n_different >= FEWEST_PROMPTS",
        "is_enough = n_different > 1",
        "surveying/training/test_course.py::test_few_prompts_leave_open_which_blocks_are_idle",
    ),
    Bug(
        "analysis/written",
        "resamples-of-answers-that-all-read-alike-are-an-interval",
        "low == high or not _is_varied(depth_P, right_P)",
        "low == high",
        "analysis/test_written.py::test_a_ratio_that_hardly_varies_has_no_interval",
    ),
    Bug(
        "statistics/bootstrap",
        "the-largest-of-many-costs-has-the-interval-of-one",
        "level=1 - (1 - sampling.level) / columns",
        "level=1 - (1 - sampling.level)",
        f"{SENTENCES}::test_what_is_said_of_carrying_is_what_the_joint_intervals_show",
    ),
    Bug(
        "pages/head/sentences",
        "a-wide-interval-is-said-to-show-absence",
        "if math.isnan(costs.joint_high[place]) or class_of(costs.joint_high[place]) >= CARRIES",
        "if class_of(costs.mean[place]) >= CARRIES",
        f"{SENTENCES}::test_that_no_block_carries_the_model_is_said_where_every_interval_ends_below_it",
    ),
    Bug(
        "surveying/until",
        "a-missing-second-look-is-not-named",
        'missing = " with two batches in a row"',
        'missing = ""',
        "surveying/test_until.py::test_a_second_look_that_is_missing_is_named",
    ),
    Bug(
        "runs/kept",
        "few-prompts-show-no-width-of-a-quantile",
        "if weights.size >= _FEW and",
        "if weights.size >= 2 and",
        "runs/test_kept.py::test_few_prompts_have_an_interval_that_holds",
    ),
    Bug(
        "runs/readings",
        "training-moved-it-the-other-way",
        '"earlier" if self.moved < 0 else',
        '"earlier" if self.moved > 0 else',
        "runs/test_verdict.py::test_untrained_models_without_a_reading_are_not_compared",
    ),
    Bug(
        "pages/head/sentences",
        "a-picture-states-an-end-of-the-interval",
        '"half": f"half of the tokens final from {mark.value:.1f}",',
        '"half": f"half of the tokens final from {mark.high:.1f}",',
        ONE_HEAD,
    ),
    Bug(
        "cli/commands/show",
        "show-states-a-mean-over-tokens",
        "conclusion=(verdict.text, *verdict.details,",
        "conclusion=(verdict.text.replace(f'{verdict.half.value:.1f}', f'{verdict.readable.value:.1f}'),",
        ONE_HEAD,
    ),
)

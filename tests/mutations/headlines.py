"""Bugs in what heads a run, a comparison and a control, and in intervals of what is bounded."""

from __future__ import annotations

from bug import Bug

ONE_HEAD = "pages/test_one_head.py::test_every_printer_says_the_head_of_the_tokens"

BUGS: tuple[Bug, ...] = (
    Bug(
        "runs/head",
        "a-run-is-headed-by-a-mean-over-tokens",
        "half if KEPT in lens else readable",
        "readable",
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
        "TokenShares(by_prompt, np.where(tokens > 0, tokens, 1.0))",
        "TokenShares(by_prompt, np.ones(len(tokens)))",
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
)

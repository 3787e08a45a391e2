"""Bugs in what is said of two models that part."""

from __future__ import annotations

from bug import Bug

BUGS: tuple[Bug, ...] = (
    Bug(
        "analysis/between/weights",
        "a-bias-that-one-model-lacks-is-not-compared",
        "        return {**state, **absent}\n",
        "        return {**state}\n",
        "analysis/between/test_diff_places.py::test_a_bias_that_one_model_alone_has_is_named_where_it_is",
    ),
    Bug(
        "analysis/between/diff_text",
        "a-drift-counts-where-every-prompt-has-it",
        'boundaries = np.flatnonzero(_beyond(data, "drift", "noise_floor").any(0))',
        'boundaries = np.flatnonzero(_beyond(data, "drift", "noise_floor").all(0))',
        "analysis/between/test_diff_text.py::test_order_of_prompts_does_not_matter",
    ),
    Bug(
        "analysis/between/rounding",
        "every-precision-rounds-as-float32",
        "return torch.finfo(dtype).eps / 2",
        "return torch.finfo(torch.float32).eps / 2",
        "analysis/between/test_diff_places.py::test_equal_functions_are_equal_up_to_rounding",
    ),
    Bug(
        "analysis/between/diff",
        "the-second-model-does-not-round",
        "np.hypot(floors[0][0], floors[1][0])",
        "floors[0][0]",
        "analysis/between/test_diff_places.py::test_what_gives_the_embedding_is_rounded_less_than_its_bound",
    ),
    Bug(
        "analysis/between/sides",
        "predictions-are-read-outside-of-the-adapters-context",
        "with self.side.computing(), self.rounding or nullcontext():",
        "with torch.no_grad(), self.rounding or nullcontext():",
        "analysis/between/test_diff_places.py::test_adapters_outside_of_blocks_are_off_for_the_second_side",
    ),
    Bug(
        "analysis/between/diff_text",
        "an-effect-is-small-below-the-median",
        "(high <= usual_effect / _FACTOR)",
        "(high <= usual_effect)",
        "analysis/between/test_diff_text.py::test_an_effect_is_small_from_half_of_the_median_on",
    ),
    Bug(
        "analysis/between/diff_text",
        "a-rewritten-block-without-effect-is-passed-over",
        "| (change >= _LARGE_CHANGE) & faint\n",
        "\n",
        "analysis/between/test_diff_places.py::test_a_block_that_is_rewritten_without_effect_is_named_with_its_size",
    ),
    Bug(
        "analysis/between/parting",
        "a-record-has-another-conclusion-than-the-page",
        '"conclusion": self.text, **',
        '"conclusion": self.heading, **',
        "pages/acts/test_sections.py::test_whoever_shows_a_result_shows_its_sentences",
    ),
    Bug(
        "analysis/between/weights",
        "weights-outside-of-blocks-are-not-compared",
        "for name in _differing(left, right)), *places]",
        "for name in ()), *places]",
        "analysis/between/test_diff_places.py::test_a_row_that_no_prompt_asks_for_is_said_and_parts_nothing",
    ),
    Bug(
        "analysis/between/rounding",
        "rounding-hides-rows-of-the-embedding",
        "_ROUNDINGS_OF_EMBEDDING: Final = 2",
        "_ROUNDINGS_OF_EMBEDDING: Final = 4",
        "analysis/between/test_diff_places.py::test_a_single_row_of_the_embedding_is_not_hidden_by_rounding",
    ),
    Bug(
        "analysis/between/rounding",
        "a-close-choice-is-turned-back",
        "best, places = left.topk(count + 1, dim, largest)",
        "best, places = values.topk(count + 1, dim, largest)",
        "analysis/between/test_rounding.py::test_a_close_choice_is_not_that_of_before",
    ),
    Bug(
        "analysis/between/sides",
        "a-part-that-begins-to-act-changed-without-end",
        "ratio_LPT[begins_LPT] = np.nan",
        "ratio_LPT[begins_LPT] = np.inf",
        "analysis/between/test_diff.py::test_tokens_at_which_a_part_did_nothing_are_left_out_of_its_drift",
    ),
    Bug(
        "analysis/between/weights",
        "weights-of-zeros-that-changed-are-equal",
        'return float("nan") if squares[0] else 0.0',
        "return 0.0",
        "analysis/between/test_diff.py::test_a_block_that_did_nothing_has_no_share_by_which_it_changed",
    ),
)

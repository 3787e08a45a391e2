"""Bugs in what is built, written or loaded from a configuration instead of the model in hand."""

from __future__ import annotations

from bug import Bug

BUGS: tuple[Bug, ...] = (
    Bug(
        "surveying/untrained",
        "a-control-is-what-the-configuration-says",
        "_initialise_copy(hf) if departure_in_words(hf) else _build(hf)",
        "_build(hf)",
        "surveying/test_untrained.py::test_a_verdict_speaks_of_models_of_this_shape_where_they_are",
    ),
    Bug(
        "surveying/untrained",
        "a-control-keeps-what-nothing-initialises",
        "    if unset:\n",
        "    if not fresh:\n",
        "surveying/test_untrained.py::test_a_control_has_names_shapes_and_kinds_of_whatever_model_is_in_hand",
    ),
    Bug(
        "model/continuing",
        "stale-numbers-are-trusted-with-a-cache",
        "return not stale_places(hf) and _agrees_with_its_cache(hf)",
        "return True",
        "surgery/test_by_hand.py::test_what_is_written_is_greedy_whatever_numbers_blocks_bear",
    ),
    Bug(
        "surgery/checkpoint/exportable",
        "numbers-that-are-computed-with-are-renumbered",
        "    if places:\n",
        "    if len(places) > len(changed) + 99:\n",
        "surgery/test_by_hand.py::test_a_family_that_computes_with_its_numbers_is_not_renumbered",
    ),
    Bug(
        "model/gguf",
        "factors-of-frequencies-are-dropped",
        "not _are_ones(stream, start + offset, count, code)",
        "count < 1",
        "model/test_gguf.py::test_scaled_rotary_frequencies_are_refused_before_loading",
    ),
    Bug(
        "model/gguf",
        "blocks-behind-the-headers-count-are-dropped-in-silence",
        "max(numbers) < block_count",
        "max(numbers) < 2 * block_count",
        "model/test_gguf.py::test_blocks_that_the_header_leaves_out_are_said",
    ),
)

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
)

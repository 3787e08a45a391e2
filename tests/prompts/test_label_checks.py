"""Labels are refused before any compute where results could not keep them."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

from bathyscope.errors import PromptError
from bathyscope.prompts.label_checks import checked_labels, require_apart, require_exact, require_free
from bathyscope.prompts.prompt import Prompt, PromptSet, TokenizedPrompt
from bathyscope.prompts.tokenize import tokenize


def prompts(*labels: dict[str, Any]) -> list[TokenizedPrompt]:
    return [TokenizedPrompt(f"p{number}", (1, 2), None, own) for number, own in enumerate(labels)]


def test_values_become_pythons_own() -> None:
    found = checked_labels({"level": np.int64(3), "share": np.float32(0.5), "kind": "sum", "most": 2**63 - 1})
    assert found == {"level": 3, "share": 0.5, "kind": "sum", "most": 2**63 - 1}
    assert [type(value) for value in found.values()] == [int, float, str, int]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"": 1}, "'' cannot be the name of a label; give a name of letters that is not empty and holds no '/'"),
        ({" ": 1}, "' ' cannot be the name of a label"),
        ({"a/b": 1}, "'a/b' cannot be the name of a label"),
        ({"a\x1b[0m": 1}, "cannot be the name of a label"),
        ({3: 1}, "3 cannot be the name of a label"),
        ({"level": float("inf")}, "the label 'level' is inf, which JSON does not have; give a finite number or a text"),
        ({"level": float("nan")}, "the label 'level' is NaN, which is no number; leave the label out"),
        ({"level": np.float32("-inf")}, "the label 'level' is -inf, which JSON does not have"),
        ({"level": 2**63}, "the label 'level' is 9223372036854775808, beyond the whole numbers of 64 bits"),
        ({"level": -(2**63) - 1}, "beyond the whole numbers of 64 bits that results keep; give it as a text"),
        ({"level": 10**5000}, "the label 'level' is a number of 16610 bits, beyond"),
        ({"level": None}, "the label 'level' must be a text or a number, not NoneType"),
        ({"token": 1}, "a label cannot be called 'token', which results use themselves; rename it"),
    ],
)
def test_refused(labels: dict[Any, Any], message: str) -> None:
    with pytest.raises(PromptError, match=re.escape(message)):
        checked_labels(labels)


def test_whole_numbers_that_would_be_rounded_are_refused() -> None:
    large = 2**53 + 1
    require_exact(prompts({"n": large}, {"n": -large}))
    require_exact(prompts({"n": 2**53}, {}, {"n": 0.5}))
    require_exact(prompts({"n": large}, {"n": "a text beside"}, {}))
    expected = "The label 'n' of prompt 'p1' is 9007199254740993, which would be rounded next to "
    with pytest.raises(PromptError, match=expected + "prompts without the label: numbers with gaps are floats"):
        require_exact(prompts({}, {"n": large}))
    with pytest.raises(PromptError, match=expected + "fractions"):
        require_exact(prompts({"n": 0.5}, {"n": large}))


def test_a_text_and_the_number_that_it_reads_as_are_refused() -> None:
    require_apart(prompts({"n": 1}, {"n": "one"}, {"m": "1"}, {}))
    require_apart(prompts({"n": "1"}, {"n": "1"}))
    expected = "The label 'n' is the text '1' of prompt 'p2' and the number 1 of prompt 'p1', which read alike but are"
    with pytest.raises(PromptError, match=expected):
        require_apart(prompts({"m": 0}, {"n": 1}, {"n": "1"}))
    with pytest.raises(PromptError, match=r"the text '0\.5' of prompt 'p0' and the number 0\.5 of"):
        require_apart(prompts({"n": "0.5"}, {"n": 0.5}))


@pytest.mark.parametrize("text", ["true", "True"])
def test_a_text_and_the_truth_value_that_it_reads_as_are_refused(text: str) -> None:
    require_apart(prompts({"right": text}, {"right": "yes"}, {"right": False}))
    expected = f"the text '{text}' of prompt 'p1' and the truth value {text} of prompt 'p0', which read alike"
    with pytest.raises(PromptError, match=expected):
        require_apart(prompts({"right": True}, {"right": text}))


def test_prompts_are_read_with_labels_that_are_told_apart() -> None:
    both = PromptSet((Prompt(ids=[1, 2], labels={"level": "1"}), Prompt(ids=[1, 3], labels={"level": 1})), "own")
    with pytest.raises(PromptError, match="The label 'level' is the text '1' of prompt '0'"):
        tokenize(both, None, max_tokens=None)


def test_names_of_results_are_taken() -> None:
    require_free(["level"], {"lens": ["entropy"]})
    with pytest.raises(
        PromptError, match="label cannot be called 'entropy', which is the name of a result of lens; re"
    ):
        require_free(["level", "entropy"], {"residual": ["norm"], "lens": ["entropy"]})


def test_a_truth_value_next_to_a_number_is_refused() -> None:
    require_apart(prompts({"right": True}, {"right": False}, {"level": 1}, {"level": 0.5}))
    expected = "The label 'level' is True of prompt 'p0' and the number 2 of prompt 'p2', next to which it would be 1"
    with pytest.raises(PromptError, match=expected):
        require_apart(prompts({"level": True}, {}, {"level": 2}))


def test_values_that_differ_by_white_space_are_told() -> None:
    with pytest.warns(UserWarning, match="'easy' of prompt 'p0' and 'easy ' of prompt 'p2', which differ by white"):
        require_apart(prompts({"kind": "easy"}, {"kind": "hard"}, {"kind": "easy "}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        require_apart(prompts({"kind": "easy"}, {"kind": "Easy"}, {"other": "easy "}))

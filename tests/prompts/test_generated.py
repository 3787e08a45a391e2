from __future__ import annotations

from collections import Counter

import pytest

from bathyscope.errors import PromptError
from bathyscope.prompts.problems import generate, to_prompt
from bathyscope.prompts.source import resolve


def test_a_range_of_steps_is_balanced_and_each_level_is_what_it_is_alone() -> None:
    mixed = resolve("problems:60?steps=1-6", seed=7)
    assert [prompt.labels["steps"] for prompt in mixed.prompts] == [1, 2, 3, 4, 5, 6] * 10
    for steps in range(1, 7):
        alone = tuple(to_prompt(problem) for problem in generate("word", 10, 7, steps=steps))
        assert mixed.prompts[steps - 1 :: 6] == alone == resolve(f"problems:10?steps={steps}", seed=7).prompts
    assert resolve("problems:20?steps=1-6", seed=7).prompts == mixed.prompts[:20]
    assert resolve("problems?per_level=10&steps=1-6", seed=7).prompts == mixed.prompts
    assert resolve("problems?per_level=10", seed=7).prompts == mixed.prompts
    assert resolve("problems:60?steps=1-6", seed=8).prompts != mixed.prompts


def test_digits_and_combinations() -> None:
    added = resolve("addition:9?digits=2-4").prompts
    assert [prompt.labels["digits"] for prompt in added] == [2, 3, 4] * 3
    for prompt in added:
        asked, equation = (prompt.text or "").split(": ")
        assert asked == "Give the answer directly"
        left, right = equation.split(" = ")
        first, second = left.split(" + ")
        assert int(first) + int(second) == int(right) == int(prompt.answer or "")
        assert {len(first), len(second)} == {prompt.labels["digits"]}
    assert {prompt.labels["digits"] for prompt in resolve("multiplication:5").prompts} == {2}
    sums = resolve("sums?per_level=4&steps=1-2&digits=1-3").prompts
    counted = Counter((prompt.labels["steps"], prompt.labels["digits"]) for prompt in sums)
    assert counted == {(steps, digits): 4 for steps in (1, 2) for digits in (1, 2, 3)}
    assert len({prompt.labels["steps"] for prompt in resolve("sums:60?digits=1-2").prompts}) == 6


def test_generated_sets_are_data_sets_with_a_name() -> None:
    prompts = resolve("addition:4?digits=3")
    assert (prompts.dataset, prompts.is_data_set) == ("addition:4?digits=3", True)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("problems:9?steps=7", "problems: steps=7 is out of range; allowed: 1 to 6"),
        ("problems:9?steps=5-999999999999", "steps=999999999999 is out of range"),
        ("addition:9?digits=10", "digits=10 is out of range; allowed: 1 to 9"),
        ("problems:5?steps=1-6", "problems: 5 prompts cannot cover the 6 levels that are asked for; give at least 6"),
        ("sums:5?steps=1-2&digits=1-3", "sums: 5 prompts cannot cover the 6 levels"),
    ],
)
def test_refused(source: str, message: str) -> None:
    with pytest.raises(PromptError, match=message):
        resolve(source)

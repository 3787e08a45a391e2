"""Generated prompts: arithmetic problems with levels, and the tasks."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from bathyscope.errors import PromptError
from bathyscope.measures.depth_score_levels import check_label
from bathyscope.prompts.generators import TASK_OPTIONS
from bathyscope.prompts.problems import generate, to_prompt
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.prompts.source import label_of, resolve
from bathyscope.prompts.spec import parse
from bathyscope.prompts.tasks import TASKS, task

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_problems_become_prompts_in_order() -> None:
    prompts = resolve("task:pointer_chasing?hops=1-4&count=20&split=extrapolate&nodes=20", seed=3)
    made = task("pointer_chasing", nodes=20, hops=(1, 4))
    assert len(prompts) == 20
    for index, prompt in enumerate(prompts.prompts):
        problem = made.problem(index, 3, "extrapolate")
        assert prompt.text == f"{problem.question} {problem.answer}"
        assert prompt.answer == f" {problem.answer}"
    assert resolve("task:pointer_chasing:20?hops=1-4", seed=3) != resolve("task:pointer_chasing:20?hops=1-4", seed=4)
    assert (prompts.dataset, prompts.is_data_set) == (
        "task:pointer_chasing:20?hops=1-4&split=extrapolate&nodes=20",
        True,
    )


def test_the_split_is_interpolation_where_none_is_given() -> None:
    first = resolve("task:permutations:3").prompts[0]
    assert first.labels["split"] == "interpolate"
    assert first == resolve("task:permutations:3?split=interpolate").prompts[0]


def test_written_steps_stand_before_the_answer() -> None:
    prompt = resolve("task:nested_arithmetic:1?written=yes").prompts[0]
    problem = task("nested_arithmetic").problem(0, 0, "interpolate")
    assert problem.steps
    assert prompt.text == f"{problem.question} {problem.steps} {problem.answer}"
    assert resolve("task:nested_arithmetic:1?written=no") != resolve("task:nested_arithmetic:1?written=yes")


@pytest.mark.parametrize(
    ("source", "label", "levels"),
    [
        ("task:pointer_chasing:12?hops=1-4", "hops", {1, 2, 3, 4}),
        ("task:permutations:12?factors=2-4", "steps", {2, 3, 4}),
        ("task:nested_arithmetic:12?depth=4-6", "steps", {4, 5, 6}),
    ],
)
def test_levels_are_balanced_and_found_by_the_depth_score(source: str, label: str, levels: set[int]) -> None:
    prompts = resolve(source).prompts
    found = [prompt.labels[label] for prompt in prompts]
    assert {level: found.count(level) for level in levels} == dict.fromkeys(levels, 12 // len(levels))
    assert all("k" not in prompt.labels for prompt in prompts)
    assert check_label(None, [TokenizedPrompt(str(i), (1, 2), 1, p.labels) for i, p in enumerate(prompts)]) == label


def test_lists_and_texts_as_options() -> None:
    arithmetic = resolve("task:arithmetic:4?modules=mul,div").prompts
    assert [prompt.labels["module"] for prompt in arithmetic] == ["mul", "div", "mul", "div"]
    assert {prompt.labels["module"] for prompt in resolve("task:arithmetic:3?modules=mul").prompts} == {"mul"}
    sums = resolve("task:nested_arithmetic:9?operators=+,-&held_out=--&split=extrapolate").prompts
    assert not any("*" in (prompt.text or "") for prompt in sums)


@pytest.mark.parametrize(
    "text",
    [
        "task:arithmetic:3",
        "task:pointer_chasing:200?hops=1-8&split=interpolate",
        "task:nested_arithmetic:2?operators=+,-&held_out=+-",
    ],
)
def test_a_parsed_source_is_written_as_it_was(text: str) -> None:
    spec = parse(text)
    assert (str(spec), spec.label, spec.kind) == (text, text, "generated")
    assert parse(str(spec)) == spec
    assert resolve(spec) == resolve(text)
    assert label_of(text) == text


def test_both_ways_to_say_how_many_are_one_source() -> None:
    assert parse("task:permutations?count=7&factors=2-3") == parse("task:permutations:7?factors=2-3")


def test_tasks_beside_other_sources_and_texts_that_only_look_like_one() -> None:
    both = resolve([{"source": "task:permutations:2"}, "task: read this"])
    assert both.dataset == "task:permutations:2 + given"
    assert both.prompts[2].text == "task: read this"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "task:permutation:3",
            r"'task:permutation' is neither .* Did you mean 'task:permutations'\? Allowed: .*, task:ar",
        ),
        ("task:", "'task' is neither a data set nor a prompt file"),
        ("task:permutations", "say how many, for example task:permutations:20"),
        ("task:permutations:3?count=3", "say how many, and once, for example task:permutations:20"),
        ("task:permutations:0", "the count after ':' must be a whole number of at least 1, not '0'"),
        ("task:permutations?count=many", "count= must be a whole number of at least 1, not 'many'"),
        (
            "task:permutations:3?factor=2",
            r"unknown option 'factor'. Did you mean 'factors'\? Options of task:permutati",
        ),
        ("task:permutations:3?factors=2&factors=3", "option 'factors' is given twice"),
        ("task:permutations:3?factors=", "factors= has no value; write factors=VALUE"),
        ("task:permutations:3?written=true", "written= is yes or no, not 'true'"),
        ("task:permutations:3?split=test", "permutations: 'test' is no split"),
        ("task:permutations:3?factors=some", "permutations: factors takes a whole number; 'some' given"),
        ("task:pointer_chasing:3?hops=4-9", "hops reaches from 4 to 9; allowed: 1 to 8"),
        ("task:arithmetic:3?modules=simplify_surd&split=extrapolate", "no harder problems to extrapolate to"),
        ("tusk:permutations:3", "Allowed: .*, task:pointer_chasing, lm-eval:TASK, or a file"),
    ],
)
def test_refused(source: str, message: str) -> None:
    with pytest.raises(PromptError, match=message):
        resolve(source)


def test_every_task_and_option_is_documented() -> None:
    section = (DOCS / "prompts.md").read_text(encoding="utf-8").split("\n## Tasks\n")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.M)) == set(TASK_OPTIONS)
    assert all(f"`{name}`" in section for name in TASKS)
    lab = (DOCS / "lab.md").read_text(encoding="utf-8").split("\n## Tasks\n")[1].split("\n## ")[0]
    assert set(re.findall(r"^`(\w+)` asks ", lab, re.M)) == set(TASKS)


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
def test_levels_that_cannot_be_given(source: str, message: str) -> None:
    with pytest.raises(PromptError, match=message):
        resolve(source)

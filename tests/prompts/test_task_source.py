from __future__ import annotations

import re
from pathlib import Path

import pytest

from bathyscope.errors import PromptError
from bathyscope.measures.depth_score_levels import check_label
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.prompts.source import label_of, resolve
from bathyscope.prompts.spec import parse
from bathyscope.prompts.task_source import OWN_OPTIONS
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
        ("task:permutation:3", r"'permutation' is no task. Did you mean 'permutations'\? Allowed: task:arithmetic, "),
        ("task:", "'' is no task"),
        ("task:permutations", "say how many, for example task:permutations:20"),
        ("task:permutations:3?count=3", "say how many, and once, for example task:permutations:20"),
        ("task:permutations:0", "the count must be a whole number of at least 1, not '0'"),
        ("task:permutations?count=many", "the count must be a whole number of at least 1, not 'many'"),
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
        ("tusk:permutations:3", "Allowed: .*, task:NAME, or a file"),
    ],
)
def test_refused(source: str, message: str) -> None:
    with pytest.raises(PromptError, match=message):
        resolve(source)


def test_every_task_and_option_is_documented() -> None:
    section = (DOCS / "prompts.md").read_text(encoding="utf-8").split("\n## Tasks\n")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.M)) == set(OWN_OPTIONS)
    assert all(f"`{name}`" in section for name in TASKS)
    table = (DOCS / "lab.md").read_text(encoding="utf-8").split("\n## Tasks\n")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.M)) == set(TASKS)

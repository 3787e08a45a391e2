"""What is compared with what, under each question."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.compared import a_run

import bathyscope
from bathyscope.analysis.depths.questions import ComparisonPlan, parameters_of, plan_comparisons
from bathyscope.analysis.depths.side import sides_of
from bathyscope.errors import OptionError
from bathyscope.surveying.papers.hu2025 import difficulty_rank

DEFAULTS: dict[str, Any] = {"pairs": None, "all_pairs": False, "by": None, "against": "blocks"}


def planned(*runs: dict[str, Any], question: str | None = None, **options: Any) -> ComparisonPlan:
    made = [a_run(prompts=2, **{"seed": number, **run}) for number, run in enumerate(runs)]
    return plan_comparisons(sides_of(made), question, **{**DEFAULTS, **options})


def labels(plan: ComparisonPlan) -> list[str]:
    return [asked.label for asked in plan.contrasts]


A, B, C = ({"model": f"own/{name}"} for name in "abc")


def test_each_run_is_compared_with_the_first_or_every_two() -> None:
    assert labels(planned(A, B, C)) == ["b − a", "c − a"]
    assert labels(planned(A, B, C, all_pairs=True)) == ["b − a", "c − a", "c − b"]
    assert labels(planned(A, B, C, pairs=[(2, 0)])) == ["a − c"]
    asked = planned(A, B).contrasts[0]
    assert asked.coefficients == (-1, 1)
    assert [side.name for side in asked.sides] == ["a", "b"]


def test_names_say_no_more_than_tells_runs_apart() -> None:
    data = [{"model": "own/a", "dataset": name} for name in ("gsm8k:2", "hellaswag:2")]
    assert labels(planned(*data)) == ["hellaswag:2 − gsm8k:2"]
    plan = planned(data[0], {"model": "own/b", "dataset": "hellaswag:2"})
    assert labels(plan) == ["b on hellaswag:2 − a on gsm8k:2"]
    assert "both model and data differ" in plan.notes[0]
    assert labels(planned(A, A)) == ["a (2) − a (1)"]


def test_size_is_a_slope_for_each_data_set() -> None:
    runs = [
        {"model": f"own/m-{blocks}", "blocks": blocks, "dataset": dataset}
        for dataset in ("gsm8k:2", "hellaswag:2")
        for blocks in (16, 8, 32)
    ]
    plan = planned(*runs, {"model": "own/m-8", "dataset": "lambada:2", "blocks": 8}, question="size")
    assert labels(plan) == ["slope over 3 runs on gsm8k:2", "slope over 3 runs on hellaswag:2"]
    asked = plan.contrasts[0]
    assert [side.n_blocks for side in asked.sides] == [8, 16, 32]
    # log2 of 8, 16, 32: centred −1, 0, 1 over a sum of squares of 2
    np.testing.assert_allclose(asked.coefficients, [-0.5, 0, 0.5], atol=1e-12)
    assert plan.quantity == "change of ratio for each doubling of blocks"
    assert plan.notes == ["lambada:2: no slope, since all its runs have 8 blocks"]


def test_size_may_be_the_parameters_that_names_tell() -> None:
    plan = planned({"model": "Q/Qwen2.5-1.5B"}, {"model": "Q/Qwen2.5-3B"}, question="size", against="parameters")
    np.testing.assert_allclose(plan.contrasts[0].coefficients, [-1, 1])
    assert plan.notes[0].endswith(
        "numbers of parameters as the names tell them: Qwen2.5-1.5B 1.5e+09, Qwen2.5-3B 3e+09"
    )
    for name, size in {
        "Qwen2.5-1.5B": 1.5e9,
        "pythia-410m-deduped": 410e6,
        "DeepSeek-R1-Distill-Qwen-32B": 32e9,
        "Meta-Llama-3.1-8B-Instruct": 8e9,
        "Qwen3-30B-A3B": 30e9,
        "stories15M": 15e6,
        "Mixtral-8x7B-v0.1": None,
        "Phi-3-mini-4k-instruct": None,
        "TinyLlama-1.1B-intermediate-step-1431k-3T": 1.1e9,
        "stablelm-3b-4e1t": 3e9,
        "OLMo-2-0425-1B-stage1-step140000-tokens294B": 1e9,
        "stablelm-2-1_6b": 1.6e9,
        "internlm2_5-1_8b": 1.8e9,
        "bloom-1b7": 1.7e9,
        "rwkv-6-world-1b6": 1.6e9,
        "bloom-7b1": 7.1e9,
        "MPT-7b-8k": 7e9,
        "falcon_7b": 7e9,
        "Qwen1.5-MoE-A2.7B": None,
        "gemma-3n-E2B": None,
        "draft-1b-for-7b": None,
        "gpt2-large": None,
        "phi-2": None,
    }.items():
        assert parameters_of(name) == size, name
    with pytest.raises(OptionError, match=r"'gpt2-large' does not tell .* against='blocks' \(--against blocks\)"):
        planned({"model": "gpt2-large"}, {"model": "gpt2-xl"}, question="size", against="parameters")


def test_size_needs_two_sizes() -> None:
    with pytest.raises(OptionError, match=r"at least two different numbers of blocks: .* all its runs have 10 blocks"):
        planned(A, B, question="size")


def test_reasoning_knows_the_published_pairs() -> None:
    names = ("DeepSeek-R1-Distill-Qwen-7B", "Qwen2.5-Math-7B", "Qwen2.5-32B", "DeepSeek-R1-Distill-Qwen-32B", "other")
    plan = planned(*({"model": f"own/{name}"} for name in names), question="reasoning")
    assert labels(plan) == [
        "DeepSeek-R1-Distill-Qwen-7B − Qwen2.5-Math-7B",
        "DeepSeek-R1-Distill-Qwen-32B − Qwen2.5-32B",
    ]
    assert plan.notes == ["not part of any pair, left out: other"]
    base, trained = ({"model": f"own/{name}"} for name in ("Qwen2.5-14B", "DeepSeek-R1-Distill-Qwen-14B"))
    data = [{**run, "dataset": name} for name in ("gsm8k:2", "hellaswag:2") for run in (base, trained)]
    assert len(planned(*data, question="reasoning").contrasts) == 2
    assert labels(planned(A, B, question="reasoning", pairs=[(0, 1)])) == ["b − a"]
    with pytest.raises(OptionError, match=r"No pair .* \(a, b\)\. Known pairs: Qwen2.5-Math-1.5B → .*BASE:COT"):
        planned(A, B, question="reasoning")


def test_difficulty_of_data_goes_by_what_is_known() -> None:
    data = [{"model": "own/a", "dataset": name} for name in ("aime24.jsonl", "hellaswag:5", "gsm8k:2")]
    plan = planned(*data, question="difficulty")
    assert labels(plan) == ["aime24.jsonl − hellaswag:5"]
    assert plan.notes == ["hardest − easiest; what lies between is left out (a trend test uses every level)"]
    assert [difficulty_rank(name) for name in ("hellaswag:9", "gsm8k:1@x.jsonl", "AIME_2024:5")] == [0, 1, 2]
    assert difficulty_rank("gsm8k-hard:10") is None
    other = planned(
        *({"model": "own/a", "dataset": name} for name in ("hard.jsonl", "easy.jsonl")), question="difficulty"
    )
    assert labels(other) == ["easy.jsonl − hard.jsonl"]
    assert "others are ordered as given, easiest first" in other.notes[0]
    with pytest.raises(OptionError, match="no model was given with two data sets"):
        planned({**A, "weight_hash": "1"}, {**B, "weight_hash": "2"}, question="difficulty")


def test_difficulty_within_a_run_goes_by_a_label() -> None:
    levels = ["Level 10", "Level 9", "Level 2", "Level 10", ""]
    sides = sides_of([a_run(prompts=5, labels={"level": levels, "hops": [1] * 5})])
    asked = plan_comparisons(sides, "difficulty", **DEFAULTS).contrasts[0]
    assert asked.label == "level Level 10 − level Level 2"
    assert [side.prompt_ids for side in asked.sides] == [["2"], ["0", "3"]]
    hops = sides_of([a_run(prompts=4, labels={"hops": [3.0, np.nan, 2.0, 3.0]})])
    assert plan_comparisons(hops, "difficulty", **DEFAULTS).contrasts[0].label == "hops 3 − hops 2"  # as groups are
    with pytest.raises(OptionError, match=r"All prompts of .* have the same hops \(\[1\]\); a comparison needs two"):
        plan_comparisons(sides, "difficulty", **{**DEFAULTS, "by": "hops"})
    with pytest.raises(
        OptionError, match=r"has no label 'levle'; its prompts carry: level, hops. Did you mean 'level'"
    ):
        plan_comparisons(sides, "difficulty", **{**DEFAULTS, "by": "levle"})
    with pytest.raises(
        OptionError, match=r"no label of difficulty \(level, hops, steps, digits\); its prompts carry no"
    ):
        plan_comparisons(sides_of([a_run()]), "difficulty", **DEFAULTS)


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(1, 99),
    rest=st.integers(1, 9),
    unit=st.sampled_from("MmBb"),
    written=st.sampled_from(["{0}.{1}{2}", "{0}_{1}{2}", "{0}{2}{1}"]),
    name=st.sampled_from(["own-{}", "own-2-{}-base", "Own3-{}-step1000-tokens294B", "own-{}-intermediate-step-5k-3T"]),
)
def test_a_size_is_read_as_it_was_written(size: int, rest: int, unit: str, written: str, name: str) -> None:
    expected = float(f"{size}.{rest}") * {"m": 1e6, "b": 1e9}[unit.lower()]
    assert parameters_of(name.format(written.format(size, rest, unit))) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("levels", "label"),
    [
        (["medium", "hard", "easy"], "level hard − level easy"),
        (["-1", "-2", "2", "-3"], "level 2 − level -3"),
        (["1/2", "3/4", "1/4", "1"], "level 1 − level 1/4"),
        (["grade 10", "1,000", "grade 2-3"], "level 1,000 − level grade 2-3"),
        (["level 10", "level 9"], "level level 10 − level level 9"),
    ],
)
def test_levels_in_texts_have_their_order(levels: list[str], label: str) -> None:
    sides = sides_of([a_run(prompts=len(levels), labels={"level": levels})])
    assert plan_comparisons(sides, "difficulty", **DEFAULTS).contrasts[0].label == label


@pytest.mark.parametrize("levels", [["algebra", "geometry"], ["hard", "level 2"], ["easy", "high"]])
def test_texts_without_an_order_have_no_hardest(levels: list[str]) -> None:
    sides = sides_of([a_run(prompts=2, labels={"level": levels})])
    with pytest.raises(OptionError, match=r"No level of level is known to be harder .* group\(by='level'\)"):
        plan_comparisons(sides, "difficulty", **DEFAULTS)


@pytest.mark.parametrize("label", ["level", "hops", "steps", "digits"])
def test_every_label_that_depth_score_takes_is_one_of_difficulty(label: str) -> None:
    sides = sides_of([a_run(prompts=4, labels={label: [1, 3, 2, 3], "topic": ["a", "b", "a", "b"]})])
    (asked,) = plan_comparisons(sides, "difficulty", **DEFAULTS).contrasts
    assert asked.label == f"{label} 3 − {label} 1"


def test_options_that_do_not_go_together() -> None:
    with pytest.raises(
        OptionError, match=r"Only one run was given \(a on stories\.jsonl\); .*\(--question difficulty\)"
    ):
        planned(A)
    both = [a_run(prompts=2, seed=number) for number in range(2)]
    with pytest.raises(OptionError, match=r"question='sise' is unknown. Did .* Allowed: size, reasoning, difficulty"):
        bathyscope.compare(both, question="sise")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"against='layers' is unknown. .*Allowed: blocks, parameters"):
        bathyscope.compare(both, against="layers")  # type: ignore[arg-type]
    refused: list[tuple[str, dict[str, Any]]] = [
        (
            r"by='level' chooses .*; give question='difficulty' \(--question difficulty\)",
            {"by": "level"},
        ),
        (r"Pairs .* go alone or with question='reasoning'", {"question": "size", "pairs": [(0, 1)]}),
        (r"Pairs .* go alone or with question='reasoning'", {"all_pairs": True, "pairs": [(0, 1)]}),
        (r"against='parameters' chooses the size; give question='size' \(--question size\)", {"against": "parameters"}),
        (
            r"all_pairs=True and question='size' do not .*, since a question says itself what is compared; leave one",
            {"question": "size", "all_pairs": True},
        ),
    ]
    for message, options in refused:
        with pytest.raises(OptionError, match=message):
            bathyscope.compare(both, **options)

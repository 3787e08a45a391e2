"""The token by which the full model ends an answer counts among the answer's, and what no longer ends is said."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import naive, waves, zoo
from transformers import GenerationConfig

import bathyscope
from bathyscope import Prompt, PromptError
from bathyscope.model import Model
from bathyscope.model.reading import tokenized
from bathyscope.surgery.plan.answer_ends import AnswerEnds
from bathyscope.surgery.trial.ends import ended_answers, with_ends

FAMILIES = ("llama", "gpt2", "gemma2")
LENGTHS = (7, 9, 6, 8, 7, 9)
ANSWER = 2


def questions(name: str, seed: int = 4) -> list[Prompt]:
    ids = zoo.prompts(zoo.build(name), LENGTHS, seed)
    return [Prompt(ids=prompt, answer_tokens=ANSWER) for prompt in ids]


def next_tokens(name: str, prompts: list[Prompt]) -> list[int]:
    hf = zoo.build(name)
    return [int(naive.logits(hf, list(prompt.ids or ()))[-1].argmax()) for prompt in prompts]


def ending(prompts: list[Prompt], nexts: list[int], ends: list[int]) -> list[list[int]]:
    """What is expected behind each prompt: the end that the full model writes, where there is none yet."""
    pairs = zip(prompts, nexts, strict=True)
    return [[token] if token in ends and (prompt.ids or ())[-1] not in ends else [] for prompt, token in pairs]


@contextmanager
def ending_at(model: Model, ends: list[int]) -> Iterator[Model]:
    """The model with these tokens as those that end a text."""
    settings = model.hf.generation_config
    model.hf.generation_config = GenerationConfig(eos_token_id=ends or None)
    try:
        yield model
    finally:
        model.hf.generation_config = settings


@pytest.mark.parametrize("name", zoo.swept(zoo.names()))
def test_an_answer_ends_where_the_full_model_writes_an_end(name: str) -> None:
    prompts, nexts = questions(name), next_tokens(name, questions(name))
    ends = sorted(set(nexts[::2]))
    further = ending(prompts, nexts, ends)
    expected = [(*(prompt.ids or ()), *more) for prompt, more in zip(prompts, further, strict=True)]
    with ending_at(waves.loaded(name), ends) as model:
        read = tokenized(model, prompts)
        ended = with_ends(model, read)
        assert [prompt.ids for prompt in ended] == expected
        assert [prompt.answer_tokens for prompt in ended] == [ANSWER + len(more) for more in further]
        assert ended_answers(ended, ends).tolist() == [ids[-1] in ends for ids in expected]
        # an end that an answer has already is its end, and gets no second one
        assert [prompt.ids for prompt in with_ends(model, ended)][::2] == expected[::2]
    with ending_at(waves.loaded(name), []) as model:
        assert with_ends(model, read) == read


def test_an_answer_that_fills_the_context_has_no_room_for_an_end() -> None:
    model = waves.loaded("gpt2")
    most = model.max_tokens
    assert most is not None
    ids = zoo.prompts(zoo.build("gpt2"), [most, most - 1], 3)
    prompts = [Prompt(ids=each, answer_tokens=ANSWER) for each in ids]
    with ending_at(model, sorted(set(next_tokens("gpt2", prompts)))):
        assert with_ends(model, tokenized(model, prompts)).lengths == [most, most]


def test_prompts_without_answers_stay_as_they_are() -> None:
    ids = zoo.prompts(zoo.build("llama"), LENGTHS, 4)
    prompts: list[Any] = [Prompt(ids=each) for each in ids]
    with ending_at(waves.loaded("llama"), sorted(set(next_tokens("llama", prompts)))) as model:
        read = tokenized(model, prompts)
        assert with_ends(model, read) == read
        assert not ended_answers(read, range(10_000)).any()


def pruned(name: str, ends: list[int], out: Path | None = None) -> bathyscope.surgery.plan.plan.Plan:
    with ending_at(waves.loaded(name), ends) as model:
        return bathyscope.prune(
            model,
            questions(name),
            questions(name, 5),
            drop=1,
            over="answer",
            random=2,
            resamples=100,
            progress=False,
            out=out,
        )


@pytest.mark.parametrize("name", FAMILIES)
def test_ends_count_in_the_costs_and_the_plan_says_which_stay(name: str) -> None:
    test, nexts = questions(name, 5), next_tokens(name, questions(name, 5))
    ends = sorted({*nexts[::2], *next_tokens(name, questions(name))[:1]})
    plan = pruned(name, ends)
    hf = zoo.build(name)
    blocks = naive.blocks_of(hf)
    costs, kept = [], []
    for prompt, more in zip(test, ending(test, nexts, ends), strict=True):
        ids = [*(prompt.ids or ()), *more]
        counted = ANSWER + len(more)
        changed, _ = naive.run_schedule(hf, blocks, ids, list(plan.schedule))
        costs.append(float((naive.loss(changed, ids) - naive.loss(naive.logits(hf, ids), ids))[-counted:].mean()))
        if ids[-1] in ends:
            kept.append(int(changed[-2].argmax()) == ids[-1])
    np.testing.assert_allclose(plan.data["cost"].values[0], costs, atol=1e-5)
    assert plan.data["ends_kept"].values[0] == pytest.approx(np.mean(kept))
    assert AnswerEnds.of(plan.data) == AnswerEnds(len(test), len(kept), sum(kept))
    assert plan.record()["data"]["test"]["ended"] == len(kept)
    assert (
        f"The full model ends {len(kept)} of {len(test)} test answers where they end, and without the choice the token "
        f"that ends them stays the most probable one in {sum(kept)}" in plan.text
    )
    shares = dict(zip(plan.table["candidate"], plan.table["ends_kept"]))
    assert shares["choice"] == pytest.approx(np.mean(kept))
    assert plan.tables()[0].headings[-1] == "answers that still end"


def test_a_plan_of_answers_that_go_on_says_that_stopping_is_unknown() -> None:
    never = sorted(set(range(90)) - set(next_tokens("llama", questions("llama"))))
    ends = [token for token in never if token not in next_tokens("llama", questions("llama", 5))][:1]
    plan = pruned("llama", ends)
    assert (
        "The full model ends none of 6 test answers where they end, so the costs say nothing of stopping." in plan.text
    )
    assert "ends_kept" not in plan.data
    assert "answers that still end" not in plan.tables()[0].headings
    of_tokens = bathyscope.prune(
        waves.loaded("llama"),
        questions("llama"),
        questions("llama", 5),
        drop=1,
        random=2,
        resamples=100,
        progress=False,
    )
    assert "where they end" not in of_tokens.text
    assert AnswerEnds.of(of_tokens.data) is None


def test_the_prompts_that_chose_are_known_without_their_ends(tmp_path: Path) -> None:
    ends = sorted(set(next_tokens("llama", questions("llama"))))
    plan = pruned("llama", ends, tmp_path / "plan")
    with pytest.raises(PromptError, match="6 of 6 test prompts are among those that chose"):
        bathyscope.repair(
            waves.loaded("llama"), plan, calibration=questions("llama", 6), test=questions("llama"), progress=False
        )

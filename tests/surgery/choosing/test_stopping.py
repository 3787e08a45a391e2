"""What costs least by the tokens of answers may keep a model from ending them; counting the end chooses another set."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import GenerationConfig

import bathyscope
from bathyscope import Prompt
from bathyscope.model import Model
from bathyscope.pages.acts.plan_head import plan_headline
from bathyscope.surgery.plan.answer_ends import AnswerEnds
from bathyscope.surgery.plan.plan import Plan

ROOT = Path(__file__).parents[3]
NAMES = ("Tom", "Anna", "Maria", "Ben", "Lucy", "Sam", "Nora", "Paul")
THINGS = ("apples", "books", "marbles", "eggs", "cards", "pens", "coins")
CALIBRATION, TEST = range(12), range(20, 24)
MOST = 60


def problem(number: int) -> Prompt:
    """A word problem in the words that the model was trained on, with its working."""
    name, things = NAMES[number % len(NAMES)], THINGS[number % len(THINGS)]
    first, second = 11 + 5 * number % 17, 2 + 3 * number % 8
    question, working, result = (
        (
            f"{name} has {first} {things}. {name} buys {second} more {things}. How many {things} does {name} have now?",
            f"{name} then has {first} + {second}",
            first + second,
        ),
        (
            f"{name} has {first} {things}. {name} gives away {second} {things}. How many {things} are left?",
            f"{name} has {first} - {second}",
            first - second,
        ),
        (
            f"{name} has {first} boxes with {second} {things} each. How many {things} does {name} have?",
            f"{name} has {first} * {second}",
            first * second,
        ),
    )[number % 3]
    answer = f" {working} = {result} {things}.\nThe final answer is {result}"
    return Prompt(f"Problem: {question}\nAnswer:", answer=answer)


def chosen(model: Model) -> Plan:
    return bathyscope.prune(
        model,
        [problem(number) for number in CALIBRATION],
        [problem(number) for number in TEST],
        drop=2,
        over="answer",
        random=2,
        resamples=100,
        progress=False,
    )


def count_ended(model: Model, plan: Plan) -> int:
    """How many answers to the test problems the pruned model ends, writing by itself."""
    ended = 0
    with bathyscope.scheduled(model, plan.left_out):
        for number in TEST:
            ids = torch.tensor([model.tokenizer(problem(number).text).input_ids])
            with torch.no_grad():
                text = model.hf.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=MOST, do_sample=False)
            ended += int(text[0, -1]) == model.tokenizer.eos_token_id
    return ended


def test_counting_the_end_of_answers_keeps_a_model_stopping() -> None:
    model = bathyscope.load(ROOT / "checkpoints" / "depth_12")
    ends = model.hf.generation_config
    # without a token that ends a text the end of an answer is not counted, as it was for every model
    model.hf.generation_config = GenerationConfig()
    blind = chosen(model)
    model.hf.generation_config = ends
    seeing = chosen(model)
    assert blind.left_out != seeing.left_out
    assert count_ended(model, blind) == 0
    assert count_ended(model, seeing) >= 2
    ending = AnswerEnds.of(seeing.data)
    assert ending is not None
    assert ending.ended == 4
    assert ending.lost == 0
    assert "; but " not in plan_headline(seeing)

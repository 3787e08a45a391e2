from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from bathyscope_lab.batches import Encoded, TaskSteps, TextSteps, encode, padded, windows
from bathyscope_lab.tokenizer import character_tokenizer, train_bpe

from bathyscope.errors import PromptError
from bathyscope.prompts.tasks import Problem
from bathyscope.prompts.tasks.vocabulary import word_tokenizer

BEGIN = 0
WORDS = word_tokenizer(["what", "is", "one", "two", "three", "because"])


def test_windows_predict_every_token_of_the_stream_once() -> None:
    stream = np.arange(100, 160, dtype=np.uint16)
    rows = torch.cat([windows(stream, start, 2, 11, BEGIN) for start in (0, 20, 40)])
    assert rows.shape == (6, 11)
    assert (rows[:, 0] == BEGIN).all()
    assert rows[:, 1:].flatten().tolist() == stream.tolist()


def test_windows_wrap_round_at_the_end_of_the_stream() -> None:
    assert windows(np.array([5, 6, 7], dtype=np.uint16), 2, 1, 5, BEGIN).tolist() == [[BEGIN, 7, 5, 6, 7]]


def test_steps_read_the_stream_on_through_a_change_of_shape(text_recipe: Any) -> None:
    stream = np.arange(20 * 128, dtype=np.uint16) + 1
    steps = TextSteps(stream, text_recipe(), BEGIN)
    assert len(steps) == 20
    # in any order, since a step follows from its number alone
    shuffled = {step: steps[step]["input_ids"] for step in torch.randperm(20).tolist()}
    assert shuffled[9].shape == (4, 32)
    assert shuffled[10].shape == (2, 64)
    read = torch.cat([shuffled[step][:, 1:].flatten() for step in range(20)])
    assert read.tolist() == list(range(1, len(read) + 1))


def test_steps_take_one_problem_after_the_other(task_recipe: Any) -> None:
    def example(index: int) -> Encoded:
        return Encoded((BEGIN, 100 + index, 1), 2)

    steps = TaskSteps(example, task_recipe(), pad=1)
    assert len(steps) == 20
    assert steps[7]["input_ids"][:, 1].tolist() == [128, 129, 130, 131]
    task = {"name": "pointer_chasing", "count": 30}
    assert TaskSteps(example, task_recipe(task=task), pad=1)[7]["input_ids"][:, 1].tolist() == [128, 129, 100, 101]


def test_a_problem_longer_than_a_row_is_refused(task_recipe: Any) -> None:
    steps = TaskSteps(lambda index: Encoded((0,) * 65, 2), task_recipe(), pad=1)
    with pytest.raises(
        PromptError, match="training problem 8 of the task has 65 tokens, a row 64; raise context in stages"
    ):
        steps[2]


def test_the_answer_and_the_end_are_scored() -> None:
    encoded = encode(Problem("what is", "three", "because one two"), WORDS)
    assert WORDS.convert_ids_to_tokens(encoded.ids) == ["<|begin|>", "what", "is", "three", "<|end|>"]
    assert encoded.scored == 2


def test_steps_stand_between_question_and_answer_and_are_not_scored() -> None:
    encoded = encode(Problem("what is", "three", "because one two"), WORDS, steps=True)
    assert WORDS.decode(encoded.ids[1:-1]) == "what is because one two three"
    assert encoded.scored == 2


def test_written_steps_are_scored_with_the_answer_where_they_count(task_recipe: Any) -> None:
    encoded = encode(Problem("what is", "three", "because one two"), WORDS, steps=True, score_steps=True)
    scored = encoded.ids[-encoded.scored :]
    assert WORDS.convert_ids_to_tokens(scored) == ["because", "one", "two", "three", "<|end|>"]
    assert encode(Problem("what is", "three"), WORDS, steps=True, score_steps=True).scored == 2
    batch = TaskSteps(lambda index: encoded, task_recipe(steps=True, loss="written"), pad=1)[0]
    assert (batch["labels"] == torch.tensor([-100, -100, -100, *scored])).all()


@pytest.mark.parametrize(
    ("tokenizer", "signed"),
    [
        (character_tokenizer(), ["Ġ", "-", "1", "2"]),
        (train_bpe(["Q: A: -1 2 3 4"] * 9, 260), ["Ġ-", "1", "2"]),
    ],
)
def test_a_question_is_what_stands_before_an_answer_of_any_sign(tokenizer: Any, signed: list[str]) -> None:
    """Else where the scored tokens begin would tell the sign: here blank and minus are one token, blank and 1 two."""
    asked = tokenizer("Q: 5 - 17 A:")["input_ids"]
    for answer, pieces in (("-12", signed), ("12", ["Ġ", "1", "2"])):
        encoded = encode(Problem("Q: 5 - 17 A:", answer), tokenizer)
        assert list(encoded.ids[: -encoded.scored]) == asked
        assert tokenizer.convert_ids_to_tokens(encoded.ids[-encoded.scored : -1]) == pieces


def test_a_word_that_is_not_known_is_refused() -> None:
    with pytest.raises(PromptError, match="'what is four' holds words that the tokenizer does not know"):
        encode(Problem("what is", "four"), WORDS)


def test_padding_and_questions_do_not_count() -> None:
    examples = [Encoded((0, 5, 6, 7, 1), 2), Encoded((0, 8, 1), 2)]
    answers = padded(examples, pad=1, answer_only=True)
    assert answers["input_ids"].tolist() == [[0, 5, 6, 7, 1], [0, 8, 1, 1, 1]]
    assert answers["labels"].tolist() == [[-100, -100, -100, 7, 1], [-100, 8, 1, -100, -100]]
    assert answers["attention_mask"].tolist() == [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]
    everything = padded(examples, pad=1, answer_only=False)
    assert everything["labels"].tolist() == [[0, 5, 6, 7, 1], [0, 8, 1, -100, -100]]
    assert "attention_mask" not in padded(examples[:1], pad=1, answer_only=True)

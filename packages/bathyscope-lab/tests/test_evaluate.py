from __future__ import annotations

import numpy as np
import pytest
import torch
from bathyscope_lab import evaluate
from bathyscope_lab.batches import Encoded, encode, padded, windows
from bathyscope_lab.evaluate import HeldOut, answer_scores, text_loss
from bathyscope_lab.model import build_model
from bathyscope_lab.tokenizer import special_ids, train_bpe
from transformers import PreTrainedModel

from bathyscope.prompts.tasks.problem import Problem
from bathyscope.prompts.tasks.vocabulary import word_tokenizer

BEGIN, END = 0, 1


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    """Few words and large weights, so that its likeliest words differ."""
    keys = {
        "type": "llama",
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    built = build_model({**keys, "initializer_range": 0.3}, word_tokenizer([f"w{n}" for n in range(9)]), 64, seed=1)
    return built.eval()


def test_text_loss_is_the_mean_of_the_models_own_over_whole_windows(
    model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = np.random.default_rng(0).integers(2, 12, 31 * 5 + 9).astype(np.uint16)
    with torch.no_grad():
        each = [windows(stream, 31 * i, 1, 32, BEGIN) for i in range(5)]
        expected = np.mean([float(model(input_ids=ids, labels=ids).loss) for ids in each])
    assert text_loss(model, stream, 32, BEGIN) == pytest.approx(expected, rel=1e-6)
    monkeypatch.setattr(evaluate, "ROWS_TOKENS", 64)
    assert text_loss(model, stream, 32, BEGIN) == pytest.approx(expected, rel=1e-6)


def greedy(model: PreTrainedModel, question: tuple[int, ...], count: int) -> tuple[int, ...]:
    """The next ``count`` tokens, the likeliest one by one."""
    ids = question
    with torch.no_grad():
        for _ in range(count):
            ids = (*ids, int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    return ids[len(question) :]


def test_an_answer_is_exact_where_greedy_decoding_writes_it(model: PreTrainedModel) -> None:
    rng = np.random.default_rng(1)
    examples, right = [], 0
    for number in range(24):
        question = (BEGIN, *map(int, rng.integers(2, 12, int(rng.integers(1, 6)))))
        decoded = greedy(model, question, 3)
        # one in three is what the model writes, one differs in its first token, one in its last
        answer = (decoded, ((decoded[0] + 1) % 12, *decoded[1:]), (*decoded[:2], (decoded[2] + 1) % 12))[number % 3]
        examples.append(Encoded((*question, *answer), 3))
        right += greedy(model, question, 3) == answer
    loss, accuracy = answer_scores(model, examples, END)
    assert right == 8
    assert accuracy == right / len(examples)
    assert loss == pytest.approx(mean_answer_loss(model, examples), rel=1e-5)


def mean_answer_loss(model: PreTrainedModel, examples: list[Encoded]) -> float:
    losses = []
    with torch.no_grad():
        for example in examples:
            chances = model(torch.tensor([example.ids])).logits[0].double().log_softmax(-1)
            places = range(len(example.ids) - example.scored, len(example.ids))
            losses += [-float(chances[place - 1, example.ids[place]]) for place in places]
    return float(np.mean(losses))


def test_scores_are_named_and_the_model_stays_in_its_mode(model: PreTrainedModel) -> None:
    stream = np.random.default_rng(0).integers(2, 12, 40).astype(np.uint16)
    held_out = HeldOut({"books": stream}, {"interpolate": [Encoded((0, 5, 6), 1)]}, context=16, begin=BEGIN, pad=END)
    model.train()
    scores = held_out.scores(model)
    assert model.training
    model.eval()
    assert list(scores) == ["books_loss", "interpolate_loss", "interpolate_accuracy"]
    assert scores["interpolate_accuracy"] in (0.0, 1.0)


def test_what_is_trained_and_scored_is_all_that_a_model_writes_after_the_question() -> None:
    """Where blank and minus sign are one token, and blank and digit two: the sign is the model's to write."""
    problems = [Problem(f"Q: {p} - {q} A:", str(p - q)) for p, q in ((5, 17), (17, 5), (3, 4), (4, 3), (8, 1), (1, 8))]
    tokenizer = train_bpe([problem.example().text for problem in problems] * 9, 260)
    assert "Ġ-" in tokenizer.get_vocab()
    keys = {"type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
    model = build_model({**keys, "num_attention_heads": 4}, tokenizer, 32)
    encoded, (_, end) = [encode(problem, tokenizer) for problem in problems], special_ids(tokenizer)
    batch = padded(encoded, end, answer_only=True)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    right = []
    for _ in range(12):
        for _ in range(4):
            optimiser.zero_grad()
            model.train()(**batch, use_cache=False).loss.backward()
            optimiser.step()
        model.eval()
        written = [greedy(model, tuple(tokenizer(one.question)["input_ids"]), 5) for one in problems]
        texts = [tokenizer.decode(ids[: ids.index(end)] if end in ids else ids) for ids in written]
        right.append(sum(text == f" {one.answer}" for text, one in zip(texts, problems)) / len(problems))
        assert answer_scores(model, encoded, end)[1] == pytest.approx(right[-1])
    assert min(right) < 0.5
    assert right[-1] == 1

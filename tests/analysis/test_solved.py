"""Solved prompts: greedy decoding, and labels for pairs of models."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest
import torch
from support import waves, zoo
from support.word_tokenizer import word_tokenizer
from transformers import PreTrainedModel

import bathyscope
from bathyscope import Prompt, PromptSet
from bathyscope.errors import ModelError, OptionError, PromptError
from bathyscope.model import Model, load
from bathyscope.prompts.parts import CLASSES, class_of
from bathyscope.prompts.prompt_rows import prompt_lines, read_prompts

LENGTHS = (9, 5, 14, 7)


@torch.no_grad()
def greedy(hf: PreTrainedModel, question: list[int], tokens: int) -> list[int]:
    """Greedy decoding, a token at a time, each from a forward pass of its own."""
    ids = list(question)
    for _ in range(tokens):
        ids.append(int(hf(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
    return ids[len(question) :]


def other(token: int) -> int:
    """A token that is not this one."""
    return 4 + (token + 1) % 40


@pytest.mark.parametrize(
    "name", zoo.swept(("llama", "gpt2", "gemma2", "mamba", "mixtral"), frozenset(("llama", "mamba")))
)
def test_solved_is_what_greedy_decoding_gives(name: str) -> None:
    hf = zoo.build(name)
    prompts, right = [], []
    for question in zoo.prompts(hf, LENGTHS):
        answer = greedy(hf, question, 4)
        for wrong in (None, 0, 2, 3):
            given = [other(token) if place == wrong else token for place, token in enumerate(answer)]
            prompts.append(Prompt(ids=[*question, *given], answer_tokens=4))
            right.append(4 if wrong is None else wrong)
    found = bathyscope.solved(waves.loaded(name), prompts, progress=False)
    assert found["right_tokens"].values.tolist() == right
    assert found["solved"].values.tolist() == [float(count == 4) for count in right]
    decoded = [greedy(hf, list(p.ids[:-4]), 4) == list(p.ids[-4:]) for p in prompts]
    assert found["solved"].values.tolist() == list(map(float, decoded))


def test_prompts_are_asked_as_turns_of_a_chat() -> None:
    hf = zoo.build("llama")
    tokenizer = word_tokenizer([f"w{number}" for number in range(hf.config.vocab_size - 2)])
    tokenizer.chat_template = (
        "{% for turn in messages %}w5 {{ turn.content }} {% endfor %}{% if add_generation_prompt %}w5 {% endif %}"
    )
    model = load(hf, tokenizer=tokenizer)
    answer = tokenizer.decode(greedy(hf, tokenizer("w5 w3 w4 w5")["input_ids"], 1))
    prompt = Prompt(text=f"w3 w4 {answer}", answer=answer)
    assert bathyscope.solved(model, [prompt], chat=True, progress=False)["solved"].values.tolist() == [1.0]
    assert bathyscope.solved(model, [prompt], progress=False)["answer_tokens"].values.tolist() == [1.0]
    chatted = bathyscope.solved_by(model, model, [prompt], chat=True, progress=False)
    assert [one.labels["solved_by"] for one in chatted.prompts] == ["both"]


def test_generate_agrees() -> None:
    hf = zoo.build("gpt2")
    (question,) = zoo.prompts(hf, (8,))
    ids = torch.tensor([question])
    written = hf.generate(
        input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=6, min_new_tokens=6, do_sample=False
    )
    found = bathyscope.solved(hf, [Prompt(ids=written[0].tolist(), answer_tokens=6)], progress=False)
    assert found["solved"].values.tolist() == [1.0]


def test_the_log_probability_is_the_answers() -> None:
    hf = zoo.build("llama")
    ids = zoo.prompts(hf, (12, 80))
    prompts = [Prompt(ids=ids[0], answer_tokens=3), Prompt(ids=ids[1], answer_tokens=70, labels={"level": 2})]
    found = bathyscope.solved(waves.loaded("llama"), prompts, progress=False)
    for number, (own, answer) in enumerate(zip(ids, (3, 70))):
        with torch.no_grad():
            log_p = hf(input_ids=torch.tensor([own])).logits[0].double().log_softmax(-1)
        wanted = sum(float(log_p[place - 1, own[place]]) for place in range(len(own) - answer, len(own)))
        assert found["answer_logprob"].values[number] == pytest.approx(wanted, abs=1e-4)
        assert found["answer_tokens"].values[number] == answer
    assert found["answer_logprob"].attrs["units"] == "nats"
    assert found["level"].values[1] == 2


def test_prompts_without_an_answer_have_no_value() -> None:
    ids = zoo.prompts(zoo.build("llama"), (6, 7))
    with pytest.warns(UserWarning, match="1 of 2 prompts have no answer, and no value"):
        found = bathyscope.solved(
            waves.loaded("llama"), [Prompt(ids=ids[0], answer_tokens=1), Prompt(ids=ids[1])], progress=False
        )
    assert found.isnull().isel(prompt=1)[["solved", "right_tokens", "answer_logprob", "answer_tokens"]].all()
    assert not found.isnull().isel(prompt=0)["solved"]
    with pytest.raises(PromptError, match="No prompt of given has an answer that can be checked; give answer="):
        bathyscope.solved(waves.loaded("llama"), [ids[0]], progress=False)


@lru_cache
def pair() -> tuple[Model, Model]:
    """A model of four blocks and one of five that begins with the same four, so that they often agree."""
    shallow, deep = zoo.entry("llama").build(), zoo.entry("llama").build()
    shallow.model.layers = shallow.model.layers[:4]
    shallow.config.num_hidden_layers = 4
    return load(shallow), load(deep)


@lru_cache
def asked() -> tuple[tuple[Prompt, ...], tuple[str, ...]]:
    """Prompts of two answer tokens with their class, found by decoding; all four classes are there."""
    shallow, deep = (model.hf for model in pair())
    prompts, classes = [], []
    for question in zoo.prompts(deep, (6, 9) * 20, seed=5):
        one, two = greedy(shallow, question, 2), greedy(deep, question, 2)
        for answer in (one, two, [other(one[0]), other(two[0])]):
            prompts.append(Prompt(ids=[*question, *answer], answer_tokens=2, labels={"hops": len(prompts)}))
            classes.append((answer == one, answer == two))
    assert set(classes) == {(False, False), (True, False), (False, True), (True, True)}
    named = {(False, False): "neither", (True, False): "only shallow", (False, True): "only deep", (True, True): "both"}
    return tuple(prompts), tuple(named[own] for own in classes)


def test_every_prompt_gets_its_class() -> None:
    prompts, classes = asked()
    found = bathyscope.solved_by(*pair(), list(prompts), progress=False)
    assert [prompt.labels["solved_by"] for prompt in found.prompts] == list(classes)
    assert [prompt.labels["hops"] for prompt in found.prompts] == list(range(len(prompts)))
    assert [prompt.ids for prompt in found.prompts] == [prompt.ids for prompt in prompts]
    assert set(classes) == set(CLASSES)
    assert [class_of(shallow, deep) for deep in (False, True) for shallow in (False, True)] == list(CLASSES)


def test_a_survey_of_them_has_the_coordinate_and_a_file_gives_them_back(tmp_path: Path) -> None:
    prompts, classes = asked()
    found = bathyscope.solved_by(*pair(), list(prompts[:12]), label="of_these", progress=False)
    run = bathyscope.survey(pair()[1], found, "lens", progress=False)
    assert run["lens"]["of_these"].values.tolist() == list(classes[:12])
    path = tmp_path / "labelled.jsonl"
    path.write_text(prompt_lines(found.prompts), encoding="utf-8")
    assert read_prompts(str(path)) == found.prompts


def test_each_model_reads_text_with_its_own_tokenizer() -> None:
    words = [f"w{number}" for number in range(zoo.build("llama").config.vocab_size - 2)]
    models = []
    for order in (words, words[::-1]):
        hf = zoo.entry("llama").build()
        models.append(load(hf, tokenizer=word_tokenizer(order)))
    question = "w3 w14 w15 w9"
    answers = []
    for model in models:
        ids = model.tokenizer(question)["input_ids"]
        answers.append(model.tokenizer.decode(greedy(model.hf, ids, 1)))
    assert answers[0] != answers[1]
    prompts = [Prompt(text=f"{question} {answer}", answer=answer) for answer in answers]
    found = bathyscope.solved_by(*models, prompts, progress=False)
    assert [prompt.labels["solved_by"] for prompt in found.prompts] == ["only shallow", "only deep"]
    assert [prompt.text for prompt in found.prompts] == [prompt.text for prompt in prompts]


def test_ids_that_mean_something_else_to_the_other_model_are_refused() -> None:
    words = [f"w{number}" for number in range(zoo.build("llama").config.vocab_size - 2)]
    shallow, deep = (load(zoo.entry("llama").build(), tokenizer=word_tokenizer(own)) for own in (words, words[::-1]))
    prompt = Prompt(ids=[1, 2, 3], answer_tokens=1)
    message = (
        r"Prompts of given are given as token ids, and these mean something else to the other model: token id 2 is "
        r"'w0' for Llama\w+ and 'w117' for Llama\w+\. Give the prompts as text, which each model reads with its own"
    )
    with pytest.raises(PromptError, match=message):
        bathyscope.solved_by(shallow, deep, [prompt], progress=False)
    # <unk> and a are the same in both, and text is no id
    same = [Prompt(ids=[1, 0, 1], answer_tokens=1), Prompt(text="w3 w4", answer="w4")]
    assert len(bathyscope.solved_by(shallow, deep, same, progress=False)) == 2


def test_prompts_that_cannot_be_asked_are_left_out_and_the_others_keep_names_and_sources() -> None:
    prompts, classes = asked()
    unanswered = Prompt(ids=prompts[0].ids, id="no answer")
    union = PromptSet.union([PromptSet((unanswered, *prompts[:2]), "first:3"), PromptSet(prompts[2:4], "second:2")])
    with pytest.warns(UserWarning, match="1 of 5 prompts have no answer that both models can be asked for"):
        found = bathyscope.solved_by(*pair(), union, progress=False)
    assert [prompt.id for prompt in found.prompts] == ["1", "2", "3", "4"]
    assert [part.dataset for part in found.parts] == ["first:3", "second:2"]
    assert [prompt.labels["solved_by"] for prompt in found.prompts] == list(classes[:4])


def test_mistakes() -> None:
    shallow, deep = pair()
    prompts, _ = asked()
    with pytest.raises(OptionError, match=r"has 5 blocks and the second, .*, 4; give the shallow model first"):
        bathyscope.solved_by(deep, shallow, list(prompts), progress=False)
    with pytest.raises(OptionError, match="label='block' is not allowed, since results use that name"):
        bathyscope.solved_by(shallow, deep, list(prompts), label="block", progress=False)
    with pytest.raises(
        PromptError, match="120 of 120 prompts of given have a label 'hops' already; choose another name"
    ):
        bathyscope.solved_by(shallow, deep, list(prompts), label="hops", progress=False)
    with pytest.raises(PromptError, match="No prompt of given has an answer"):
        bathyscope.solved_by(shallow, deep, [list(prompts[0].ids)], progress=False)
    with pytest.raises(ModelError, match="There is no folder"):
        bathyscope.solved_by("./nowhere", deep, list(prompts), progress=False)

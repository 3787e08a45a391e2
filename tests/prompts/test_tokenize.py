from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from bathyscope.errors import PromptError
from bathyscope.prompts.prompt import Prompt, PromptSet, TokenizedPrompt
from bathyscope.prompts.source import resolve
from bathyscope.prompts.tokenize import tokenize
from bathyscope.prompts.tokenizer import load_tokenizer

Fast = PreTrainedTokenizerFast


def one(prompt: Prompt, tokenizer: Fast | None, **options: int | None) -> TokenizedPrompt:
    (result,) = tokenize(PromptSet((prompt,), "test"), tokenizer, **{"max_tokens": None, **options})
    return result


def refused(message: str, prompt: Prompt, tokenizer: Fast | None, **options: int | None) -> None:
    with pytest.raises(PromptError, match=message):
        one(prompt, tokenizer, **options)


def test_text_gets_the_tokenizers_own_special_tokens(
    backend: Callable[..., Tokenizer], plain: Fast, with_bos: Fast, with_eos: Fast
) -> None:
    text = "The final answer is 28."
    body = backend().encode(text).ids
    assert one(Prompt(text=text), with_bos).ids == (0, *body)
    assert one(Prompt(text=text), with_eos).ids == (0, *body, 1)
    without = backend(special=()).encode(text).ids
    assert one(Prompt(text=text), plain).ids == tuple(without)


def test_token_ids_are_used_as_given(with_bos: Fast) -> None:
    prompt = Prompt(ids=(9, 8, 7), answer_tokens=2, id="x", labels={"level": 3})
    expected = TokenizedPrompt("x", (9, 8, 7), 2, {"level": 3})
    assert one(prompt, None) == expected
    assert one(prompt, with_bos) == expected


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_and_cutting_are_never_asked_for(backend: Callable[..., Tokenizer], side: str) -> None:
    set_up = backend(bos=True)
    set_up.enable_padding(direction=side, pad_id=1, pad_token="</s>", length=64)
    set_up.enable_truncation(max_length=4)
    tokenizer = Fast(tokenizer_object=set_up, bos_token="<s>", pad_token="</s>", padding_side=side)
    prompts = resolve(["The final answer is 28.", "The ducks lay 16 eggs per day, and she sells the eggs."])
    reference = backend(bos=True)
    expected = [tuple(reference.encode(prompt.text or "").ids) for prompt in prompts.prompts]
    assert [prompt.ids for prompt in tokenize(prompts, tokenizer, max_tokens=None)] == expected


@pytest.mark.parametrize("fixture", ["plain", "with_bos", "with_eos"])
@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("What is five plus seven? twelve", "twelve"),
        ("What is five plus seven?", " twelve"),
        ("What is five plus seven? ", "twelve"),
        ("She sells 日本語 and ", "🦆 tea"),
        ("The final answer is ", "28"),
        ("A text with </s> in it. ", "The answer</s>"),
    ],
)
def test_answer_tokens_are_the_last(request: pytest.FixtureRequest, fixture: str, text: str, answer: str) -> None:
    tokenizer: Fast = request.getfixturevalue(fixture)
    result = one(Prompt(text=text, answer=answer), tokenizer)
    assert result.answer_tokens is not None
    assert tokenizer.decode(result.ids[-result.answer_tokens :]).strip() == answer.strip()
    question = tokenizer.decode(result.ids[: -result.answer_tokens], skip_special_tokens="</s>" not in text)
    assert question.removeprefix("<s>").strip() == text.removesuffix(answer).strip()
    bos = tokenizer.bos_token_id
    assert bos is None or result.ids[0] == bos


def test_answer_is_appended_where_the_text_does_not_end_with_it(with_bos: Fast) -> None:
    whole = one(Prompt(text="The answer is 28", answer=" 28"), with_bos)
    assert one(Prompt(text="The answer is", answer=" 28"), with_bos) == whole


def test_no_eos_after_an_answer(with_eos: Fast) -> None:
    text = "The final answer is 28"
    with_answer, without = (one(Prompt(text=text, answer=answer), with_eos) for answer in ("28", None))
    assert without.ids == (*with_answer.ids, with_eos.eos_token_id)


def test_shared_token() -> None:
    vocab = {token: number for number, token in enumerate(["1", "2", "3", "4", "23"])}
    tokenizer = Fast(tokenizer_object=Tokenizer(models.BPE(vocab=vocab, merges=[("2", "3")])))
    assert one(Prompt(text="1234", answer="4"), tokenizer).answer_tokens == 1
    refused("Prompt '0': question and answer share the token '23'", Prompt(text="12", answer="34"), tokenizer)


def test_answer_without_offsets() -> None:
    class Letters:
        is_fast = False

        def __call__(self, text: str, *, verbose: bool) -> dict[str, list[int]]:
            return {"input_ids": [ord(letter) for letter in text]}

    letters = Letters()
    assert one(Prompt(text="ab"), letters).ids == (97, 98)
    refused(
        r"Letters gives no character offsets.*give ids= with answer_tokens=",
        Prompt(text="a", answer="b"),
        letters,
    )


def test_refused_prompts(plain: Fast, with_bos: Fast) -> None:
    for text in ("", "  \n"):
        refused(r"Prompt '0': the text is empty", Prompt(text=text), plain)
    refused(r"Prompt 'x': it has no tokens; a measurement needs at least two", Prompt(ids=(), id="x"), None)
    refused(r"Prompt '0': it has one token; a measurement needs at least two", Prompt(ids=(5,)), None)
    refused("it has one token", Prompt(text="T"), plain)
    assert len(one(Prompt(text="T"), with_bos)) == 2
    refused("it is text, and the model has no tokenizer; give token ids", Prompt(text="some text"), None)
    refused("its answer is empty", Prompt(text="a", answer=""), plain)
    refused("its answer is empty", Prompt(text="a ", answer=" "), plain)
    refused("nothing stands before its answer", Prompt(text="The answer", answer="The answer"), plain)


def test_longer_than_the_context() -> None:
    prompt = Prompt(ids=range(5), id="long")
    assert len(one(prompt, None, max_tokens=5)) == 5
    refused(
        r"Prompt 'long': it has 5 tokens, more than the 4 the model can take; shorten it",
        prompt,
        None,
        max_tokens=4,
    )


def test_vocabulary(with_bos: Fast) -> None:
    assert one(Prompt(ids=(0, 9)), None, vocab_size=10).ids == (0, 9)
    refused(
        r"token id 10 is outside of the model's vocabulary \(0 to 9\)",
        Prompt(ids=(0, 10)),
        None,
        vocab_size=10,
    )
    refused(r"token id -1 is outside of .*\(0 and more\)", Prompt(ids=(0, -1)), None)
    refused(r"another model's tokenizer", Prompt(text="The ducks"), with_bos, vocab_size=3)


def test_names() -> None:
    ids = (1, 2)
    prompts = PromptSet((Prompt(ids=ids), Prompt(ids=ids, id="b"), Prompt(ids=ids)), "test")
    assert [prompt.id for prompt in tokenize(prompts, None, max_tokens=None)] == ["0", "b", "2"]
    for clash in (("b", "b"), ("1", None)):
        twice = PromptSet(tuple(Prompt(ids=ids, id=name) for name in clash), "test")
        with pytest.raises(PromptError, match=rf"prompt id '{clash[0]}' is used 2 times; ids must differ"):
            tokenize(twice, None, max_tokens=None)
    with pytest.raises(PromptError, match="empty-set holds no prompts"):
        tokenize(PromptSet((), "empty-set"), None, max_tokens=None)


def test_labels() -> None:
    labels = {"level": np.int64(3), "score": np.float32(0.5), "by": "deep"}
    result = one(Prompt(ids=(1, 2), labels=labels), None)
    assert result.labels == {"level": 3, "score": 0.5, "by": "deep"}
    assert type(result.labels["level"]) is int
    refused("a label cannot be called 'n_tokens'.*rename it", Prompt(ids=(1, 2), labels={"n_tokens": 1}), None)
    refused("label 'tags' must be a text or a number, not list", Prompt(ids=(1, 2), labels={"tags": [1]}), None)


@pytest.mark.shared
@pytest.mark.filterwarnings("ignore:.*the checkpoint's own is used")
def test_tokens_of_the_authors_code(shared: Callable[[str], Path]) -> None:
    golden = json.loads(shared("goldens/csordas2025_tiny-qwen2.json").read_text(encoding="utf-8"))
    tokenizer = load_tokenizer(shared("checkpoints/tiny-qwen2"))
    source = f"gsm8k:4@{shared('data/gsm8k/test_first600.jsonl')}"
    prompts = tokenize(resolve(source), tokenizer, max_tokens=1024, vocab_size=4096)
    assert [list(prompt.ids) for prompt in prompts] == golden["tokens"]
    pairs = [
        Prompt(text="5 + 7 + 5 + 3 + 1 + 7 = ", answer="28", id="math"),
        Prompt(text="The spouse of the performer of Imagine is", answer=" Yoko Ono", id="question"),
    ]
    for pair in tokenize(resolve(pairs), tokenizer, max_tokens=1024, vocab_size=4096):
        expected = golden["token_skip"][pair.id]
        assert (list(pair.ids), pair.answer_tokens) == (expected["ids"], expected["alen"])


@pytest.mark.shared
@pytest.mark.parametrize("name", ["stories260K", "tiny-gpt2"])
@pytest.mark.parametrize(
    "source",
    [
        "gsm8k:50@{}/gsm8k/test_first600.jsonl",
        "hellaswag:300@{}/hellaswag/validation_first2000.jsonl",
        "lambada:300@{}/lambada/test_first2500.jsonl",
        "problems:30",
        "sums:30",
    ],
)
def test_answers_of_every_data_set(shared: Callable[[str], Path], name: str, source: str) -> None:
    tokenizer = load_tokenizer(shared(f"checkpoints/{name}"))
    assert tokenizer is not None
    prompts = resolve(source.format(shared("data")))
    for prompt, result in zip(prompts.prompts, tokenize(prompts, tokenizer, max_tokens=None), strict=True):
        assert result.answer_tokens is not None
        assert tokenizer.decode(result.ids[-result.answer_tokens :]).strip() == prompt.answer

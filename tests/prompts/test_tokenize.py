from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.word_tokenizer import word_tokenizer
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
    expected = TokenizedPrompt("x", (9, 8, 7), 2, {"level": 3}, "test")
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


def test_shared_token(pairs_of_digits: Fast) -> None:
    assert one(Prompt(text="1234", answer="4"), pairs_of_digits).answer_tokens == 1
    refused("Prompt '0': question and answer share the token '23'", Prompt(text="12", answer="34"), pairs_of_digits)
    refused("Prompt 'x': question and answer share", Prompt(text="12", answer="3", id="x"), pairs_of_digits)


def test_answer_longer_than_its_question(pairs_of_digits: Fast) -> None:
    assert one(Prompt(text="4", answer="2311"), pairs_of_digits) == TokenizedPrompt("0", (3, 4, 0, 0), 3, {}, "test")


class Letters:
    """A tokenizer that gives no offsets: one token a letter."""

    is_fast = False

    def __call__(self, text: str, *, verbose: bool) -> dict[str, list[int]]:
        return {"input_ids": [ord(letter) for letter in text]}


@pytest.fixture
def pairs_of_digits() -> Fast:
    """Digits are tokens, and so is 23."""
    vocab = {token: number for number, token in enumerate(["1", "2", "3", "4", "23"])}
    return Fast(tokenizer_object=Tokenizer(models.BPE(vocab=vocab, merges=[("2", "3")])))


def test_a_data_set_keeps_prompts_whose_answer_cannot_be_told_apart(pairs_of_digits: Fast) -> None:
    prompts = tuple(Prompt(text=text, answer="34") for text in ("1134", "1234", "4234"))
    message = (
        "2 of 3 prompts of digits are measured without their answer, whose tokens cannot be told from the "
        "question's; the first is prompt '1': question and answer share the token '23'"
    )
    with pytest.warns(UserWarning, match=message) as caught:
        found = tokenize(PromptSet(prompts, "digits", is_data_set=True), pairs_of_digits, max_tokens=None)
    assert len(caught) == 1
    assert [(prompt.ids, prompt.answer_tokens) for prompt in found] == [
        ((0, 0, 2, 3), 2),
        ((0, 4, 3), None),
        ((3, 4, 3), None),
    ]
    with pytest.raises(PromptError, match="Prompt '1': question and answer share the token '23'"):
        tokenize(PromptSet(prompts, "digits"), pairs_of_digits, max_tokens=None)


def test_in_a_union_given_prompts_are_refused_and_those_of_data_sets_kept(pairs_of_digits: Fast) -> None:
    shared, apart = Prompt(text="12", answer="34"), Prompt(text="11", answer="34")
    data_set, given = PromptSet((shared,), "digits", True), PromptSet((apart,), "given")
    with pytest.warns(UserWarning, match=r"1 of 2 prompts of given \+ digits .* the first is prompt '1'"):
        found = tokenize(PromptSet.union([given, data_set]), pairs_of_digits, max_tokens=None)
    assert [(prompt.answer_tokens, prompt.dataset) for prompt in found] == [(2, "given"), (None, "digits")]
    refusing = PromptSet.union([PromptSet((apart,), "digits", True), PromptSet((shared,), "given")])
    with pytest.raises(PromptError, match="Prompt '1': question and answer share"):
        tokenize(refusing, pairs_of_digits, max_tokens=None)


def test_longer_prompts_of_data_sets_are_let_through_and_given_ones_are_not() -> None:
    long = Prompt(ids=range(5))
    data_set, given = PromptSet((long,), "set", True), PromptSet((long,), "given")
    found = tokenize(PromptSet.union([data_set, data_set]), None, max_tokens=4)
    assert [len(prompt) for prompt in found] == [5, 5]
    with pytest.raises(PromptError, match="Prompt '1': it has 5 tokens, more than the 4"):
        tokenize(PromptSet.union([data_set, given]), None, max_tokens=4)
    assert len(tokenize(given, None, max_tokens=4, beyond_context=True)) == 1
    with pytest.raises(PromptError, match="Prompt '0': it has 5 tokens, more than the 4"):
        tokenize(data_set, None, max_tokens=4, beyond_context=False)


def test_answer_without_offsets() -> None:
    letters = Letters()
    assert one(Prompt(text="ab"), letters).ids == (97, 98)
    refused(
        r"Letters gives no character offsets.*give ids= with answer_tokens=",
        Prompt(text="a", answer="b"),
        letters,
    )
    data_set = PromptSet((Prompt(text="a", answer="b"),), "letters", is_data_set=True)
    with pytest.warns(UserWarning, match="1 of 1 prompts of letters .* Letters gives no character offsets"):
        (found,) = tokenize(data_set, letters, max_tokens=None)  # type: ignore[arg-type]
    assert (found.ids, found.answer_tokens) == ((97, 98), None)


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
    refused("its answer is empty", Prompt(text="a ", answer="\n \t"), plain)
    refused("its text is the answer alone", Prompt(text="The answer", answer="The answer"), plain)
    refused("the text is empty", Prompt(text="", answer="The answer"), plain)


def test_longer_than_the_context() -> None:
    prompt = Prompt(ids=range(5), id="long")
    assert len(one(prompt, None, max_tokens=5)) == 5
    refused(
        r"Prompt 'long': it has 5 tokens, more than the 4 the model can take; shorten it",
        prompt,
        None,
        max_tokens=4,
    )


def test_prompts_that_are_too_long_are_counted_and_their_set_is_named() -> None:
    lengths = (3, 5, 4, 7, 9)
    prompts = PromptSet(tuple(Prompt(ids=range(length)) for length in lengths), "mine.jsonl")
    with pytest.raises(PromptError) as caught:
        tokenize(prompts, None, max_tokens=4)
    assert str(caught.value) == (
        "Prompt '1': it has 5 tokens, more than the 4 the model can take, as are 3 of the 5 prompts of mine.jsonl; "
        "shorten them, leave them out, run them all the same (--beyond-context), or give the text as a .txt file, cut "
        "into windows of at most that many (?window=4)."
    )
    # where positions are looked up in a table, no flag runs them
    with pytest.raises(PromptError) as caught:
        tokenize(prompts, None, max_tokens=4, beyond_context=False)
    assert "--beyond-context" not in str(caught.value)


def test_a_chat_that_is_too_long_is_not_told_of_windows(with_bos: Fast) -> None:
    with_bos.chat_template = "{% for turn in messages %}{{ turn.content }} {% endfor %}"
    chat = Prompt(messages=[{"role": "user", "content": "T T T T"}, {"role": "assistant", "content": "T T"}])
    with pytest.raises(PromptError, match="more than the 4 the model can take") as caught:
        tokenize(PromptSet((chat,), "chats.jsonl"), with_bos, max_tokens=4, chat=True)
    message = str(caught.value)
    assert message.endswith("; shorten it, leave it out, or run it all the same (--beyond-context).")


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


def test_tokens_that_the_head_lacks() -> None:
    assert one(Prompt(ids=(9, 7)), None, vocab_size=10, head_size=8).ids == (9, 7)
    refused(
        r"Prompt '0': token id 8 \(token 1\) cannot be predicted: the model's head has 8 rows, and its embedding 10\. "
        r"Enlarge both \(model\.resize_token_embeddings\(n\)\), or leave the token out",
        Prompt(ids=(9, 8)),
        None,
        vocab_size=10,
        head_size=8,
    )


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
    difficulty = {"level": 1, "hops": 2, "steps": 3, "digits": 4, "kind": "sum", "solved_by": "both"}
    assert one(Prompt(ids=(1, 2), labels=difficulty), None).labels == difficulty
    assert result.labels == {"level": 3, "score": 0.5, "by": "deep"}
    assert type(result.labels["level"]) is int
    for name in ("n_tokens", "dataset", "block", "token", "piece", "site", "estimator", "norm", "measure"):
        prompt = Prompt(ids=(1, 2), labels={name: 1})
        refused(f"a label cannot be called '{name}'.*rename it", prompt, None)
    with pytest.raises(PromptError, match="label 'tags' must be a text or a number, not list"):
        Prompt(ids=(1, 2), labels={"tags": [1]})


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


def test_texts_of_words_that_the_tokenizer_does_not_know_are_a_warning() -> None:
    tokenizer = word_tokenizer(["red", "green"])
    texts = ["red green red green", "red blue green", "red blue yellow green", "blue yellow"]
    given = PromptSet(tuple(Prompt(text=text, id=f"t{n}") for n, text in enumerate(texts)), "given")
    with pytest.warns(
        UserWarning, match=r"In 2 of 4 prompts of given half .* are <unk>.* prompt 't2': 2 of 4\. "
    ) as caught:
        tokenize(given, tokenizer, max_tokens=None)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tokenize(PromptSet(given.prompts[:2], "given"), tokenizer, max_tokens=None)
        tokenize(PromptSet((Prompt(ids=[0, 0, 0]),), "given"), tokenizer, max_tokens=None)
    # as in GPT-2, where that token ends texts and stands for no word
    tokenizer.eos_token = "<unk>"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tokenize(given, tokenizer, max_tokens=None)


@pytest.mark.parametrize(
    ("context", "beyond", "most"),
    [(512, None, 1 << 20), (1 << 17, None, 1 << 21), (512, True, 1 << 24), (None, None, 1 << 24)],
)
def test_a_text_that_no_model_takes_is_refused_before_it_becomes_tokens(
    context: int | None, beyond: bool | None, most: int, plain: Fast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten million letters took half a minute and two gigabytes, to be refused for their number of tokens."""
    asked: list[int] = []
    monkeypatch.setattr(
        type(plain), "__call__", lambda self, text, **_: asked.append(len(text)) or {"input_ids": [1, 2]}
    )
    for prompt in (Prompt(text="a" * (most + 1)), Prompt(text="a" * most, answer="b")):
        message = rf"it has {most + 1:,} letters, and at most {most:,} are taken as one prompt; shorten it"
        refused(message, prompt, plain, max_tokens=context, beyond_context=beyond)
    assert asked == []
    assert one(Prompt(text="a" * most), plain, max_tokens=context, beyond_context=beyond).ids == (1, 2)
    assert asked == [most]

"""Special tokens are taken once, and texts become turns of a chat where that is asked for."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from bathyscope.errors import PromptError
from bathyscope.prompts.prompt import Prompt, PromptSet, TokenizedPrompt
from bathyscope.prompts.source import resolve
from bathyscope.prompts.tokenize import tokenize

Fast = PreTrainedTokenizerFast
TEMPLATE = (
    "{{ bos_token }}{% for turn in messages %}[{{ turn.role }}]{{ turn.content | trim }}[end]\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


def read(given: list[Any], tokenizer: Fast, **options: Any) -> list[TokenizedPrompt]:
    return tokenize(resolve(given), tokenizer, max_tokens=None, **options)


@pytest.fixture
def chatty(backend: Callable[..., Tokenizer]) -> Fast:
    made = Fast(tokenizer_object=backend(bos=True), bos_token="<s>", eos_token="</s>")
    made.chat_template = TEMPLATE
    return made


def test_a_text_that_brings_its_own_beginning_has_one(with_bos: Fast) -> None:
    bare = read([Prompt(text="five plus seven is twelve", answer="twelve")], with_bos)
    with pytest.warns(
        UserWarning, match=r"1 of 2 prompts of given begin with <s>, .* taken once\. The first is prompt '0'"
    ):
        found = read([Prompt(text="<s>five plus seven is twelve", answer="twelve"), "a text"], with_bos)
    assert found[0].ids == bare[0].ids
    assert found[0].answer_tokens == bare[0].answer_tokens
    assert found[0].ids.count(0) == 1


def test_beginnings_that_nobody_doubles_stay(plain: Fast, backend: Callable[..., Tokenizer]) -> None:
    without = Fast(tokenizer_object=backend(), bos_token="<s>")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(["<s><s>The ducks"], without)[0].ids[:2] == (0, 0)
        assert (
            read(["<s>The ducks"], Fast(tokenizer_object=backend(bos=True), bos_token="<s>"), add_special_tokens=False)[
                0
            ].ids.count(0)
            == 1
        )


def test_special_tokens_are_left_out_where_asked(with_eos: Fast, tmp_path: Path) -> None:
    text = "The final answer is 28."
    assert read([text], with_eos, add_special_tokens=False)[0].ids == read([text], with_eos)[0].ids[1:-1]
    path = tmp_path / "eggs.txt"
    path.write_text("The ducks lay 16 eggs per day. " * 9, encoding="utf-8")
    windows = [
        resolve(f"{path}:2?window=9", tokenizer=with_eos, add_special_tokens=wanted).prompts for wanted in (True, False)
    ]
    assert [[prompt.ids[0] == 0 for prompt in own if prompt.ids] for own in windows] == [[True, True], [False, False]]
    assert [len(prompt.ids or ()) for prompt in windows[1]] == [9, 9]


def test_texts_become_turns_and_answers_the_assistants(chatty: Fast) -> None:
    asked, open_ended, ids = read(
        [Prompt(text="What is five plus seven?  twelve", answer="twelve"), "Say end.", [5, 6, 7]], chatty, chat=True
    )
    assert chatty.decode(asked.ids) == "<s>[user]What is five plus seven?[end]\n[assistant]twelve"
    assert chatty.decode(asked.ids[-(asked.answer_tokens or 0) :]) == "twelve"
    assert (chatty.decode(open_ended.ids), open_ended.answer_tokens) == ("<s>[user]Say end.[end]\n[assistant]", None)
    assert ids.ids == (5, 6, 7)


def test_an_answer_that_stands_in_the_frame_too_is_the_assistants(chatty: Fast) -> None:
    (found,) = read([Prompt(text="Say end", answer="end")], chatty, chat=True)
    assert chatty.decode(found.ids) == "<s>[user]Say[end]\n[assistant]end"
    assert chatty.decode(found.ids[-(found.answer_tokens or 0) :]) == "end"


def test_chats_that_cannot_be_written(chatty: Fast, with_bos: Fast) -> None:
    with pytest.raises(PromptError, match=r"Prompt '0': chat=True, and .* has no chat template; leave .*, or give"):
        read(["What is five?"], with_bos, chat=True)
    chatty.chat_template = "{{ raise_exception('Only questions are allowed.') }}"
    with pytest.raises(PromptError, match="the tokenizer's chat template does not take it: Only questions are allowed"):
        read(["What is five?"], chatty, chat=True)
    chatty.chat_template = "{{ messages[0].content }}"
    with pytest.raises(PromptError, match="the chat template leaves out the assistant's turn"):
        read([Prompt(text="What is five? 5", answer="5")], chatty, chat=True)
    with pytest.warns(UserWarning, match="ids gives token ids alone, which it leaves"):
        tokenize(PromptSet((Prompt(ids=(5, 6)),), "ids"), chatty, max_tokens=None, chat=True)


def test_a_tokenizer_with_more_tokens_than_the_model_is_named(with_bos: Fast) -> None:
    with pytest.raises(
        PromptError, match=r"outside of the model's vocabulary \(0 to 299\); the tokenizer has \d+ tokens"
    ):
        read(["The final answer is 28. The ducks lay 16 eggs per day, and she sells"], with_bos, vocab_size=300)
    with pytest.raises(PromptError, match="were the ids made with another model's tokenizer"):
        read([[5, 999]], with_bos, vocab_size=400)

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from bathyscope.errors import PromptError
from bathyscope.prompts.answers import Span, answer_token_count, doubles_blank, makes_one_word, question_of
from bathyscope.prompts.prompt import Prompt, PromptSet
from bathyscope.prompts.source import resolve
from bathyscope.prompts.tokenize import tokenize


def spans(*pieces: str) -> list[Span]:
    """The spans of a text's pieces, told by hand."""
    ends = [len("".join(pieces[: n + 1])) for n in range(len(pieces))]
    return [Span(end - len(piece), end) for piece, end in zip(pieces, ends)]


@pytest.mark.parametrize(
    ("question", "answer", "pieces", "expected"),
    [
        # the space at the seam belongs to the answer's first token, on whichever side it was written
        ("1 + 2 = ", "3", ("1", " +", " 2", " =", " 3"), 1),
        ("1 + 2 =", " 3", ("1", " +", " 2", " =", " 3"), 1),
        ("is", " Yoko Ono", ("is", " Y", "oko", " Ono"), 3),
        # a space of its own: the question's where the question ends in it, else the answer's
        ("1 = ", "28", ("1", " =", " ", "2", "8"), 2),
        ("1 =", " 28", ("1", " =", " ", "2", "8"), 3),
        # a token of the question that takes the answer's leading space along
        ("what? ", " 28", ("what", "?  ", "28"), 1),
        ("what?", "\n\n28", ("what", "?\n", "\n", "28"), 2),
        # no space at all
        ("after", ", she sits.", ("after", ",", " she", " sits", "."), 4),
        # trailing space is the answer's
        ("a", " b ", ("a", " b", " "), 2),
    ],
)
def test_count(question: str, answer: str, pieces: tuple[str, ...], expected: int) -> None:
    assert "".join(pieces) == question + answer
    assert answer_token_count(question, answer, spans(*pieces)) == expected


def test_spans_without_their_leading_space() -> None:
    # byte-level tokenizers trim: " 3" covers the 3 only, a lone space nothing
    assert answer_token_count("1 = ", "3", [Span(0, 1), Span(2, 3), Span(4, 5)]) == 1
    assert answer_token_count("1 =", " 3", [Span(0, 1), Span(2, 3), Span(4, 5)]) == 1
    assert answer_token_count("1 =", " 3", [Span(0, 1), Span(2, 3), Span(4, 4), Span(4, 5)]) == 2
    assert answer_token_count("1 = ", "3", [Span(0, 1), Span(2, 3), Span(4, 4), Span(4, 5)]) == 1


def test_several_tokens_of_one_character() -> None:
    assert answer_token_count("a ", "🦆", [Span(0, 1), Span(1, 3), Span(2, 3), Span(2, 3)]) == 3


def test_shared_token() -> None:
    message = re.escape("question and answer share the token '23', so the answer '34' cannot be measured apart")
    with pytest.raises(PromptError, match=message):
        answer_token_count("12", "34", spans("1", "23", "4"))
    with pytest.raises(PromptError, match=re.escape("share the token ' =2'")):
        answer_token_count("1 =", "2", spans("1", " =2"))


@pytest.mark.parametrize("covered", [[], [Span(0, 1), Span(2, 2), Span(4, 4)]])
def test_offsets_that_do_not_cover_the_text(covered: list[Span]) -> None:
    with pytest.raises(PromptError, match=r"offsets do not cover the text.*answer_tokens= instead"):
        answer_token_count("1 = ", "3", covered)


LATIN = st.characters(min_codepoint=0x61, max_codepoint=0x24F, categories=("Ll", "Lu"))
UNSPACED = st.sampled_from("日本語你好ありがとうカタไทยລາວខ្មែរ")
WORD = st.text(LATIN, min_size=1, max_size=6)


@given(question=WORD, answer=WORD, before=st.sampled_from(["", "a ", "日本 "]))
@settings(max_examples=60, deadline=None)
def test_letters_that_meet_are_one_word(question: str, answer: str, before: str) -> None:
    assert makes_one_word(before + question, answer)
    assert makes_one_word(before + question, f"2{answer}")
    assert not makes_one_word(before + question, f" {answer}")
    assert not makes_one_word(f"{before}{question} ", answer)


@given(question=WORD, answer=WORD, mark=st.sampled_from(" \n\t.,:;=(\"'’-+→"), letter=UNSPACED)
@settings(max_examples=60, deadline=None)
def test_marks_and_scripts_without_spaces_make_no_word(question: str, answer: str, mark: str, letter: str) -> None:
    assert not makes_one_word(question + mark, answer)
    assert not makes_one_word(question, mark + answer)
    assert not makes_one_word(question + letter, answer)
    assert not makes_one_word(question, letter + answer)


def test_a_number_may_be_continued_and_marks_on_letters_are_letters() -> None:
    assert not makes_one_word("The answer is 2", "8")
    assert makes_one_word("The answer is", "28")
    assert makes_one_word("हिन्दी", "में")
    assert makes_one_word("une cafe\u0301", "tasse")
    assert not makes_one_word("", "a")


@pytest.mark.parametrize("text", ["There was a little", "There was a littlezebra"])
def test_text_and_answer_in_one_word_are_named_whatever_brings_them(
    plain: PreTrainedTokenizerFast, write_jsonl: Callable[..., str], text: str
) -> None:
    row = {"text": text, "answer": "zebra", "id": "glued"}
    fine = {"text": "There was a little", "answer": " zebra"}
    listed = [Prompt(text="There was a little", answer=" zebra"), Prompt(text=text, answer="zebra", id="glued")]
    for source in (listed, write_jsonl(fine, row), PromptSet(tuple(listed), "mine")):
        with pytest.warns(UserWarning, match="continues the last word") as caught:
            tokenize(resolve(source), plain, max_tokens=None)
        (message,) = {str(warning.message) for warning in caught}
        assert message.startswith("In 1 of 2 prompts of ")
        assert message.endswith(
            "the answer continues the last word; the first is prompt 'glued': 'littlezebra'. "
            "Begin the answer with a space: ' zebra'."
        )


@given(question=WORD, answer=WORD, blanks=st.text(" \t", max_size=4), cut=st.integers(0, 4), line=st.booleans())
@settings(max_examples=60, deadline=None)
def test_blanks_are_double_on_whichever_side_they_stand(
    question: str, answer: str, blanks: str, cut: int, line: bool
) -> None:
    before, behind = blanks[:cut], blanks[cut:]
    assert doubles_blank(question + before, behind + answer) == (len(blanks) > 1)
    # an indentation
    assert not doubles_blank(f"{question}\n{before}", behind + answer)
    assert not doubles_blank(question + before, f"\n{behind}{answer}")


def test_an_answer_behind_trailing_blanks_is_named(plain: PreTrainedTokenizerFast) -> None:
    fine = [Prompt(text="There was ", answer="zebra"), Prompt(text="There was", answer=" zebra", id="b")]
    # the text's own blanks, in which the answer stands already
    whole = Prompt(text="There was  zebra", answer="zebra", id="c")
    doubled = [Prompt(text="There was ", answer=" zebra", id="d"), Prompt(text="There was  ", answer="zebra", id="e")]
    with pytest.warns(UserWarning, match="two blanks or more") as caught:
        tokenize(resolve([*fine, whole, *doubled]), plain, max_tokens=None)
    assert [str(warning.message) for warning in caught] == [
        "In 2 of 5 prompts of given two blanks or more stand before the answer, which are a token of their own; the "
        "first is prompt 'd'. End the text without a blank, and begin the answer with one."
    ]


STANDING = [
    ("Q: 2+2?\nA: 4\n", "4"),
    ("The capital is Paris.", "Paris"),
    ("one two three ", "three"),
    ("the capital is paris", " Paris"),
    ("one two\n three", "two three"),
    ("It is 'Paris'.", "Paris"),
    ("It is Paris", "Paris."),
    ("Das ist die Strasse!", "Straße"),
    ("the cafe\u0301 ", "café"),
    ("首都は東京。", "東京"),
    ("1. 4 ", "4"),
    ("So it is. ", " ."),
]
TO_COME = [
    ("Is the answer yes or no?", "no"),
    ("Answer with yes or no:", "no"),
    ("Answer with yes or no:\n", " no"),
    ("はいかいいえ？", "いいえ"),
    ("What is 2 + 24 ", "4"),
    ("What is 2.4 ", "4"),
    ("a hatter ", "hat"),
    ("that hat is a cap ", "hat"),
    ("It is unparis ", "Paris"),
    ("so. ", "!"),
    ("The capital is", " Paris"),
]


@pytest.mark.parametrize("is_chat", [False, True])
@pytest.mark.parametrize(("text", "answer"), STANDING)
def test_an_answer_that_stands_there_already_is_not_put_behind_it(
    with_bos: PreTrainedTokenizerFast, text: str, answer: str, is_chat: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        with_bos, "chat_template", "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]"
    )
    prompt = Prompt(text=text, answer=answer, id="it")
    with pytest.raises(PromptError, match=r"Prompt 'it': its text ends in .*, which may be its answer .* already"):
        tokenize(resolve([prompt]), with_bos, max_tokens=None, chat=is_chat)
    # both ways out: the text ends in exactly the answer, which stands there once or twice
    assert question_of(text + answer, answer) == text
    # prompts of a data set are measured without it
    of_data = PromptSet((prompt, Prompt(text="What is five? five", answer="five")), "made", is_data_set=True)
    with pytest.warns(
        UserWarning, match=r"1 of 2 prompts of made are measured without their answer.* which may be its"
    ):
        read = tokenize(of_data, with_bos, max_tokens=None)
    assert [each.answer_tokens is None for each in read] == [True, False]
    assert list(read[0].ids) == with_bos(text)["input_ids"]


@pytest.mark.parametrize(("text", "answer"), TO_COME)
def test_an_answer_that_is_still_to_come_is_put_behind_the_text(text: str, answer: str) -> None:
    assert question_of(text, answer) == text


@given(
    question=st.text("ab 1.", min_size=1, max_size=12),
    answer=st.text("abAB1", min_size=1, max_size=4),
    tail=st.text(' .\n!,")', max_size=3),
    is_other_case=st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_texts_that_end_in_an_answer_but_for_signs_are_refused(
    question: str, answer: str, tail: str, is_other_case: bool
) -> None:
    written = answer.swapcase() if is_other_case else answer
    text = f"{question}= {written}{tail}"
    if text.endswith(answer):
        assert question_of(text, answer) == text[: len(text) - len(answer)]
        return
    with pytest.raises(PromptError, match="already"):
        question_of(text, answer)
    assert question_of(f"{question}= {written}x{tail}", answer) == f"{question}= {written}x{tail}"

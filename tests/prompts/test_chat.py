"""What a chat template writes is compared with what went in, whatever the template."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import transformers.utils.chat_template_utils
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2.sandbox import ImmutableSandboxedEnvironment
from support.letter_tokenizer import letter_tokenizer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from bathyscope.core.apart import can_be_apart
from bathyscope.errors import PromptError
from bathyscope.prompts.chat import ChatTemplate
from bathyscope.prompts.prompt import Prompt, TokenizedPrompt
from bathyscope.prompts.source import resolve
from bathyscope.prompts.template_sandbox import bounded
from bathyscope.prompts.tokenize import tokenize

Fast = PreTrainedTokenizerFast
CONTENTS = {
    "text": "{{ m.content }}",
    "trimmed": "{{ m.content | trim }}",
    "parts": "{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% endif %}{% endfor %}",
    "first part": "{{ m.content[0]['text'] }}",
    "either": "{% if m.content is string %}{{ m.content }}{% else %}{{ m.content[0].text }}{% endif %}",
    "user in parts": "{% if m.role == 'user' %}{{ m.content[0].text }}{% else %}{{ m.content }}{% endif %}",
}
LOSING = {
    "nothing": "",
    "upper": "{{ m.content | upper }}",
    "half": "{{ m.content[3:] }}",
    "list": "{{ m.content[0] }}",
}
"""Templates that write another text than the one that went in, or none."""


def template(content: str, frame: str = "<|{role}|>\n", opening: str = "<|assistant|>\n") -> str:
    start = frame.replace("{role}", "{{ m.role }}")
    return (
        f"{{% for m in messages %}}{start}{content}<|end|>\n{{% endfor %}}"
        f"{{% if add_generation_prompt %}}{opening}{{% endif %}}"
    )


@pytest.fixture(scope="module")
def tokenizer() -> Fast:
    """One token a byte, so that ids are the text."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bytewise = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(alphabet)}, merges=[]))
    bytewise.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytewise.decoder = decoders.ByteLevel()
    return Fast(tokenizer_object=bytewise)


def read(given_prompts: list[Any], tokenizer: Fast, chat_template: str) -> list[TokenizedPrompt]:
    tokenizer.chat_template = chat_template
    return tokenize(resolve(given_prompts), tokenizer, max_tokens=None, chat=True)


def words(text: str) -> str:
    return " ".join(text.split())


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=30).filter(
    lambda text: bool(text.strip())
)


@given(question=TEXTS, answer=st.none() | TEXTS, content=st.sampled_from(sorted(CONTENTS)))
@settings(max_examples=60, deadline=None)
def test_every_text_is_in_what_is_measured(tokenizer: Fast, question: str, answer: str | None, content: str) -> None:
    tokenizer.chat_template = template(CONTENTS[content])
    turns = ChatTemplate(tokenizer).write(question, answer)
    assert words(turns.question) == words(f"<|user|>\n{question.strip()}<|end|>\n<|assistant|>\n")
    assert turns.answer == (None if answer is None else answer.strip())
    assert turns.remarks == ()


@given(question=TEXTS, content=st.sampled_from(sorted(LOSING)), is_answered=st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_template_that_writes_another_text_is_refused(
    tokenizer: Fast, question: str, content: str, is_answered: bool
) -> None:
    tokenizer.chat_template = template(LOSING[content])
    with pytest.raises(PromptError, match=r"the chat template (does not write the user's text|leaves out the assis)"):
        ChatTemplate(tokenizer).write(question, "yes" if is_answered else None)


@pytest.mark.parametrize("content", ["parts", "first part", "user in parts"])
def test_contents_are_given_as_parts_where_the_template_takes_them_so(tokenizer: Fast, content: str) -> None:
    chats = read(["Who?", "What?", Prompt(text="Who? Me", answer="Me")], tokenizer, template(CONTENTS[content]))
    assert [tokenizer.decode(chat.ids) for chat in chats] == [
        "<|user|>\nWho?<|end|>\n<|assistant|>\n",
        "<|user|>\nWhat?<|end|>\n<|assistant|>\n",
        "<|user|>\nWho?<|end|>\n<|assistant|>\nMe",
    ]
    assert chats[2].answer_tokens == 2


def test_the_refusal_says_what_was_written(tokenizer: Fast) -> None:
    with pytest.raises(PromptError, match=r"Prompt '0': the chat template does not write the user's text: it gives '<"):
        read(["Who?"], tokenizer, template(""))
    # a text that depends on what it holds
    cut = template("{{ m.content.split('</think>')[-1] }}")
    read(["Who?"], tokenizer, cut)
    with pytest.raises(PromptError, match=r"Prompt '1': .* text 'Is </think> a mark\?': it gives .* a mark\?<"):
        read(["Who?", "Is </think> a mark?"], tokenizer, cut)
    with pytest.raises(PromptError) as refused:
        read(["a" * 500], tokenizer, template("{{ m.content[:20] }}"))
    assert len(str(refused.value)) < 300


THINKING = template("{% if m.role == 'assistant' %}<think>\n\n</think>\n\n{% endif %}{{ m.content }}")
OPENING = template("{{ m.content }}", opening="<|assistant|>\n<think>\n")


def test_thinking_stands_once(tokenizer: Fast) -> None:
    thought = Prompt(text="Who?", answer="<think>\nMe, I hope.\n</think>\n\nMe", id="thought")
    with pytest.warns(UserWarning, match=r"In 1 of 2 prompts of given the answer brings its own <think>.*'thought'\."):
        chats = read([Prompt(text="Who?", answer="Me"), thought], tokenizer, THINKING)
    assert tokenizer.decode(chats[0].ids).endswith("<|assistant|>\n<think>\n\n</think>\n\nMe")
    assert tokenizer.decode(chats[1].ids).endswith("<|assistant|>\n<think>\nMe, I hope.\n</think>\n\nMe")
    assert tokenizer.decode(chats[1].ids).count("<think>") == 1


@pytest.mark.parametrize(
    ("chat_template", "prompt", "remark"),
    [
        (
            template("{% if m.role == 'assistant' %}<think></think><think></think>{% endif %}{{ m.content }}"),
            Prompt(text="Who?", answer="Me"),
            "the chat begins <think> twice",
        ),
        (
            template("{{ m.content }}", "<|{role}|>\n<think>\n"),
            Prompt(text="Who?", answer="Me"),
            "without its </think>",
        ),
        (template("{{ m.content }}"), Prompt(text="Who?", answer="I hope.</think>Me"), "without its </think>"),
        (template("{{ m.content }}{{ m.content }}"), "Who?", "writes the user's text more than once"),
    ],
)
def test_what_is_wrong_with_thinking_is_said(tokenizer: Fast, chat_template: str, prompt: Any, remark: str) -> None:
    with pytest.warns(UserWarning, match=f"In 1 of 1 prompts of given .*{remark}.*; the first is prompt '0'"):
        read([prompt], tokenizer, chat_template)


def test_thinking_that_is_begun_or_spoken_of_is_nothing_to_say(tokenizer: Fast) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(["Who?", "What does <think> mean?"], tokenizer, OPENING)
        read([Prompt(text="Write <think> first.", answer="Me")], tokenizer, template("{{ m.content }}"))


def test_a_template_is_told_the_same_date_every_day(tokenizer: Fast, monkeypatch: pytest.MonkeyPatch) -> None:
    dated = "\n{% set format = '%d %b %Y, %-d.%m.%y' %}{{ strftime_now(format) }}" + template("{{ m.content }}")
    by_day = []
    for day in (3, 4):
        today = datetime(2031, 5, day, tzinfo=UTC)
        clock = SimpleNamespace(now=lambda *_, today=today: today)
        monkeypatch.setattr(transformers.utils.chat_template_utils, "datetime", clock)
        with pytest.warns(UserWarning, match=r"The chat template asks for the day's date, .* be 26 Jul 2024 every day"):
            by_day.append(read(["Who?", Prompt(text="Who?", answer="Me", id="me")], tokenizer, dated))
    assert by_day[0] == by_day[1]
    # all else is as the template writes it
    text = tokenizer.decode(by_day[0][0].ids)
    own = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Who?"}], tokenize=False, add_generation_prompt=True
    )
    assert text == own.replace("04 May 2031, 4.05.31", "26 Jul 2024, 26.07.24")


FORMATS = [
    *(f"%{letter}" for letter in "aAbBcCdDeFgGhHIjklmMnpPrRSTtuUVwWxXyYzZ%"),
    *(f"%{flag}{letter}" for flag in "-_0" for letter in "dHIjklmMSy"),
    *(f"%^{letter}" for letter in "aAbB"),
]


def test_every_format_of_the_clock_is_that_of_one_date(tokenizer: Fast, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the C library writes them; seconds since 1970 are those of UTC, whatever the zone of this machine."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        for mark in [*FORMATS, "%f", "%s", "%%s", "%%d %d", "%s.%f", "no format"]:
            with pytest.warns(UserWarning, match="be 26 Jul 2024 every day"):
                (chat,) = read(["Who?"], tokenizer, f"[{{{{ strftime_now('{mark}') }}}}]" + template("{{ m.content }}"))
            by_library = datetime(2024, 7, 26, tzinfo=None).strftime(
                mark.replace("%%s", "%%S").replace("%s", "1721952000")
            )
            written = tokenizer.decode(chat.ids).partition("<|user|>")[0]
            assert written == f"[{by_library.replace('%S', '%s')}]", mark
    finally:
        monkeypatch.undo()
        time.tzset()


CHANGING = {
    "cut": "{{ m.content.split('</think>')[-1] }}",
    "wrapped": "{% if 'x' in m.content %}[{{ m.content }}]{% else %}{{ m.content }}{% endif %}",
    "in capitals": "{{ m.content | replace('x', 'X') }}",
}


@pytest.mark.parametrize("content", CHANGING)
def test_an_answer_that_the_template_would_change_is_named(tokenizer: Fast, content: str) -> None:
    answer = "<think>well</think> x"
    prompts = [Prompt(text="Who?", answer="Me", id="plain"), Prompt(text="Who?", answer=answer, id="changed")]
    with pytest.warns(UserWarning, match=r"In 1 of 2 .* would change the answer, .* as it was given; .* 'changed'"):
        chats = read(prompts, tokenizer, template(CHANGING[content]))
    assert tokenizer.decode(chats[1].ids).endswith(answer)


@given(answer=TEXTS, content=st.sampled_from(["text", "trimmed", "either", "parts"]))
@settings(max_examples=60, deadline=None)
def test_an_answer_that_the_template_keeps_is_nothing_to_say(tokenizer: Fast, answer: str, content: str) -> None:
    tokenizer.chat_template = template(CONTENTS[content])
    turns = ChatTemplate(tokenizer).write("Who?", answer)
    assert turns.answer == answer.strip()
    assert not any("change the answer" in remark for remark in turns.remarks)


def test_a_beginning_that_the_template_doubles_is_taken_once(backend: Callable[..., Tokenizer]) -> None:
    made = Fast(tokenizer_object=backend(bos=True), bos_token="<s>", eos_token="</s>")
    with pytest.warns(UserWarning, match=r"In 1 of 1 .* the chat template writes <s> twice .* once; mend the template"):
        (chat,) = read(["Who?"], made, "{{ bos_token }}{{ bos_token }}" + template("{{ m.content }}"))
    assert chat.ids[0] == 0
    assert chat.ids.count(0) == 1
    plain = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"
    with pytest.warns(UserWarning, match=r"the text brings <s> behind that of the chat template.*; remove it"):
        (chat,) = read([Prompt(text="<s>Who?", answer="Me")], made, plain)
    assert chat.ids.count(0) == 1


def test_a_template_without_the_beginning_of_other_texts_is_named(backend: Callable[..., Tokenizer]) -> None:
    made = Fast(tokenizer_object=backend(bos=True), bos_token="<s>", eos_token="</s>")
    said = r"In 2 of 2 .* the chat template writes no <s> at its beginning, and the tokenizer puts it before every"
    with pytest.warns(UserWarning, match=said):
        chats = read(["Who?", "Why?"], made, template("{{ m.content }}"))
    assert all(0 not in chat.ids for chat in chats)
    bare = Fast(tokenizer_object=backend(bos=False), bos_token="<s>", eos_token="</s>")
    plain = template("{{ m.content }}")
    for tokenizer_of, text in ((made, "{{ bos_token }}" + plain), (bare, plain)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            read(["Who?", "Why?"], tokenizer_of, text)


class Stubborn(Fast):
    """A tokenizer that puts BOS before every text, whatever it is told."""

    def __call__(self, text: Any, **options: Any) -> Any:
        return super().__call__(text, **{**options, "add_special_tokens": True})


def test_a_tokenizer_that_does_not_obey_is_named_as_what_doubles_a_beginning(
    backend: Callable[..., Tokenizer],
) -> None:
    made = Stubborn(tokenizer_object=backend(bos=True), bos_token="<s>", eos_token="</s>")
    said = r"the chat template writes <s>, and the tokenizer puts it before .* even with add_special_tokens=False"
    with pytest.warns(UserWarning, match=said):
        (chat,) = read(["Who?"], made, "{{ bos_token }}" + template("{{ m.content }}"))
    assert chat.ids.count(0) == 1


def test_a_chat_that_is_written_out_is_named(backend: Callable[..., Tokenizer]) -> None:
    made = Fast(tokenizer_object=backend(bos=True), bos_token="<s>", eos_token="</s>")
    said = r"1 of 2 prompts of given hold special tokens, which chat=True puts inside a turn; the first is prompt '1': "
    with pytest.warns(UserWarning, match=f"{said}<s>"):
        read(["Who?", "<s>[user]Who?"], made, template("{{ m.content }}"))
    # one that an answer holds is in no turn of the user's
    with pytest.warns(UserWarning, match=f"{said}</s>"):
        read(["Who?", {"text": "Who?", "answer": "Me</s>"}], made, template("{{ m.content }}"))


def test_texts_that_become_the_same_tokens_are_named() -> None:
    unknown = letter_tokenizer(8)
    with pytest.warns(UserWarning, match="All texts among the 2 prompts of given have the same token ids"):
        tokenize(resolve(["ШЩ", "ЮЯ"]), unknown, max_tokens=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tokenize(
            resolve([Prompt(text="ab ", answer="a"), Prompt(text="ab a", answer="a", id="x")]), unknown, max_tokens=None
        )


def test_markers_are_no_names_of_anything(tokenizer: Fast) -> None:
    (chat,) = read([Prompt(text="PlaceOfTheAnswer?", answer="Me")], tokenizer, template("{{ m.content }}"))
    assert re.search(r"PlaceOfTheAnswer\?<\|end\|>\n<\|assistant\|>\nMe$", tokenizer.decode(chat.ids))


def test_a_template_that_does_not_end_is_stopped(tokenizer: Fast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bathyscope.prompts.rendering._SECONDS", 0.1)
    endless = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}{{ messages[0].content }}"
    with pytest.raises(PromptError, match=r"chat template did not end within 0\.1 s; leave chat out"):
        read([Prompt("one two")], tokenizer, endless)


@pytest.mark.parametrize("is_apart", [False, True])
def test_a_template_has_seconds_inside_of_its_process_and_outside(
    tokenizer: Fast, is_apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float] = []

    def stop(limit: float) -> None:
        limits.append(limit)
        raise TimeoutError

    @contextmanager
    def stopped(limit: float) -> Iterator[None]:
        stop(limit)
        yield

    monkeypatch.setattr("bathyscope.prompts.rendering.can_be_apart", lambda: is_apart)
    if is_apart:
        monkeypatch.setattr("bathyscope.core.apart.Apart.__call__", lambda apart, request, limit: stop(limit))
    else:
        monkeypatch.setattr("bathyscope.prompts.rendering.deadline", stopped)
    with pytest.raises(PromptError, match=r"chat template did not end within 5 s; leave chat out"):
        read([Prompt("one two")], tokenizer, template("{{ m.content }}"))
    assert limits == [7.0 if is_apart else 5.0]


_TOWERS = (
    "{% set ns = namespace(a=[], b=[], s=(), t=()) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}"
    "{% set ns.b = [ns.b, ns.b] %}{% set ns.s = (ns.s, ns.s) %}{% set ns.t = (ns.t, ns.t) %}{% endfor %}"
)


@pytest.mark.skipif(not can_be_apart(), reason="one process alone")
@pytest.mark.parametrize(
    "wanted",
    [
        *("ns.a == ns.b", "ns.a in [ns.b]", "ns.s < ns.t", "{ns.s: 1}", "{}[ns.s]", "ns.a", "ns.a | tojson"),
        *("[ns.s, ns.t] | unique | list", "[ns.s, ns.t] | sort"),
        "('a' * 9000000).strip('bcdefghijk' * 900000 + 'a')",
        "['x' * 9000000] * 1000000 == ['x' * 9000000 ~ ''] * 1000000",
    ],
)
def test_one_step_that_nothing_stops_ends_with_its_process(
    tokenizer: Fast, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bathyscope.prompts.rendering._SECONDS", 0.1)
    monkeypatch.setattr("bathyscope.prompts.rendering._GRACE", 0.1)
    endless = _TOWERS + "{{ " + wanted + " }}" + template("{{ m.content }}")
    with pytest.raises(PromptError, match=r"chat template did not end within 0\.1 s; leave chat out"):
        read([Prompt("one two")], tokenizer, endless)


def test_a_reason_of_a_template_is_short_and_acts_on_no_terminal(tokenizer: Fast) -> None:
    loud = "{{ raise_exception('\x1b]0;mine\x07' ~ 'A' * 1000000) }}"
    with pytest.raises(PromptError, match=r"does not take it: \\x1b\]0;mine\\x07A+….$") as refusal:
        read([Prompt("one two")], tokenizer, loud)
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize(
    "wanted",
    [
        "9 ** (9 ** 9)",
        "(2 ** 9999) ** 9999",
        "'f' * 8000000000",
        "[0] * 8000000000",
        "8000000000 * messages",
        "(('f' * 9000000) | int(base=16)) // 7",
        "1.5 | round(10 ** 10, 'ceil')",
        "('a' * 9000000).rfind('b' + 'a' * 900000)",
    ],
)
def test_one_operation_of_a_template_is_bounded(tokenizer: Fast, wanted: str) -> None:
    for hidden in (wanted, f"x and ({wanted})"):
        computing = "{% set x = 1 %}{% set y = " + hidden + " %}" + template("{{ m.content }}")
        with pytest.raises(PromptError, match=r"chat template does not take it: it (computes|repeats|searches) "):
            read([Prompt("one two")], tokenizer, computing)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell what is mapped")
@pytest.mark.parametrize(
    "wanted",
    [
        "{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "{% for i in range(60) %}{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}{% endfor %}",
        "{{ 'a'.center(80000000000) }}",
        "{{ '{:80000000000}'.format('a') }}",
    ],
)
def test_a_template_takes_no_more_memory_than_chats_need(
    tokenizer: Fast, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bathyscope.prompts.rendering._MEMORY", 1 << 28)
    hungry = "{% set ns = namespace(x='aaaaaaaa') %}" + wanted + template("{{ m.content }}")
    with pytest.raises(PromptError, match="chat template asks for more than 256 MiB of memory; leave chat out"):
        read([Prompt("one two")], tokenizer, hungry)


@given(st.integers(-40, 40), st.integers(-40, 40), st.sampled_from(["+", "-", "*", "/", "//", "%", "**"]))
@settings(max_examples=40, deadline=None)
def test_what_a_template_computes_is_as_without_bounds(left: int, right: int, sign: str) -> None:
    expression = f"{{{{ ({left}) {sign} ({right}) }}}}"
    try:
        expected = ImmutableSandboxedEnvironment().from_string(expression).render()
    except ZeroDivisionError:
        with pytest.raises(ZeroDivisionError):
            bounded(ImmutableSandboxedEnvironment)().from_string(expression).render()
    else:
        assert bounded(ImmutableSandboxedEnvironment)().from_string(expression).render() == expected


def test_the_librarys_own_sandbox_is_as_it_was(tokenizer: Fast) -> None:
    read(["Who?"], tokenizer, template("{{ m.content }}"))
    assert transformers.utils.chat_template_utils.ImmutableSandboxedEnvironment is ImmutableSandboxedEnvironment


def test_a_template_that_writes_the_answer_twice_is_refused(tokenizer: Fast) -> None:
    twice = template("{{ m.content }}") + "again {{ messages[-1].content }}"
    with pytest.raises(PromptError, match="writes the answer twice"):
        read([Prompt("one two", answer="three")], tokenizer, twice)


@pytest.mark.parametrize("order", ["|reverse", "[1:] + messages[:1]"])
def test_a_template_that_writes_the_answer_before_the_question_is_refused(tokenizer: Fast, order: str) -> None:
    reversing = f"{{% for m in (messages{order}) %}}[{{{{ m.role }}}}]{{{{ m.content }}}}{{% endfor %}}"
    with pytest.raises(PromptError, match=r"the chat template writes the answer before the question"):
        read([Prompt("How many?", answer="seven")], tokenizer, reversing)
    # without an answer there is nothing to be read too early
    assert read(["How many?"], tokenizer, reversing)


def test_a_template_that_draws_what_it_writes_is_refused(tokenizer: Fast) -> None:
    drawing = "{{ ['a', 'b'] | random }}{% for m in messages %}{{ m.content }}{% endfor %}"
    for prompt in ("Who?", Prompt("Who?", answer="Ada")):
        with pytest.raises(PromptError, match=r"writes another text each time that it is asked \(random\)"):
            read([prompt], tokenizer, drawing)
    # where nothing of what is drawn is written, it is as good as another
    quiet = "{% if tools %}{{ ['a', 'b'] | random }}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}"
    assert read(["Who?"], tokenizer, quiet)


def test_an_answer_alone_is_no_chat(tokenizer: Fast) -> None:
    with pytest.raises(PromptError, match="its text is the answer alone"):
        read([Prompt("three", answer="three")], tokenizer, template("{{ m.content }}"))


CONDITIONS = {
    "longer than": "m.content | length > {n}",
    "more words than": "m.content.split() | length > {n}",
    "not of": "m.content | length != {n}",
}


@given(
    question=st.text("abct ", min_size=1, max_size=9),
    condition=st.sampled_from(sorted(CONDITIONS)),
    n=st.integers(0, 9),
)
@settings(max_examples=100, deadline=None)
def test_a_text_that_stands_only_in_the_ending_of_the_template_is_lost(
    tokenizer: Fast, question: str, condition: str, n: int
) -> None:
    question = question.strip() or "cat"
    asked = CONDITIONS[condition].replace("{n}", str(n))
    ending = f"and then {question} sat {question}"
    written = f"{{% if m.role != 'user' or {asked} %}}{{{{ m.content }}}}{{% endif %}}"
    tokenizer.chat_template = f"{{% for m in messages %}}[{{{{ m.role }}}}]{written}{{% endfor %}}{ending}"
    sizes = {
        "longer than": len(question) > n,
        "more words than": len(question.split()) > n,
        "not of": len(question) != n,
    }
    by_marker = {"longer than": True, "more words than": n < 1, "not of": True}
    if by_marker[condition] and sizes[condition]:
        assert ChatTemplate(tokenizer).write(question, None).question == f"[user]{question}{ending}"
        return
    with pytest.raises(PromptError, match="the chat template does not write the user's text"):
        ChatTemplate(tokenizer).write(question, None)


def test_what_stands_around_a_text_may_depend_on_it(tokenizer: Fast) -> None:
    short = (
        "{% if m.content | length < 9 %}Short: {% endif %}{{ m.content }}{% if 'cat' in m.content %} (cat){% endif %}"
    )
    tokenizer.chat_template = template(short)
    for question, rendered in {
        "cat": "Short: cat (cat)",
        "Short": "Short: Short",
        "a longer text": "a longer text",
    }.items():
        turns = ChatTemplate(tokenizer).write(question, "Me")
        assert turns.question == f"<|user|>\n{rendered}<|end|>\n<|assistant|>\n"


@pytest.mark.parametrize(
    "chat_template",
    [
        "{% if tools and strftime_now is defined %}{{ strftime_now('%d') }}{% endif %}" + template("{{ m.content }}"),
        {"default": template("{{ m.content }}"), "tool_use": "{{ strftime_now('%d') }}"},
        "{# strftime_now #}" + template("{{ m.content }}"),
    ],
)
def test_a_template_that_does_not_ask_for_the_date_is_nothing_to_say(tokenizer: Fast, chat_template: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (chat,) = read(["Who?"], tokenizer, chat_template)
    assert tokenizer.decode(chat.ids) == "<|user|>\nWho?<|end|>\n<|assistant|>\n"


def test_a_template_that_asks_for_the_date_of_some_texts_alone_is_named(tokenizer: Fast) -> None:
    dated = template("{{ m.content }}{% if 'day' in m.content %} ({{ strftime_now('%A') }}){% endif %}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(["Who?"], tokenizer, dated)
    with pytest.warns(UserWarning, match="asks for the day's date"):
        chats = read(["Who?", "Which day?"], tokenizer, dated)
    assert "Which day? (Friday)" in tokenizer.decode(chats[1].ids)


@pytest.mark.parametrize("mark", ["%Q", "%5d", "%", "%:z", "%--d", "100 %%%"])
def test_formats_of_the_clock_that_c_does_not_have_are_refused(tokenizer: Fast, mark: str) -> None:
    named = re.escape(
        f"asks for the date by {mark}, and %{mark.rpartition('%')[2][:1]} is no format of C; leave chat out."
    )
    with pytest.raises(PromptError, match=named):
        read(["Who?"], tokenizer, f"{{{{ strftime_now('{mark}') }}}}" + template("{{ m.content }}"))


@pytest.mark.parametrize("step", ["ljust(99999999)", "center(99999999)"])
def test_a_template_writes_no_more_than_a_prompt_may_have(tokenizer: Fast, step: str) -> None:
    """A gigabyte was passed on and looked through for minutes."""
    long = "{{ messages[0].content." + step + " }}"
    with pytest.raises(PromptError, match=r"writes more than 33,554,432 letters|asks for more than 512 MiB of memory"):
        read([Prompt("one two")], tokenizer, long)


def test_a_chat_of_thousands_of_turns_is_refused(tokenizer: Fast) -> None:
    turns = [{"role": role, "content": "one"} for role in ("user", "assistant")] * 1001
    with pytest.raises(PromptError, match=r"it is a chat of 2,002 turns, and at most 2,000 are written; give a part"):
        read([Prompt(messages=turns)], tokenizer, template("{{ m.content }}"))


def test_several_templates_without_one_for_chats_are_refused(tokenizer: Fast) -> None:
    """The library's own error was raised, with the names as they were."""
    with pytest.raises(PromptError, match=r"has no chat template for chats .*; leave chat out") as caught:
        read([Prompt("one two")], tokenizer, {"rag\x1b[31m": template("{{ m.content }}")})  # type: ignore[arg-type]
    assert "\x1b" not in str(caught.value)


SWITCH = template(
    "{{ m.content }}", opening="<|assistant|>\n{% if thinks %}<think>\n{% endif %}{% if tone %}{% endif %}"
)
"""A template with an option that is read where the assistant's turn is begun, and one that writes nothing."""


def read_with(options: dict[str, Any], prompts: list[Any], tokenizer: Fast) -> list[TokenizedPrompt]:
    tokenizer.chat_template = SWITCH
    return tokenize(resolve(prompts), tokenizer, max_tokens=None, chat=options)


ANSWERED = [Prompt(text="Who?", answer="Me"), Prompt(text="What?", answer="That")]


@pytest.mark.parametrize(
    ("options", "prompts", "idle"),
    [
        ({"thinks": True}, ANSWERED, "thinks"),
        ({"thinks": True, "tone": "low"}, ["Who?"], "tone"),
        ({"thinks": False}, ["Who?"], "thinks"),
    ],
)
def test_an_option_of_the_template_that_changes_nothing_is_said_to(
    tokenizer: Fast, options: dict[str, Any], prompts: list[Any], idle: str
) -> None:
    chats_text = "2 chats" if prompts is ANSWERED else "1 chat"
    words = (
        f"The option '{idle}' of the chat template changes nothing in {chats_text} of given, which would be the same"
    )
    with pytest.warns(UserWarning, match=words) as caught:
        chats = read_with(options, prompts, tokenizer)
    assert len(caught) == 1
    is_answered = "read it only where the assistant's turn is begun" in str(caught[0].message)
    assert is_answered == (prompts is ANSWERED)
    without = {name: value for name, value in options.items() if name != idle}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [chat.ids for chat in read_with(without, prompts, tokenizer)] == [chat.ids for chat in chats]


def test_an_option_that_changes_some_prompts_is_nothing_to_say(tokenizer: Fast) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_with({"thinks": True}, [*ANSWERED, "Who?"], tokenizer)


def test_an_option_without_which_the_template_refuses_is_nothing_to_say(tokenizer: Fast) -> None:
    tokenizer.chat_template = "{% if not tone %}{{ raise_exception('a tone') }}{% endif %}" + template(
        "{{ m.content }}"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tokenize(resolve(["Who?"]), tokenizer, max_tokens=None, chat={"tone": "low"})


def test_a_template_that_is_no_template_is_said_to_be_none(tokenizer: Fast) -> None:
    with pytest.raises(
        PromptError, match=r"Prompt '0': the tokenizer's chat template is no valid one \(unexpected '}'"
    ):
        read(["Who?"], tokenizer, "{% for m in messages %}{{ m.content }{% endfor %}")

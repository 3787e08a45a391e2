"""Chats as files of other tools hold them: recognised by their keys, and read as turns of a chat."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import pytest
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from bathyscope.errors import PromptError
from bathyscope.prompts.prompt import Prompt
from bathyscope.prompts.prompt_rows import prompt_lines, read_prompts
from bathyscope.prompts.source import require_there, resolve
from bathyscope.prompts.tokenize import tokenize

SYSTEM = {"role": "system", "content": "Be brief."}
TURNS = [
    {"role": "user", "content": "Two and two?"},
    {"role": "assistant", "content": "Four."},
    {"role": "user", "content": "And one?"},
    {"role": "assistant", "content": "Five."},
]
SPEAKERS = {"system": "system", "user": "human", "assistant": "gpt"}
OPENING = "{% if add_generation_prompt %}<assistant>{% endif %}"
TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}" + OPENING
RENDERED = "<system>Be brief.</><user>Two and two?</><assistant>Four.</><user>And one?</><assistant>"


def sharegpt(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"from": SPEAKERS[turn["role"]], "value": turn["content"]} for turn in turns]


ROWS: dict[str, dict[str, Any]] = {
    "openai": {"messages": [SYSTEM, *TURNS]},
    "tools": {"messages": [SYSTEM, *TURNS], "tools": []},
    "system apart": {"system": "Be brief.", "messages": TURNS},
    "sharegpt": {"id": "a-1", "conversations": sharegpt([SYSTEM, *TURNS])},
    "axolotl": {"conversations": [SYSTEM, *TURNS]},
    "llama-factory": {"system": "Be brief.", "conversations": sharegpt(TURNS), "tools": ""},
    "alpaca": {
        "instruction": "And one?",
        "input": "",
        "output": "Five.",
        "system": "Be brief.",
        "history": [["Two and two?", "Four."]],
    },
    "trl": {"prompt": [SYSTEM, *TURNS[:3]], "completion": TURNS[3:]},
    "parts": {
        "messages": [{**turn, "content": [{"type": "text", "text": turn["content"]}]} for turn in [SYSTEM, *TURNS]]
    },
}
OPEN: dict[str, dict[str, Any]] = {
    "batch": {
        "custom_id": "q-7",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": "m", "temperature": 0, "messages": [SYSTEM, *TURNS[:3]]},
    },
    "responses": {"custom_id": "q-7", "body": {"instructions": "Be brief.", "input": TURNS[:3]}},
}


@pytest.fixture(scope="module")
def tokenizer(backend: Callable[..., Tokenizer]) -> PreTrainedTokenizerFast:
    bytewise = PreTrainedTokenizerFast(tokenizer_object=backend(special=()))
    bytewise.chat_template = TEMPLATE
    return bytewise


@pytest.mark.parametrize("kind", sorted(ROWS))
def test_the_last_turn_of_the_assistant_is_the_answer(
    kind: str, tokenizer: PreTrainedTokenizerFast, write_jsonl: Callable[..., str]
) -> None:
    (prompt,) = tokenize(resolve(write_jsonl(ROWS[kind])), tokenizer, max_tokens=None, chat=True)
    assert prompt.answer_tokens is not None
    assert tokenizer.decode(prompt.ids[: -prompt.answer_tokens]) == RENDERED
    assert tokenizer.decode(prompt.ids[-prompt.answer_tokens :]) == "Five."
    assert prompt.labels == {}
    assert prompt.id == ROWS[kind].get("id", "0")


@pytest.mark.parametrize("kind", sorted(OPEN))
def test_a_request_of_a_batch_begins_the_assistants_turn(
    kind: str, tokenizer: PreTrainedTokenizerFast, write_jsonl: Callable[..., str]
) -> None:
    (prompt,) = tokenize(resolve(write_jsonl(OPEN[kind])), tokenizer, max_tokens=None, chat=True)
    assert (prompt.id, prompt.answer_tokens, dict(prompt.labels)) == ("q-7", None, {})
    assert tokenizer.decode(prompt.ids) == RENDERED


def test_prompt_and_completion_are_one_text_or_two_turns(
    tokenizer: PreTrainedTokenizerFast, write_jsonl: Callable[..., str]
) -> None:
    # the prompt ends in what is also the answer: the answer is the second one
    path = write_jsonl({"prompt": "Say it: yes", "completion": " yes", "level": 2})
    (plain,) = tokenize(resolve(path), tokenizer, max_tokens=None)
    (chat,) = tokenize(resolve(path), tokenizer, max_tokens=None, chat=True)
    assert None not in (plain.answer_tokens, chat.answer_tokens)
    assert tokenizer.decode(plain.ids) == "Say it: yes yes"
    assert tokenizer.decode(plain.ids[-(plain.answer_tokens or 0) :]) == " yes"
    assert tokenizer.decode(chat.ids) == "<user>Say it: yes</><assistant>yes"
    assert tokenizer.decode(chat.ids[-(chat.answer_tokens or 0) :]) == "yes"
    assert plain.labels == chat.labels == {"level": 2}


def test_alpaca_puts_its_input_behind_the_instruction(
    tokenizer: PreTrainedTokenizerFast, write_jsonl: Callable[..., str]
) -> None:
    path = write_jsonl({"instruction": "Add them.", "input": "2, 3", "output": "5"})
    (prompt,) = tokenize(resolve(path), tokenizer, max_tokens=None, chat=True)
    assert tokenizer.decode(prompt.ids) == "<user>Add them.\n2, 3</><assistant>5"


@pytest.mark.parametrize("kind", sorted(ROWS | OPEN))
def test_a_chat_without_chat_is_refused_with_the_flag(
    kind: str, tokenizer: PreTrainedTokenizerFast, write_jsonl: Callable[..., str]
) -> None:
    with pytest.raises(PromptError, match=r"Prompt '.*': it is a chat of \d turns, .* give chat=True \(--chat\)\."):
        tokenize(resolve(write_jsonl((ROWS | OPEN)[kind])), tokenizer, max_tokens=None)


def test_several_parts_are_given_as_parts(tokenizer: PreTrainedTokenizerFast) -> None:
    parts = [{"type": "text", "text": "One"}, {"type": "text", "text": "Two"}]
    prompts = resolve([Prompt(messages=[{"role": "user", "content": parts}])])
    listing = "{% for m in messages %}{% for p in m.content %}[{{ p.text }}]{% endfor %}{% endfor %}"
    either = (
        "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
        "{% for p in m.content %}[{{ p.text }}]{% endfor %}{% endif %}{% endfor %}"
    )
    for template in (listing, either):
        tokenizer.chat_template = template
        (prompt,) = tokenize(prompts, tokenizer, max_tokens=None, chat=True)
        assert tokenizer.decode(prompt.ids) == "[One][Two]"
    tokenizer.chat_template = TEMPLATE
    with pytest.warns(UserWarning, match="takes texts alone, so that parts stand on lines of their own"):
        (prompt,) = tokenize(prompts, tokenizer, max_tokens=None, chat=True)
    assert tokenizer.decode(prompt.ids) == "<user>One\nTwo</><assistant>"


def test_white_space_between_parts_stays(tokenizer: PreTrainedTokenizerFast) -> None:
    """A template may write parts one behind the other, and the form does not depend on which prompt comes first."""
    parts = [{"type": "text", "text": text} for text in (" One ", "and", " two ")]
    joining = "{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}{% else %}"
    joining += "{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}</>{% endfor %}" + OPENING
    tokenizer.chat_template = joining
    asked = Prompt(messages=[{"role": "user", "content": parts}, TURNS[1]])
    answered = Prompt(messages=[TURNS[0], {"role": "assistant", "content": parts}])
    for order in ([asked, answered], [answered, asked]):
        with pytest.warns(UserWarning, match="In 1 of 2 prompts of given the answer has several parts, which stand on"):
            prompts = tokenize(resolve(order), tokenizer, max_tokens=None, chat=True)
        texts = [tokenizer.decode(prompt.ids) for prompt in prompts]
        assert sorted(texts) == [
            "<user>One and two</><assistant>Four.",
            "<user>Two and two?</><assistant>One \nand\n two",
        ]
    tokenizer.chat_template = TEMPLATE


THINKING = (
    "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{{ m.content.split('</think>')[-1] | trim }}"
    "{% else %}{{ m.content }}{% endif %}</>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)


def test_earlier_thinking_that_a_template_leaves_out_is_said(tokenizer: PreTrainedTokenizerFast) -> None:
    turns = [TURNS[0], {"role": "assistant", "content": "<think>Hm.</think>\n\nFour."}, TURNS[2]]
    tokenizer.chat_template = THINKING
    with pytest.warns(UserWarning, match="leaves out the thinking of earlier answers; the first is prompt '0'"):
        (prompt,) = tokenize(resolve([Prompt(messages=turns)]), tokenizer, max_tokens=None, chat=True)
    assert tokenizer.decode(prompt.ids) == "<user>Two and two?</><assistant>Four.</><user>And one?</><assistant>"
    # an answer that is lost with its thinking is no thinking
    tokenizer.chat_template = THINKING.replace("[-1] | trim", "[0]")
    with pytest.raises(PromptError, match="does not write the assistant's text '<think>Hm"):
        tokenize(resolve([Prompt(messages=turns)]), tokenizer, max_tokens=None, chat=True)
    tokenizer.chat_template = TEMPLATE


@pytest.mark.parametrize(
    ("condition", "role"), [("m.role == 'system'", "system"), ("loop.first", "user"), ("loop.index == 2", "assistant")]
)
def test_a_turn_that_the_template_loses_is_named(tokenizer: PreTrainedTokenizerFast, condition: str, role: str) -> None:
    lossy = f"{{% if not {condition} %}}{{{{ m.content }}}}{{% endif %}}"
    tokenizer.chat_template = TEMPLATE.replace("{{ m.content }}", lossy)
    turns = [SYSTEM, *TURNS] if role == "system" else TURNS
    with pytest.raises(PromptError, match=f"Prompt '0': the chat template does not write the {role}'s text"):
        tokenize(resolve([Prompt(messages=turns)]), tokenizer, max_tokens=None, chat=True)
    tokenizer.chat_template = TEMPLATE


def test_a_system_turn_behind_the_answer_is_refused(tokenizer: PreTrainedTokenizerFast) -> None:
    tokenizer.chat_template = TEMPLATE.replace("in messages", "in messages[1:] + messages[:1]")
    with pytest.raises(PromptError, match="writes the answer before a turn of the system"):
        tokenize(resolve([Prompt(messages=[SYSTEM, *TURNS])]), tokenizer, max_tokens=None, chat=True)
    tokenizer.chat_template = TEMPLATE


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"messages": "Hello"}, r"messages= must be a list of turns, \[\{.role.*not 'Hello'"),
        ({"messages": []}, "it has no turns; a chat ends with a turn of the user"),
        ({"messages": [SYSTEM]}, "its last turn is the system's; a chat ends"),
        ({"messages": TURNS[1:2]}, "its only turn is the assistant's, and nothing stands before that answer"),
        ({"messages": [{"role": "human", "content": "a"}]}, "turn 1 has the role 'human'; allowed: system, developer"),
        ({"messages": [{"speaker": "user", "text": "a"}]}, "turn 1 has no 'role'; its keys: 'speaker', 'text'. Rename"),
        ({"messages": [{"role": "user", "content": None}]}, r"turn 1 \(user\): content must be a text or a list"),
        ({"messages": [{"role": "user", "content": " "}]}, r"turn 1 \(user\) is empty; give its text"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
            r"turn 1 \(user\) holds a part of type 'image_url'; only text is measured",
        ),
        ({"messages": [{**TURNS[1], "tool_calls": [{}]}]}, "turn 1 has 'tool_calls', and chats with tools are not"),
        ({"messages": TURNS, "tools": [{"name": "f"}]}, "it has 'tools', and chats with tools are not read"),
        ({"conversations": [{"from": "gorilla", "value": "a"}]}, "turn 1 is from 'gorilla'; allowed: human, user"),
        (
            {"conversations": [{"from": "human", "text": "a"}]},
            "turn 1 has no 'value'; its keys: 'from', 'text'. Rename",
        ),
        ({"instruction": "Add.", "output": 5}, "'output' must be a text, not 5"),
        ({"instruction": "Add.", "output": "5", "history": [["a"]]}, "entry 1 of 'history' must be a question and"),
        ({"prompt": "a", "completion": TURNS[1:2]}, "'prompt' and 'completion' must both be texts, or both lists"),
        ({"custom_id": "1", "body": {"model": "m"}}, "'body' has no 'messages'; its keys: 'model'"),
        ({"custom_id": "1", "response": {}}, "it is a result of a batch, .* give the file of its requests"),
        ({"dialogue": TURNS}, "neither given. Rename 'dialogue' to 'messages'."),
        (
            {"instruction": "Add.", "response": "5"},
            "Rename 'instruction' to 'text' and 'response' to 'answer', or",
        ),
    ],
)
def test_a_chat_of_another_form_is_refused_with_its_place(
    write_jsonl: Callable[..., str], row: dict[str, Any], message: str
) -> None:
    path = write_jsonl({"text": "fine"}, row)
    with pytest.raises(PromptError, match=rf"rows\.jsonl, prompt 2: .*{message}"):
        require_there(path)


def test_keys_of_turns_that_are_not_read_are_said_once(write_jsonl: Callable[..., str]) -> None:
    thinking = {"messages": [TURNS[0], {**TURNS[1], "reasoning_content": "Hm.", "weight": 1}]}
    said = r"rows\.jsonl: 'reasoning_content', 'weight' of turns of chats are left aside; only role and content"
    with pytest.warns(UserWarning, match=said) as caught:
        read_prompts(write_jsonl(thinking, thinking))
    assert len(caught) == 1
    with pytest.warns(UserWarning, match="'weight' of turns of chats are left aside"):
        Prompt(messages=[{"role": "user", "content": "a", "weight": 0}])


def test_a_text_among_the_keys_of_a_chat_is_what_is_measured_and_that_is_said(write_jsonl: Callable[..., str]) -> None:
    row = {"instruction": "Add.", "input": "", "output": "5", "text": "Below is an instruction. Add. 5"}
    with pytest.warns(UserWarning, match=r"rows\.jsonl: .text. is measured, and not the alpaca chat .* remove 'text'"):
        (prompt,) = read_prompts(write_jsonl(row))
    assert (prompt.text, prompt.messages) == (row["text"], None)


def test_chats_are_written_and_read_back(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "One"}, {"type": "text", "text": "Two"}]
    prompts = (
        Prompt(messages=[SYSTEM, *TURNS], labels={"level": 1}, id="a"),
        Prompt(messages=[{"role": "user", "content": parts}]),
        Prompt("text"),
    )
    (tmp_path / "back.jsonl").write_text(prompt_lines(prompts), encoding="utf-8")
    assert read_prompts(str(tmp_path / "back.jsonl")) == prompts
    assert json.loads(prompt_lines(prompts[1:2])) == {"messages": [{"role": "user", "content": parts}]}


@pytest.mark.parametrize("other", [{"text": "a"}, {"ids": [1, 2]}, {"answer": "a"}, {"answer_tokens": 1}])
def test_a_chat_is_nothing_else_besides(other: dict[str, Any]) -> None:
    with pytest.raises(PromptError, match=rf"messages= and {next(iter(other))}= do not go together: a chat is all"):
        Prompt(messages=TURNS, **other)


def write_as_tool(rows: list[dict[str, Any]], folder: Path, tool: str) -> Path:
    """Rows as a file of somebody else's tool."""
    if tool == "datasets jsonl":
        datasets.Dataset.from_list(rows).to_json(folder / "a.jsonl", force_ascii=False)
    elif tool == "datasets json":
        datasets.Dataset.from_list(rows).to_json(folder / "a.json")
    elif tool == "datasets parquet":
        datasets.Dataset.from_list(rows).to_parquet(folder / "a.parquet")
    elif tool == "pandas json":
        pd.DataFrame(rows).to_json(folder / "a.json", orient="records", indent=2)
    elif tool == "pandas jsonl":
        pd.DataFrame(rows).to_json(folder / "a.JSONL.gz", orient="records", lines=True, compression="gzip")
    elif tool == "pandas parquet":
        pd.DataFrame(rows).to_parquet(folder / "A.PARQUET")
    elif tool == "json":
        (folder / "a.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    else:
        pd.DataFrame(rows).to_csv(folder / "a.csv", index=False)
    (path,) = folder.iterdir()
    return path


TOOLS = ["datasets jsonl", "datasets json", "datasets parquet", "pandas json", "pandas jsonl", "pandas parquet", "json"]


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("kind", ["openai", "sharegpt", "alpaca", "trl", "parts"])
def test_files_of_other_tools_are_read(
    kind: str, tool: str, tmp_path: Path, tokenizer: PreTrainedTokenizerFast
) -> None:
    rows = [ROWS[kind], {key: value for key, value in ROWS[kind].items() if key != "id"}]
    source = f"{write_as_tool(rows, tmp_path, tool)}:2"
    require_there(source)
    prompts = tokenize(resolve(source), tokenizer, max_tokens=None, chat=True)
    assert [tokenizer.decode(prompt.ids) for prompt in prompts] == [f"{RENDERED}Five."] * 2


def test_a_table_of_texts_needs_no_columns_where_they_are_alpacas(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast
) -> None:
    rows = [{"instruction": "Add.", "input": "2, 3", "output": "five"}, {"instruction": "One?", "output": "Two"}]
    source = str(write_as_tool(rows, tmp_path, "csv"))
    prompts = tokenize(resolve(source), tokenizer, max_tokens=None, chat=True)
    assert [tokenizer.decode(prompt.ids) for prompt in prompts] == [
        "<user>Add.\n2, 3</><assistant>five",
        "<user>One?</><assistant>Two",
    ]
    with pytest.raises(PromptError, match="has 2 rows and 5 were asked for"):
        resolve(f"{source}:5")


def test_chats_of_the_hub_are_read_without_columns(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    (tmp_path / "made" / "data").mkdir(parents=True)
    row = json.dumps(ROWS["openai"])
    (tmp_path / "made" / "data" / "test-00000.jsonl").write_text(f"{row}\n{row}\n")
    prompts = resolve(f"hf:{tmp_path / 'made'}:1?split=test")
    (prompt,) = tokenize(prompts, tokenizer, max_tokens=None, chat=True)
    assert tokenizer.decode(prompt.ids) == f"{RENDERED}Five."
    (tmp_path / "made" / "data" / "test-00000.jsonl").write_text('{"question": "Who?"}\n')
    with pytest.raises(PromptError, match=r"text= is missing; write which split, and which column the text is in"):
        resolve(f"hf:{tmp_path / 'made'}?split=test")


def test_a_list_in_a_json_file_holds_objects(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"text": "a"}, 5]')
    with pytest.raises(PromptError, match=r"a\.json, entry 2: a JSON object is needed, not int"):
        resolve(str(tmp_path / "a.json"))
    (tmp_path / "a.json").write_text('[{"text": "a"},\n {"text" 5}]')
    with pytest.raises(PromptError, match=r"a\.json, line 2, character 10: not JSON"):
        resolve(str(tmp_path / "a.json"))

"""How prompts are read: the flags of every command that takes prompts, from one definition."""

from __future__ import annotations

import inspect
import json
import shlex
import shutil
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.stored import write_states
from transformers import AutoModelForCausalLM, AutoTokenizer

import bathyscope
from bathyscope.cli import main
from bathyscope.cli.contents import every_command
from bathyscope.errors import PromptError, StoreError
from bathyscope.pages.comparison.next_step import _survey
from bathyscope.pages.head.answer import _Choice, _suggest_command, answer
from bathyscope.prompts.reading import recorded_reading

TEMPLATE = (
    "{% if enable_thinking is defined and not enable_thinking %}hills {% endif %}"
    "{% for m in messages %}at {{ m.content }} where {% endfor %}"
)
FLAGS = ("--no-add-special-tokens", "--chat.enable_thinking", "false")
TEXTS = ("the old house", "a light was seen", "the village stood at the road", "in the hills it was")
NO_PROMPTS = frozenset(
    {
        *("demo", "show", "report", "push", "export", "check", "probe", "reproduce", "evaluate", "compare"),
        # surveys of a recipe, whose keys are those of a call
        *("survey grid", "survey join", "show names", "report plot"),
        *("compare group", "compare written", "compare depth-performance"),
    }
)
"""Commands whose prompts are those of a run, a paper or a task, or that take none."""


@pytest.fixture(scope="module")
def chat_folder(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model, with a chat template that has an option."""
    folder = tmp_path_factory.mktemp("models") / "chat"
    shutil.copytree(model_folder, folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("prompts")
    for name in ("a", "b"):
        rows = [{"text": f"{text} {name}", "answer": name} for text in TEXTS]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return {name: str(folder / f"{name}.jsonl") for name in ("a", "b")}


def arguments(words: tuple[str, ...], model: str, files: dict[str, str], out: Path) -> list[str]:
    prompts = ["--prompts", files["a"]]
    both = ["--calibration", files["a"], "--test", files["b"]]
    models = (
        [model, model] if words in [("diff",), ("diff", "cka"), ("diff", "maps"), ("compare", "solved-by")] else [model]
    )
    own: dict[tuple[str, ...], list[str]] = {
        ("survey",): [*prompts, "--measures", "lens", "--out", str(out / "run")],
        ("course",): [*prompts, "--out", str(out / "course")],
        ("fit-lens",): [*prompts, "--out", str(out / "lens.safetensors")],
        ("prune",): [*both, "--drop", "1"],
        ("repair",): [*both, "--schedule", "drop:1", "--out", str(out / "repaired")],
        ("compare", "solved-by"): [*prompts, "--out", str(out / "labelled.jsonl")],
    }
    quiet = [] if words == ("estimate",) else ["--quiet"]
    return [*words, *models, *own.get(words, prompts), *quiet]


def takes_prompts() -> list[tuple[str, ...]]:
    return [words for words in every_command() if " ".join(words) not in NO_PROMPTS]


def test_every_command_with_prompts_has_the_flags() -> None:
    def flags(words: tuple[str, ...]) -> set[str]:
        app = import_module(f"bathyscope.cli.commands.{words[-1].replace('-', '_')}").app
        return set(inspect.signature(app.default_command).parameters)

    reading = {"chat", "add_special_tokens", "beyond_context"}
    for words in every_command():
        has = flags(words)
        assert (reading <= has) == (words in takes_prompts()), words


@pytest.mark.parametrize("words", takes_prompts(), ids=" ".join)
def test_the_flags_come_to_where_prompts_are_read(
    words: tuple[str, ...],
    chat_folder: Path,
    files: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    calls: list[dict[str, Any]] = []

    def reads(model: object, prompts: object, **options: Any) -> None:
        calls.append(options)
        raise PromptError("read")

    monkeypatch.setattr("bathyscope.model.reading.tokenized", reads)
    folder = chat_folder
    if words == ("course",):
        folder = tmp_path / "training" / "checkpoint-5"
        shutil.copytree(chat_folder, folder)
        folder = folder.parent
    typed = arguments(words, str(folder), files, tmp_path)
    assert main([*typed, *FLAGS]) == PromptError.exit_code
    assert main([*typed, "--chat", "--beyond-context"]) == PromptError.exit_code
    assert main(typed) == PromptError.exit_code
    capsys.readouterr()
    told = [(call["chat"], call["add_special_tokens"], call["beyond_context"]) for call in calls]
    assert told == [({"enable_thinking": False}, False, None), (True, True, True), (False, True, None)]


def test_an_option_of_the_template_changes_the_tokens(
    chat_folder: Path, files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {}
    for number, flags in enumerate([["--chat"], ["--chat.enable_thinking", "false"], ["--chat.enable_thinking=true"]]):
        out = tmp_path / str(number)
        typed = ["survey", str(chat_folder), "--prompts", f"{files['a']}:1", "--measures", "residual", "--quiet"]
        assert main([*typed, "--out", str(out), *flags]) == 0, capsys.readouterr().err
        run = bathyscope.open(out)
        texts[flags[-1]] = " ".join(piece.strip() for piece in run.prompts.pieces(0))
    capsys.readouterr()
    assert texts == {
        "--chat": "at the old house where at a",
        "false": "hills at the old house where at a",
        "--chat.enable_thinking=true": "at the old house where at a",
    }


def test_a_repair_of_a_plan_reads_its_prompts_as_the_plan_did(
    chat_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, texts in (("calibration", TEXTS), ("test", [f"{text} and the hills" for text in TEXTS])):
        rows = [{"messages": [{"role": "user", "content": text}]} for text in texts]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    sources = [f"--{name}={tmp_path / name}.jsonl" for name in ("calibration", "test")]
    out = str(tmp_path / "plan")
    typed = ["prune", str(chat_folder), *sources, "--drop", "2", "--out", out, "--resamples", "100", "--quiet"]
    assert main([*typed, "--chat.enable_thinking", "false"]) == 0, capsys.readouterr().err
    calls: list[dict[str, Any]] = []

    def reads(model: object, prompts: object, **options: Any) -> None:
        calls.append(options)
        raise PromptError("read")

    monkeypatch.setattr("bathyscope.model.reading.tokenized", reads)
    assert main(["repair", out, "--out", str(tmp_path / "repaired"), "--quiet"]) == PromptError.exit_code
    assert main(["repair", out, "--out", str(tmp_path / "repaired"), "--quiet", "--chat"]) == PromptError.exit_code
    capsys.readouterr()
    assert [call["chat"] for call in calls] == [{"enable_thinking": False}, True]


@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--chat"],
        ["--no-add-special-tokens"],
        list(FLAGS),
        ["--chat.enable_thinking", "true"],
        ["--chat.enable_thinking", '"no & yes"'],
        ["--chat.enable_thinking", '"3"'],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("command", ["missing", "prune", "compare", "of its prompts"])
def test_the_next_command_of_a_page_reads_the_same_tokens(
    command: str,
    flags: list[str],
    chat_folder: Path,
    files: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What a page recommends is run as it is printed, and the tokens that it reads are those of the run."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(chat_folder, "chat")
    Path("a.jsonl").write_text(Path(files["a"]).read_text(encoding="utf-8"), encoding="utf-8")
    typed = ["survey", "chat", "--prompts", "a.jsonl", "--measures", "lens,skip", "--out", "run", "--quiet"]
    assert main([*typed, *flags]) == 0, capsys.readouterr().err
    run = bathyscope.open("run")
    if command == "missing":
        printed = answer(run).command
    elif command == "prune":
        printed = _suggest_command(run, _Choice("one", blocks=(1,), measured=2))[1].replace("--test OTHERS.jsonl", "")
        printed = printed.replace("prune", "survey").replace("--calibration", "--prompts").partition(" --drop")[0]
    elif command == "compare":
        printed = _survey(run)
    else:
        # another survey of what the run gives back knows how it was read, too
        bathyscope.survey(bathyscope.load("chat"), run.prompts, "lens", out="copy", progress=False)
        printed = _survey(bathyscope.open("copy"))
    words = shlex.split(printed)
    assert words[:3] == ["bathyscope", "survey", "chat"]
    words = [*words[1:], "--measures", "residual"] if "--measures" not in words else words[1:]
    words[words.index("--measures") + 1] = "residual"
    words = words[: words.index("--out")] if "--out" in words else words
    assert main([*words, "--out", "again", "--quiet"]) == 0, capsys.readouterr().err
    assert bathyscope.open("again").identity.prompt_hash == run.identity.prompt_hash
    assert run.prompts.reading == bathyscope.open("again").prompts.reading


def test_a_run_without_text_records_no_text_of_a_template_option(
    chat_folder: Path, files: dict[str, str], tmp_path: Path
) -> None:
    out, chat = tmp_path / "run", {"enable_thinking": "a secret"}
    model = bathyscope.load(str(chat_folder))
    bathyscope.survey(model, files["a"], "residual", out=out, chat=chat, keep_text=False, progress=False)
    assert "a secret" not in (out / "manifest.json").read_text(encoding="utf-8")
    assert bathyscope.open(out).prompts.reading == {"add_special_tokens": True, "chat": {"enable_thinking": "TEXT"}}


@pytest.mark.parametrize(
    "record",
    ["chat", 3, [], {"chat": True}, {"add_special_tokens": 1, "chat": True}, {"add_special_tokens": True, "chat": "x"}],
    ids=repr,
)
def test_a_record_of_another_kind_is_refused(record: object) -> None:
    with pytest.raises(StoreError, match="says that its prompts were read by"):
        recorded_reading(record)
    assert recorded_reading(None) == recorded_reading({}) == {}


def test_the_same_command_resumes_a_day_later(
    model_folder: Path,
    files: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The template writes the day's date, and a run belongs to the tokens that it was begun with."""
    folder, out = tmp_path / "dated", tmp_path / "run"
    shutil.copytree(model_folder, folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = "{% if strftime_now('%d') == '04' %}hills {% else %}road {% endif %}" + TEMPLATE
    tokenizer.save_pretrained(folder)
    typed = ["survey", str(folder), "--prompts", files["a"], "--measures", "residual", "--out", str(out), "--chat"]
    written = []
    for day in (3, 4):
        clock = SimpleNamespace(now=lambda *_, day=day: datetime(2031, 5, day, tzinfo=UTC))
        monkeypatch.setattr("transformers.utils.chat_template_utils.datetime", clock)
        assert main(typed) == 0
        assert "asks for the day's date, which is taken to be 26 Jul 2024" in " ".join(capsys.readouterr().err.split())
        written.append({path.name: path.stat().st_mtime_ns for path in out.glob("*.nc")})
    assert written[0] == written[1] != {}


def test_an_option_that_the_template_does_not_read_is_refused(
    chat_folder: Path, files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = ["compare", "solved", str(chat_folder), "--prompts", files["a"], "--quiet"]
    assert main([*typed, "--chat.enable_thinkng", "false"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert (
        "does not read the option 'enable_thinkng', which would change nothing. Did you mean 'enable_thinking'?" in said
    )
    # names of the template's own, such as loops and keys of turns, are no options
    for name in ("contents", "roles", "messge", "nonsense"):
        assert main([*typed, f"--chat.{name}", "x"]) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert f"does not read the option '{name}', which would change nothing. Check its name" in said
    assert main([*typed, "--chat.messages", "x"]) == 2
    assert "chat.messages is no option of a chat template to choose" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("chat", ["yes", 1, {1: 2}, None])
def test_chat_is_a_truth_value_or_a_dict(chat: Any, chat_folder: Path) -> None:
    with pytest.raises(bathyscope.OptionError, match=r"chat=.* must be True, False, or a dict of options of the chat"):
        bathyscope.solved(str(chat_folder), ["the old house"], chat=chat)


def test_an_option_is_given_as_a_list_or_by_name(
    chat_folder: Path, files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = ["survey", str(chat_folder), "--prompts", files["a"], "--out", str(tmp_path / "run"), "--quiet"]
    assert main([*typed, "--skip.positions", "[[1]]", "--skip.positions.at", "2"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "--skip.positions and --skip.positions.at do not go together; give one of them." in said


def test_stored_states_of_chats_are_found_by_the_chats(
    chat_folder: Path, files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server of a chat model stores what the template wrote, so that its prompts are chats too."""
    asked = ["--prompts", files["a"], *FLAGS, "--measures", "lens", "--quiet"]
    assert main(["survey", str(chat_folder), *asked, "--out", str(tmp_path / "model")]) == 0
    expected = bathyscope.open(tmp_path / "model").prompts
    hf = AutoModelForCausalLM.from_pretrained(chat_folder)
    write_states(tmp_path / "dump", hf, [list(prompt.ids) for prompt in expected][::-1])
    states = ["survey", "--states", str(tmp_path / "dump"), "--head", str(chat_folder)]
    assert main([*states, *asked, "--out", str(tmp_path / "states")]) == 0
    read = bathyscope.open(tmp_path / "states").prompts
    assert [(p.ids, p.answer_tokens) for p in read] == [(p.ids, p.answer_tokens) for p in expected]
    assert all(p.answer_tokens for p in read)
    capsys.readouterr()
    for flag, name in (("--chat", "chat=True"), ("--no-add-special-tokens", "add_special_tokens=False")):
        assert main([*states, flag, "--quiet", "--out", str(tmp_path / "none")]) == 2
        assert f"{name} is of prompts, and none are given" in " ".join(capsys.readouterr().err.split())

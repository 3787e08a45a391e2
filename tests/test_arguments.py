"""Arguments of other types, and values without a meaning: refused in words, before anything is loaded or computed."""

from __future__ import annotations

import pydoc
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from support import waves
from support.synthetic import synthetic_run

import bathyscope
from bathyscope.analysis.probes import ing_probe
from bathyscope.analysis.probes.wic_rows import read_pairs
from bathyscope.analysis.probes.words import read_words
from bathyscope.cli import main
from bathyscope.core.result import LabelledResult
from bathyscope.errors import BathyscopeError, OptionError, PromptError, StoreError, describe_type, describe_value
from bathyscope.runs.hub import listing

RUN = synthetic_run(2, prompts=2)
IDS = [[5, 9, 7, 30, 44, 12, 8], [3, 8, 1, 22, 40, 2]]


class Wordy:
    """Something whose text has many lines, such as a model."""

    def __repr__(self) -> str:
        return "Wordy(\n" + "  a line\n" * 40 + ")"


def test_only_plain_values_are_written_out() -> None:
    assert describe_type(5) == "5 of type int"
    assert describe_value("x" * 500) == "'" + "x" * 58 + "…"
    for wordy in (Wordy(), [Wordy()], torch.nn.Linear(2, 2), xr.Dataset()):
        assert describe_value(wordy) == describe_type(wordy) == f"an object of type {type(wordy).__name__}"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: bathyscope.open(Wordy()), OptionError, "path=an object of type Wordy is no folder"),
        (lambda: bathyscope.open("x", partial="no"), OptionError, "partial takes true or false; 'no' given"),
        (lambda: bathyscope.show(Wordy()), OptionError, "an object of type Wordy is no folder"),
        (lambda: bathyscope.join([Wordy(), Wordy()], "out"), OptionError, "parts=an object of type Wordy is no folder"),
        (lambda: bathyscope.course(None, IDS, "out"), OptionError, "checkpoints=None is no folder"),
        (lambda: bathyscope.course([Wordy()], IDS, "out"), OptionError, "checkpoints=an object of type Wordy"),
        (lambda: bathyscope.demo(5), OptionError, "out=5 is no path"),
        (lambda: bathyscope.fit_lens("model", IDS, out=5), OptionError, "out=5 is no path"),
        (lambda: bathyscope.fit_lens("model", IDS, out="l.npz"), OptionError, "must end in .safetensors"),
        (lambda: bathyscope.reproduce(None), OptionError, "target takes a text; None given"),
        (lambda: bathyscope.grid(None, "out"), OptionError, "recipe=None is no grid"),
        (lambda: bathyscope.grid({}, "out", each=5), OptionError, "each=5 cannot be called"),
        (
            lambda: bathyscope.grid({"models": [Wordy()], "prompts": [IDS]}, "out"),
            OptionError,
            "models: an object of type Wordy is no name",
        ),
        (lambda: bathyscope.prune("model", {}, {}, drop=1), OptionError, "No domain; give two or more"),
        (lambda: bathyscope.prune("model", IDS, IDS, drop=1, parts=None), OptionError, "parts=None is not allowed"),
        (
            lambda: bathyscope.estimate("model", IDS, count=3),
            OptionError,
            "count=3 is for prompts of a length; give tokens=200",
        ),
        (
            lambda: bathyscope.estimate("model", tokens=9, chat=True),
            OptionError,
            "chat=True and tokens=9 do not go together, since only texts are written so",
        ),
        (lambda: bathyscope.estimate("model", tokens=9, rates=5), OptionError, "rates=5 cannot be called"),
        (
            lambda: bathyscope.survey("model", IDS, worker_timeout=5),
            OptionError,
            "worker_timeout=5.0 is of an engine; give engine='ray'",
        ),
        (
            lambda: bathyscope.survey("model", IDS, write=2, temperature=np.inf),
            OptionError,
            "temperature=inf is out of",
        ),
        (lambda: bathyscope.survey("model", IDS, baych_tokens=5), OptionError, "Did you mean 'batch_tokens'"),
        (
            lambda: bathyscope.survey("model", IDS, part="1/2", out="out", until=0.5),
            OptionError,
            "^until=0.5 and part='1/2' do not go together",
        ),
        (lambda: bathyscope.PromptSet(("hi",), "x"), PromptError, "prompts= must be a tuple of Prompt objects"),
        (lambda: bathyscope.Prompt("hi", labels={"x": [1]}), PromptError, "the label 'x' must be a text or a number"),
        (
            lambda: bathyscope.load("https://huggingface.co/gpt2"),
            BathyscopeError,
            "give the model's name alone: 'gpt2'",
        ),
    ],
)
def test_calls(
    call: Callable[[], Any],
    error: type[BathyscopeError],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("survey model --help nope", "Unknown measure 'nope'"),
        ("survey model --prompts p.jsonl --memory -1GB", "is joined to its flag: --memory=-1GB"),
        ("--help-all x", "--help-all stands alone"),
        ("survey model --prompts p.jsonl --seed 99999999999999999999", "is out of range"),
        ("evaluate model --tasks hellaswag --limit 0", "limit=0 is out of range; allowed: 1 or more"),
        ("evaluate model --tasks hellaswag --batch-size 0", "batch_size=0 is out of range; allowed: 1 or more"),
    ],
)
def test_lines(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == OptionError.exit_code
    assert message in capsys.readouterr().err


def test_a_result_names_what_it_holds() -> None:
    result = LabelledResult(xr.Dataset({"accuracy": ("row", [1.0])}), "One row.", lambda data: data.to_dataframe())
    with pytest.raises(OptionError, match=r"no 'acuracy'\. Did you mean 'accuracy'\? It holds: accuracy"):
        result["acuracy"]
    with pytest.raises(OptionError, match="no 0"):
        result[0]


def test_a_probe_is_named_where_it_can_be_found() -> None:
    with pytest.raises(TypeError, match=r"help\(bathyscope\.analysis\.probes\.ing_probe\)") as refused:
        bathyscope.probe("ing", waves.loaded("llama"))
    (name,) = re.findall(r"help\((.*)\)", str(refused.value))
    assert pydoc.locate(name) is ing_probe


@pytest.mark.parametrize("rows", [3, [1, 2], ["a"]])
def test_rows_of_a_probe(rows: Any) -> None:
    tokenizer: Any = SimpleNamespace(is_fast=True)
    with pytest.raises(PromptError, match=r"holds no rows|it is .*, and no dict"):
        read_pairs(rows, "train", tokenizer)


def test_a_refused_survey_does_not_block_the_corrected_one(tmp_path: Path) -> None:
    model, texts = waves.loaded("llama"), {"jacobian_lens": {"prompts": IDS, "skip_first": 0, "directions": 1}}
    with pytest.raises(BathyscopeError):
        bathyscope.survey(model, IDS, "jacobian_lens", tmp_path, progress=False, **texts)
    bathyscope.survey(model, IDS, "lens", tmp_path, progress=False)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([(0, 1), (0, 1)], r"The pair \(0, 1\) is compared twice; give every two runs once"),
        ([(0, 1), (1, 0)], r"The pair \(1, 0\) is compared twice"),
        ([(0.0, 1)], r"The pair \(0\.0, 1\) does not name two of the 2 runs"),
        ([(0, True)], "does not name two"),
        ([5], "The pair 5 does not name two"),
        (5, "pairs=5 is no list"),
    ],
)
def test_pairs_to_compare(pairs: Any, message: str) -> None:
    runs = [synthetic_run(blocks, prompts=3) for blocks in (2, 3)]
    with pytest.raises(OptionError, match=message):
        bathyscope.compare(runs, pairs=pairs)


@pytest.mark.parametrize("label", ["a/b", "x\ny", ".", "prompt", " "])
def test_a_label_that_no_run_can_keep_is_refused_before_a_model_is_loaded(label: str) -> None:
    with pytest.raises(OptionError, match=r"^label="):
        bathyscope.solved_by("no/model", "no/model", IDS, label=label)


@pytest.mark.parametrize("sets", [["a"], None, [], 5])
def test_unions_are_of_prompt_sets(sets: Any) -> None:
    with pytest.raises(OptionError, match=r"takes a list of prompt sets; .* given"):
        bathyscope.PromptSet.union(sets)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: bathyscope.evaluate("m", ["arc_easy"], data=5), OptionError, "data=5 is no dict"),
        (lambda: bathyscope.evaluate("m", ["arc_easy"], None), OptionError, "schedules=None is no list"),
        (lambda: bathyscope.reproduce("hu2025-table1", prompts=2.5), OptionError, "prompts=2.5 is neither"),
        (lambda: bathyscope.reproduce("hu2025-table1", prompts=True), OptionError, "prompts=True is neither"),
        (lambda: read_words(5, None), OptionError, "words=5 is no list"),
        (lambda: read_words(None, None), OptionError, "words=None is no list"),
        (lambda: bathyscope.Schedule.standard(4).drop_runs(1), OptionError, "runs=1 is no list of blocks"),
        (lambda: bathyscope.Schedule.standard(4).drop_runs({1: 2}), OptionError, r"runs=\{1: 2\} is a dict, and only"),
        (lambda: bathyscope.Schedule((0, 1, 2), 3, ({0: 1},)), OptionError, r"parallel=\{0: 1\} is a dict"),
        (lambda: bathyscope.evaluate("m", {"arc_easy": 1}, ["standard"]), OptionError, r"tasks=\{'arc_easy': 1\} is a"),
        (lambda: bathyscope.compare({"a": 1}), OptionError, r"runs=\{'a': 1\} is a dict"),
        (lambda: bathyscope.join({"a": 1}, "b"), OptionError, r"parts=\{'a': 1\} is a dict"),
        (lambda: read_words({"a": 1}, None), OptionError, r"words=\{'a': 1\} is a dict"),
        (
            lambda: bathyscope.course({"step1": 1}, prompts=[[1, 2]], out="none"),
            OptionError,
            r"checkpoints=\{'step1': 1\} is a dict",
        ),
        (
            lambda: bathyscope.reproduce("hu2025", figures={"1": 1}),
            OptionError,
            r"figures=\{'1': 1\} is a dict, and only a list is read, without values; give one, such as \['1'\]\.",
        ),
        (lambda: bathyscope.show("run", "lens", cluster=5), OptionError, "cluster takes a text; 5 given"),
        (lambda: bathyscope.survey("m", IDS, preset=""), OptionError, "Unknown preset ''"),
        (
            lambda: bathyscope.export(waves.loaded("llama"), "drop:1", "e", revision="main"),
            OptionError,
            "revision='main' is of a model on the hub, and the model given is in memory",
        ),
        (lambda: bathyscope.report([RUN, RUN], "page.html"), OptionError, "The same run was given twice"),
        *(
            (lambda to=to: listing(Path("none"), to), OptionError, "names no data set on the hub")
            for to in ("../x", "a/ ", "us er/na me", "a/..", "a/-b", "a/b.", "ä/b", "a/b/c", f"a/{'b' * 97}")
        ),
    ],
)
def test_values_without_a_meaning(
    call: Callable[[], Any],
    error: type[BathyscopeError],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        call()
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("to", ["user/name", "user/na.me_1-b", "u/n", f"a/{'b' * 96}"])
def test_names_on_the_hub_are_taken(to: str, tmp_path: Path) -> None:
    assert f"hf://datasets/{to}" in listing(tmp_path, to)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("compare a b --paired --unpaired", "--paired and --unpaired contradict each other; give one of them"),
        ("push r to --private --no-private", "--private and --no-private contradict each other"),
        ("compare a b --level 0.9 --level 0.8", "--level is given twice; give it once"),
        ("export model --schedule drop:1 --emit layers --json", "--json is the record of a checkpoint, and --emit"),
    ],
)
def test_flags_that_do_not_go_together(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == OptionError.exit_code
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("file", "contents"), [("config.json", "a model"), ("manifest.json", "a run"), ("course.json", "a course")]
)
def test_runs_of_a_grid_are_not_written_into_something_else(file: str, contents: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text("{}")
    with pytest.raises(StoreError, match=f"holds {contents}, and runs do not belong in between"):
        bathyscope.grid({"models": ["m"], "prompts": ["p.jsonl"]}, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [file]

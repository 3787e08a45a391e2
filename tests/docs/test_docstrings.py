"""Examples in docstrings run, and every public name says what it takes, gives and refuses."""

from __future__ import annotations

import doctest
import inspect
import json
import re
import shutil
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import xarray as xr
from support.stored import write_states
from transformers import LlamaConfig, LlamaForCausalLM, set_seed

import bathyscope
import bathyscope.pages.page
from bathyscope import extend
from bathyscope.core.bundles import names_in
from bathyscope.model.bundled import model_path
from bathyscope.runs.contents import RunContents
from bathyscope.surgery.exits import times
from bathyscope.surveying import rates
from bathyscope.surveying.options import BUNDLES

LETTERS = {"model": "abcdefghijkl", "test": "nopqrstuvwxy"}
"""What the prompts of both files are of."""
HARMLESS = {"variable"}
"""Calls that refuse nothing."""
GIVEN = ("ExitAdvice", "Plan", "RepeatScan", "Repaired", "Run", "Schedule")
"""Classes of what calls give back, all of whose members stand in an example."""
SAME = {"grouped"}
"""Further names of a call."""
NOT_RUN = {
    *(
        "Run.explore",
        "Run.push",
        "course",
        "demo",
        "evaluate",
    ),
    *("probe", "push", "reproduce", "extend.figures.draw_maps", "extend.prompts.harness_prompts"),
}
"""Whose examples take minutes, data from the hub, a notebook, or a file that the command line alone writes."""
ERRORS = {name for name in bathyscope.__all__ if name.endswith("Error")}


def public() -> Iterator[tuple[str, Any]]:
    """Every public name, with what it stands for."""
    for name in bathyscope.__all__:
        yield name, getattr(bathyscope, name)


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties of a class, and of the one that holds what a run is made of."""
    for name, found in {**(vars(RunContents) if issubclass(cls, RunContents) else {}), **vars(cls)}.items():
        if not name.startswith("_") and isinstance(
            found, property | cached_property | classmethod | staticmethod | type(members)
        ):
            yield name, found


PUBLIC = dict(public())
FOR_STUDIES = {
    f"extend.{room}.{name}": getattr(module, name)
    for room in extend.__all__
    if isinstance(module := getattr(extend, room), ModuleType)
    for name in module.__all__
    if not isinstance(getattr(module, name), ModuleType)
} | {f"extend.{name}": getattr(extend, name) for name in ("bundled_model", "untrained")}
"""What studies are made of; classes and calls of ``extend`` for other authors are described on pages of their own."""
CLASSES = {name: one for name, one in PUBLIC.items() if isinstance(one, type) and name not in ERRORS}
CALLS = {name: one for name, one in PUBLIC.items() if callable(one) and not isinstance(one, type)}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a user has it: two small models with a tokenizer, states of one, two files of prompts, two runs."""
    folder = tmp_path_factory.mktemp("shelf")
    for name, blocks in (("model", 4), ("shallow", 2)):
        shutil.copytree(model_path(), folder / name, ignore=shutil.ignore_patterns("*.safetensors*", "config.json"))
        set_seed(0)
        sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
        vocabulary = json.loads((model_path() / "config.json").read_text(encoding="utf-8"))["vocab_size"]
        config = LlamaConfig(vocab_size=vocabulary, num_hidden_layers=blocks, tie_word_embeddings=False, **sizes)
        hf = LlamaForCausalLM(config).eval()
        hf.save_pretrained(folder / name)
        if name == "model":
            write_states(folder / "states", hf, [list(range(5, 17)), list(range(20, 29))])
    for name, letters in (("prompts", LETTERS["model"]), ("test", LETTERS["test"])):
        rows = [
            {"text": f"The letter {one} comes before", "answer": " me", "labels": {"level": 1 + number % 3}}
            for number, one in enumerate(letters)
        ]
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def names(shelf: Path) -> dict[str, Any]:
    """What examples find: ``bathyscope``, numpy, a loaded model and its run."""
    model = bathyscope.load(shelf / "model")
    measures = ["residual", "lens", "skip", "drop", "effective_depth"]
    for name, control in (("model", "untrained:1"), ("shallow", None)):
        out = shelf / "runs" / name
        bathyscope.survey(shelf / name, shelf / "prompts.jsonl", measures, out, control=control, progress=False)
    return {
        "bathyscope": bathyscope,
        "np": np,
        "xr": xr,
        "model": model,
        "run": bathyscope.open(shelf / "runs" / "model"),
    }


def documented() -> Iterator[tuple[str, str]]:
    """Docstrings of public names and of their members."""
    for name, found in FOR_STUDIES.items():
        yield name, inspect.getdoc(found) or ""
    for name, found in PUBLIC.items():
        yield name, inspect.getdoc(found) or ""
        for member, one in members(found) if isinstance(found, type) else ():
            yield f"{name}.{member}", inspect.getdoc(one) or ""


@pytest.mark.each
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name, text in documented() if ">>>" in text and name not in SAME])
def test_examples_run(name: str, names: dict[str, Any], shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shelf)
    monkeypatch.setattr(rates, "SECONDS", 0.01)
    monkeypatch.setattr(times, "_ROUNDS", 1)
    text = dict(documented())[name]
    test = doctest.DocTestParser().get_doctest(text, dict(names), name, None, None)
    said: list[str] = []
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    doctest.DocTestRunner(optionflags=flags).run(test, out=said.append)
    assert said == []


def test_examples_are_left_out_where_they_must_be_alone() -> None:
    assert {name for name, text in documented() if "+SKIP" in text} == NOT_RUN


@pytest.mark.parametrize("name", CALLS)
def test_every_call_is_described_whole(name: str) -> None:
    text = inspect.getdoc(CALLS[name]) or ""
    parts = set(re.findall(r"^(Args|Returns|Raises|Example):", text, re.MULTILINE))
    signature = inspect.signature(CALLS[name])
    wanted = {"Args", "Raises", "Example"} - ({"Raises"} if name in HARMLESS else set())
    assert wanted - parts == set()
    listed = re.search(r"^Args:\n(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    told = re.findall(r"^    (\*{0,2}\w+(?:, \*{0,2}\w+)*):", listed[1] if listed else "", re.MULTILINE)
    bundled = names_in(BUNDLES) if name == "survey" else []
    wanted = {*signature.parameters, *bundled} - {"gone"}
    assert {one.strip("* ") for names in told for one in names.split(",")} == wanted


@pytest.mark.parametrize("name", FOR_STUDIES)
def test_every_part_of_a_study_has_an_example_and_its_arguments_a_word(name: str) -> None:
    found = FOR_STUDIES[name]
    text = inspect.getdoc(found) or ""
    assert "Example:" in text
    arguments = [] if isinstance(found, type) else inspect.signature(found).parameters
    assert [one for one in arguments if not re.search(rf"^    (?:\*\*)?(?:\w+, )*{one}(?:, \w+)*:", text, re.M)] == []


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_has_an_example_and_every_member_a_word(name: str) -> None:
    cls = CLASSES[name]
    text = inspect.getdoc(cls) or ""
    assert "Example:" in text
    assert [member for member, one in members(cls) if not inspect.getdoc(one)] == []


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_every_error_says_when_it_is_raised_and_with_which_code(name: str) -> None:
    error = PUBLIC[name]
    assert inspect.getdoc(error)
    assert isinstance(error.exit_code, int)


@pytest.mark.parametrize("name", [n for n, c in CLASSES.items() if n in GIVEN])
def test_an_example_uses_every_member_of_what_calls_give(name: str) -> None:
    text = "\n".join(said for of, said in documented() if of == name or of.startswith(f"{name}."))
    examples = "\n".join(re.findall(r"^\s*(?:>>>|\.\.\.) (.*)$", text, re.MULTILINE))
    assert [member for member, _ in members(CLASSES[name]) if not re.search(rf"\.{member}\b", examples)] == []

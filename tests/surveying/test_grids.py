"""Grids: every survey of a file is the survey that is asked for by itself, and none stops the others."""

from __future__ import annotations

import csv
import gc
import io
import json
import re
import weakref
from pathlib import Path
from typing import Any

import pytest
from support import waves, zoo

import bathyscope
from bathyscope import ModelError, OptionError, StoreError
from bathyscope.cli import main
from bathyscope.surveying import grids
from bathyscope.surveying.computing import Computation

PAGE = Path(__file__).parents[2] / "docs" / "many_machines.md"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model, two files of token ids, and a grid of them as the page on many machines has it."""
    here = tmp_path_factory.mktemp("grid")
    waves.loaded("llama").hf.save_pretrained(here / "tiny")
    ids = zoo.prompts(zoo.build("llama"), (20, 13, 17))
    for name, own in (("ten", ids[:2]), ("stories", ids[2:])):
        (here / f"{name}.jsonl").write_text("\n".join(json.dumps({"ids": list(one)}) for one in own))
    [text] = re.findall(r"```yaml\n# grid.yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    for written, meant in (
        ("- gpt2\n", f"- {here}/nowhere\n"),
        ("Qwen/Qwen2.5-0.5B", f"{here}/tiny"),
        ("- gsm8k:10\n", f"- {here}/ten.jsonl\n"),
        ("stories.txt:20", f"{here}/stories.jsonl"),
    ):
        assert text.count(written) == 1
        text = text.replace(written, meant)
    (here / "grid.yaml").write_text(text)
    return here


@pytest.fixture(scope="module")
def found(here: Path) -> bathyscope.surveying.grids.Grid:
    return bathyscope.grid(here / "grid.yaml", here / "runs", progress=False)


def test_a_notebook_shows_what_became_of_a_grid_in_a_line(found: bathyscope.surveying.grids.Grid) -> None:
    assert repr(found) == "<Grid of 8 surveys: 4 failed, 4 done>"


def test_the_grid_of_the_page(here: Path, found: bathyscope.surveying.grids.Grid) -> None:
    names = [f"{m}-{p}-{o}" for m in ("nowhere", "qwen") for p in ("ten.jsonl", "stories") for o in ("usual", "early")]
    assert found.table["cell"].tolist() == names
    assert found.table["state"].tolist() == ["failed"] * 4 + ["done"] * 4
    assert found.table["prompts"].tolist()[4:] == [2, 2, 1, 1]
    assert all("nowhere" in cell.said and isinstance(cell.error, ModelError) for cell in found.failed)
    assert list(found.runs) == names[4:]
    protected = [run.identity.measures["skip"]["protect_first"] for run in found.runs.values()]
    assert protected == [1, 0, 1, 0]


def test_each_is_the_survey_that_is_asked_for_by_itself(here: Path, found: bathyscope.surveying.grids.Grid) -> None:
    model = bathyscope.load(here / "tiny", dtype="float32")
    options = {"measures": ["lens", "skip"], "batch_tokens": 1024, "skip": {"protect_first": 0}, "progress": False}
    alone = bathyscope.survey(model, f"{here}/ten.jsonl", **options)
    run = bathyscope.open(here / "runs" / "qwen-ten.jsonl-early")
    assert run.identity == alone.identity
    for name in alone.measures:
        assert run[name].identical(alone[name])


def test_what_is_there_is_not_measured_again(
    here: Path,
    found: bathyscope.surveying.grids.Grid,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    computed = []
    compute = Computation.compute

    def noted(computation: Computation, *rest: Any) -> None:
        computed.append(computation)
        compute(computation, *rest)

    monkeypatch.setattr(Computation, "compute", noted)
    next((here / "runs" / "qwen-ten.jsonl-early").glob("shard-*.nc")).unlink()
    code = main(["survey", "grid", str(here / "grid.yaml"), "--out", str(here / "runs"), "--format", "csv"])
    said = capsys.readouterr()
    assert code == ModelError.exit_code
    assert len(computed) == 1
    rows = list(csv.DictReader(io.StringIO(said.out)))
    assert [row["state"] for row in rows] == ["failed"] * 4 + ["done"] * 4
    assert "[5/8] qwen-ten.jsonl-usual: running" in said.err
    assert "4 of 8 surveys failed; the same command tries them again." in said.err


def test_a_survey_that_fails_lets_go_of_its_model(here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next model needs the room, and an error holds on to everything that was at work when it came."""
    loaded: list[weakref.ref[object]] = []
    alive: list[int] = []
    load = grids.load

    def counted(**how: object) -> object:
        gc.collect()
        alive.append(sum(one() is not None for one in loaded))
        model = load(**how)  # type: ignore[arg-type]
        loaded.append(weakref.ref(model.hf))
        return model

    def failing(computation: Computation, *rest: object) -> None:
        try:
            raise ZeroDivisionError(str(computation.plan.model))
        except ZeroDivisionError as error:
            raise ModelError("It fails in the middle.") from error

    monkeypatch.setattr(grids, "load", counted)
    monkeypatch.setattr(Computation, "compute", failing)
    models = [{"model": f"{here}/tiny", "dtype": dtype, "name": dtype} for dtype in ("float32", "bfloat16")]
    asked = {"models": models, "prompts": [f"{here}/ten.jsonl"], "measures": "lens"}
    found = bathyscope.grid(asked, tmp_path, progress=False)
    assert [cell.said for cell in found.failed] == ["It fails in the middle."] * 2
    assert alive == [0, 0]


def test_a_grid_that_is_interrupted_says_what_there_is(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    compute = Computation.compute

    def interrupted(computation: Computation, *rest: Any) -> None:
        if computation.plan.prompts.dataset.endswith("stories.jsonl"):
            raise KeyboardInterrupt
        compute(computation, *rest)

    monkeypatch.setattr(Computation, "compute", interrupted)
    (tmp_path / "grid.yaml").write_text(
        f"models: ['{here}/tiny']\nmeasures: lens\nprompts: ['{here}/ten.jsonl', '{here}/stories.jsonl']"
    )
    assert main(["survey", "grid", str(tmp_path / "grid.yaml"), "--out", str(tmp_path / "runs"), "--quiet"]) == 130
    said = capsys.readouterr()
    assert "1 of 2 surveys done" in said.out
    assert re.search(r"tiny-stories\S* +running", said.out)
    assert "Interrupted: finished surveys are saved" in said.err
    # A command that an earlier version began goes on by its name of then.
    monkeypatch.undo()
    assert main(["grid", str(tmp_path / "grid.yaml"), "--out", str(tmp_path / "runs"), "--quiet"]) == 0
    said = capsys.readouterr()
    assert "2 of 2 surveys done" in said.out
    assert said.err.startswith("warning: bathyscope grid is called bathyscope survey grid now")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            {"prompts": ["gsm8k:10"]},
            r"models=None is no list of a grid; write at least one entry, such as",
        ),
        ({"models": " , ", "prompts": ["gsm8k:10"]}, r"models=\[\] is no list of a grid"),
        ({"models": 3, "prompts": ["gsm8k:10"]}, r"models=3 is no list of a grid"),
        ({"models": "gpt2", "prompts": "gsm8k:10", "options": "late"}, r"options: the entry 'late' lacks"),
        ({"models": ["gpt2"], "prompts": []}, r"prompts=\[\] is no list of a grid"),
        (
            {"models": [{"dtype": "float32"}], "prompts": ["gsm8k:10"]},
            r"lacks what it is an entry of; write model: ",
        ),
        (
            {"models": ["gpt2"], "prompts": ["gsm8k:10"], "options": ["late"]},
            r"entry 'late' lacks what .* \{name: la",
        ),
        ({"models": ["a/b", "c/b"], "prompts": ["gsm8k:10"]}, r"Two surveys of the grid are called 'b-gsm8k-10'; give"),
        ({"models": ["b"], "prompts": ["gsm8k:10"], "sead": 1}, r"b-gsm8k-10: 'sead' is no argument .*mean 'seed'\?"),
        ({"models": ["b"], "prompts": ["gsm8k:10"], "out": "x"}, r"'out' is no argument of load or survey, and no"),
        ({"models": ["b"], "prompts": ["gsm8k:10"], "measures": ["lense"]}, r"b-gsm8k-10: .*Did you mean 'lens'"),
        ({"models": ["b"], "prompts": ["gsm8k:10"], "skip": {"protekt": 0}}, r"b-gsm8k-10: .*protekt"),
    ],
)
def test_mistakes_are_said_before_anything_is_loaded(content: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=message):
        bathyscope.grid(content, tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_a_file_that_is_no_grid(tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text("- gpt2")
    with pytest.raises(OptionError, match="holds a list"):
        bathyscope.grid(tmp_path / "grid.yaml", tmp_path)


def test_a_text_is_the_list_of_the_names_in_it(here: Path, found: bathyscope.surveying.grids.Grid) -> None:
    recipe = {"models": f"{here}/nowhere, {here}/tiny", "prompts": f"{here}/ten.jsonl", "measures": "lens"}
    runs = bathyscope.grid(recipe, here / "texts", progress=False)
    assert runs.table["cell"].tolist() == ["nowhere-ten.jsonl", "tiny-ten.jsonl"]
    assert runs.table["state"].tolist() == ["failed", "done"]


def test_a_survey_of_a_grid_does_not_follow_a_link(here: Path, tmp_path: Path) -> None:
    outside, out = tmp_path / "outside", tmp_path / "runs"
    outside.mkdir()
    out.mkdir()
    recipe = {"models": [str(here / "tiny")], "prompts": [str(here / "ten.jsonl")], "measures": "residual"}
    (out / "tiny-ten.jsonl").symlink_to(outside)
    with pytest.raises(StoreError, match=r"tiny-ten\.jsonl' is a link, and the surveys of a grid are folders"):
        bathyscope.grid(recipe, out, progress=False)
    assert list(outside.iterdir()) == []
    # a folder that the user names may be a link
    (out / "tiny-ten.jsonl").unlink()
    (tmp_path / "link").symlink_to(out)
    done = bathyscope.grid(recipe, tmp_path / "link", progress=False)
    assert [cell.state for cell in done.cells] == ["done"]

"""Cells: where results go, what they are asked for, and what is told of those that cannot be computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import xarray as xr
from support import stand_ins

import bathyscope
from bathyscope.errors import OptionError, PromptError, StoreError
from bathyscope.pages.papers import cells as module
from bathyscope.pages.papers.cells import measured, plan_cells
from bathyscope.pages.papers.data import local_data, read_prompts_option, takes_own_prompts
from bathyscope.pages.papers.models import NamedModel, chosen_models
from bathyscope.pages.papers.reproduce import ReproductionPlan
from bathyscope.pages.papers.verbs import WorkCell
from bathyscope.runs.run import Run
from bathyscope.runs.shards import encode_results
from bathyscope.surveying.papers.reproduction import Figure, Reproduction, Work

LISTED = ("meta-llama/Meta-Llama-3.1-8B", "meta-llama/Meta-Llama-3.1-70B")
SUMS = Work("sums", (("1 + 1 = ", "2"),))
ALL = Work("all", "gsm8k:20", all_tokens_only=True)
GSM8K = Work("gsm8k", "gsm8k:10")
PAIR = Work("pair", "gsm8k:10", verb="maps")
PAPER = Reproduction(
    "csordas2025",
    LISTED,
    (SUMS, ALL, GSM8K, PAIR),
    (
        Figure("1", "", ("gsm8k",), ("lens",)),
        Figure("2", "", ("sums",), ("erasure",), LISTED[1:]),
        Figure("3", "", ("all",), ("lens", "skip"), ("owner/other",), "another model"),
        Figure("4", "", ("pair",), ("maps",), LISTED),
    ),
)
MODELS = chosen_models([], PAPER.models)


def plan(models: Sequence[NamedModel], *works: str, **given: object) -> list[WorkCell]:
    measures = {"gsm8k": ("lens",), "sums": ("erasure",), "all": ("lens", "skip"), "pair": ()}
    chosen = {name: measures[name] for name in works}
    given = {"out": Path("out"), "data": {}, **given}
    return plan_cells(models, PAPER, PAPER.figures, chosen, "csordas2025", **given)  # type: ignore[arg-type]


def test_folders_model_after_model_of_those_that_figures_show() -> None:
    assert [str(cell.folder) for cell in plan(MODELS, "gsm8k", "sums")] == [
        "out/csordas2025/Meta-Llama-3.1-8B/gsm8k",
        "out/csordas2025/Meta-Llama-3.1-70B/gsm8k",
        "out/csordas2025/Meta-Llama-3.1-70B/sums",
    ]


def test_models_that_the_paper_does_not_have_belong_to_every_figure() -> None:
    own = [NamedModel(name, f"./{name}", None) for name in ("one", "other")]
    cells = plan(own, "sums", "pair", "all")
    assert [(cell.name, cell.work.name) for cell in cells] == [
        ("one", "sums"),
        ("one", "all"),
        ("one → other", "pair"),
        ("other", "sums"),
        ("other", "all"),
    ]


def test_what_nobody_can_load_is_made_of_folders_that_stand_for_it() -> None:
    assert plan([NamedModel("other", "owner/other", "owner/other")], "all") == []
    assert len(plan([NamedModel("other", "./folder", "owner/other")], "all")) == 1


def test_two_models_are_asked_for_where_there_is_one(tmp_path: Path) -> None:
    (cell,) = plan(MODELS[:1], "pair", out=tmp_path)
    (outcome,) = measured([cell], {}, progress=False)
    assert outcome.result is None
    assert outcome.reason == "pair: it takes 2 models; give them with --models SOURCE TARGET."


def test_all_tokens_only_leaves_every_position_out() -> None:
    (cell,) = plan([NamedModel("any", "any", None)], "all", count=3)
    assert cell.options() == {"skip": {"positions": [[], [], []]}}


def test_prompts_of_ones_own_take_the_place_of_the_papers(tmp_path: Path) -> None:
    file = tmp_path / "hers.jsonl"
    file.write_text('{"text": "one two", "answer": "two"}\n', encoding="utf-8")
    count, source = read_prompts_option(file)
    assert (count, source) == (None, str(file))
    cells = plan([*MODELS, NamedModel("any", "any", None)], "gsm8k", "sums", "all", own_prompts=source)
    taken = {cell.work.name: cell.own_prompts for cell in cells}
    assert taken == {"gsm8k": str(file), "all": str(file), "sums": None}
    for cell in cells:
        if cell.own_prompts is not None:
            assert str(cell.prompts) == str(file)
        if cell.work.name == "all":
            # one list of no positions, for however many prompts there are
            assert cell.options() == {"skip": {"positions": [[]]}}
    levels = Work("levels", "math?level=1-5&per_level=20")
    assert [takes_own_prompts(work) for work in (GSM8K, PAIR, SUMS, levels)] == [True, True, False, False]


def test_a_number_of_prompts_or_a_source() -> None:
    assert [read_prompts_option(value) for value in (None, 4, "4")] == [(None, None), (4, None), (4, None)]
    with pytest.raises(OptionError, match="--prompts 0 is out of range"):
        read_prompts_option(0)
    with pytest.raises(PromptError, match=r"hers\.jsonl does not exist"):
        read_prompts_option("hers.jsonl")
    with pytest.raises(OptionError, match=r"prompts='gsm8k:3': these figures measure prompts by level of difficulty"):
        ReproductionPlan.of("csordas2025", [str(MODELS[0].source)], figures=["7a"], prompts="gsm8k:3")


def test_the_reference_of_erasure_is_read_locally_too() -> None:
    (cell,) = plan(MODELS[1:], "sums", data={"gsm8k": "rows.jsonl"}, count=3)
    assert cell.options() == {"erasure": {"reference": "gsm8k:10@rows.jsonl"}}
    assert isinstance(cell.prompts, list)
    assert [(prompt.text, prompt.answer) for prompt in cell.prompts] == [("1 + 1 = 2", "2")]


def test_a_result_is_of_the_files_that_it_was_read_from(tmp_path: Path) -> None:
    """Those of a probe of word meaning are two: rows to fit to, and rows to judge by."""
    first = {"wic": "train.jsonl", "wic_validation": "validation.jsonl"}
    cell = WorkCell(MODELS[:1], Work("wic", "wic", verb="wic"), tmp_path, "lad2024", (), first)
    kept = xr.Dataset(attrs={"asked": cell._request_text})
    (tmp_path / "results.nc").write_bytes(encode_results({"wic": kept}))
    assert cell.finished() is not None
    assert replace(cell, data={**first, "gsm8k": "rows.jsonl"}).finished() is not None
    for name in first:
        assert replace(cell, data={**first, name: "other.jsonl"}).finished() is None, name


def test_a_work_may_have_its_own_reference() -> None:
    own = Work("sums", (("1 + 1 = ", "2"),), {"erasure": {"reference": ["3 + 3 = 6"]}, "skip": {"axis": "tokens"}})
    (cell,) = plan(MODELS[1:], "sums")
    assert replace(cell, work=own).options() == {"erasure": {"reference": ["3 + 3 = 6"]}}


def test_a_model_is_loaded_once_even_where_it_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []
    load = module.load
    monkeypatch.setattr(module, "load", lambda source, **given: (tries.append(source), load(source, **given))[1])
    absent = NamedModel("absent", str(tmp_path / "absent"), None)
    outcomes = list(measured(plan([absent], "gsm8k", "sums", out=tmp_path), {}, progress=False))
    assert [outcome.result for outcome in outcomes] == [None, None]
    assert all(outcome.reason.startswith(f"There is no folder {absent.source}") for outcome in outcomes)
    assert tries == [absent.source]


def test_a_run_of_other_prompts_or_measures_is_not_taken_for_the_asked_one(tmp_path: Path) -> None:
    named = NamedModel("tiny", str(stand_ins.checkpoint(tmp_path / "model")), None)
    rows = local_data([str(stand_ins.data(tmp_path / "data"))])
    first, second = (
        next(measured(plan([named], "gsm8k", out=tmp_path / "out", data=rows, count=count), {}, progress=False))
        for count in (2, 1)
    )
    assert isinstance(first.result, Run)
    assert first.cell.finished() is not None
    assert second.result is None
    assert "gsm8k:2" in second.reason
    (more,) = plan_cells(
        [named], PAPER, PAPER.figures, {"gsm8k": ("lens", "drop")}, "csordas2025", tmp_path / "out", rows, 2
    )
    assert more.finished() is None


def test_an_option_that_loading_lacks_is_refused_before_anything_is_planned() -> None:
    with pytest.raises(TypeError, match=r"^reproduce\(\): got an unexpected keyword .*'dtyp'\. Did you mean 'dtype'\?"):
        bathyscope.reproduce("no paper", dtyp="float32")


@pytest.mark.parametrize("link", ["csordas2025", "csordas2025/one", "csordas2025/one/gsm8k"])
def test_results_are_not_written_through_a_link(link: str, tmp_path: Path) -> None:
    place = tmp_path / "out" / link
    place.parent.mkdir(parents=True)
    place.symlink_to(tmp_path)
    with pytest.raises(StoreError, match=f"{link}' is a link, and the results of a reproduction are in folders of its"):
        plan([NamedModel("one", "./one", None)], "gsm8k", out=tmp_path / "out")

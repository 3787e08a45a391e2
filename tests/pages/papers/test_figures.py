"""Figures of the papers, drawn from stand-ins: a few here, all of them in the thorough tier."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from support import stand_ins
from support.artists import curve
from support.synthetic import synthetic_run

import bathyscope
from bathyscope.errors import OptionError
from bathyscope.pages.figures.kind import draw_panel
from bathyscope.pages.papers import figures as module
from bathyscope.pages.papers.cells import Outcome
from bathyscope.pages.papers.models import NamedModel
from bathyscope.pages.papers.verbs import WorkCell
from bathyscope.runs.opening import open_run
from bathyscope.runs.run import Run
from bathyscope.surveying.papers.reproduction import Figure, Work
from bathyscope.surveying.papers.reproductions import REPRODUCTIONS

HU = REPRODUCTIONS["hu2025"]
MODELS = ("Qwen/Qwen2.5-1.5B-Instruct", "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B")


def outcome(model: str, work: str, run: Run) -> Outcome:
    named = NamedModel(model.rpartition("/")[2], "./folder", model)
    return Outcome(WorkCell((named,), Work(work, "gsm8k:10"), Path(), "hu2025", (), {}), run)


def test_all_models_of_a_figure_lie_in_one_picture_beside_the_published_depths() -> None:
    runs = [synthetic_run(blocks, seed=blocks) for blocks in (5, 9)]
    outcomes = [outcome(model, "gsm8k", run) for model, run in zip(MODELS, runs)]
    (figure,) = module.chosen_figures(HU, ["2"])
    kl, overlap = (draw_panel(panel).axes[0] for panel in module._draw_panels(HU, figure, outcomes))
    for ax, name, published in ((kl, "kl_lens_final", (22, 1)), (overlap, "overlap", (23, 23))):
        for run, model, depth in zip(runs, MODELS, published):
            short, data = model.rpartition("/")[2], run["lens"]
            x, y = curve(ax, short)
            np.testing.assert_allclose(x, np.linspace(0, 1, run["lens"].sizes["boundary"]))
            np.testing.assert_allclose(y, data[name].mean("prompt").values)
            (line,) = [one for one in ax.lines if one.get_label() == short]
            marks = [one for one in ax.lines if one.get_color() == line.get_color() and len(one.get_xdata()) == 1]
            assert [float(one.get_xdata()[0]) for one in marks] == [pytest.approx(depth / 28)]
            assert [one.get_marker() for one in marks] == [line.get_marker()]
        assert ax.get_xlabel().endswith("at the top: published effective depth")


def test_a_published_block_is_marked_in_its_middle_and_other_data_have_none() -> None:
    run = synthetic_run(5, seed=1)
    assert module._read_published_depths(HU, "residual.cosines", [outcome(MODELS[1], "gsm8k", run)]) == {
        "DeepSeek-R1-Distill-Qwen-1.5B": 16.5 / 28
    }
    assert module._read_published_depths(HU, "lens.overlap", [outcome(MODELS[1], "addition", run)]) == {}
    assert module._read_published_depths(HU, "skip.future", [outcome(MODELS[1], "gsm8k", run)]) == {}
    assert module._read_published_depths(HU, "lens.overlap", [outcome("owner/other", "gsm8k", run)]) == {}


def test_several_sets_of_data_are_named() -> None:
    outcomes = [outcome(model, work, synthetic_run(4)) for work in ("hellaswag", "aime2024") for model in MODELS]
    (figure,) = module.chosen_figures(HU, ["6"])
    panels = module._draw_panels(HU, figure, outcomes)
    said = [draw_panel(panel)._suptitle.get_text() for panel in panels]  # type: ignore[attr-defined]
    assert said == [f"{work}: Skipping one block: effect on later tokens" for work in ("hellaswag", "aime2024")]


def test_what_cannot_be_laid_over_each_other_stands_under_its_models_name() -> None:
    figure = Figure("13", "", ("gsm8k",), ("skip.prompts_future",))
    panels = module._draw_panels(HU, figure, [outcome(model, "gsm8k", synthetic_run(4)) for model in MODELS])
    said = [draw_panel(panel)._suptitle.get_text() for panel in panels]  # type: ignore[attr-defined]
    assert [text.split(":")[0] for text in said] == [model.rpartition("/")[2] for model in MODELS]


def test_measures_are_those_of_all_figures_whichever_are_asked_for() -> None:
    assert module.measures_of(HU, "gsm8k") == ("residual", "lens", "skip", "effective_depth")
    assert module.measures_of(HU, "addition") == ("integrated_gradients", "erasure")
    lad = module.measures_of(REPRODUCTIONS["lad2024"], "corpus")
    assert {"stages", "swap", "drop", "neurons", "lens", "cka", "residual", "repeat", "swap_cosine"} <= set(lad)


def test_a_number_that_is_not_there() -> None:
    with pytest.raises(OptionError, match=r"hu2025 has no figure 10 here; it has 1, 2, 3a,"):
        module.chosen_figures(HU, ["10"])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models, and a little of all data."""
    home = tmp_path_factory.mktemp("papers")
    stand_ins.pieces_checkpoint(home / "first")
    stand_ins.pieces_checkpoint(home / "second", "qwen2", seed=1)
    stand_ins.everything(home / "data")
    return home


def reproduced(home: Path, paper: str, **given: object) -> dict[str, tuple[str, ...]]:
    """Number → models, of every figure that was drawn; nothing may be missing."""
    models = [f"{home / 'first'},{home / 'second'}"]
    found = bathyscope.reproduce(
        paper, models, data=[str(home / "data")], prompts=4, out=home / paper, progress=False, **given
    )
    assert [one.reason for one in found.outcomes if one.result is None] == []
    assert all(one.path.read_bytes().startswith(b"\x89PNG") for one in found.drawn)
    return {number: one.models for one in found.drawn for number in one.figure.numbers}


@pytest.mark.filterwarnings("ignore")
def test_figures_of_other_commands_are_drawn_and_kept(home: Path) -> None:
    assert reproduced(home, "csordas2025", figures=("1", "8")) == {
        "1": ("models of a table",),
        "8": ("first → second",),
    }
    work, place = (
        REPRODUCTIONS["csordas2025"].work("maps"),
        home / "csordas2025" / "csordas2025" / "first-second" / "maps",
    )
    data = {"c4": str(home / "data" / "c4.txt")}
    models = tuple(NamedModel(name, str(home / name), None) for name in ("first", "second"))
    cell = WorkCell(models, work, place, "csordas2025", (), data, 4)
    kept = cell.finished()
    assert isinstance(kept, xr.Dataset)
    assert kept.attrs["source_model"].endswith("first")
    assert replace(cell, count=5).finished() is None
    assert replace(cell, models=models[::-1]).finished() is None


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("paper", REPRODUCTIONS)
def test_every_figure_is_drawn_from_stand_ins(home: Path, paper: str) -> None:
    drawn = reproduced(home, paper)
    assert set(drawn) == {number for figure in REPRODUCTIONS[paper].figures for number in figure.numbers}
    alone = {"1": ("models of a table",), "8": ("first → second",)} if paper == "csordas2025" else {}
    assert {number: models for number, models in drawn.items() if models != ("first", "second")} == alone
    for run in (home / paper).glob("*/first/*/manifest.json"):
        assert open_run(run.parent).n_blocks == 5

"""What a result says of itself is on the page, at the terminal and in Markdown: pages know no class of results."""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bathyscope
from bathyscope.analysis.between.parting import Difference, TokenPredictions, difference
from bathyscope.analysis.between.weights import WeightComparison
from bathyscope.cli.printing import print_result
from bathyscope.core.estimates import Estimate
from bathyscope.core.result import PageResult
from bathyscope.core.tables import TextTable
from bathyscope.core.text import true_minus
from bathyscope.errors import OptionError
from bathyscope.model.identity import ModelIdentity
from bathyscope.pages.acts.plan_head import plan_basis, plan_headline
from bathyscope.pages.acts.sections import act_section
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.figures.results import DRAWINGS, draw_result
from bathyscope.schedule import Schedule
from bathyscope.statistics.sampling import Sampling
from bathyscope.surgery.plan.arrays import result
from bathyscope.surgery.plan.plan import Plan
from bathyscope.surgery.repairing.repaired import Provenance, Repaired, Rung

PROMPTS = {"name": "mine.jsonl", "prompts": 3, "tokens": 30}


def plan() -> Plan:
    values: dict[str, Any] = {
        "subset": np.array(["drop:3,drop:4", "drop:2,drop:7"], dtype=object),
        "calibration_cost": [-0.0213, 0.5],
        "test_cost": [0.1234, np.nan],
        "test_cost_low": [-0.0321, np.nan],
        "test_cost_high": [0.3, np.nan],
        **{name: [0.04321, np.nan] for name in ("p_value", "test_kl", "test_agreement")},
        "indistinguishable": [True, False],
        "cost": np.zeros((2, 3)),
        "full_loss": np.ones(3),
    }
    attrs: dict[str, Any] = {"n_units": 12, "size": 2, "parts": "block", "level": 0.95, "how": "tried", "n_blocks": 12}
    attrs |= {f"{role}_{name}": value for role in ("calibration", "test") for name, value in PROMPTS.items()}
    attrs |= {"calibration_data": "mine.jsonl", "test_data": "mine.jsonl"}
    return Plan(result(["search", "random"], values, {}, {**attrs, "model": "m"}))


def repaired() -> Repaired:
    rungs = (
        Rung("none", 0.3, 0.25, 0.35, calibration_cost=0.3),
        Rung("scale", 0.2, 0.1, 0.25, 0.33, 0.2, 0.4, calibration_cost=0.2, gain=-0.1, gain_low=-0.2, gain_high=0.01),
        Rung("heal", why_not="no time"),
    )
    about = Provenance({"name": "m"}, {"calibration": PROMPTS, "test": PROMPTS}, {"level": 0.95}, "prompts")
    return Repaired(Schedule.parse("drop:3", 12), rungs, about)


def parted() -> Difference:
    """Two models of three blocks of which the second block is another, on one prompt of two scored tokens."""
    graft, floor = np.array([[0.0, 0.3, 0.0]]), np.full((1, 4), 1e-9)
    values = dict.fromkeys(("graft", "graft_back", "cumulative", "cumulative_back"), graft)
    values |= {"drift": np.array([[0.0, 0.0, 0.5, 0.4]]), "noise_floor": floor}
    values |= {"output": np.full(1, 0.3), "output_floor": np.full(1, 1e-9), "part_drift": np.full((1, 3, 2), np.nan)}
    weights = WeightComparison(np.array([0.0, 0.2, 0.0]), [True] * 3, ["block 1, mlp"], [])
    words = np.full((1, 3), "a")
    tokens = TokenPredictions(np.zeros((1, 4, 3)), np.array([[0.3, 0.3, np.nan]]), words, words, words)
    return difference(values, tokens, weights, ["p0"], ("one\x1b", "two"), ("llama", "llama"), Sampling(20, 0.95, 0))


@pytest.mark.parametrize("act", [plan(), repaired(), parted()], ids=["plan", "repaired", "parted"])
def test_whoever_shows_a_result_shows_its_sentences(
    act: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Terminal, JSON, notebook and page; a plan's page has them in a head of its own, and its card as they are."""
    assert len(act.text) > 60
    print_result(act, "table")
    assert " ".join(act.text.split()) in " ".join(capsys.readouterr().out.split())
    print_result(act, "json")
    assert json.loads(capsys.readouterr().out)["conclusion"] == act.text
    assert act.text in html.unescape(act._repr_html_())
    page = bathyscope.report(act, tmp_path / "page.html").read_text(encoding="utf-8")
    shown = " ".join(html.unescape(re.sub(r"<(?:[^>\"]|\"[^\"]*\")*>", "", page)).split())
    sentences = [act.text]
    if isinstance(act, Plan):
        assert act.text in act.evidence
        sentences = [plan_headline(act), plan_basis(act)]
    for sentence in sentences:
        assert true_minus(sentence) in shown or sentence in shown


@pytest.mark.parametrize("act", [plan(), repaired()], ids=["plan", "repaired"])
def test_three_printers_write_the_same_cells(act: Any, capsys: pytest.CaptureFixture[str]) -> None:
    cells = [cell for table in act.tables() for row in table.cells() for cell in row]
    assert len(cells) > 12
    page = act_section(act, "a")
    on_page = [cell for table in page["tables"] for row in table["rows"] for cell in row]
    assert [true_minus(cell) if re.match(r"-[\d.]", cell) else cell for cell in cells] != cells
    assert on_page == [true_minus(cell) for cell in cells]
    markdown = [line for line in act.evidence.splitlines() if line.startswith("| ")]
    for table in act.tables():
        for row in table.cells():
            assert f"| {' | '.join(row)} |" in markdown
    print_result(act, "table")
    printed = capsys.readouterr().out
    for cell in cells:
        assert cell in printed
    for caption in (caption for table in act.tables() for caption in table.caption):
        assert caption in printed
        assert caption in act.evidence
        assert caption in [line for table in page["tables"] for line in table["caption"]]


def test_costs_of_a_plan_are_drawn_once_on_a_page() -> None:
    section = act_section(plan(), "a")
    assert section["figure"] is None
    assert section["head"].count("<svg") == 2  # one picture, for wide and for narrow screens
    assert section["tables"][0]["headings"][0] == "candidate"


@dataclass(frozen=True, repr=False)
class Own(PageResult):
    """A result that no page knows."""

    data: xr.Dataset
    text: str = "It holds. It was measured."
    kind = "survey of mine"
    heading = "A heading <b>of its own</b>"
    models = (ModelIdentity.of_record({"model": "m"}),)

    def to_dataframe(self) -> pd.DataFrame:
        return pd.DataFrame({"row": ["a"], "value": [-0.25]})

    def tables(self) -> list[TextTable]:
        return [TextTable(["row", "value"], [["a", Estimate(-0.25, -0.5, 0.125)]], "A title", ["A caption."])]


def test_a_page_shows_a_result_of_a_class_that_it_does_not_know(tmp_path: Path) -> None:
    page = bathyscope.report(Own(xr.Dataset()), tmp_path / "page.html").read_text(encoding="utf-8")
    text = html.unescape(re.sub(r"<[^>]*>", " ", page))
    for words in ("A heading <b>of its own</b>", "It holds", "A title", "−0.25 (−0.5 to 0.125)", "A caption."):
        assert words in text
    assert "<b>of its own" not in page


def test_its_table_is_shown_and_nothing_of_it_is_selected() -> None:
    assert bathyscope.show(Own(xr.Dataset())).equals(Own(xr.Dataset()).table)
    with pytest.raises(OptionError, match=r"This is a survey of mine, which has a single table. Remove measure"):
        bathyscope.show(Own(xr.Dataset()), "lens")


def test_a_result_without_a_picture_has_none() -> None:
    assert draw_result(Own(xr.Dataset())) is None
    assert Own(xr.Dataset()).picture() is None


def test_pictures_are_those_that_results_name() -> None:
    figure = plan().picture()
    assert figure is not None
    drawing = draw_result(plan())
    assert drawing is not None
    assert [panel.name for panel in drawing.panels] == ["costs"]
    assert plan().figure in DRAWINGS


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (
            {"options": FigureOptions(cluster="document")},
            r"cluster \(--cluster\) is of runs, and none is given: a survey of mine is",
        ),
        ({"options": FigureOptions(prompts_shown=2)}, r"prompts_shown \(--prompts-shown\) is of runs"),
        ({"prompts": "0-4"}, r"prompts \(--prompts\) is of runs"),
        ({"variables": "kl"}, r"Leave variables out, or give a run too"),
    ],
)
def test_what_is_of_runs_is_refused_of_others_alone(choice: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=message):
        bathyscope.report(Own(xr.Dataset()), tmp_path / "page.html", **choice)
    assert not [*tmp_path.iterdir()]

"""Panels by name and by variable: all that are drawn are listed, and a variable leads to a panel that shows it."""

from __future__ import annotations

import math
import re
from typing import Any

import matplotlib.pyplot as plt
import pytest
from support import zoo

import bathyscope
from bathyscope.errors import OptionError
from bathyscope.measures.registry import MEASURES
from bathyscope.pages.figures.registry import FIGURES, drawings
from bathyscope.pages.plotting import _find_panel

NOT_DRAWN_HERE = {
    "lens.exits",
    "lens.gate",
    "stages.loops",
    "neurons.top_ing",
    *("translated_lens.kl", "translated_lens.top1_agreement", "translated_lens.prediction_depth"),
    *("jacobian_lens.kl", "jacobian_lens.top1_agreement", "jacobian_lens.trust"),
    *(f"patching.{name}_N" for name in ("prompt", "attention", "mlp")),
    # of named places, and of options that are off
    *("erasure.effect_at", "erasure.effect_future_at", "patching.recovered_at", "patching.kl_at"),
    *("drop.kl_direct", "drop.loss_direct", "drop.self_repair", "swap.kl_parallel", "swap.loss_parallel"),
}
"""Panels that need a model with loops or a tokenizer, more prompts, pairs of them, or others to fit to."""


@pytest.fixture(scope="module")
def run() -> bathyscope.Run:
    model = zoo.build("llama")
    prompts = [
        bathyscope.Prompt(ids=ids, answer_tokens=3, labels={"level": number % 2})
        for number, ids in enumerate(zoo.prompts(model, (40, 40, 44, 44)))
    ]
    return bathyscope.survey(model, prompts, "all", repeat={"length": 2}, erasure={"future": True}, progress=False)


@pytest.mark.filterwarnings("ignore")
def test_the_list_holds_every_panel_that_is_drawn(run: bathyscope.Run) -> None:
    drawn = {
        re.sub(r"(\.(?:prompt|later|attention|mlp)_)\d+$", r"\1N", f"{figure}.{panel.name}")
        for figure, drawing in drawings(run).items()
        for panel in drawing.panels
    }
    assert {row["name"] for row in bathyscope.names("panels")} == {"profile"} | drawn | NOT_DRAWN_HERE


def test_the_variables_of_the_list_are_those_of_the_measures() -> None:
    for row in bathyscope.names("panels"):
        for variable in row["variables"].split(", "):
            figure, _, name = variable.partition(".")
            table = MEASURES[FIGURES[figure].measure].table
            assert table is not None
            assert name in table, variable


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("variable", "panel"),
    [
        ("skip.effect_future", "future"),
        ("skip.effect_all", "all"),
        ("skip.given_future", "influence_future"),
        ("lens.kl_lens_final", "kl"),
        ("lens.overlap", "agreement"),
        ("residual.norm_mlp_max", "norms_max"),
        ("erasure.effect_future", "later_0"),
        ("drop.loss", "loss"),
        ("effective_depth.depth", "estimates"),
    ],
)
def test_a_variable_leads_to_its_panel(run: bathyscope.Run, variable: str, panel: str) -> None:
    assert _find_panel(run, variable, None).name == panel


def test_a_variable_is_drawn_like_its_panel(run: bathyscope.Run) -> None:
    for figure in (bathyscope.plot(run, "skip.effect_future"), bathyscope.plot(run, "skip.future")):
        labels = [ax.get_xlabel() for ax in figure.axes]
        assert any("block" in label for label in labels)
        plt.close("all")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"panel": 3}, "panel takes a text; 3 given. Write it in quotes."),
        ({"panel": None}, "panel takes a text; None given."),
        ({"ax": "x"}, "ax='x' is of type str. Give axes of plt.subplots(...), or None for a new figure."),
        ({"width": math.nan}, "width=nan is not a length. Give inches above 0, such as 3.3."),
        ({"width": 0}, "width=0.0 is not a length. Give inches above 0, such as 3.3."),
        ({"width": -3.3}, "width=-3.3 is not a length. Give inches above 0, such as 3.3."),
        ({"width": "wide"}, "width takes a number; 'wide' given."),
        ({"width": True}, "width takes a number; True given."),
    ],
)
def test_wrong_arguments_of_plot_are_refused(run: bathyscope.Run, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        bathyscope.plot(run, **{"panel": "lens.kl", **arguments})
    assert str(caught.value) == message


def test_wrong_runs_and_selections_of_explore_are_refused(run: bathyscope.Run) -> None:
    pytest.importorskip("anywidget")
    with pytest.raises(OptionError) as caught:
        run.explore(5)  # type: ignore[arg-type]
    assert str(caught.value) == ("explore() takes runs, not 5 of type int. Give what bathyscope.open returns.")
    views: Any = run.select(prompts=[0]).explore(text=False)
    with pytest.raises(OptionError) as caught:
        views.selection = {"blok": 1}
    assert str(caught.value) == (
        "'blok' cannot be selected. Did you mean 'block'? Allowed: run, block, boundary, prompt, token."
    )
    views.selection = {"block": 1, "token": None}
    assert views.selection == {"block": 1, "token": None}

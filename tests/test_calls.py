"""Calls of public functions: misspelt keywords, truth values and sizes are refused in one way, before any compute."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.synthetic import synthetic_run

import bathyscope
from bathyscope.core.calls import checked
from bathyscope.errors import ArgumentError, OptionError
from bathyscope.options import Range

MODEL, TEXTS = "no/such-model", [[5, 9, 7, 30]]
MISSPELT: dict[str, tuple[Callable[[], Any], str, str]] = {
    "load": (lambda: bathyscope.load(MODEL, dtpye="float32"), "dtpye", "dtype"),
    "report": (lambda: bathyscope.report("run", "x.html", optoins=None), "optoins", "options"),
    "open": (lambda: bathyscope.open("run", partail=True), "partail", "partial"),
    "show": (lambda: bathyscope.show("run", rwa=True), "rwa", "raw"),
    "check": (lambda: bathyscope.check(MODEL, dveice="cpu"), "dveice", "device"),
    "watch": (lambda: bathyscope.watch(None, TEXTS, "out", evry=5), "evry", "every"),
    "demo": (lambda: bathyscope.demo(rael=True), "rael", "real"),
    "grid": (lambda: bathyscope.grid("g.yaml", "out", progess=True), "progess", "progress"),
    "join": (lambda: bathyscope.join(["a", "b"], uot="out"), "uot", "out"),
    "evaluate": (lambda: bathyscope.evaluate(MODEL, ["arc_easy"], limt=3), "limt", "limit"),
    "reproduce": (lambda: bathyscope.reproduce("hu2025-table1", dtpye="float32"), "dtpye", "dtype"),
    "plot": (lambda: bathyscope.plot("run", "lens.kl", widht=3), "widht", "width"),
    "scheduled": (lambda: bathyscope.scheduled(MODEL, "drop:1", argumnets="slot"), "argumnets", "arguments"),
    "card": (lambda: bathyscope.card("run", otu="x.md"), "otu", "out"),
    "badge": (lambda: bathyscope.badge("run", otu="x.svg"), "otu", "out"),
}


@pytest.mark.parametrize("name", MISSPELT)
def test_a_misspelt_keyword_is_an_option_error_and_pythons_own(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    call, given, meant = MISSPELT[name]
    with pytest.raises(ArgumentError) as caught:
        call()
    assert isinstance(caught.value, OptionError)
    assert isinstance(caught.value, TypeError)
    message = str(caught.value)
    assert message.startswith(f"{name}(): ")
    assert message.endswith(f"See help(bathyscope.{name}).")
    assert repr(given) in message
    assert f"Did you mean {meant!r}?" in message
    assert not list(tmp_path.iterdir())


def test_every_truth_value_of_a_public_function_is_checked() -> None:
    """Each public function, by its own annotations: a text is no truth value, wherever one is asked for."""
    tried = set()
    for name in sorted(bathyscope.__all__):
        function = getattr(bathyscope, name)
        if not inspect.isfunction(function):
            continue
        parameters = inspect.signature(function).parameters
        required = [p for p in parameters.values() if p.default is p.empty]
        places = [MODEL for p in required if p.kind is p.POSITIONAL_OR_KEYWORD]
        named = {p.name: MODEL for p in required if p.kind is p.KEYWORD_ONLY}
        for option, parameter in parameters.items():
            if str(parameter.annotation) in ("bool", "bool | None", "<class 'bool'>"):
                for wrong in ("no", 1, 0.0):
                    with pytest.raises(OptionError, match=rf"{option} takes true or false; .* given"):
                        function(*places, **named, **{option: wrong})
                tried.add((name, option))
    expected = {("show", "raw"), ("demo", "real"), ("reproduce", "as_published"), ("open", "partial")}
    assert expected <= tried
    with pytest.raises(OptionError, match="progress takes true or false"):
        bathyscope.watch(None, TEXTS, "out", progress="no")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "call",
    [
        lambda: bathyscope.survey(MODEL, TEXTS, ["lens"], "out", until=math.inf),
        lambda: bathyscope.survey(MODEL, TEXTS, ["jacobian_lens"], jacobian_lens={"memory": math.inf}),
        lambda: bathyscope.survey(MODEL, TEXTS, ["translated_lens"], translated_lens={"memory": math.inf}),
        lambda: bathyscope.fit_lens(MODEL, TEXTS, memory=math.inf),
        lambda: bathyscope.survey(MODEL, TEXTS, memory=math.inf),
    ],
)
def test_infinity_is_out_of_every_range(call: Callable[[], Any], tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError, match=r"(until|memory)=inf"):
        call()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_range_holds_numbers_alone(value: float) -> None:
    for limits in (Range(0), Range(0.5, 2.0), Range(1, none="many")):
        with pytest.raises(OptionError, match="is out of range; allowed"):
            limits.check(value, "size")


@pytest.mark.parametrize("width", [50.001, 500, 1e9, math.inf])
def test_a_figure_is_no_wider_than_can_be_drawn(width: float) -> None:
    with pytest.raises(OptionError, match=r"out of range: width is in inches; allowed: above 0 to 50\.$"):
        bathyscope.plot(synthetic_run(2, prompts=2), "lens.kl", width=width)


def test_names_for_type_checkers_alone_do_not_keep_others_from_being_checked() -> None:
    def draw(table: Unimported, bold: bool = False) -> object:  # type: ignore[name-defined]  # noqa: F821
        return table, bold

    assert checked(draw)(3, bold=True) == (3, True)
    with pytest.raises(OptionError, match="bold takes true or false; 'no' given"):
        checked(draw)(3, bold="no")

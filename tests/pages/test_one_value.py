"""One quantity has one value on a page: what stands in its answer, its data, its tables and its texts agrees."""

from __future__ import annotations

import re
import warnings
from html import unescape
from typing import Any

import numpy as np
import pytest
from support import waves, zoo
from support.packed import read

import bathyscope
from bathyscope import Prompt
from bathyscope.pages.figures.kit import lines
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.figures.registry import FIGURES
from bathyscope.pages.head.classes import write_cost
from bathyscope.runs.by_place import by_block
from bathyscope.runs.run import Run

LENGTHS = (20, 9, 15, 24, 12, 30)
MEASURES = ["residual", "lens", "skip", "direct", "drop", "swap", "tokens", "effective_depth"]
"""All whose numbers stand in more than one place of a page."""
NUMBER = r"[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?"


@pytest.fixture(scope="module")
def run() -> Run:
    """A tiny model on prompts of very different lengths."""
    model = waves.loaded("llama")
    prompts = [
        Prompt(ids=ids, answer_tokens=2, id=f"p{n}", labels={"level": n % 3 + 1})
        for n, ids in enumerate(zoo.prompts(model.hf, LENGTHS))
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # short prompts have no position
        return bathyscope.survey(model, prompts, MEASURES, seed=123, progress=False)


@pytest.fixture(scope="module")
def html(run: Run, tmp_path_factory: pytest.TempPathFactory) -> str:
    options = FigureOptions(reduction="mean", prompts_shown=0)
    path = bathyscope.report([run], tmp_path_factory.mktemp("page") / "page.html", options=options)
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def packed(html: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    content = re.search(r'<script type="application/x-bathyscope" [^>]*>([^<]*)', html)
    assert content is not None
    return read(content[1])


def tables(html: str) -> dict[str, dict[str, dict[str, str]]]:
    """Section → column → row → cell, of the tables under its pictures and of effective depth."""
    sections = {}
    for part in re.split(r'<details class="folded(?: printed)?"', html)[1:]:
        heading = unescape(re.sub(r"<[^>]*>", "", re.search(r"<h[34]>(.*?)</h[34]>", part, re.S)[1]))  # type: ignore[index]
        grid = [
            [unescape(re.sub(r"<[^>]*>", "", cell)) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S)]
            for row in re.findall(r"<tr>.*?</tr>", part, re.S)
        ]
        if grid:
            columns = zip(*(row for row in grid if len(row) == len(grid[0])))
            places, *rest = columns
            sections[heading] = {column[0]: dict(zip(places[1:], column[1:])) for column in rest}
    return sections


def numbers(cell: str) -> list[float]:
    return [float(number) for number in re.findall(NUMBER, cell.replace("−", "-"))]


def same(printed: str, value: float) -> bool:
    """Whether a printed number is this value, to its own last digit."""
    mantissa, _, exponent = printed.partition("e")
    digits = len(mantissa.partition(".")[2])
    return abs(float(printed) - value) <= 0.51 * 10.0 ** (int(exponent or 0) - digits) + 1e-12


def assert_cells(cells: dict[str, str], quantity: dict[str, Any]) -> None:
    """Means and intervals by block, as ``mean (low to high)``."""
    assert len(cells) >= len(quantity["places"])
    for place, *ends in zip(quantity["places"], quantity["mean"], quantity["low"], quantity["high"]):
        printed = re.findall(NUMBER, cells[str(place)])
        assert len(printed) == 3, cells[str(place)]
        assert all(same(*pair) for pair in zip(printed, ends)), (quantity["key"], place, cells[str(place)], ends)


def test_blocks_cost_the_same_in_the_strip_and_in_tables(html: str, packed: Any) -> None:
    strip, by_section = {one["key"]: one for one in packed[0]["blocks"]}, tables(html)
    assert_cells(by_section["One block dropped"]["Loss added without one block: loss difference (nats)"], strip["drop"])
    swapped = by_section["Two neighbouring blocks swapped"]
    assert_cells(swapped["Loss added with neighbours swapped: loss difference (nats)"], strip["swap"])
    skip = by_section["Skip effects"]
    for key, reach in (("output-all", "all tokens"), ("output-future", "later tokens")):
        assert_cells(skip[f"Change of the output, {reach}: mean over tokens (1)"], strip[key])
    residual = by_section["Residual stream"]
    for key, label in (("norm-block", "block"), ("norm-attn", "attention"), ("norm-mlp", "MLP")):
        assert_cells(residual[f"Mean norms of the stream and what is added: {label} (1)"], strip[key])


def test_the_answer_names_the_costs_of_the_strip(html: str, packed: Any) -> None:
    costs = next(one for one in packed[0]["blocks"] if one["key"] == "drop")
    section = re.search(r'<section class="profile".*?</section>', html, re.S)
    assert section is not None
    words = unescape(re.sub(r"<[^>]*>", " ", section[0]))
    # the picture's words for readers who cannot see it, its tiles, and the sentence on what carries the model
    described = unescape(re.findall(r'aria-label="(Depth profile of [^"]*)"', section[0])[-1])
    by_block = re.findall(r"(\d+): ([+−]?[\d.]+)", described.partition("Loss added")[2])
    assert [int(block) for block, _ in by_block] == costs["places"]
    assert [cost.rstrip(".") for _, cost in by_block] == [write_cost(mean) for mean in costs["mean"]]
    assert all(write_cost(mean) in words for mean in costs["mean"])
    named = re.search(r"Block (\d+) costs ([+−][\d.]+) nats|Costliest alone: block (\d+), ([+−][\d.]+) nats", words)
    assert named is not None, words
    block = costs["places"].index(int(named[1] or named[3]))
    assert block == int(np.argmax(costs["mean"]))
    assert (named[2] or named[4]) == write_cost(costs["mean"][block])


def test_depths_of_the_verdict_are_those_of_tables_texts_and_prompts(run: Run, html: str, packed: Any) -> None:
    verdict = run.verdict
    prediction = tables(html)["Effective depth, estimates"]
    row = "prediction depth of tokens"
    assert same(prediction["Depth"][row], verdict.readable.value)
    low, high = re.findall(NUMBER, next(cells for name, cells in prediction.items() if "interval" in name)[row])
    assert same(low, verdict.readable.low)
    assert same(high, verdict.readable.high)
    # in full digits too, whatever the tokens of the prompts
    estimates = run["effective_depth"].sel(estimator="prediction")
    assert float(estimates.depth) == pytest.approx(verdict.readable.value, rel=1e-12)
    assert [float(estimates.ci_low), float(estimates.ci_high)] == pytest.approx(
        [verdict.readable.low, verdict.readable.high], rel=1e-9
    )
    alt = unescape(html).replace("\n", " ")
    said = re.search(rf"prediction depth: mean ({NUMBER})", alt)
    assert said is not None
    assert same(said[1], verdict.readable.value)
    settle = re.search(rf"settle depth: mean ({NUMBER})", alt)
    assert settle is not None
    assert same(
        prediction["Depth"]["settle depth of tokens"], float(run["effective_depth"].sel(estimator="settle").depth)
    )
    assert float(settle[1]) == pytest.approx(float(prediction["Depth"]["settle depth of tokens"]), abs=0.051)
    columns = {one["label"]: one["values"] for one in packed[0]["prompts"]["numbers"]}
    half = [np.nan if value is None else value for value in columns["depth, half"]]
    np.testing.assert_allclose(half, verdict.half.by_prompt)
    for name in ("readable", "own", "later"):
        by_prompt = [np.nan if value is None else value for value in columns[f"depth, {name}"]]
        assert np.nanmean(by_prompt) == pytest.approx(getattr(verdict, name).value, rel=1e-12)


def test_shares_and_losses_are_the_same_in_texts_tables_and_prompts(run: Run, html: str, packed: Any) -> None:
    lens = tables(html)["Logit lens"]
    last = run.n_blocks - 1
    (agreement,) = [cells for name, cells in lens.items() if "same top-1 token" in name]
    by_prompt = run["lens"]["top1_agreement"].isel(boundary=-2).values
    assert numbers(agreement[str(last)])[0] == pytest.approx(by_prompt.mean(), rel=1e-3)
    # the head is of all tokens together, and prompts differ in their number
    changed = re.search(r"the last block still changes (\d+) %", run.verdict.text)
    assert changed is not None
    assert same(changed[1], 100 * (1 - by_prompt @ np.array(LENGTHS) / sum(LENGTHS)))
    (loss,) = [cells for name, cells in lens.items() if name.startswith("Loss of the lens prediction")]
    losses = next(one["values"] for one in packed[0]["prompts"]["numbers"] if one["label"] == "loss")
    assert same(re.findall(NUMBER, loss[str(run.n_blocks)])[0], float(np.mean(losses)))


def test_maps_of_the_views_are_those_of_the_pictures(run: Run, html: str, packed: Any) -> None:
    alt, (meta, arrays) = unescape(html).replace("\n", " "), packed
    for one in meta["maps"]:
        if one["columns"] == "token":
            continue
        mean = arrays[f"{one['key']}-mean"][one["reductions"].index("mean")]
        reach = "later tokens" if one["key"].endswith("future") else "all tokens"
        title = "Skipping one block: effect on" if one["key"].startswith("skip") else "Direct effect on"
        found = re.search(
            rf"{title} {reach}, mean over tokens and prompts: median ({NUMBER}), largest ({NUMBER}) at", alt
        )
        assert found is not None, one["key"]
        later = mean[np.triu(np.ones(mean.shape, dtype=bool), 1)]
        # the view's numbers have four digits
        assert float(found[1]) == pytest.approx(np.nanmedian(later), rel=6e-3), one["key"]
        assert float(found[2]) == pytest.approx(np.nanmax(later), rel=6e-3), one["key"]


def test_tokens_are_counted_once(run: Run, html: str, packed: Any) -> None:
    columns = {one["label"]: one["values"] for one in packed[0]["prompts"]["numbers"]}
    assert columns["tokens"] == list(LENGTHS)
    assert f"{len(LENGTHS)} prompts, {sum(LENGTHS)} tokens" in html


def test_a_reduction_that_differs_from_the_strips_is_named(run: Run) -> None:
    """The papers' figures show the largest effects, and the strip means over tokens."""
    drawing = FIGURES["skip"].drawing(run, FigureOptions(reduction="max"))
    named = {number["what"] for number in lines.numbers(drawing, run["skip"])}
    assert "Change of the output, all tokens: largest over tokens" in named
    (strip,) = [one for one in by_block(run) if one.key == "output-all"]
    assert strip.label.endswith("mean over tokens)")

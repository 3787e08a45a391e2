"""What is known of the papers' tables and figures."""

from __future__ import annotations

import pytest

from bathyscope.measures.registry import MEASURES
from bathyscope.papers.comparisons import REASONING_PAIRS
from bathyscope.papers.presets import PRESETS
from bathyscope.papers.reproduction import Sizes, short_name
from bathyscope.papers.reproductions import REPRODUCTIONS
from bathyscope.prompts.spec import parse
from bathyscope.report.figures.registry import FIGURES

HU = REPRODUCTIONS["hu2025"]
CSORDAS = REPRODUCTIONS["csordas2025"]


@pytest.mark.parametrize("name", REPRODUCTIONS)
def test_everything_named_exists(name: str) -> None:
    paper = REPRODUCTIONS[name]
    assert paper.paper in PRESETS
    for survey in paper.surveys:
        if isinstance(survey.prompts, str):
            assert str(parse(survey.prompts)) == survey.prompts
        assert set(survey.measures or ()) | set(survey.options) <= set(MEASURES)
    for figure in paper.figures:
        assert bool(figure.reason) == (not figure.surveys)
        assert set(figure.draws) <= set(FIGURES)
        assert set(figure.models) <= set(paper.models)
        measures = set().union(*(paper.survey(s).measures or PRESETS[name].measures for s in figure.surveys))
        assert {FIGURES[kind].measure for kind in figure.draws} <= measures


@pytest.mark.parametrize(("name", "last"), [("csordas2025", 41), ("hu2025", 9)])
def test_every_number_has_one_entry(name: str, last: int) -> None:
    figures = REPRODUCTIONS[name].figures
    for number in range(1, last + 1):
        assert sum(figure.includes(number) for figure in figures) == 1


def test_lad2024_has_the_figures_that_are_measurements() -> None:
    figures = REPRODUCTIONS["lad2024"].figures
    measured = {1, *range(5, 13), *range(14, 27)}
    for number in range(1, 27):
        assert sum(figure.includes(number) for figure in figures) == (number in measured)
    assert [figure.label for figure in figures if figure.checked] == ["1", "10"]


def test_only_numbers_that_are_known_go_without_a_mark() -> None:
    assert [figure.label for figure in CSORDAS.figures if figure.checked] == ["39–41"]
    assert CSORDAS.figures[1].label == "~2"


def test_table_1() -> None:
    table = HU.depths
    assert table is not None
    assert len(table.depths) == 12
    assert table.depth("Qwen/Qwen2.5-Math-7B", "gsm8k", "cosine") == 11
    assert table.depth("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", "gsm8k", "kl") == 1
    assert table.depth("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", "aime2024", "overlap") == 58
    assert table.depth("gpt2", "gsm8k", "kl") is None
    assert table.depth(None, "gsm8k", "kl") is None
    for model, rows in table.depths.items():
        assert [len(row) for row in rows] == [3, 3, 3]
        assert all(0 < depth < HU.sizes[model].blocks for row in rows for depth in row)


def test_table_2() -> None:
    assert HU.sizes["Qwen/Qwen2.5-Math-1.5B"] == Sizes(28, 12, 2)
    assert HU.sizes["deepseek-ai/DeepSeek-R1-Distill-Qwen-7B"] == Sizes(28, 28, 4)
    assert HU.sizes["Qwen/Qwen2.5-14B-Instruct"] == Sizes(48, 40, 8)
    assert HU.sizes["Qwen/Qwen2.5-32B"] == Sizes(64, 40, 8)


def test_the_rows_are_the_models_of_the_comparisons() -> None:
    assert {name for pair in REASONING_PAIRS for name in pair} <= {short_name(model) for model in HU.models}

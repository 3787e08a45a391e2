"""What is known of the papers' tables and figures."""

from __future__ import annotations

import pytest

from bathyscope.measures.registry import MEASURES
from bathyscope.pages.figures.registry import FIGURES
from bathyscope.pages.figures.results import DRAWINGS
from bathyscope.pages.papers.figures import measures_of
from bathyscope.prompts.spec import parse
from bathyscope.surveying.papers import csordas2025
from bathyscope.surveying.papers.hu2025 import REASONING_PAIRS
from bathyscope.surveying.papers.presets import PRESETS
from bathyscope.surveying.papers.reproduction import short_name
from bathyscope.surveying.papers.reproductions import REPRODUCTIONS

HU = REPRODUCTIONS["hu2025"]
CSORDAS = REPRODUCTIONS["csordas2025"]

BIG, SMALL, FURTHER, MAPPED, TUNED, ALL, NONE = "70B", "8B", "further", "mapped", "tuned", "all", "given"
NAMED = {
    BIG: ("meta-llama/Meta-Llama-3.1-70B",),
    SMALL: ("meta-llama/Meta-Llama-3.1-8B",),
    FURTHER: tuple(model for model in csordas2025.MODELS if model != "meta-llama/Meta-Llama-3.1-70B"),
    MAPPED: ("Qwen/Qwen2.5-1.5B", "Qwen/Qwen2.5-14B"),
    TUNED: ("meta-llama/Llama-3.2-3B", "meta-llama/Llama-3.2-3B-Instruct"),
    ALL: (),
    NONE: (),
}
LENS = "lens.kl_lens_final lens.overlap"
READ = "integrated_gradients.prompt erasure"
PRINTED = {
    "csordas2025": {
        "1": ("scores", "depth_performance", ALL),
        "2a": ("gsm8k-20", "residual.ratios", BIG),
        "2b": ("gsm8k-20", "residual.cosines", BIG),
        "3a": ("gsm8k-20", "skip.all", BIG),
        "3b": ("gsm8k-10", "skip.future", BIG),
        "4a": ("gsm8k-20", "lens.kl_lens_final", BIG),
        "4b": ("gsm8k-20", "lens.overlap", BIG),
        "5a": ("gsm8k-20", "direct.all", BIG),
        "5b": ("gsm8k-10", "direct.future", BIG),
        **dict.fromkeys(("6a", "6b", "6c", "6d"), ("questions", READ, SMALL)),
        "7a": ("levels", "depth_score.layer", BIG),
        "7b": ("hops", "depth_score.layer", BIG),
        "8": ("maps", "maps", MAPPED),
        **dict.fromkeys(("9", "42", "43"), ("arithmetic", "erasure", NONE)),
        **dict.fromkeys(("10", "11", "12"), ("math-20 gsm8k-50", "skip.all skip.future", BIG)),
        "13": ("gsm8k-10", "skip.prompts_future", BIG),
        "14": ("helm", "skip.all skip.future", BIG),
        "15": ("gsm8k-20", "residual.norms", BIG),
        "16": ("gsm8k-20", "residual.neighbour", BIG),
        "17a": ("gsm8k-20", "skip.output_all", BIG),
        "17b": ("gsm8k-10", "skip.output_future", BIG),
        **dict.fromkeys(("18", "19", "20"), ("gsm8k-20", "residual.norms", FURTHER)),
        **dict.fromkeys(("21", "22"), ("gsm8k-20", "residual.ratios residual.cosines", FURTHER)),
        **dict.fromkeys(("23", "24", "25", "26"), ("gsm8k-10", "skip.future", FURTHER)),
        **dict.fromkeys(("27", "28", "29"), ("gsm8k-10", "direct.all direct.future", FURTHER)),
        **dict.fromkeys(("30", "31"), ("gsm8k-20", LENS, FURTHER)),
        "32": ("questions", "erasure integrated_gradients.prompt", BIG),
        **dict.fromkeys(("33", "34"), ("questions", "erasure integrated_gradients.prompt", FURTHER)),
        **dict.fromkeys(("35", "36", "37"), ("levels hops", "depth_score.layer depth_score.output", FURTHER)),
        "38": ("levels hops", "depth_score.by_level", BIG),
        **dict.fromkeys(("39", "40", "41"), ("arithmetic", "skip.all erasure integrated_gradients.prompt", TUNED)),
    },
    "hu2025": {
        "1": ("gsm8k", "residual.cosines", ALL),
        "2": ("gsm8k", LENS, ALL),
        "3a": ("gsm8k", "skip.future", ALL),
        "3b": ("gsm8k", "skip.output_future", ALL),
        "4a": ("addition multiplication", "integrated_gradients.prompt", ALL),
        "4b": ("addition multiplication", "erasure", ALL),
        "5": ("hellaswag aime2024", "residual.cosines", ALL),
        "6": ("hellaswag aime2024", "skip.future", ALL),
        "7": ("hellaswag aime2024", "skip.output_future", ALL),
        "8": ("hellaswag aime2024", "lens.kl_lens_final", ALL),
        "9": ("hellaswag aime2024", "lens.overlap", ALL),
    },
    "lad2024": {
        "1": ("corpus", "stages", ALL),
        "5a": ("corpus", "drop_and_swap drop.kl swap.kl", ALL),
        **dict.fromkeys(("5b", "5c", "14"), ("corpus", "cka.last", ALL)),
        "6a": ("corpus", "attention_locality.total_prev5", ALL),
        "6b": ("words", "subjoiner", ALL),
        **dict.fromkeys(("7a", "20"), ("wic", "wic", ALL)),
        **dict.fromkeys(("7b", "21"), ("lens", "lens.entropy", ALL)),
        **dict.fromkeys(("8", "19"), ("corpus", "neurons.fractions", ALL)),
        **dict.fromkeys(("9", "23"), ("corpus", "neurons.top_ing", ALL)),
        **dict.fromkeys(("10", "12b", "22"), ("corpus", "residual.norm_mlp", ALL)),
        **dict.fromkeys(("11", "12c", "24", "25"), ("corpus repeat-3", "repeat.kl repeat.loss", ALL)),
        "12a": ("ing", "ing", ALL),
        "15": ("drop", "evaluation", ALL),
        "16": ("swap", "evaluation", ALL),
        **dict.fromkeys(("17", "18"), ("corpus", "swap_cosine", ALL)),
        "26": ("repeats", "evaluation", ALL),
        "table 1": ("capitals", "patching", ALL),
        "§4.3": ("corpus", "prediction_fall", ALL),
    },
}
"""Paper → number as printed in its final version → data, what is drawn, models."""


@pytest.mark.parametrize("name", REPRODUCTIONS)
def test_figures_have_the_papers_own_numbers(name: str) -> None:
    found = {
        number: (" ".join(figure.data), " ".join(figure.draws), figure.models)
        for figure in REPRODUCTIONS[name].figures
        for number in figure.numbers
    }
    wanted = {number: (data, draws, NAMED[models]) for number, (data, draws, models) in PRINTED[name].items()}
    assert found == wanted
    numbers = [number for figure in REPRODUCTIONS[name].figures for number in figure.numbers]
    assert len(numbers) == len(set(numbers))


def test_what_nobody_can_load_is_said() -> None:
    needing = {
        figure.label: figure.needs for paper in REPRODUCTIONS.values() for figure in paper.figures if figure.needs
    }
    assert list(needing) == ["9, 42, 43", "39, 40, 41"]
    assert "a Transformer and a MoEUT trained alike on arithmetic" in needing["9, 42, 43"]
    assert "before and after fine-tuning on arithmetic" in needing["39, 40, 41"]


@pytest.mark.parametrize("name", REPRODUCTIONS)
def test_everything_named_exists(name: str) -> None:
    paper = REPRODUCTIONS[name]
    assert paper.paper in PRESETS
    for work in paper.works:
        if isinstance(work.data, str) and work.verb in ("survey", "maps"):
            assert str(parse(work.data)) == work.data
        if work.verb == "survey":
            assert set(work.options) <= set(measures_of(paper, work.name)) <= set(MEASURES)
            assert measures_of(paper, work.name)
        assert any(work.name in one.data for one in (*paper.figures, *paper.tables.values()))
    for figure in paper.figures:
        verbs = {paper.work(data).verb for data in figure.data}
        assert len(verbs) == 1
        kinds = {draws.partition(".")[0] for draws in figure.draws}
        assert kinds <= set(FIGURES if verbs == {"survey"} else DRAWINGS)
        assert set(figure.models) <= set(paper.listed)


def test_a_number_means_all_of_its_parts() -> None:
    two, three = CSORDAS.figures[1], CSORDAS.figures[3]
    assert two.label == "2a"
    assert [two.includes(number) for number in ("2a", "2", "2b", "20", "a", "")] == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]
    assert three.includes("3")
    robust = next(figure for figure in CSORDAS.figures if "11" in figure.numbers)
    assert (robust.label, robust.includes("12"), robust.includes("1")) == ("10, 11, 12", True, False)


def test_table_1() -> None:
    table = HU.tables["1"]
    assert len(table.values) == 12
    assert table.published("Qwen/Qwen2.5-Math-7B", "cosine", "gsm8k") == 11
    assert table.published("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", "kl", "gsm8k") == 1
    assert table.published("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", "overlap", "aime2024") == 58
    assert table.published("gpt2", "kl", "gsm8k") is None
    assert table.published(None, "kl", "gsm8k") is None
    assert table.published("Qwen/Qwen2.5-Math-7B", "kl", "addition") is None
    for model, rows in table.values.items():
        assert [len(row) for row in rows] == [3, 3, 3]
        blocks = HU.tables["2"].published(model, "blocks")
        assert blocks is not None
        assert all(0 < depth < blocks for row in rows for depth in row)


@pytest.mark.parametrize(
    ("model", "sizes"),
    [
        ("Qwen/Qwen2.5-Math-1.5B", (28, 12, 2)),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", (28, 28, 4)),
        ("Qwen/Qwen2.5-14B-Instruct", (48, 40, 8)),
        ("Qwen/Qwen2.5-32B", (64, 40, 8)),
    ],
)
def test_table_2(model: str, sizes: tuple[int, int, int]) -> None:
    table = HU.tables["2"]
    assert tuple(table.published(model, name) for name in ("blocks", "query_heads", "key_heads")) == sizes


def test_the_rows_are_the_models_of_the_comparisons() -> None:
    assert {name for pair in REASONING_PAIRS for name in pair} <= {short_name(model) for model in HU.models}

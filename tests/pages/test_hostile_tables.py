"""Names of others in results that have no page of their own: what a notebook, Markdown and pictures show of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from markdown_it import MarkdownIt
from support import stand_ins, zoo
from support.hostile import EVIL, FILE, MARK, assert_read_and_inert
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import bathyscope
from bathyscope.core.result import TabledResult
from bathyscope.core.tables import markdown_of

WORD = EVIL.replace(" ", "/")
WHOLES = [f"{WORD}{number}" for number in range(20)]
BEGINNINGS = [f"{WORD}{number}x" for number in range(20, 30)]
ENDS = [f"##{WORD}{number}" for number in range(6)]
GERUNDS = [f"{WORD}{number}ing" for number in range(12)]
SPLIT = [f"{first}{last.removeprefix('##')}" for first in BEGINNINGS for last in ENDS]
QUICK: dict[str, Any] = {"resamples": 20, "progress": False}


def checkpoint(folder: Path, seed: int) -> Path:
    """A model whose every token is hostile, some words of several tokens, in a folder of a hostile name."""
    model = zoo.entry("llama").build(seed=seed)
    model.config.max_position_embeddings = 512
    model.save_pretrained(folder)
    vocabulary = ["<pad>", "<s>", "</s>", "<unk>", *WHOLES, *BEGINNINGS, *ENDS, *GERUNDS]
    numbered = {word: number for number, word in enumerate(vocabulary)}
    backend = Tokenizer(models.WordPiece(numbered, unk_token="<unk>", max_input_chars_per_word=500))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.decoder = decoders.WordPiece()
    PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", pad_token="<pad>").save_pretrained(folder)
    return folder


DRAW = np.random.default_rng(0)


def sentence(count: int, words: list[str] = WHOLES) -> str:
    return " ".join(DRAW.choice(words, count).tolist())


def meanings(count: int) -> list[dict[str, Any]]:
    rows = []
    for number in range(count):
        word, before = WHOLES[number % 3], sentence(3)
        first = {"sentence1": f"{before} {word}", "start1": len(before) + 1, "end1": len(before) + 1 + len(word)}
        second = {"sentence2": f"{word} {sentence(2)}", "start2": 0, "end2": len(word)}
        rows.append({"word": word, "label": number % 2, **first, **second})
    return rows


def scores() -> pd.DataFrame:
    """A table of models in which names, families and columns are hostile."""
    layers, widths = DRAW.integers(6, 60, 24), 64 * DRAW.integers(8, 64, 24)
    names = {"name": [f"{EVIL}{n}" for n in range(24)], "family": [f"{EVIL}{n % 4}" for n in range(24)]}
    sizes = {"layers": layers, "d_model": widths, EVIL: widths * DRAW.integers(1, 9, 24)}
    return pd.DataFrame({**names, **sizes, f"{EVIL}score": DRAW.normal(size=24)})


def results(out: Path) -> Iterator[tuple[str, Any]]:
    """Every verb whose result is a table, and what the program calls it."""
    first, second = (checkpoint(out / f"{FILE}{seed}", seed) for seed in (1, 2))
    model, other = map(bathyscope.load, (first, second))
    prompts = bathyscope.PromptSet(
        tuple(
            bathyscope.Prompt(
                text=sentence(20), answer=f" {WHOLES[n % 3]}", id=f"{EVIL}{n}", labels={"level": f"{EVIL}{n % 2}"}
            )
            for n in range(12)
        ),
        EVIL,
        True,
    )
    run = bathyscope.survey(model, prompts, ["residual", "lens"], write=3, progress=False)
    yield "among", run.among()
    yield "written", bathyscope.written(run, resamples=20, permutations=99)
    yield "estimate", bathyscope.estimate(first, prompts)
    yield "fit lens", bathyscope.fit_lens(model, prompts, progress=False)
    yield "repeat scan", bathyscope.repeat_scan(model, prompts, longest=1, **QUICK)
    yield "maps", bathyscope.maps(model, other, prompts, **QUICK)
    yield "cka", bathyscope.cka(model, other, prompts)
    yield "solved", bathyscope.solved(model, prompts, progress=False)
    yield "solved by", bathyscope.solved_by(model, other, prompts, progress=False)
    yield (
        "depth performance",
        bathyscope.depth_performance(scores(), score=f"{EVIL}score", covariates=("d_model", EVIL)),
    )
    cells = [{"prompts": [sentence(6)], "name": EVIL}, {"prompts": f"{EVIL}:3", "name": "missing"}]
    grid: dict[str, Any] = {"models": [str(first)], "prompts": cells, "options": [{"name": EVIL}], "measures": "lens"}
    yield "grid", bathyscope.grid(grid, out / "grid", progress=False)
    yield "wic", bathyscope.probe("wic", model, meanings(12), meanings(12), **QUICK)
    (out / "corpus.txt").write_text(sentence(3000, [*WHOLES[:10], *GERUNDS]), encoding="utf-8")
    options = {"neurons": 4, "window": 6, "contexts": 200}
    yield "ing", bathyscope.probe("ing", model, out / "corpus.txt", **options, **QUICK)
    context = " ".join(WHOLES[:12])
    words = [*SPLIT, *WHOLES]
    yield "subjoiner", bathyscope.probe("subjoiner", model, words, pieces=2, window=8, context=context, **QUICK)
    stand_ins.everything(out / "data")
    (out / "data" / "c4.txt").write_text(sentence(6000), encoding="utf-8")
    data = {"data": [str(out / "data")], "prompts": 4, "out": out / "reproduced", "formats": ("svg",)}
    yield (
        "reproduce",
        bathyscope.reproduce("csordas2025", [f"{first},{second}"], figures=("1", "8"), progress=False, **data),
    )


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Path], list[Path]]:
    """A page of what is shown of each result, and the pictures of all."""
    out = tmp_path_factory.mktemp("tables")
    pages, pictures = {}, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, result in results(out):
            html = result._repr_html_() if hasattr(result, "_repr_html_") else ""
            tables = "\n".join(markdown_of(result.tables())) if hasattr(result, "tables") else ""
            markdown = MarkdownIt("js-default", {"html": True}).render(tables)
            texts = f"<p>{escape(repr(result))}</p><pre>{escape(getattr(result, 'text', ''))}</pre>"
            page = out / f"{name}.html"
            page.write_text(f"<!doctype html><meta charset=utf-8><title>t</title>{html}{markdown}{texts}", "utf-8")
            pages[name] = page
            picture = result.picture() if hasattr(result, "picture") else None
            if picture is not None:
                picture.savefig(out / f"{name}.svg")
                pictures.append(out / f"{name}.svg")
            pictures += [drawn.path for drawn in getattr(result, "drawn", ())]
    return pages, pictures


NAMELESS = {"cka", "ing", "solved", "wic", "written"}
"""Of these nothing is shown that somebody else has named."""
NAMED = [
    *("among", "estimate", "fit lens", "repeat scan", "maps", "solved by", "depth performance", "grid", "subjoiner"),
    "reproduce",
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*NAMED, *sorted(NAMELESS)])
def test_hostile_names_in_tables_do_nothing(shown: tuple[dict[str, Path], list[Path]], name: str) -> None:
    pages, _ = shown
    # some show the beginning of a name alone
    assert_read_and_inert(pages[name], shows="" if name in NAMELESS else MARK.partition("=")[0])


def test_hostile_names_in_pictures_of_tables_do_nothing(shown: tuple[dict[str, Path], list[Path]]) -> None:
    pages, pictures = shown
    assert sorted(pages) == sorted([*NAMED, *NAMELESS])
    assert len(pictures) >= 6
    assert {file.suffix for file in pictures} == {".svg"}
    assert_read_and_inert(*pictures, shows="")


def classes(of: type) -> Iterator[type]:
    for inner in of.__subclasses__():
        yield inner
        yield from classes(inner)


def test_no_result_shows_itself_as_its_fields() -> None:
    # a representation of fields has those of libraries in it, such as xarray's, which write every letter as it is
    for name in bathyscope.__all__:
        getattr(bathyscope, name)
    kinds = [kind for kind in classes(TabledResult) if kind.__module__.startswith("bathyscope.")]
    assert len(kinds) >= 15
    assert [kind for kind in kinds if "repr=True" in str(vars(kind).get("__dataclass_params__"))] == []

"""Names that somebody else chose, on every page and card, in a real browser: they are read, and do nothing."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from markdown_it import MarkdownIt
from support.hostile import EVIL, assert_read_and_inert
from transformers import LlamaConfig, LlamaForCausalLM

import bathyscope


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every kind of page and card of a small model, all of whose names are hostile."""
    torch.manual_seed(0)
    shape = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4}
    hf: Any = LlamaForCausalLM(LlamaConfig(**shape, num_hidden_layers=4, initializer_range=0.3)).eval()
    out = tmp_path_factory.mktemp("pages")
    hf.save_pretrained(out / EVIL)
    hf.model.layers[1].mlp.up_proj.weight.data.mul_(1.5)
    hf.save_pretrained(out / f"{EVIL}2")
    model, rewritten = bathyscope.load(out / EVIL), bathyscope.load(out / f"{EVIL}2")
    prompts = tuple(
        bathyscope.Prompt(
            ids=[3 + number, *range(20, 32)], id=f"{EVIL}{number}", labels={"level": f"{EVIL}{number % 2}"}
        )
        for number in range(12)
    )
    text, test = bathyscope.PromptSet(prompts[:4], EVIL), bathyscope.PromptSet(prompts[4:], EVIL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        measures = ("lens", "skip", "drop", "effective_depth")
        runs = [bathyscope.survey(one, test, measures=measures, progress=False) for one in (model, rewritten)]
        plan = bathyscope.prune(model, text, test, drop=1, progress=False)
        repaired = bathyscope.repair(model, "drop:2", text, test=test, how="scale", progress=False)
        difference = bathyscope.diff(model, rewritten, text)
        pages = {
            "one run": bathyscope.report(runs[:1], out / "run.html", EVIL),
            "two runs": bathyscope.report(runs, out / "runs.html", names=[EVIL, f"{EVIL}2"]),
            "results": bathyscope.report([runs[0], plan, repaired, difference], out / "results.html"),
        }
        bathyscope.card(runs[0], out / "card.md")
    markdown = MarkdownIt("js-default", {"html": True}).render((out / "card.md").read_text(encoding="utf-8"))
    (out / "card.html").write_text(
        f"<!doctype html><meta charset=utf-8><title>card</title>{markdown}", encoding="utf-8"
    )
    return {**pages, "card": out / "card.html"}


@pytest.mark.parametrize("name", ["one run", "two runs", "results", "card"])
def test_hostile_names_are_read_and_do_nothing(written: dict[str, Path], name: str) -> None:
    assert_read_and_inert(written[name])

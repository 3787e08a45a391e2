"""Names of others in results that are no plain runs: their pages, pictures and tables in a real browser."""

from __future__ import annotations

import json
import shutil
import warnings
from html import escape
from pathlib import Path
from typing import Any

import pytest
import torch
from markdown_it import MarkdownIt
from support.hostile import EVIL, FILE, assert_read_and_inert
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import bathyscope
from bathyscope.pages.comparison.page import write_comparison
from bathyscope.pages.files.export import save_figures

EVALUATION = Path(__file__).parents[1] / "surgery" / "benchmarks" / "fixtures" / "evaluation-of-schema-1"
WORDS = [f"{EVIL.replace(' ', '/')}{number}" for number in range(56)]
TEMPLATE = "{% for m in messages %}{{ m['content'] }} {% endfor %}{% if enable_thinking %}{% endif %}"


def checkpoint(folder: Path, scale: float) -> Path:
    """A model whose every token is hostile, with its tokenizer, in a folder of a hostile name."""
    torch.manual_seed(0)
    shape = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4}
    hf: Any = LlamaForCausalLM(LlamaConfig(**shape, num_hidden_layers=4, initializer_range=0.3, eos_token_id=2)).eval()
    hf.model.layers[1].mlp.up_proj.weight.data.mul_(scale)
    hf.save_pretrained(folder)
    backend = Tokenizer(models.WordLevel({w: n for n, w in enumerate(["<pad>", *WORDS])}, unk_token="<pad>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<pad>", pad_token="<pad>")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder


def hostile_set(first: int, number: int, name: str) -> bathyscope.PromptSet:
    prompts = [
        bathyscope.Prompt(
            text=" ".join(WORDS[(first + n + place) % 50] for place in range(14)),
            answer=f" {WORDS[n]}",
            id=f"{name}{n}",
            labels={"level": f"{EVIL}{n % 2}"},
        )
        for n in range(number)
    ]
    return bathyscope.PromptSet(tuple(prompts), name, True)


def as_theirs(folder: Path, name: str, honest: str) -> Path:
    """The folder of a result whose author put hostile names into its file."""
    text = (folder / name).read_text(encoding="utf-8")
    assert json.dumps(honest) in text
    (folder / name).unlink()
    (folder / name).write_text(text.replace(json.dumps(honest), json.dumps(EVIL)), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    out = tmp_path_factory.mktemp("pages")
    first, second = (checkpoint(out / f"{FILE}-step{step}", step) for step in (1, 2))
    one, two = (hostile_set(start, 8, f"{EVIL}{start}") for start in (0, 20))
    both = bathyscope.PromptSet((*one.prompts, *two.prompts), f"{EVIL}+", True, (one, two))
    measures = ("lens", "skip", "drop", "tokens", "effective_depth")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = bathyscope.load(first)
        runs = [bathyscope.survey(place, both, measures, progress=False) for place in (model, second)]
        chat = bathyscope.survey(
            model, one, measures, out / f"{FILE}run", chat={"enable_thinking": EVIL}, write=3, progress=False
        )
        plan = bathyscope.prune(
            model, one, two, drop=1, random=2, resamples=50, out=out / f"{FILE}plan", progress=False
        )
        repaired = bathyscope.repair(model, "drop:2", one, test=two, how="scale", progress=False)
        course = bathyscope.course(
            [first, second], one, out / f"{FILE}course", measures=("lens", "drop"), progress=False
        )
        difference = bathyscope.diff(model, second, one)
        advice = bathyscope.exit_advice(model, one, new_tokens=6, resamples=50, progress=False)
        comparison = bathyscope.compare(runs)
        groups = bathyscope.group(chat, by="level")
        shutil.copytree(EVALUATION, out / "evaluation")
        evaluation = bathyscope.open(as_theirs(out / "evaluation", "evaluation.json", "bundled/model"))
        bathyscope.export(model, "drop:1", out / "exported")
        pages = {
            "words and chats": bathyscope.report([chat], out / "chat.html"),
            "parts": bathyscope.report(runs, out / "parts.html"),
            "plan from disk": bathyscope.report([bathyscope.open(out / f"{FILE}plan")], out / "plan.html"),
            "course": bathyscope.report([course], out / "course.html"),
            "all": bathyscope.report([chat, plan, repaired, course, difference], out / "all.html", EVIL),
            "comparison": write_comparison(comparison, out / "comparison.html"),
        }
        results = [
            chat,
            plan,
            repaired,
            course,
            difference,
            advice,
            comparison,
            groups,
            evaluation,
            model,
            one,
            chat.prompts,
        ]
        pictures = {
            "comparison, drawn": write_comparison(comparison, out / "comparison.svg"),
            "badge": out / "badge.svg",
        }
        bathyscope.badge(chat, out / "badge.svg")
        bathyscope.card(chat, out / "card.md")
        for number, file in enumerate(save_figures(chat, out / "figures", ["svg"])):
            pictures[f"figure {number}"] = file
        for result in (course, difference, advice, groups, evaluation):
            picture = result.picture()
            if picture is not None:
                file = out / f"{type(result).__name__}.svg"
                picture.savefig(file)
                pictures[file.stem] = file
    shown = "".join(f"<section>{item._repr_html_()}</section>" for item in results if hasattr(item, "_repr_html_"))
    texts = "".join(f"<p>{escape(repr(item))}</p><pre>{escape(getattr(item, 'text', ''))}</pre>" for item in results)
    cards = {"card": out / "card.md", "card of an export": out / "exported" / "README.md"}
    (out / "notebook.html").write_text(f"<!doctype html><meta charset=utf-8><title>n</title>{shown}{texts}", "utf-8")
    pages["notebook"] = out / "notebook.html"
    for name, file in cards.items():
        html = MarkdownIt("js-default", {"html": True}).render(file.read_text(encoding="utf-8"))
        pages[name] = file.with_suffix(".html")
        pages[name].write_text(f"<!doctype html><meta charset=utf-8><title>c</title>{html}", "utf-8")
    return {**pages, **pictures}


PAGES = [
    *("words and chats", "parts", "plan from disk", "course", "all", "comparison", "notebook"),
    *("card", "card of an export"),
]


@pytest.mark.parametrize("name", PAGES)
def test_hostile_names_on_pages_of_results_do_nothing(written: dict[str, Path], name: str) -> None:
    assert_read_and_inert(written[name])


def test_hostile_names_in_pictures_do_nothing(written: dict[str, Path]) -> None:
    pictures = [file for name, file in written.items() if name not in PAGES]
    assert len(pictures) >= 10
    assert {file.suffix for file in pictures} == {".svg"}
    assert_read_and_inert(*pictures, shows="")

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bathyscope.lab import train
from bathyscope.lab.recipe import DataMix, ModelShape, Optimisation, Recipe, Stage
from bathyscope.prompts.problems import generate


@pytest.fixture(scope="session")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the layout that the lab reads, with made-up books and questions."""
    root = tmp_path_factory.mktemp("data")
    (root / "text").mkdir()
    (root / "gsm8k").mkdir()
    with gzip.open(root / "text" / "books_train.txt.gz", "wt", encoding="utf-8") as file:
        file.write("\n\n".join(problem.question for problem in generate("word", 300, seed=11)))
    valid = "\n\n".join(problem.question for problem in generate("word", 40, seed=12))
    (root / "text" / "books_valid.txt").write_text(valid, encoding="utf-8")
    for name, seed in (("train", 13), ("test_first600", 14)):
        lines = [
            json.dumps({"question": p.question, "answer": f"<<noted>>{p.solution}\n#### {p.answer}"})
            for p in generate("word", 60, seed=seed)
        ]
        (root / "gsm8k" / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return root


@pytest.fixture(scope="session", autouse=True)
def _short_evaluations() -> Iterator[None]:
    """A toy run need not read thousands of held-out windows at its end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "HELD_OUT_TOKENS", 640)
        yield


@pytest.fixture(scope="session")
def toy_recipe() -> Recipe:
    """Twenty steps of a two-block model; the context changes on the way."""
    return Recipe(
        name="toy",
        seed=3,
        checkpoint_steps=7,
        evaluate_steps=1000,
        model=ModelShape(blocks=2, width=32, heads=4, kv_heads=2, mlp_width=48, context=64, vocabulary=400),
        data=DataMix(tokens=6000, tokenizer_characters=20_000),
        stages=(Stage(until=0.5, context=32, batch=4), Stage(until=1.0, context=64, batch=2)),
        optimisation=Optimisation(learning_rate=0.01, warmup_steps=4, max_tokens=20 * 128),
    )

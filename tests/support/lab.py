"""Small recipes and a folder of data, for tests of the laboratory and of studies that train."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bathyscope_lab.recipe import Recipe

from bathyscope.prompts.problems import generate

MODEL = {
    "type": "llama",
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "tie_word_embeddings": True,
}

TEXT: dict[str, Any] = {
    "name": "toy text",
    "seed": 3,
    "threads": 1,
    "model": MODEL,
    "data": {
        "mix": {"books": 0.6, "gsm8k": 0.15, "generated": 0.25},
        "tokens": 6000,
        "tokenizer_characters": 20_000,
    },
    "tokenizer": {"type": "bpe", "vocabulary": 400},
    "stages": [{"until": 0.5, "context": 32, "batch": 4}, {"until": 1.0, "context": 64, "batch": 2}],
    "budget": {"tokens": 20 * 128},
    "optimisation": {"learning_rate": 0.01, "schedule": "plateau", "warmup_steps": 4, "final_ratio": 0.01},
    "evaluation": {"every": 10, "tokens": 640, "final_tokens": 640},
    "saving": {"every": 7},
}

TASK: dict[str, Any] = {
    "name": "toy task",
    "seed": 3,
    "threads": 1,
    "model": MODEL,
    "task": {"name": "pointer_chasing", "options": {"nodes": 4, "hops": [1, 2]}},
    "tokenizer": "words",
    "loss": "answer",
    "stages": [{"context": 64, "batch": 4}],
    "budget": {"steps": 20},
    "optimisation": {"learning_rate": 0.01, "warmup_steps": 4},
    "evaluation": {"every": 10, "problems": 8, "final_problems": 12},
    "saving": {"every": 7},
}

MakeRecipe = Callable[..., Recipe]


@pytest.fixture(scope="session")
def text_recipe() -> MakeRecipe:
    """Twenty steps on texts by a two-block model; the context changes on the way. Keys given replace its own."""
    return lambda **changes: Recipe.from_dict({**TEXT, **changes})


@pytest.fixture(scope="session")
def task_recipe() -> MakeRecipe:
    """Twenty steps on a task by a two-block model. Keys given replace its own."""
    return lambda **changes: Recipe.from_dict({**TASK, **changes})


@pytest.fixture(scope="session")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the layout that the lab reads, with made-up books and questions, and two files of stories."""
    root = tmp_path_factory.mktemp("data")
    (root / "text").mkdir()
    (root / "gsm8k").mkdir()
    with gzip.open(root / "text" / "books_train.txt.gz", "wt", encoding="utf-8") as file:
        file.write("\n\n".join(problem.question for problem in generate("word", 300, seed=11)))
    valid = "\n\n".join(problem.question for problem in generate("word", 40, seed=12))
    (root / "text" / "books_valid.txt").write_text(valid, encoding="utf-8")
    for name, seed in (("train", 13), ("test_first600", 14)):
        lines = [
            json.dumps({"question": p.question, "answer": f"<<noted>>{p.steps}\n#### {p.answer}"})
            for p in generate("word", 60, seed=seed)
        ]
        (root / "gsm8k" / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    stories = "\n\n".join(f"Story {n}. " + "word " * 420 for n in range(40))
    (root / "stories.txt").write_text(stories, encoding="utf-8")
    with gzip.open(root / "stories.txt.gz", "wt", encoding="utf-8") as file:
        file.write(stories)
    return root


@pytest.fixture(autouse=True)
def no_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out the picture, half of so small a training, of what a test trains for itself; a module has its own."""
    monkeypatch.setattr("bathyscope_lab.export.save_curve", lambda *_: None)

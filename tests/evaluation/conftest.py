"""Documents for three tasks, and the bundled model in single precision; skipped without the extra."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import bathyscope
from bathyscope.bundled import model_path
from bathyscope.model import Model

pytest.importorskip("lm_eval", reason="the extra is not installed: pip install 'bathyscope[eval]'")
pytest.importorskip("accelerate", reason="the extra is not installed: pip install 'bathyscope[eval]'")

ROWS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "hellaswag": [
        {
            "activity_label": "Rowing",
            "ctx": f"{who} pushed the boat [substeps] into the river. {who}",
            "endings": ["took the oars and rowed.", "ate the river.", "was a small hill of bread.", "sang to a stone."],
            "label": str(number % 4),
        }
        for number, who in enumerate(["The old man", "A boy", "The captain", "Her brother", "My aunt"])
    ],
    "arc_easy": [
        {
            "id": f"q{number}",
            "question": f"Where does {what} come from?",
            "choices": {
                "text": ["the sea", "the hills", "a shop", "the moon"][: 3 + number % 2],
                "label": list("ABCD"),
            },
            "answerKey": "ABC"[number % 3],
        }
        for number, what in enumerate(["rain", "wool", "bread", "light", "snow"])
    ],
    "lambada_openai": [
        {"text": f"She walked to the {place} because she had been told that nobody was in the {place}"}
        for place in ("house", "garden", "church", "village", "street")
    ],
}


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Five documents a task, as JSONL files."""
    folder = tmp_path_factory.mktemp("documents")
    found = {}
    for task, rows in ROWS.items():
        found[task] = folder / f"{task}.jsonl"
        found[task].write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return found


@pytest.fixture(scope="session")
def bundled() -> Model:
    """The bundled model of twelve blocks; never changed by a test."""
    return bathyscope.load(model_path(), dtype="float32", device="cpu")

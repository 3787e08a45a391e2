"""Documents for three tasks of lm-evaluation-harness, a task of a file, and the bundled model: fixtures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import bathyscope
from bathyscope.model import Model
from bathyscope.model.bundled import model_path

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


@pytest.fixture
def own_task(tmp_path: Path) -> Path:
    """The YAML file of a task whose answers are written, in a folder with its five documents."""
    starts = (
        "Once there was one cat and one",
        "A boy",
        "Two old men and",
        "She said that it was",
        "The little girl saw a",
    )
    rows = [{"text": text, "answer": answer} for text, answer in zip(starts, (" dog", " and", " girl", " a", " big"))]
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "counting.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    file = folder / "counting.yaml"
    file.write_text(
        """
task: counting
output_type: generate_until
dataset_path: json
dataset_kwargs:
  data_files:
    test: counting.jsonl
test_split: test
doc_to_text: "{{text}}"
doc_to_target: "{{answer}}"
generation_kwargs:
  until: [".", "\\n"]
  max_gen_toks: 6
  do_sample: false
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
    regexes_to_ignore: ["[a-z]+$"]
filter_list:
  - name: whole
    filter:
      - function: take_first
  - name: second word
    filter:
      - function: regex
        regex_pattern: "^ ?[a-z]+( [a-z]+)"
      - function: take_first
""",
        encoding="utf-8",
    )
    return file

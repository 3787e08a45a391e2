"""The provenance of a page's numbers: configuration, record, prompts."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from bathyscope.core.text import elided, without_places
from bathyscope.prompts.parts import COPY_OF
from bathyscope.runs.run import Run

Pairs = list[tuple[str, str]]

PROMPTS_SHOWN: Final = 200
_CELL_LETTERS: Final = 200
# Lists with an entry for each shard, whose files have rows of their own.
_LENGTHY: Final = ("plan", "shards")


def measure_options(run: Run, measure: str) -> Mapping[str, Any]:
    """Return the options of a measure; empty where the manifest has none."""
    return run.identity.measures.get(measure) or {}


def configuration(run: Run) -> Pairs:
    """List everything that could change a number: model, hashes, options, precision, seed."""
    return list(_flatten(run.manifest["identity"]))


def record(run: Run) -> Pairs:
    """List versions of libraries, times, and the files with their hashes."""
    pairs = list(_flatten(run.manifest["record"]))
    files = run.manifest["record"].get("shards") or []
    return pairs + [(str(entry["file"]), f"SHA-256 {entry['sha256']}") for entry in files]


def loading_warnings(run: Run) -> list[str]:
    """Return what loading the run's model warned of, such as blocks of its checkpoint that were left out."""
    notes = run.manifest["record"].get("notes") or {}
    sentences = notes.get("warnings") or []
    return [without_places(str(sentence)) for sentence in sentences] if isinstance(sentences, list) else []


def prompts(run: Run) -> tuple[list[str], list[list[str]], int]:
    """Return headings, rows (at most ``PROMPTS_SHOWN``) and the number of prompts; empty without prompts."""
    dataset = next((run[name] for name in run.measures if "prompt" in run[name].sizes), None)
    if dataset is None:
        return [], [], 0
    by_prompt = {str(name): values for name, values in dataset.coords.items() if values.dims == ("prompt",)}
    columns = {name: values for name, values in by_prompt.items() if name != COPY_OF}
    cells = zip(*(values.values[:PROMPTS_SHOWN] for values in columns.values()))
    rows = [[elided(without_places(str(value)), _CELL_LETTERS) for value in row] for row in cells]
    return [elided(name, _CELL_LETTERS) for name in columns], rows, int(dataset.sizes["prompt"])


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{name}.")
        elif key in _LENGTHY:
            yield name, f"{len(value)} parts"
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            yield name, without_places(text)

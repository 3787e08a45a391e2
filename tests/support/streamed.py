"""Checkpoints of tiny models, in memory and streamed, and what a survey of each writes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support import zoo
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from bathyscope.model import Model, load
from bathyscope.model.placement import device_map
from bathyscope.prompts.prompt import Prompt
from bathyscope.surveying.engines import survey

QUICK = ("llama", "gpt2", "mixtral", "jamba")
"""Families of the quick tests: tied and untied, merged experts, several kinds of blocks."""
LENGTHS = (14, 9, 17)
FEW = ("skip", "neurons")
MEASURES = ("residual", "lens", "skip", "drop", "swap", "repeat", "direct", "erasure", "attention_locality", "neurons")


def saved(name: str, folder: Path, shards: str = "50GB") -> Path:
    """A checkpoint of a tiny model of the zoo."""
    zoo.build(name).save_pretrained(folder, max_shard_size=shards)
    return folder


def streamed(folder: Path, **options: Any) -> Model:
    """A checkpoint, its blocks streamed."""
    return load(folder, placement="stream", **options)


def offloaded(folder: Path, to: Path, device: Any = "cpu") -> PreTrainedModel:
    """The model as accelerate dispatches it: every third block in memory, the others on disk."""
    places = device_map(str(folder), AutoConfig.from_pretrained(folder), False, device)
    blocks = [name for name, place in places.items() if place == "disk"]
    places |= dict.fromkeys(blocks[::3], str(device))
    return AutoModelForCausalLM.from_pretrained(folder, device_map=places, offload_folder=to)  # type: ignore[no-any-return]


def prompts(model: Model, lengths: Sequence[int] = LENGTHS) -> list[Prompt]:
    """Random ids with answers of two tokens."""
    return [Prompt(ids=ids, answer_tokens=2) for ids in zoo.prompts(model.hf, tuple(lengths))]


def hashes(
    model: Model, out: Path, measures: Sequence[str] = MEASURES, lengths: Sequence[int] = LENGTHS
) -> dict[str, str]:
    """Surveys a model, a shard for every prompt or two; file → SHA-256 of all results."""
    survey(model, prompts(model, lengths), list(measures), out=out, batch_tokens=20, progress=False)
    manifest = json.loads((out / "manifest.json").read_text())
    return files_in(manifest)


def files_in(told: Any) -> dict[str, str]:
    """File → SHA-256 of everything that a manifest lists."""
    found: dict[str, str] = {}
    if isinstance(told, dict):
        if {"file", "sha256"} <= told.keys():
            found[told["file"]] = told["sha256"]
        for inner in told.values():
            found |= files_in(inner)
    elif isinstance(told, list):
        for inner in told:
            found |= files_in(inner)
    return found

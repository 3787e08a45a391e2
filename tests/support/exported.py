"""Exports of zoo models, and what they give in a process that knows of transformers alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from support import any_machine, waves, zoo
from torch import Tensor
from transformers import PreTrainedModel

import bathyscope
from bathyscope.errors import ModelError
from bathyscope.model import Model

READER = Path(__file__).with_name("plain_reader.py")


@dataclass(frozen=True)
class Case:
    """An exported model, and what ``scheduled`` gives on the same prompts."""

    name: str
    text: str
    folder: Path
    ids: Tensor
    logits: Tensor
    tokens: Tensor
    cache: bool | None
    """Whether it generates with a cache; None = it does not generate under a schedule."""
    same_calls: bool
    """Whether the export makes the same calls in the same shapes, of which the bits are equal.

    Inputs by block (Gemma 3n and 4) are one product for all blocks, which an export of fewer blocks makes smaller.
    """


def case(
    name: str,
    text: str,
    folder: Path,
    given: PreTrainedModel | Model | Path | None = None,
    model: Model | None = None,
) -> Case:
    """Exports a zoo model, or ``given`` of the same weights, and runs it (or ``model``) under the schedule.

    Raises:
        ModelError: the export is refused.
    """
    model = waves.loaded(name) if model is None else model
    bathyscope.export(model if given is None else given, text, folder)
    ids = torch.tensor(zoo.prompts(model.hf, (17, 17)))
    with torch.no_grad(), bathyscope.scheduled(model, text) as hf:
        logits = hf(ids, use_cache=False).logits
        cache: bool | None = True
        if hf.config.model_type == "xlnet":  # generates from a second stream, which no schedule leads
            cache, tokens = None, ids[:1]
        else:
            try:
                tokens = greedy(hf, ids, cache=True)
            except ModelError:  # of families that cannot go on from a cache under a schedule
                cache = False
                tokens = greedy(hf, ids, cache=False)
    same_calls = not getattr(hf.config.get_text_config(), "hidden_size_per_layer_input", 0)
    return Case(name, text, folder, ids, logits, tokens, cache, same_calls)


def greedy(hf: PreTrainedModel, ids: Tensor, cache: bool) -> Tensor:
    """Five greedy tokens behind the first prompt."""
    tokens: Tensor = hf.generate(
        ids[:1],
        attention_mask=torch.ones_like(ids[:1]),
        max_new_tokens=5,
        do_sample=False,
        pad_token_id=0,
        eos_token_id=None,
        use_cache=cache,
    )
    return tokens


def differing(cases: Iterable[Case], folder: Path) -> list[str]:
    """Those cases whose reloaded model gives other logits, by a bit, or other tokens; all are read by one process."""
    listed = list(cases)
    described = [{"folder": str(one.folder), "ids": one.ids.tolist(), "cache": one.cache} for one in listed]
    (folder / "cases.json").write_text(json.dumps(described))
    environment = {**os.environ, "PYTHONPATH": any_machine.path()}
    ran = subprocess.run(
        [sys.executable, str(READER), str(folder)], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    found = load_file(folder / "found.safetensors")
    return [
        f"{one.name} {one.text}"
        for number, one in enumerate(listed)
        if not (_equal(found[f"logits-{number}"], one) and torch.equal(found[f"tokens-{number}"], one.tokens))
    ]


def _equal(logits: Tensor, case: Case) -> bool:
    """Whether logits are those of a case: to the bit where calls are the same, else up to rounding."""
    if case.same_calls:
        return torch.equal(logits, case.logits)
    return torch.allclose(logits, case.logits, rtol=1e-5, atol=1e-5 * float(case.logits.abs().max()))

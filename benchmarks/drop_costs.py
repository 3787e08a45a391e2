"""Measure what leaving out single blocks costs, prompt by prompt: the populations of cost_coverage.py.

    python benchmarks/drop_costs.py --text wikitext2_valid.txt

Writes ``results/drop_costs.json``: nats a token of word problems and of windows of a text, nats an answer of
permutations.
"""

from __future__ import annotations

import argparse
import json
from contextlib import nullcontext
from pathlib import Path
from typing import Final

import numpy as np
import torch
from cost_coverage import STORED
from torch.nn.functional import cross_entropy

import bathyscope
from bathyscope.core.arrays import FloatArray
from bathyscope.extend import bundled_model
from bathyscope.extend.prompts import tokenized

CHECKPOINTS: Final = Path(__file__).resolve().parents[1] / "checkpoints"
PERMUTATIONS: Final = "task:permutations:6000?factors=1-8&elements=generators&answer=image"
PROBLEMS: Final = {"depth_6": 400, "depth_12": 400, "bundled": 250, "depth_24": 100}
STORED_PROMPTS: Final = 1000
"""Of each population at most; enough to draw 40 from."""
_DIGITS: Final = 3
_CALL: Final = 250


def costs_of_answers(model: bathyscope.Model, count: int) -> FloatArray:
    """Return what each block costs at the answer, [prompts, blocks]; the answer is the last of equally many tokens."""
    drawn = tokenized(model, PERMUTATIONS, seed=11)
    different = list(dict.fromkeys(tuple(prompt.ids) for prompt in drawn))
    ids_BT = torch.tensor(different[:count])
    losses = []
    for schedule in ("", *(f"drop:{block}" for block in range(model.n_blocks))):
        with bathyscope.scheduled(model, schedule) if schedule else nullcontext(model.hf) as hf, torch.no_grad():
            parts = [
                cross_entropy(hf(part, use_cache=False).logits[:, -2].double(), part[:, -1], reduction="none")
                for part in ids_BT.split(_CALL)
            ]
        losses.append(torch.cat(parts).numpy())
    return np.stack(losses[1:], axis=1) - losses[0][:, None]


def costs_of_texts(model: str | Path, prompts: str) -> FloatArray:
    """Return what each block costs a token, [prompts, blocks]."""
    drop = bathyscope.survey(model, prompts, ["drop"], seed=7, progress=False)["drop"]
    costs: FloatArray = (drop["loss"] - drop["baseline_loss"]).transpose("prompt", "dropped").values
    return costs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--text", type=Path, help="a text that windows are cut from; without it that population is left out"
    )
    options = parser.parse_args()
    found: dict[str, FloatArray] = {}
    for blocks in (2, 8, 12):
        model = bathyscope.load(CHECKPOINTS / f"permutations_{blocks}", dtype="float32")
        found[f"answers, permutations_{blocks}"] = costs_of_answers(model, 1500)
    for name, count in PROBLEMS.items():
        folder = bundled_model() if name == "bundled" else CHECKPOINTS / name
        found[f"problems, {name}"] = costs_of_texts(folder, f"problems:{count}?steps=1-6")
    if options.text is not None:
        found["windows, depth_6"] = costs_of_texts(CHECKPOINTS / "depth_6", f"{options.text}:300?window=64")
    rows = {name: np.round(costs[:STORED_PROMPTS], _DIGITS).tolist() for name, costs in found.items()}
    STORED.write_text(json.dumps(rows, separators=(",", ":")).replace("]],", "]],\n") + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

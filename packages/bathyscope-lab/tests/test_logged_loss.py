"""What a run logs as its loss is the cross-entropy, whatever a kind of model adds to it while it trains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from bathyscope_lab.data import prepare
from bathyscope_lab.folder import RunFolder
from bathyscope_lab.model import build_model
from bathyscope_lab.train import train

MOEUT = {
    "type": "bathyscope_moeut",
    "hidden_size": 32,
    "group_size": 1,
    "repeats": 2,
    "num_attention_heads": 2,
    "head_dim": 16,
    "num_experts": 6,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "feed_forward_balance": 2.0,
}
MIXTRAL = {
    "type": "mixtral",
    "hidden_size": 32,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "num_local_experts": 4,
    "output_router_logits": True,
    "router_aux_loss_coef": 0.25,
}


@pytest.mark.parametrize("keys", [MOEUT, MIXTRAL], ids=["moeut", "mixtral"])
def test_the_regulariser_is_logged_apart(keys: dict[str, Any], task_recipe: Any, tmp_path: Path) -> None:
    recipe = task_recipe(model=keys, budget={"steps": 1})
    folder = train(recipe, tmp_path / "run", device="cpu", progress=False).folder
    first = json.loads((folder / "metrics.jsonl").read_text().splitlines()[0])

    prepared = prepare(RunFolder(tmp_path / "run", recipe), None)
    model = build_model(keys, prepared.tokenizer, recipe.context, recipe.seed).train()
    batch = prepared.steps[0]
    found = model(**batch, use_cache=False)
    labels = batch["labels"][:, 1:]
    cross_entropy = torch.nn.functional.cross_entropy(
        found.logits[:, :-1].flatten(0, 1), labels.flatten(), ignore_index=-100
    )
    assert first["loss"] == pytest.approx(cross_entropy.item(), abs=1e-5)
    assert first["penalty"] == pytest.approx(found.loss.item() - cross_entropy.item(), abs=1e-5)
    assert abs(first["penalty"]) > 0.2

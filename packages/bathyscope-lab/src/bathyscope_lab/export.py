"""The finished checkpoint of a run: weights, configuration and tokenizer as the library loads them, with a card."""

from __future__ import annotations

import copy
import math
import shutil
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase

from bathyscope.errors import ModelError
from bathyscope.prompts.tokenizer import PROBE, load_tokenizer
from bathyscope.runs.manifest import library_versions
from bathyscope_lab import checkpoint
from bathyscope_lab.card import model_card, revision
from bathyscope_lab.curve import save_curve
from bathyscope_lab.evaluate import HeldOut, Scores
from bathyscope_lab.folder import CARD, CURVE, RunFolder


def export(
    folder: RunFolder,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    final: HeldOut,
    progress: Mapping[str, Any],
) -> dict[str, Any]:
    """Write a run's last weights as a checkpoint into its folder, with a card and the loss curve.

    Args:
        folder: of the run.
        model: with the last weights; converted to the dtype they are saved in.
        tokenizer: of the model.
        final: what the card's losses are taken on, by the weights as they are on disk.
        progress: ``steps``, ``tokens``, ``minutes``, ``device``.

    Returns:
        What the run came to, as ``training.json`` holds it.

    Raises:
        ModelError: weights or losses are not finite, or the tokenizer loads with other ids than it was made with.
        StoreError: the folder cannot be written; the run's checkpoints are untouched.
    """
    recipe, out = folder.recipe, folder.finished
    device = model.device
    model.to(getattr(torch, recipe.saving.dtype))
    bad = checkpoint.not_finite(model)
    if bad is not None:
        raise checkpoint.diverged(f"{bad} is not finite in {recipe.saving.dtype}", folder.checkpoints)
    try:
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        _save_model(model, tokenizer, out, recipe.saving.shard)
        tokenizer.save_pretrained(out)
        _check_tokenizer(tokenizer, out)
        metrics, held_out = folder.metrics(), saved_scores(out, final, device)
        for name, value in held_out.items():
            if not math.isfinite(value):
                raise checkpoint.diverged(
                    f"The {name.replace('_', ' ')} of the last weights is {value}", folder.checkpoints
                )
        summary = {
            "recipe": recipe.name,
            "recipe_hash": recipe.hash(),
            **progress,
            "parameters": model.num_parameters(),
            "last_loss": _last_loss(metrics),
            "held_out": held_out,
            "revision": revision(),
            "versions": {
                **library_versions(),
                "accelerate": version("accelerate"),
                "tokenizers": version("tokenizers"),
            },
        }
        save_curve(metrics, recipe.name, out / CURVE, recipe.given)
        (out / CARD).write_text(model_card(recipe, summary), encoding="utf-8")
        folder.finish(summary)
    except (OSError, SafetensorError) as error:
        raise checkpoint.unwritable(out, error, checkpoint.latest(folder.checkpoints)) from error
    return summary


def keep_step(folder: RunFolder, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, step: int) -> Path:
    """Write the weights of one step as a model of its own, ``steps/step-0000100``; the run goes on untouched.

    Raises:
        StoreError: it cannot be written.
    """
    final = folder.steps / f"step-{step:07d}"
    partial = folder.steps / f"{checkpoint.PARTIAL}{final.name}"
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        own = copy.deepcopy(model).to(getattr(torch, folder.recipe.saving.dtype))
        _save_model(own, tokenizer, partial, folder.recipe.saving.shard)
        tokenizer.save_pretrained(partial)
        shutil.rmtree(final, ignore_errors=True)
        partial.rename(final)
    except (OSError, SafetensorError) as error:
        raise checkpoint.unwritable(final, error, checkpoint.latest(folder.checkpoints)) from error
    return final


def _save_model(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, out: Path, shard: str) -> None:
    model.config.use_cache = True  # off while it trains
    model.generation_config = GenerationConfig(
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.eos_token_id
    )
    model.save_pretrained(out, max_shard_size=shard)
    for path in out.glob("*.safetensors"):
        # safetensors writes for the owner alone; the folder may be shared
        path.chmod(0o644)


def _check_tokenizer(tokenizer: PreTrainedTokenizerBase, out: Path) -> None:
    loaded = load_tokenizer(out)
    assert loaded is not None
    given, wanted = loaded(PROBE)["input_ids"], tokenizer(PROBE)["input_ids"]
    if given != wanted:
        raise ModelError(
            f"The saved tokenizer gives {given[:12]}…, the one trained with {wanted[:12]}…; they must be the same. "
            f"Check tokenizer_config.json in {out} against the version of transformers."
        )


def saved_scores(folder: Path, held_out: HeldOut, device: torch.device) -> Scores:
    """Losses and accuracies of a checkpoint folder's weights, computed in float32."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, use_safetensors=True)
    cast(torch.nn.Module, model).to(device)
    return held_out.scores(model)


def _last_loss(metrics: list[dict[str, Any]]) -> float:
    """Mean over the last fiftieth of the steps."""
    losses = [record["loss"] for record in metrics if "loss" in record]
    last = losses[-max(1, len(losses) // 50) :]
    return sum(last) / len(last)

"""The model card of a finished run: data, tokens, losses, and what would make it again."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from statsmodels.stats.proportion import proportion_confint

from bathyscope_lab.recipe import Recipe

CARD = """---
library_name: transformers
tags: [bathyscope, interpretability]
---
# {name}

{origin}
{parameters:,} parameters, saved in {dtype}. Trained with `bathyscope lab train`; for study, not for use.

## Data
{data}

## Training
- {tokens:,} tokens in {steps:,} steps and {minutes:.1f} minutes on {device}; loss on {loss}.
- AdamW, peak rate {rate:g} ({schedule}), {warmup} steps of warm-up, weight decay {weight_decay:g}, clip {clip:g};
  matrix products in {precision}; seed {seed}.
- Loss of the last steps: {last_loss:.4f} nats per token. The curve is in `loss.png`, its data in `metrics.jsonl`.

## Held out
{scores}

## Made by
- Recipe `{name}`, hash `{recipe_hash}`: `recipe.yaml` beside this card.
- Revision of bathyscope: {revision}.
- Versions: {versions}.
"""


def model_card(recipe: Recipe, summary: Mapping[str, Any]) -> str:
    """The card in Markdown.

    Args:
        recipe: that was carried out.
        summary: what the run came to, as ``training.json`` holds it.
    """
    options = recipe.optimisation
    return CARD.format(
        name=recipe.name,
        origin=_origin(recipe),
        data=_data(recipe),
        dtype=recipe.saving.dtype,
        loss="all tokens" if recipe.loss == "all" else _scored(recipe),
        rate=options.learning_rate,
        schedule=options.schedule,
        warmup=options.warmup_steps,
        weight_decay=options.weight_decay,
        clip=options.clip,
        precision=recipe.precision,
        seed=recipe.seed,
        scores=_scores(recipe, summary["held_out"]),
        recipe_hash=recipe.hash(),
        revision=summary["revision"] or "not under version control",
        versions=", ".join(f"{library} {version}" for library, version in summary["versions"].items()),
        **{key: summary[key] for key in ("parameters", "tokens", "steps", "minutes", "device", "last_loss")},
    )


def revision() -> str | None:
    """The git commit of this package's source, with ``-dirty`` where files differ; None outside a repository."""
    file = Path(__file__)

    def git(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["git", "-C", str(file.parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    try:
        # a package installed into an environment inside another repository is not part of that one
        if git("ls-files", "--error-unmatch", file.name).returncode:
            return None
        head = git("rev-parse", "HEAD").stdout.strip()
        changed = git("status", "--porcelain", "--untracked-files=no").stdout.strip()
    except FileNotFoundError:
        return None
    return f"{head}-dirty" if changed else head or None


def _origin(recipe: Recipe) -> str:
    if recipe.base is not None:
        return f"Trained further from `{recipe.base}`."
    keys = {key: value for key, value in (recipe.model or {}).items() if key != "type"}
    shape = ", ".join(f"{key} {value}" for key, value in keys.items())
    return f"A `{(recipe.model or {})['type']}` trained from scratch: {shape}."


def _data(recipe: Recipe) -> str:
    if recipe.data is not None:
        total = sum(recipe.data.mix.values())
        return "\n".join(f"- {share / total:.0%} of the tokens: {name}" for name, share in recipe.data.mix.items())
    assert recipe.task is not None
    options = ", ".join(f"{key} {value}" for key, value in recipe.task.options.items()) or "as by default"
    count = "a new problem every time" if recipe.task.count is None else f"{recipe.task.count:,} different problems"
    steps = "with" if recipe.steps else "without"
    return f"Problems of the task `{recipe.task.name}` ({options}), {steps} written steps; {count}."


def _scores(recipe: Recipe, scores: Mapping[str, float]) -> str:
    """A table of the saved weights' losses and accuracies."""
    losses = {key.removesuffix("_loss"): value for key, value in scores.items() if key.endswith("_loss")}
    if recipe.data is not None:
        rows = "\n".join(f"| {source} | {loss:.4f} |" for source, loss in losses.items())
        return (
            f"Nats per token of the saved weights, in windows of {recipe.context} tokens, on documents that were not "
            f"trained on ({recipe.evaluation.final_tokens:,} tokens of each source).\n\n"
            f"| source | loss |\n|---|---|\n{rows}"
        )
    count = recipe.evaluation.final_problems
    is_given = recipe.steps and recipe.loss != "written"
    remark = " Whether the model would write those steps itself is not tested." if is_given else ""
    rows = "\n".join(
        f"| {split} | {loss:.4f} | {_share(scores[f'{split}_accuracy'], count)} |" for split, loss in losses.items()
    )
    return (
        f"Of the saved weights, on {count:,} problems of each split{recipe.given}: loss of {_scored(recipe)} "
        "in nats per token, and the share of problems whose whole answer is right when decoded greedily, with a "
        f"95 % Wilson interval.{remark}\n\n| split | loss | exact answers{recipe.given} |\n|---|---|---|\n{rows}"
    )


def _scored(recipe: Recipe) -> str:
    return "the steps, the answer and the end token" if recipe.loss == "written" else "the answer and the end token"


def _share(accuracy: float, count: int) -> str:
    low, high = proportion_confint(round(accuracy * count), count, method="wilson")
    return f"{accuracy:.3f} ({low:.3f} to {high:.3f})"

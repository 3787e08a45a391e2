"""The model card of an exported checkpoint."""

from __future__ import annotations

from collections.abc import Mapping

from bathyscope.lab.checkpoint import Progress
from bathyscope.lab.recipe import Recipe

CARD = """---
license: apache-2.0
language: en
tags: [demonstration, interpretability]
---
# The bathyscope demonstration model

A small Llama-like decoder, trained from scratch for this package: {blocks} blocks, width {width}, {heads}
query and {kv_heads} key heads, SwiGLU of {mlp_width}, context {context}, tied embeddings, and a byte-level
BPE of {vocabulary} pieces in which every digit stands alone. {parameters:,} parameters in bfloat16.

## Use
It lets every measurement, figure and command be tried in seconds and without a download. Its layers have
real structure, since it is trained, but it is a toy: it writes old-fashioned English without much sense,
makes mistakes in arithmetic, and knows next to nothing of the world. Use it to demonstrate and test this
tool, and for nothing else. Its books were printed in 1929 or earlier and carry the views of their time.

## Training
- Data, by share of tokens: {books:.0%} public-domain English books, {gsm8k:.0%} GSM8K training problems
  (MIT licence) in two formats, {generated:.0%} arithmetic problems of this package's own generator
  (`bathyscope.prompts.problems`).
- {tokens:,} tokens in {steps:,} steps and {minutes:.0f} minutes; processor cores: {threads}.
- Recipe `{name}`, hash `{recipe_hash}`; see `bathyscope/lab/recipes/` and `python -m bathyscope.lab.train`.
- AdamW, peak rate {rate:g}, linear warm-up and decay, bfloat16 products on float32 weights.

## Held-out loss
Nats per token of this tokenizer, in windows of {context} tokens with BOS first, on books, GSM8K test problems
and generated problems that were not trained on:

| source | loss |
|---|---|
{losses}

## Licence
Apache-2.0, for weights and tokenizer.
"""


def model_card(recipe: Recipe, progress: Progress, losses: Mapping[str, float], parameters: int) -> str:
    """The card in Markdown.

    Args:
        losses: source → held-out loss in nats per token.
        parameters: how many the model has, tied ones counted once.
    """
    mix, shape = recipe.data, recipe.model
    total = mix.books + mix.gsm8k + mix.generated
    return CARD.format(
        blocks=shape.blocks,
        width=shape.width,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        mlp_width=shape.mlp_width,
        context=shape.context,
        vocabulary=shape.vocabulary,
        parameters=parameters,
        books=mix.books / total,
        gsm8k=mix.gsm8k / total,
        generated=mix.generated / total,
        tokens=progress.tokens,
        steps=progress.step,
        minutes=progress.minutes,
        threads=recipe.threads,
        name=recipe.name,
        recipe_hash=recipe.hash(),
        rate=recipe.optimisation.learning_rate,
        losses="\n".join(f"| {name} | {loss:.3f} |" for name, loss in losses.items()),
    )

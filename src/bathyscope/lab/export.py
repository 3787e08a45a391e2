"""Turn a training run into a checkpoint folder: ``python -m bathyscope.lab.export RUN --data D --out DIR``.

The folder loads with ``AutoModelForCausalLM`` and ``AutoTokenizer``, weights in bfloat16 in small shards, and
its model card says what the model was trained on and how well it predicts text it has not seen.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import (
    AutoTokenizer,
    GenerationConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from bathyscope.errors import ModelError
from bathyscope.lab.card import model_card
from bathyscope.lab.evaluate import held_out_losses, held_out_streams
from bathyscope.lab.tokenizer import BOS, EOS, special_ids
from bathyscope.lab.train import load_weights

LARGEST_SHARD = "3MB"
LARGEST_FOLDER = 16 * 1024**2
HELD_OUT_TOKENS = 131_072

PROBE = "In 1865 it's 48 + 24 = 72,\n\nwasn't it?  Ünïcödé"
"""Digits, contractions, line ends, runs of blanks and letters beyond ASCII: where tokenizers differ."""


def export(run: Path, out: Path, data: Path, held_out_tokens: int = HELD_OUT_TOKENS) -> dict[str, float]:
    """Write the newest checkpoint of ``run`` to ``out``, replacing an earlier export there.

    Args:
        run: a folder of `bathyscope.lab.train`.
        out: the checkpoint folder.
        data: folder with the held-out texts.
        held_out_tokens: how many tokens of each held-out source the card's losses are taken over.

    Returns:
        source → held-out loss in nats per token, of the exported bfloat16 weights.

    Raises:
        OptionError: ``run`` holds no checkpoint.
        ModelError: the folder is too large, or its tokenizer loads with other ids than it was trained with.
    """
    recipe, tokenizer, model, progress = load_weights(run)
    out.mkdir(parents=True, exist_ok=True)
    for stale in out.glob("*.safetensors*"):
        stale.unlink()
    model.bfloat16()
    model.generation_config = GenerationConfig(
        bos_token_id=model.config.bos_token_id,
        eos_token_id=model.config.eos_token_id,
        pad_token_id=model.config.pad_token_id,
    )
    model.save_pretrained(out, max_shard_size=LARGEST_SHARD)
    for shard in out.glob("*.safetensors"):
        # safetensors writes for the owner alone; the folder is installed for every user of a machine.
        shard.chmod(0o644)
    _save_tokenizer(tokenizer, out, recipe.model.context)
    losses = exported_losses(out, tokenizer, data, recipe.model.context, held_out_tokens)
    card = model_card(recipe, progress, losses, parameters=model.num_parameters())
    (out / "MODEL_CARD.md").write_text(card, encoding="utf-8")
    size = sum(path.stat().st_size for path in out.iterdir())
    if size > LARGEST_FOLDER:
        raise ModelError(f"{out} takes {size} bytes; at most {LARGEST_FOLDER} are shipped. Train a smaller model.")
    return losses


def _save_tokenizer(tokenizer: Tokenizer, out: Path, context: int) -> None:
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=BOS, eos_token=EOS, pad_token=EOS, model_max_length=context
    )
    fast.save_pretrained(out)
    loaded = AutoTokenizer.from_pretrained(out)(PROBE)["input_ids"]
    stored = Tokenizer.from_file(str(out / "tokenizer.json")).encode(PROBE).ids
    trained = tokenizer.encode(PROBE).ids
    if not loaded == stored == trained:
        raise ModelError(
            f"The exported tokenizer gives {loaded[:12]}…, its tokenizer.json {stored[:12]}… and the trained "
            f"tokenizer {trained[:12]}…; they must be the same. Check tokenizer_config.json against the "
            "version of transformers."
        )


def exported_losses(folder: Path, tokenizer: Tokenizer, data: Path, context: int, tokens: int) -> dict[str, float]:
    """Held-out losses of the exported weights, computed in float32 from what is on disk."""
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    streams = held_out_streams(data, tokenizer, tokens)
    return held_out_losses(model, streams, context, special_ids(tokenizer)[0])


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of the export."""
    parser = argparse.ArgumentParser(prog="python -m bathyscope.lab.export", description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="folder of a training run")
    parser.add_argument("--out", type=Path, required=True, help="checkpoint folder to write")
    parser.add_argument("--data", type=Path, required=True, help="folder that holds text/ and gsm8k/")
    parser.add_argument("--held-out-tokens", type=int, default=HELD_OUT_TOKENS, help="per source, for the card")
    given = parser.parse_args(arguments)
    losses = export(given.run, given.out, given.data, given.held_out_tokens)
    for name, loss in losses.items():
        print(f"{name}: {loss:.3f} nats/token")


if __name__ == "__main__":
    main()

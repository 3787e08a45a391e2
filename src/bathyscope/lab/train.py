"""Train a small language model from a recipe: ``python -m bathyscope.lab.train RECIPE --data D --out DIR``.

``DIR`` holds ``recipe.yaml``, ``tokenizer.json``, the packed stream, ``metrics.jsonl`` and ``checkpoints/``.
A killed run goes on with ``--resume``; everything a step needs follows from its number, so an interrupted
run on the same machine ends with the same weights as an uninterrupted one (under ``max_tokens``; under
``max_minutes`` the clock has a say).
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from bathyscope.errors import OptionError
from bathyscope.lab import attention, checkpoint
from bathyscope.lab.checkpoint import Progress
from bathyscope.lab.corpus import Sources, pack, training_sources
from bathyscope.lab.evaluate import held_out_losses, held_out_streams, row_loss, rows
from bathyscope.lab.model import build_model
from bathyscope.lab.recipe import Optimisation, Recipe
from bathyscope.lab.tokenizer import special_ids, train_tokenizer

HELD_OUT_TOKENS = 16_384
"""Tokens of each held-out source that are read at every evaluation during training."""


def learning_rate(options: Optimisation, step: int, share: float) -> float:
    """The rate of step 0, 1, …, at a share of the run between 0 and 1: linear up, level, linear down."""
    floor = options.final_ratio
    rise = (step + 1) / options.warmup_steps if options.warmup_steps > 0 else 1.0
    fall = floor + (1 - floor) * (1 - share) / options.decay if options.decay > 0 else 1.0
    return options.learning_rate * min(1.0, rise, fall)


def build_optimizer(model: torch.nn.Module, options: Optimisation) -> torch.optim.AdamW:
    """AdamW that shrinks matrices only: norms have no scale to be shrunk towards."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": options.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=options.learning_rate, betas=(options.beta1, options.beta2), fused=True)


class Run:
    """One training run in a folder."""

    def __init__(self, recipe: Recipe, data: Path, out: Path) -> None:
        self.recipe = recipe
        self.out = out
        out.mkdir(parents=True, exist_ok=True)
        (out / "recipe.yaml").write_text(recipe.to_yaml(), encoding="utf-8")
        self.tokenizer = _prepared_tokenizer(recipe, data, out)
        self.stream = _prepared_stream(recipe, data, out, self.tokenizer)
        self.held_out = held_out_streams(data, self.tokenizer, HELD_OUT_TOKENS)
        self.bos_id, eos_id = special_ids(self.tokenizer)
        self.model = build_model(recipe.model, recipe.seed, self.bos_id, eos_id)
        self.optimizer = build_optimizer(self.model, recipe.optimisation)
        self.model.set_attn_implementation(attention.NAME)
        self.body: Any = self.model.model
        if recipe.compile:
            self.body = torch.compile(self.model.model, dynamic=False)
        self.progress = Progress()

    def resume(self) -> None:
        """Go on from the newest checkpoint.

        Raises:
            OptionError: there is none.
            StoreError: it belongs to another recipe.
        """
        newest = checkpoint.latest(self.out / "checkpoints")
        if newest is None:
            raise OptionError(f"--resume: no checkpoint under {self.out}; start without --resume.")
        self.progress = checkpoint.load(newest, self.model, self.optimizer, self.recipe.hash())

    def share(self) -> float:
        """How much of the run is done, 0 to 1."""
        options = self.recipe.optimisation
        done = self.progress.tokens / options.max_tokens
        if options.max_minutes is not None:
            done = max(done, self.progress.minutes / options.max_minutes)
        return min(done, 1.0)

    def train(self, stop_after: int | None = None) -> None:
        """Step until the budget is used up, or for ``stop_after`` steps (a sitting cut short)."""
        sitting = range(stop_after) if stop_after is not None else itertools.count()
        for _ in sitting:
            if self.share() >= 1.0:
                break
            metrics = self.step()
            if self.progress.step % self.recipe.evaluate_steps == 0:
                metrics["held_out"] = self.evaluate()
            self._log(metrics)
            if self.progress.step % self.recipe.checkpoint_steps == 0:
                self.save()
        if self.share() >= 1.0:
            self._log({"step": self.progress.step, "tokens": self.progress.tokens, "held_out": self.evaluate()})
        self.save()

    def step(self) -> dict[str, Any]:
        """One optimiser step on the next tokens of the stream."""
        began = time.perf_counter()
        options = self.recipe.optimisation
        share = self.share()
        stage = self.recipe.stage(share)
        rate = learning_rate(options, self.progress.step, share)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        batch = rows(self.stream, self.progress.tokens, stage.batch, stage.context, self.bos_id)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.recipe.autocast):
            loss = row_loss(self.body, self.model.lm_head, batch)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), options.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        seconds = time.perf_counter() - began
        n_tokens = stage.batch * stage.context
        self.progress.step += 1
        self.progress.tokens += n_tokens
        self.progress.minutes += seconds / 60
        return {
            "step": self.progress.step,
            "tokens": self.progress.tokens,
            "minutes": round(self.progress.minutes, 3),
            "loss": round(float(loss.detach()), 5),
            "learning_rate": rate,
            "gradient_norm": round(float(norm), 4),
            "tokens_per_second": round(n_tokens / seconds),
        }

    def evaluate(self) -> dict[str, float]:
        """Held-out losses in nats per token, at the longest context."""
        with torch.autocast("cpu", torch.bfloat16, enabled=self.recipe.autocast):
            return held_out_losses(self.model, self.held_out, self.recipe.model.context, self.bos_id)

    def save(self) -> Path:
        return checkpoint.save(self.out / "checkpoints", self.model, self.optimizer, self.progress, self.recipe.hash())

    def _log(self, metrics: dict[str, Any]) -> None:
        with (self.out / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(metrics) + "\n")


def _prepared_tokenizer(recipe: Recipe, data: Path, out: Path) -> Tokenizer:
    """The folder's tokenizer, trained on the recipe's mix of documents where it is not there yet."""
    path = out / "tokenizer.json"
    if not path.is_file():
        texts = _sample(training_sources(data, recipe.seed), recipe)
        tokenizer = train_tokenizer(texts, recipe.model.vocabulary)
        if tokenizer.get_vocab_size() != recipe.model.vocabulary:
            raise OptionError(
                f"The text gave {tokenizer.get_vocab_size()} pieces, not model.vocabulary="
                f"{recipe.model.vocabulary}; raise data.tokenizer_characters or lower the vocabulary."
            )
        tokenizer.save(str(path))
    return Tokenizer.from_file(str(path))


def _sample(sources: Sources, recipe: Recipe) -> list[str]:
    mix = recipe.data
    texts: list[str] = []
    for name, share in (("books", mix.books), ("gsm8k", mix.gsm8k), ("generated", mix.generated)):
        left = share / (mix.books + mix.gsm8k + mix.generated) * mix.tokenizer_characters
        documents = getattr(sources, name)()
        while left > 0:
            texts.append(next(documents))
            left -= len(texts[-1])
    return texts


def _prepared_stream(recipe: Recipe, data: Path, out: Path, tokenizer: Tokenizer) -> np.ndarray:
    """The folder's packed stream, memory-mapped; packed first where it is not there yet."""
    path = out / "stream.npy"
    if not path.is_file():
        stream = pack(training_sources(data, recipe.seed), recipe.data, tokenizer, recipe.data.tokens)
        np.save(out / "packing.npy", stream)
        (out / "packing.npy").rename(path)
    return np.load(path, mmap_mode="r", allow_pickle=False)


def load_weights(run_folder: Path) -> tuple[Recipe, Tokenizer, LlamaForCausalLM, Progress]:
    """The newest checkpoint of a run folder as a float32 model, with what it was made from.

    Raises:
        OptionError: the folder holds no run.
    """
    recipe = Recipe.read(run_folder / "recipe.yaml")
    newest = checkpoint.latest(run_folder / "checkpoints")
    if newest is None:
        raise OptionError(f"No checkpoint under {run_folder}; train first.")
    tokenizer = Tokenizer.from_file(str(run_folder / "tokenizer.json"))
    model = build_model(recipe.model, recipe.seed, *special_ids(tokenizer))
    checkpoint.load_weights(newest, model)
    content = json.loads((newest / "progress.json").read_text(encoding="utf-8"))
    content.pop("recipe")
    return recipe, tokenizer, model, Progress(**content)


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of the trainer."""
    parser = argparse.ArgumentParser(prog="python -m bathyscope.lab.train", description=__doc__.splitlines()[0])
    parser.add_argument("recipe", type=Path, help="a YAML recipe")
    parser.add_argument("--data", type=Path, required=True, help="folder that holds text/ and gsm8k/")
    parser.add_argument("--out", type=Path, required=True, help="folder of the run")
    parser.add_argument("--resume", action="store_true", help="go on from the newest checkpoint")
    given = parser.parse_args(arguments)
    recipe = Recipe.read(given.recipe)
    torch.set_num_threads(recipe.threads)
    run = Run(recipe, given.data, given.out)
    if given.resume:
        run.resume()
    run.train()


if __name__ == "__main__":
    main()

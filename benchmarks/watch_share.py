"""What share of a training's time surveys take at the callback's default settings, and how they are thinned.

A 12-block model trains on generated problems under ``DepthCallback`` as its defaults are (every 500 steps, lens, skip
and drop, at most 5 %), and once more with surveys every few steps, most of which have to be left out.

    python benchmarks/watch_share.py            # about four minutes on one quiet thread
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

import bathyscope
from bathyscope.prompts.problems import generate, to_prompt
from bathyscope.training import DepthCallback

ROOT = Path(__file__).resolve().parents[1]


def texts(count: int) -> list[str]:
    """Word problems with their answers."""
    prompts = [to_prompt(problem) for problem in generate("word", count, seed=5)]
    return [str(prompt.text) for prompt in prompts]


def trained(model: Path, out: Path, steps: int, every: int, batch: int, context: int) -> dict[str, Any]:
    """Train under the callback; return the share of the time that surveys took, and the steps that were surveyed."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    hf = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    stream = [token for text in texts(4000) for token in tokenizer(text)["input_ids"]]
    rows = [stream[place : place + context] for place in range(0, len(stream) - context, context)]
    data = [{"input_ids": row, "labels": row} for row in rows]
    settings = TrainingArguments(
        str(out / "t"),
        max_steps=steps,
        per_device_train_batch_size=batch,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        logging_steps=10**9,
    )
    callback = DepthCallback("problems:8?steps=1-3", every, out / "course", tokenizer=tokenizer)
    trainer = Trainer(hf, settings, train_dataset=data, callbacks=[callback])
    began = time.monotonic()
    trainer.train()
    passed = time.monotonic() - began
    rows_logged = [row for row in trainer.state.log_history if "depth/seconds" in row]
    seconds = [row["depth/seconds"] for row in rows_logged]
    return {
        "steps": [row["step"] for row in rows_logged],
        "seconds": seconds,
        "share": sum(seconds) / passed,
        "passed": passed,
        "surveyed": bathyscope.open(out / "course").step.values.tolist(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=ROOT / "checkpoints" / "depth_12")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--every", type=int, default=500)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--context", type=int, default=128)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("default", UserWarning)
    with tempfile.TemporaryDirectory() as folder:
        usual = trained(asked.model, Path(folder) / "usual", asked.steps, asked.every, asked.batch, asked.context)
        often = trained(asked.model, Path(folder) / "often", asked.steps // 8, 5, asked.batch, asked.context)
    for name, result in (("default settings", usual), ("every 5 steps", often)):
        taken = ", ".join(f"{value:.2f}" for value in result["seconds"])
        print(
            f"{name}: {result['share']:.1%} of {result['passed']:.0f} s; surveyed at steps {result['surveyed']}, "
            f"{taken} s each"
        )


if __name__ == "__main__":
    main()

"""A short training in a process of its own: one of two that train together, or one that is killed.

Called as ``training_driver.py OUT [--course FOLDER] [--kill-in STEP] [--resume CHECKPOINT]``; writes OUT/result.pt.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from support.trainings import PROMPTS, STEPS, Rows, model
from transformers import Trainer, TrainingArguments

from bathyscope.runs.writer import RunWriter
from bathyscope.surveying.training import watch as watching
from bathyscope.training import DepthCallback


def kill_in(step: int) -> None:
    """Kill this process in the middle of the survey of a step: its files are there, and it is not finished."""
    survey = watching.survey

    def killing(hf: Any, prompts: Any, measures: Any, *, out: Path, **options: Any) -> Any:
        if out.name == f"step-{step:08d}":
            RunWriter.finish = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]
        return survey(hf, prompts, measures, out=out, batch_tokens=1, **options)

    watching.survey = killing  # type: ignore[assignment]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--course", type=Path)
    parser.add_argument("--kill-in", type=int, default=-1)
    parser.add_argument("--resume")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    kill_in(asked.kill_in)
    callbacks = []
    if asked.course is not None:
        callbacks.append(DepthCallback(PROMPTS, every=2, out=asked.course, progress=False))
    settings = TrainingArguments(
        str(asked.out),
        max_steps=STEPS,
        per_device_train_batch_size=4,
        logging_steps=1,
        save_strategy="steps",
        save_steps=2,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        seed=3,
        ddp_backend="gloo" if "RANK" in os.environ else None,
    )
    trainer = Trainer(model(dropout=True), settings, train_dataset=Rows(), callbacks=callbacks)
    trainer.train(resume_from_checkpoint=asked.resume)
    assert trainer.optimizer is not None
    result = {
        "loss": [row["loss"] for row in trainer.state.log_history if "loss" in row],
        "weights": trainer.model.state_dict(),
        "optimiser": trainer.optimizer.state_dict()["state"],
        "random": torch.random.get_rng_state(),
    }
    torch.save(result, asked.out / f"result_{os.environ.get('RANK', '0')}.pt")


if __name__ == "__main__":
    main()

"""lm-evaluation-harness: log-likelihoods and accuracy of a task, by its own model class and its own loop."""

from __future__ import annotations

from typing import Any

import lm_eval
import torch
from exchange import Answers
from lm_eval.tasks import TaskManager


def main() -> None:
    answers = Answers("lm_eval")
    task, folder = answers.request["task"], answers.request["task_folder"]
    results: dict[str, Any] = {}

    def evaluate() -> torch.Tensor:
        results.update(
            lm_eval.simple_evaluate(
                model="hf",
                model_args={"pretrained": answers.request["model"], "dtype": answers.request["dtype"]},
                tasks=[task],
                task_manager=TaskManager(include_path=folder, include_defaults=False),
                limit=answers.request["limit"],
                batch_size=4,
                device="cpu",
                bootstrap_iters=0,
            )
        )
        samples = sorted(results["samples"][task], key=lambda sample: sample["doc_id"])
        return torch.tensor([response[0] for sample in samples for response in sample["filtered_resps"]])

    answers.take("log-likelihoods of answers", evaluate)
    answers.take("accuracy", lambda: [results["results"][task]["acc,none"]])
    answers.write()


if __name__ == "__main__":
    main()

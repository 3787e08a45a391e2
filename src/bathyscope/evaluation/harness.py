"""One task under one schedule, scored by lm-evaluation-harness. Imports the harness: import this only on use."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import lm_eval
import numpy as np
import torch
from lm_eval.evaluator import evaluate as run_harness
from lm_eval.models.huggingface import HFLM
from torch import Tensor

from bathyscope.errors import PromptError
from bathyscope.evaluation.benchmarks import Benchmark, quietly
from bathyscope.model import Model

VERSION = str(lm_eval.__version__)
LOGLIKELIHOOD = "loglikelihood"
_PERPLEXITY = "perplexity"


class LoadedLM(HFLM):
    """A loaded model as the harness takes it, with the harness's own tokenization, truncation and batches.

    Args:
        model: whatever schedule it runs at the time is what is scored.
        batch_size: requests in one forward.
        advance: is told how many requests a forward has answered.
    """

    def __init__(self, model: Model, batch_size: int, advance: Callable[[int], None]) -> None:
        # the harness chooses a padding token, which must not stay with the model
        tokenizer = copy.deepcopy(model.tokenizer)
        narrow = model.dtype not in (torch.float32, torch.float64)
        with quietly():
            super().__init__(
                pretrained=model.hf,
                backend="causal",
                tokenizer=tokenizer,
                batch_size=batch_size,
                softmax_dtype="float32" if narrow else None,
            )
        self._advance = advance

    def loglikelihood(self, requests: Any, disable_tqdm: bool = True) -> Any:
        """The harness's own, without its progress bar."""
        return super().loglikelihood(requests, disable_tqdm=True)

    def _model_call(self, inps: Tensor, attn_mask: Any = None, labels: Any = None) -> Tensor:
        with torch.no_grad():
            # nothing is continued, so a cache would only cost memory
            found: Tensor = self.model(inps, use_cache=False).logits
        self._advance(len(inps))
        return found


def prepare(benchmark: Benchmark, limit: int | None) -> tuple[int, str]:
    """Builds the requests; returns how many there are and a hash of them (SHA-256 of contexts and answers).

    Raises:
        PromptError: a document that does not suit the task.
    """
    with quietly():
        try:
            benchmark.task.build_all_requests(limit=limit)
        except Exception as error:  # templates fail in many ways on documents that lack something
            raise PromptError(
                f"A document of {benchmark.name} ({benchmark.source or 'hub'}) does not suit the task "
                f"({type(error).__name__}: {' '.join(str(error).split())[:200]})."
            ) from error
    requests = [list(map(str, instance.args)) for instance in benchmark.task.instances]
    return len(requests), hashlib.sha256(json.dumps(requests).encode()).hexdigest()


def score(lm: LoadedLM, benchmark: Benchmark, limit: int | None) -> dict[str, Any]:
    """What the harness measures, as plain JSON values.

    Returns:
        ``metrics``: name → value and standard error (None where none is known); ``documents``: for each its number,
        its own values of the metrics, the log-likelihood (nats) of every answer, and which answer is right.
    """
    with quietly():
        given = run_harness(
            lm=lm, task_dict={"tasks": {benchmark.name: benchmark.task}}, limit=limit, bootstrap_iters=0
        )
    (samples,) = given["samples"].values()
    first = samples[0]["filter"]
    kept = [sample for sample in samples if sample["filter"] == first]
    documents = [_document(benchmark.task, sample) for sample in kept]
    (results,) = given["results"].values()
    metrics = {}
    for name in kept[0]["metrics"]:
        value = results.get(f"{name},{first}")
        if isinstance(value, int | float):
            metrics[name] = {"value": float(value), "stderr": _stderr(name, value, [d.get(name) for d in documents])}
    right = [_right_loglikelihood(document) for document in documents]
    if all(value is not None for value in right):
        mean = float(np.mean(right))  # type: ignore[arg-type]
        metrics[LOGLIKELIHOOD] = {"value": mean, "stderr": _stderr(LOGLIKELIHOOD, mean, right)}
    return {"metrics": metrics, "documents": documents}


def _document(task: Any, sample: Mapping[str, Any]) -> dict[str, Any]:
    own = {n: float(sample[n]) for n in sample["metrics"] if isinstance(sample[n], bool | int | float | np.number)}
    loglikelihoods = [float(answers[0][0]) for answers in sample["resps"]]
    return {
        "document": int(sample["doc_id"]),
        **own,
        "loglikelihoods": loglikelihoods,
        "right": _right(task, sample, len(loglikelihoods)),
    }


def _right(task: Any, sample: Mapping[str, Any], answers: int) -> int | None:
    """The index of the right answer; None where a task has several or none."""
    target = 0 if answers == 1 else sample["target"]
    if isinstance(target, str):
        choices = task.doc_to_choice(sample["doc"])
        target = choices.index(target) if target in choices else None
    return int(target) if isinstance(target, int) and 0 <= target < answers else None


def _right_loglikelihood(document: Mapping[str, Any]) -> float | None:
    right = document["right"]
    return None if right is None else float(document["loglikelihoods"][right])


def _stderr(name: str, value: float, documents: Sequence[float | None]) -> float | None:
    """Standard error over documents of a mean; of a perplexity by the delta method from its documents' logarithms."""
    known = np.array([d for d in documents if d is not None], dtype=np.float64)
    if len(known) < max(2, len(documents)):
        return None
    own = float(known.std(ddof=1) / math.sqrt(len(known)))
    if name == _PERPLEXITY:
        return value * own
    # other aggregates (correlations, F1) have no standard error of this kind
    return own if math.isclose(value, float(known.mean()), rel_tol=1e-9, abs_tol=1e-12) else None

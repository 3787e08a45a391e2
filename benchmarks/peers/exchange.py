"""What a peer's script reads and writes: one JSON file with the question, one with the answer.

It is used in the peers' own environments, so that it needs torch and transformers alone.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch


class Answers:
    """The cells of one peer.

    Args:
        package: as the package index names it.
    """

    def __init__(self, package: str) -> None:
        self.package = package
        self.request: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
        self._cells: dict[str, Any] = {}
        torch.set_num_threads(int(self.request["threads"]))
        torch.set_grad_enabled(False)

    @property
    def prompts(self) -> list[list[int]]:
        """Token ids of every prompt."""
        prompts: list[list[int]] = self.request["prompts"]
        return prompts

    @property
    def dtype(self) -> torch.dtype:
        """Precision that the model computes in."""
        dtype: torch.dtype = getattr(torch, self.request["dtype"])
        return dtype

    def model(self, attention: str = "sdpa") -> Any:
        """Return the model in the dtype asked for, as plain transformers loads it."""
        from transformers import AutoModelForCausalLM

        model = AutoModelForCausalLM.from_pretrained(
            self.request["model"],
            dtype=self.dtype,
            attn_implementation=attention,
        )
        return model.eval()

    def take(self, cell: str, work: Callable[[], Any]) -> None:
        """Compute the values of a cell and the CPU time that they take; an error is an answer too."""
        cpu = time.process_time()
        try:
            values = torch.as_tensor(work(), dtype=torch.float64).tolist()
        except Exception as error:  # whatever a package of somebody else meets here is what the table tells
            self._cells[cell] = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
            return
        self._cells[cell] = {"values": values, "cpu_seconds": time.process_time() - cpu}

    def write(self) -> None:
        """Write the answer."""
        answer = {"package": self.package, "version": version(self.package), "cells": self._cells}
        Path(sys.argv[2]).write_text(json.dumps(answer), encoding="utf-8")


def mean_over_tokens(values_by_prompt: list[torch.Tensor]) -> torch.Tensor:
    """Return the mean over all tokens of all prompts, of tensors [..., tokens]."""
    return torch.cat([values.double() for values in values_by_prompt], dim=-1).mean(-1)


def kl(logits: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return KL(p ‖ q) in nats of two tensors of logits [..., vocabulary], in float64."""
    log_p, log_q = (values.double().log_softmax(-1) for values in (logits, other))
    return (log_p.exp() * (log_p - log_q)).sum(-1)

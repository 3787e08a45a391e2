"""A program that surveys and waits amid the survey, so that a test can end it there: ``ended_driver.py FOLDER``."""

from __future__ import annotations

import signal
import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import bathyscope
from bathyscope.runs.writer import RunWriter

if __name__ == "__main__":
    # a model of its own: the zoo loads a hundred families first
    torch.manual_seed(0)
    shape = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "max_position_embeddings": 32}
    config = LlamaConfig(**shape, num_hidden_layers=3, num_attention_heads=4)
    model, write = bathyscope.load(LlamaForCausalLM(config)), RunWriter.write

    def waiting(self: RunWriter, *arguments: object) -> None:
        write(self, *arguments)  # type: ignore[arg-type]
        print("kept", flush=True)
        signal.pause()

    RunWriter.write = waiting  # type: ignore[method-assign, assignment]
    prompts = [bathyscope.Prompt(ids=[(3 + 5 * token + 7 * row) % 60 for token in range(9)]) for row in range(3)]
    try:
        bathyscope.survey(model, prompts, ["residual"], out=sys.argv[1], batch_tokens=9, progress=False)
    except KeyboardInterrupt:
        print("answered", flush=True)

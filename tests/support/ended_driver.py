"""A program that surveys and waits amid the survey, so that a test can end it there: ``ended_driver.py FOLDER``."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support import waves, zoo

import bathyscope
from bathyscope.runs.writer import RunWriter

if __name__ == "__main__":
    model, write = waves.loaded("llama"), RunWriter.write

    def waiting(self: RunWriter, *arguments: object) -> None:
        write(self, *arguments)  # type: ignore[arg-type]
        print("kept", flush=True)
        signal.pause()

    RunWriter.write = waiting  # type: ignore[method-assign, assignment]
    prompts = [bathyscope.Prompt(ids=ids) for ids in zoo.prompts(model.hf, (9, 9, 9))]
    try:
        bathyscope.survey(model, prompts, ["residual"], out=sys.argv[1], batch_tokens=9, progress=False)
    except KeyboardInterrupt:
        print("answered", flush=True)

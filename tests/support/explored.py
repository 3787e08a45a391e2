"""A run with everything that the explorer shows, of a tiny model, and with words that would act if they could."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from support import zoo
from support.word_tokenizer import word_tokenizer

import bathyscope
from bathyscope import Prompt
from bathyscope.runs.run import Run

HOSTILE: Final = "<script>document.title='taken'</script><img src=x onerror=alert(1)>\x07\u202egnp."
LENGTHS: Final = (40, 12, 25, 9, 31)
MEASURES: Final = ["residual", "lens", "skip", "drop", "tokens", "effective_depth"]


def explored_run(out: Path) -> Run:
    """Five prompts with labels, of which four have tokens, surveyed into a folder."""
    model = zoo.build("llama")
    words = [f"w{number}" for number in range(model.config.vocab_size - 2)]
    loaded = bathyscope.load(model, tokenizer=word_tokenizer(words))
    prompts = [
        Prompt(
            " ".join(words[token % len(words)] for token in ids),
            id=f"prompt {n}" if n else HOSTILE,
            labels={"kind": "long" if len(ids) > 20 else "short", "note": HOSTILE + "x" * 10_000 * (n == 1)},
        )
        for n, ids in enumerate(zoo.prompts(model, LENGTHS))
    ]
    return bathyscope.survey(loaded, prompts, MEASURES, out, tokens={"prompts": 4}, progress=False)

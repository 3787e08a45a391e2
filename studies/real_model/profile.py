"""The depth profile of the real model next to untrained models of its shape: the first picture of the README."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import bathyscope
from bathyscope import Run
from bathyscope.extend.prompts import bundled_prompts, tokenized
from bathyscope.pages.head.drawing import alone
from bathyscope.pages.head.numbers import read_profile
from bathyscope.prompts.source import Source, resolve
from bathyscope.prompts.tokenizer import load_tokenizer
from studies.common.files import write_file

MEASURES: Final = ("residual", "lens", "skip", "drop", "effective_depth")
CONTROL: Final = "untrained:3"
NAME: Final = "SmolLM2-135M-Instruct unpacked from Q4_1"


def survey_profile(folder: Path, out: Path, prompts: Source | None = None, control: str = CONTROL) -> Run:
    """Survey the model and its controls on the bundled prompts, or go on with an interrupted survey.

    Args:
        folder: of the model, as ``fetch`` stores it.
        out: folder of the run.
        prompts: others than the bundled ones.
        control: kind and number of controls.
    """
    # a name that is no folder leads to no tokenizer
    model = replace(bathyscope.load(folder, dtype="float32", tokenizer=load_tokenizer(folder)), name=NAME)
    source = replace(resolve(bundled_prompts()), dataset="bundled prompts") if prompts is None else prompts
    count = len(tokenized(model, source))
    # a profile shows no effects on later tokens, which would take four fifths of the time
    skip = {"positions": [[]] * count, "output_reductions": ["mean"]}
    return bathyscope.survey(model, source, list(MEASURES), out, control=control, skip=skip)


def draw_profile(run: Run, picture: Path) -> None:
    """Write the profile as SVG, which follows the reader's choice of light or dark."""
    write_file(picture, alone(read_profile(run)).encode("utf-8"))

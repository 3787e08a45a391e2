"""The depth profile of the real model next to untrained models of its shape: the first picture of the README."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import bathyscope
from bathyscope import Prompt, PromptSet, Run
from bathyscope.extend.prompts import bundled_prompts, tokenized
from studies.common.files import write_file
from studies.real_model.models import SMOLLM2, RealModel

MEASURES: Final = ("residual", "lens", "skip", "drop", "effective_depth")
CONTROL: Final = "untrained:3"


def survey_profile(
    folder: Path,
    out: Path,
    prompts: Sequence[Any] | None = None,
    control: str = CONTROL,
    real: RealModel = SMOLLM2,
) -> Run:
    """Survey the model and its controls on the bundled prompts, or go on with an interrupted survey.

    Args:
        folder: of the model, as ``fetch`` stores it.
        out: folder of the run.
        prompts: others than the bundled ones.
        control: kind and number of controls.
        real: which model it is.
    """
    # a name that is no folder leads to no tokenizer
    loaded = bathyscope.load(folder, dtype="float32")
    model = replace(loaded, name=real.origin, given_tokenizer=loaded.tokenizer)
    source = _bundled() if prompts is None else prompts
    count = len(tokenized(model, source))
    # a profile shows no effects on later tokens, which would take four fifths of the time
    skip = {"positions": [[]] * count, "output_reductions": ["mean"]}
    return bathyscope.survey(model, source, list(MEASURES), out, control=control, skip=skip)


def _bundled() -> PromptSet:
    rows = map(json.loads, bundled_prompts().read_text(encoding="utf-8").splitlines())
    return PromptSet(tuple(Prompt(**row) for row in rows), "bundled prompts")


def draw_profile(run: Run, picture: Path) -> None:
    """Write the profile as SVG, which follows the reader's choice of light or dark."""
    with TemporaryDirectory() as folder:
        bathyscope.card(run, Path(folder) / "profile.md")
        write_file(picture, (Path(folder) / "profile.svg").read_bytes())

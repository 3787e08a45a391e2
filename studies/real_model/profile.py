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
STORED: Final = "profile.json"
"""In the folder of a model's results: what the pages say of the picture."""
READINGS: Final = ("half", "own", "readable")
"""Blocks from which half of the tokens keep their prediction, until 90 % of the effect on the output, and after which
a token keeps its prediction on average.
"""
_DIGITS: Final = 4


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


def stored_readings(run: Run) -> dict[str, Any]:
    """Return what a profile reads, in blocks done, each with its 95 % interval.

    Returns:
        ``headline``; ``prompts`` and ``tokens``; ``weights``; for each of ``READINGS`` its ``value`` with ``low`` and
        ``high``, that of the ``untrained`` models, and the ``difference`` from them with ``difference_low`` and
        ``difference_high``.
    """
    verdict: Any = run.verdict
    return {
        "weights": run.identity.model,
        "headline": run.headline(),
        "prompts": len(verdict.half.by_prompt),
        "tokens": int(verdict.half.tokens.sum()),
        **{name: _reading(getattr(verdict, name)) for name in READINGS},
    }


def _reading(reading: Any) -> dict[str, float]:
    [null] = reading.nulls.values()
    numbers = {
        "value": reading.value,
        "low": reading.low,
        "high": reading.high,
        "untrained": null.value,
        "difference": null.moved,
        "difference_low": null.interval.low,
        "difference_high": null.interval.high,
    }
    return {key: round(float(number), _DIGITS) for key, number in numbers.items()}

"""Readings of single prompts: what ``enough`` draws its samples from, so that coverage is that of real data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bathyscope.model import load
from bathyscope.surveying.engines import survey

Readings = dict[str, NDArray[np.float64]]
PROBLEMS: Final = "problems:{count}?steps=1-6"
PERMUTATIONS: Final = "task:permutations:{count}?factors=1-8&beyond=9-9&elements=generators&answer=image"
SOURCES: Final[Mapping[str, str]] = {
    **{f"depth_{blocks}": PROBLEMS for blocks in (6, 12, 24)},
    **{f"permutations_{blocks}": PERMUTATIONS for blocks in (8, 12)},
}
"""Model of ``checkpoints`` → prompts like those it was trained on."""


def read_prompts(model: str, count: int, out: Path, checkpoints: Path) -> dict[str, Any]:
    """Survey some prompts, each read once, and return both readings of every one.

    Args:
        model: a name of ``SOURCES``.
        count: prompts that are generated; repeated ones count once.
        out: folder of the surveys, which are resumed.
        checkpoints: folder of the models.
    """
    source = SOURCES[model].format(count=count)
    loaded = load(checkpoints / model, device="cpu", dtype="float32")
    run = survey(loaded, source, ["lens", "skip"], out / "runs" / model, progress=False)
    verdict = run.verdict
    first_places = {tuple(prompt.ids): place for place, prompt in reversed(list(enumerate(run.prompts)))}
    places = sorted(first_places.values())
    by_prompt = {name: getattr(verdict, name).by_prompt[places].tolist() for name in ("readable", "own")}
    return {"model": model, "prompts": source, "n_blocks": loaded.n_blocks, "readings": by_prompt}

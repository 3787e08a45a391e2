"""Readings of single prompts: what ``enough`` draws its samples from, so that coverage is that of real data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bathyscope import Run, load, survey

PROBLEMS: Final = "problems:{count}?steps=1-6"
PERMUTATIONS: Final = "task:permutations:{count}?factors=1-8&beyond=9-9&elements=generators&answer=image"
SOURCES: Final[Mapping[str, str]] = {
    **{f"depth_{blocks}": PROBLEMS for blocks in (6, 12, 24)},
    **{f"permutations_{blocks}": PERMUTATIONS for blocks in (8, 12)},
}
"""Model of ``checkpoints`` → prompts like those it was trained on."""
DECIMALS: Final = 10
"""Of what is stored: a share of tokens that is one half is still read as one (``statistics.kept_depth``)."""


def read_prompts(model: str, count: int, out: Path, checkpoints: Path) -> dict[str, Any]:
    """Survey some prompts, each read once, and return what decides the verdict of every one.

    Args:
        model: a name of ``SOURCES``.
        count: prompts that are generated; repeated ones count once.
        out: folder of the surveys, which are resumed.
        checkpoints: folder of the models.
    """
    source = SOURCES[model].format(count=count)
    loaded = load(checkpoints / model, device="cpu", dtype="float32")
    run = survey(loaded, source, ["lens", "skip"], out / "runs" / model, progress=False)
    return {"model": model, "prompts": source, "n_blocks": loaded.n_blocks, **by_prompt(run)}


def by_prompt(run: Run) -> dict[str, Any]:
    """Return the readings of every prompt of a run, repeated ones once.

    ``readable`` and ``own`` are means over prompts. ``half`` is of the tokens of all prompts together, so that each
    prompt gives the shares of its tokens that keep their prediction, by boundary, and the number of these tokens.
    """
    verdict = run.verdict
    half: Any = verdict.half
    first_places = {tuple(prompt.ids): place for place, prompt in reversed(list(enumerate(run.prompts)))}
    places = sorted(first_places.values())
    means = {name: getattr(verdict, name).by_prompt for name in ("readable", "own")}
    return {
        "readings": {name: values[places].round(DECIMALS).tolist() for name, values in means.items()},
        "tokens": half.tokens[places].tolist(),
        "shares": half.shares[places].round(DECIMALS).tolist(),
    }

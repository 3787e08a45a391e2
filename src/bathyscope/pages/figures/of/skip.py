"""Skip effects: maps of skipped against affected block, with the change of the output alongside.

Source: csordas2025 (effects on all tokens, and on later tokens only).
"""

from typing import Final

from bathyscope.pages.figures.kind import Drawing, FigureKind
from bathyscope.pages.figures.kit.block_effects import REACHES, Effects, drawing
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.provenance import measure_options
from bathyscope.runs.run import Run

_WHAT: Final = (
    "One block at a time is skipped, and everything after it recomputed. Colour: how much a later "
    "block's contribution changes, relative to its norm; bars: how far the output probabilities move "
    "(L2, at most √2). Effect on later tokens: the block is skipped before a position, and measured from "
    "there on. Grey: fixed by the definition (0 for earlier blocks; the skipped block itself)."
)
_PARTS: Final = {"block": "block", "attention": "block's attention", "mlp": "block's MLP"}


def _drawing(run: Run, options: FigureOptions) -> Drawing:
    """For each skipped part and each reach a map over all prompts, and maps of single prompts.

    The effect on the skipped block itself is fixed where all of its contribution goes (1), and at later tokens,
    which skip nothing (0).
    """
    data = run["skip"].sel(reduction=options.reduction)
    parts = [str(part) for part in data["part"].values]
    # skipped channels reach every token, and so the block itself, at later tokens too
    channels = measure_options(run, "skip").get("axis") == "channels"
    effects = {}
    for part in parts:
        chosen = data.sel(part=part)
        for reach in REACHES:
            if f"effect_{reach}" in data:
                effects[reach if len(parts) == 1 else f"{part}_{reach}"] = Effects(
                    effect=chosen[f"effect_{reach}"],
                    output=chosen.get(f"output_{reach}"),
                    title=f"Skipping one {_PARTS.get(part, part)}: effect on {REACHES[reach]}",
                    own_measured=channels if reach == "future" else part != "block",
                )
    return drawing(_WHAT, effects, options)


FIGURE: Final = FigureKind("skip", "Skip effects", ("effect_all", "effect_future"), _drawing)

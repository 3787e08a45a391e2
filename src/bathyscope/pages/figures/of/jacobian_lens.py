"""Jacobian lens: what is read behind the mean Jacobian, next to the plain and the translated lens, and how sure it is.

Source: jlens 2026, Jacobian lens.
"""

import math
from typing import Final

import xarray as xr

from bathyscope.core.estimates import Estimate
from bathyscope.pages.figures.kind import Drawing, FigureKind, drop_empty
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.lines import make_chart
from bathyscope.pages.figures.kit.series import BOUNDARY_LABEL, Axis, Curve, Look
from bathyscope.pages.figures.kit.summary import describe
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.text.provenance import measure_options
from bathyscope.runs.run import Run

_LOOKS: Final = {
    "jacobian": Look(style.GREEN, "^"),
    "lens": Look(style.VERMILION, "s", "--"),
    "translated": Look(style.BLUE, "o", ":"),
}
_READ: Final = {
    "kl": ("Distance from the final prediction", "KL(final ‖ read) ({unit})"),
    "top1_agreement": ("Same top-1 token as in the end", "share of tokens ({unit})"),
}
_OF_THE_LENS: Final = (
    Curve("half_agreement", "two halves of the prompts", Look(style.MUTED, "D", "-.")),
    Curve("half_agreement_rest", "the halves without the identity", Look(style.GREEN, "^")),
    Curve("identity_share", "share of the identity", Look(style.PURPLE, "v", ":")),
)
_TRUST: Final = Axis("How far the lens can be trusted", BOUNDARY_LABEL, "cosine, or share (dimensionless)")
_LEVEL: Final = 0.05


def _make_drawing(run: Run, options: FigureOptions) -> Drawing:
    """KL and agreement by boundary for each reader, and what is known of the lens itself."""
    data = run["jacobian_lens"]
    readers = [name for name in _LOOKS if name in data["reader"].values]
    panels = [
        make_chart(
            name,
            data,
            Axis(title, BOUNDARY_LABEL, height),
            [Curve(name, reader, _LOOKS[reader], at={"reader": reader}) for reader in readers],
            options,
        )
        for name, (title, height) in _READ.items()
    ]
    panels.append(make_chart("trust", data, _TRUST, _OF_THE_LENS, options))
    read = int((data["n_averaged"] > 0).sum())
    answers = measure_options(run, "jacobian_lens").get("positions") == "answer"
    tokens = " that predict the answers" if answers else ", without position 0,"
    translated = " Translated: behind maps by least squares, fitted to the same prompts." if len(readers) > 2 else ""
    note = (
        f"Jacobian: the stream at each boundary behind the mean Jacobian of the last one over "
        f"{data.attrs.get('fit_prompts', 'other')} prompts, and read out by the model itself. Lens: read as it is."
        f"{translated} Means are over the tokens{tokens} of {read} prompts that nothing was fitted to. "
        f"{describe(options, read)} {_band(data, read)} Halves of the prompts agree on the identity, which the stream "
        "passes on whatever the blocks do; what they found is what they agree on without it."
    )
    return Drawing(drop_empty(panels), note)


def _band(data: xr.Dataset, prompts: int) -> str:
    """Return where the Jacobian lens is the better one, in a sentence.

    None for a part of a run with some prompts, nor for a run of an earlier version, whose test was of another run of
    boundaries than the one in ``band_first`` and ``band_last``.
    """
    if "band_gain" not in data:
        return ""
    first, p = (float(data[name]) for name in ("band_first", "band_p"))
    if math.isnan(p) or 0.5**prompts > _LEVEL:
        few = "One prompt" if prompts == 1 else f"{prompts} prompts"
        return f"{few} cannot tell whether there is a band of boundaries where the Jacobian lens is the better one."
    gain = Estimate.of(data, "band_gain").write(".2g", " nats")
    if math.isnan(first):
        reason = f"p = {p:.2g}" if p > _LEVEL else f"p = {p:.2g}, but the mean gain is {gain}"
        return f"No band: the Jacobian lens is nowhere shown to be nearer to the final prediction ({reason})."
    ends = [f"{Estimate.of(data, name):.0f}" for name in ("band_first", "band_last")]
    return (
        f"Band: at each boundary from {ends[0]} to {ends[1]} the Jacobian lens is nearer to the final prediction than "
        f"the plain lens (p ≤ {p:.2g}, corrected for all boundaries), by {gain} on average."
    )


FIGURE: Final = FigureKind("jacobian_lens", "Jacobian lens", (*_READ, "half_agreement"), _make_drawing)

"""Declaration of the effective depth; its code is ``measures.effective_depth``."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

from bathyscope.labels import Label, interval
from bathyscope.measures.declaration import Declaration
from bathyscope.options import Coverage, Range, Resamples

_label = partial(Label, "estimator", source="hu2025, effective depth")
_BOOTSTRAP = "bootstrap over prompts"


@dataclass(frozen=True)
class EffectiveDepthOptions:
    """Options of the effective depth.

    Args:
        resamples: bootstrap resamples of the prompts.
        level: coverage of the intervals.
        kl_fraction: share of the largest KL below which kl is met.
        overlap_threshold: overlap above which overlap is met.
        cluster: the prompts' label of what belongs together, such as document; such prompts are resampled as one.
            None = each for itself.
    """

    resamples: Resamples = 1000
    level: Coverage = 0.95
    kl_fraction: Annotated[float, Range(1e-6, 1.0)] = 0.5
    overlap_threshold: Annotated[float, Range(0.0, 0.9999)] = 0.3
    cluster: str | None = None


DECLARATION: Final = Declaration(
    "effective_depth",
    "All estimators with bootstrap intervals over prompts.",
    EffectiveDepthOptions,
    {
        "depth": _label(
            "effective depth",
            "block",
            "blocks done, 0 … L: block l is done at l + 1, a position between blocks at ½ more, boundary b at b",
        ),
        "ratio": _label("effective depth ratio", "1", "depth / L"),
        "index": _label(
            "the criterion's own number, from 0",
            "index",
            "cosines and centre of mass index blocks; kl and overlap block inputs; settle and prediction boundaries",
        ),
        **interval("ci", _label, "the {percent=95 %} interval of the depth", "block", _BOOTSTRAP),
        "crossing_share": _label("share of resamples that meet the criterion", "1", _BOOTSTRAP),
        "reason": _label("why there is no estimate or no interval", ""),
    },
    requires=("residual", "lens", "skip"),
    derived=True,
    order=920,
    panels={"estimates": ("depth", "ratio", "index")},
    question="up to which block does the model still work on the answer?",
    rows="none of its own",
)

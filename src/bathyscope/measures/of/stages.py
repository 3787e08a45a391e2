"""Declaration of the stages of inference; their code is ``measures.stages``."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

from bathyscope.core.common_options import OF_PROMPTS, Level
from bathyscope.core.descriptions import described
from bathyscope.labels import Label, interval
from bathyscope.measures.declaration import Declaration
from bathyscope.options import Range

_label = partial(Label, source="lad2024, stages of inference")
_curve = partial(_label, "curve block")
_stage = partial(_label, "stage")
_by_k = partial(_label, "k")
_in_loops = partial(Label, "", source="own", optional=True)
_BOOTSTRAP = "bootstrap over prompts"


@described
@dataclass(frozen=True)
class StagesOptions:
    """Options of the stages.

    Args:
        stages: how many the boundaries are given for; where the model has too few blocks, other numbers than the
            default are refused, and the default has no boundaries.
        most: the error on held-out prompts is given for 1 to this many; refused likewise.
        shortest: fewest blocks in a stage.
        folds: into which prompts are dealt to be held out (no more than there are prompts).
        cluster: the prompts' label of what belongs together, such as document; such prompts are resampled, and held
            out, as one. None = each for itself.
    """

    stages: Annotated[int, Range(2, 50)] = 4
    most: Annotated[int, Range(2, 50)] = 5
    shortest: Annotated[int, Range(1, 1000)] = 2
    folds: Annotated[int, Range(2, 1000)] = 10
    resamples: Annotated[int, Range(1, 1_000_000), OF_PROMPTS] = 1000
    level: Level = 0.95
    cluster: str | None = None


DECLARATION: Final = Declaration(
    "stages",
    "Signatures by block, boundaries of stages, and the evidence for their number.",
    StagesOptions,
    {
        "signature": _curve("signature of how the model works at a block", "as the curve", "mean"),
        **interval("signature", _curve, "the {percent=95 %} interval of the signature", "as the curve", _BOOTSTRAP),
        "left_out": _label("curve", "why a signature is left out of the cut", ""),
        "standardised": _curve(
            "signature as it is cut",
            formula="(x − mean over blocks) / standard deviation over blocks; x = log of drop_kl and mlp_norm",
        ),
        "boundary": _stage("first block of a stage", "block", "least squares Σ (z − its stage's mean)²"),
        **interval("ci", _stage, "the {percent=95 %} interval of the boundary", "block", _BOOTSTRAP),
        "resample_share": _stage("share of resamples with this very boundary", "1", _BOOTSTRAP),
        "relative_depth": _stage("share of the blocks before a stage", "1", "boundary / L"),
        "boundary_reason": _label("", "why there are no boundaries or no intervals", ""),
        "heldout_error": _by_k("error of k stages on held-out prompts", "1", "mean of (z − fit of other prompts)²"),
        "heldout_stderr": _by_k("standard error of the error", "1", "over prompts"),
        "excess": _by_k("error over that of the best k", "1", "error(k) − lowest error"),
        "excess_stderr": _by_k("standard error of the excess", "1", "of differences prompt by prompt"),
        "unexplained": _by_k(
            "share of the curves' changes over blocks that k stages leave",
            "1",
            "(error(k) − floor) / (error(1) − floor)",
        ),
        "unexplained_ramp": _by_k("the same share of a straight line, which has no stages", "1", "about 1/k²"),
        "floor": _label("", "error with a stage for every block", "1", "how far prompts differ"),
        "best_k": _label(
            "", "fewest stages not clearly worse than the best k", "1", "smallest k with excess ≤ its standard error"
        ),
        "heldout_reason": _label("", "why there is no error on held-out prompts", ""),
        "by_place": _in_loops(
            "share of the signatures' variance over a loop's steps that goes by the place in the loop"
        ),
        **interval("by_place", _in_loops, "the {percent=95 %} interval of that share", "1", _BOOTSTRAP),
        "by_place_chance": _in_loops("that share of steps in random order", "1", "(places − 1) / (steps − 1)"),
        "by_loop": _in_loops("share of the signatures' variance over a loop's steps that goes by the loop"),
        **interval("by_loop", _in_loops, "the {percent=95 %} interval of that share", "1", _BOOTSTRAP),
        "by_loop_chance": _in_loops("that share of steps in random order", "1", "(loops − 1) / (steps − 1)"),
    },
    requires=("residual", "lens", "drop", "attention_locality", "neurons"),
    derived=True,
    order=930,
    example={"stages": 2, "resamples": 20},
    panels={
        "signatures": ("signature",),
        "held_out": ("heldout_error", "unexplained"),
        "loops": ("by_place", "by_loop"),
    },
    question="into how many stages do the curves fall, if into any?",
    rows="none of its own",
)

"""Declaration of the depth score; its code is ``measures.depth_score``."""

from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from bathyscope.core.common_options import PromptResamples
from bathyscope.core.descriptions import described
from bathyscope.labels import Label, interval
from bathyscope.measures.declaration import Declaration
from bathyscope.options import Coverage, Permutations

_label = partial(Label, source="csordas2025, depth score")
_LAYER = "Σ_l E[s,l] / max(L−1−s, 1)"
_INTERVAL = "bootstrap over prompts"
_STUDENT = "Student's with HC3 errors (CR3 over clusters)"


@described
@dataclass(frozen=True)
class DepthScoreOptions:
    """Options of the depth score.

    Args:
        by: the prompts' label that says how hard they are; None = the first of level, hops, steps and digits that
            any prompt has, or one group of all prompts.
        positions: "answer" = one token t, which predicts the answer's first token; "every" = the tokens that predict
            every fourth answer token but the last four, shuffled, the first four.
        first_answer_token: False moves t and all measured tokens one token on, so that the prediction of the first
            answer token is left out and the last token, which predicts nothing, is measured (a fault of
            csordas2025's published code).
        coverage: of the intervals.
        permutations: random signings in the test for a trend; the smallest p-value is 1 / (1 + permutations).
        cluster: the prompts' label of what belongs together, such as document; such prompts are resampled, and get
            random signs, as one. None = each for itself.
    """

    by: str | None = None
    positions: Literal["answer", "every"] = "answer"
    first_answer_token: bool = True
    resamples: PromptResamples = 1000
    coverage: Coverage = 0.95
    permutations: Permutations = 9999
    cluster: str | None = None


_by_level = partial(_label, "score level reduction")
_trend = partial(_label, "score reduction")
_higher = partial(_label, direction="higher = the answer depends more on the skipped block")
_deeper = partial(_label, "prompt reduction", direction="higher = the answer depends on later blocks")

DECLARATION: Final = Declaration(
    "depth_score",
    "Depth scores of prompts and of difficulty levels, and their trend over levels.",
    DepthScoreOptions,
    {
        "effect": _higher(
            "prompt reduction skipped block",
            "relative change of a block's contribution where the answer is predicted, an earlier block skipped",
            formula="‖c_l − c̄_l‖₂ / max(‖c_l‖₂, 1e-6), reduced over tokens",
        ),
        "layer_effect": _higher(
            "prompt reduction skipped", "mean effect of a skipped block on the later blocks", formula=_LAYER
        ),
        "output_effect": _higher(
            "prompt reduction skipped",
            "change of the output probabilities where the answer is predicted",
            formula="‖y − ȳ‖₂ ≤ √2, reduced over tokens",
        ),
        **{
            f"prompt_score_{kind}": _deeper(
                f"depth score of a prompt by {kind} effect", "block", f"Σ_s s·e_s / Σ_s e_s, e_s = {kind}_effect"
            )
            for kind in ("layer", "output")
        },
        "positions": _label(
            "prompt sample", "token t that a block is skipped before and its effect measured from (−1 = none)", "token"
        ),
        **{
            f"score_{kind}": _label(
                "level reduction",
                f"depth score by {kind} effect",
                "block",
                f"Σ_s s·e_s / Σ_s e_s of the maximum over tokens, reduced over the level's prompts; e_s = {effect}",
                direction="higher = answers depend on later blocks",
            )
            for kind, effect in (("layer", _LAYER), ("output", "O[s]"))
        },
        **interval("ci", _by_level, "the {percent=95 %} interval of the depth score", "block", _INTERVAL),
        "reason": _by_level("why there is no score or no interval", ""),
        "n_prompts": _label("level", "prompts measured"),
        "trend_slope": _trend("slope of the prompts' depth scores over their level", "block/level", "least squares"),
        **interval("trend_ci", _trend, "the {percent=95 %} interval of the slope", "block/level", _STUDENT),
        "trend_share": _trend("slope as a share of the model's depth", "1/level", "slope / L"),
        "trend_effect_size": _trend(
            "slope in standard deviations within a level", "1/level", "slope / pooled standard deviation within levels"
        ),
        "trend_rank_correlation": _trend("rank correlation of depth score and level", "1", "Spearman's ρ"),
        "trend_p_value": _trend("p-value of the trend", "1", "random signs of deviations (wild bootstrap), two-sided"),
        "trend_reason": _trend("why a value of the trend is missing", ""),
    },
    needs_answers=True,
    order=70,
    panels={
        "layer": ("score_layer", "prompt_score_layer"),
        "output": ("score_output", "prompt_score_output"),
        "by_level_layer": ("layer_effect",),
        "by_level_output": ("output_effect",),
    },
    question="do harder problems use deeper blocks? With a test for trend",
    rows="one per block and answer",
)

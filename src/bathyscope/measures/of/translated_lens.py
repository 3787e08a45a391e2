"""Declaration of the translated lens; its code is ``measures.translated_lens``."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, Literal

from bathyscope.labels import Label
from bathyscope.measures.declaration import Declaration
from bathyscope.options import Range

_SOURCE = "Din et al. 2023, linear shortcuts; Belrose et al. 2023, tuned lens"
_label = partial(Label, source=_SOURCE)
_by_boundary = partial(_label, "prompt reader boundary")
_depth = partial(_label, units="boundary", direction="higher = the prediction is made later")


@dataclass(frozen=True)
class TranslatedLensOptions:
    """Options of the translated lens.

    Args:
        choose_share: share of the prompts that the maps' ridge penalties are chosen by.
        test_share: share of the prompts that are read with the maps; the rest are fitted to.
        memory: GiB that the sums of the fit may take.
        positions: "all" = maps are fitted to and read at every token of a prompt but its first; "answer" = where the
            answer is predicted.
    """

    choose_share: Annotated[float, Range(0.01, 0.98)] = 0.1
    test_share: Annotated[float, Range(0.01, 0.98)] = 0.2
    memory: Annotated[float, Range(0.001)] = 4.0
    positions: Literal["all", "answer"] = "all"


DECLARATION: Final = Declaration(
    "translated_lens",
    "Readout at every boundary behind a linear map to the last one, fitted on other prompts.",
    TranslatedLensOptions,
    {
        "kl": _by_boundary(
            "KL of the final distribution from what is read at a boundary",
            "nats",
            "KL(p_L ‖ p_b), p_b = softmax(readout(W_b'h_b + a_b)); lens: softmax(readout(h_b))",
            direction="0 = the final prediction is reached",
        ),
        "top1_agreement": _by_boundary(
            "top-1 agreement of what is read at a boundary with the final distribution",
            "1",
            "mean of [argmax p_b = argmax p_L]",
            direction="higher = closer to the final prediction",
        ),
        "prediction_depth": _depth(
            "prompt reader",
            "prediction depth of a token",
            formula="mean over tokens of min{b : argmax p_j = argmax p_L for all j ≥ b}",
        ),
        "n_averaged": _label("prompt", "tokens that a prompt's means are over (0 = it is not read)", "token"),
        "ridge": _label(
            "boundary",
            "ridge penalty of the map",
            formula="λ of λ N Σ_d σ_d² ‖W_d‖², chosen on other prompts; 0 at L, whose map is the identity",
        ),
        "decodable": _depth(
            "",
            "decodable depth: prediction depth of the translated lens",
            formula="mean over the prompts that are read",
        ),
        "readable": _depth(
            "",
            "readable depth: prediction depth of the lens on the same tokens",
            formula="mean over the prompts that are read",
        ),
    },
    order=30,
    synonyms=("tuned_lens", "affine_lens", "affine_translators"),
    panels={
        "kl": ("kl",),
        "top1_agreement": ("top1_agreement",),
        "prediction_depth": ("prediction_depth",),
    },
    question="what could be predicted there, after a linear map to the last boundary?",
    rows="a plain forward",
    needs="last boundary",
)

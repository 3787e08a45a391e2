"""Declaration of pairs; their code is ``measures.pairs``."""

from dataclasses import dataclass
from functools import partial
from typing import Final

from bathyscope.labels import Label, interval
from bathyscope.measures.declaration import Declaration
from bathyscope.measures.schedule_tables import Blocks, ReadTokens
from bathyscope.options import Coverage, Resamples

_SOURCE: Final = "own, pairs"
_pair = partial(Label, "prompt dropped other", source=_SOURCE)
_mean = partial(Label, "dropped other", units="nats", source=_SOURCE)


@dataclass(frozen=True)
class PairsOptions:
    """Options of pairs.

    Args:
        blocks: which blocks are left out, alone and two at a time; None = each.
        resamples: bootstrap resamples of the prompts, for intervals of interactions.
        level: coverage of the intervals.
        cluster: the prompts' label of what belongs together, such as document; such prompts are resampled as one.
            None = each for itself.
        read_tokens: as drop's; intervals over prompts hold what reading only some tokens adds.
    """

    blocks: Blocks = None
    resamples: Resamples = 1000
    level: Coverage = 0.95
    cluster: str | None = None
    read_tokens: ReadTokens = None


DECLARATION: Final = Declaration(
    "pairs",
    "What it costs to leave out every two blocks, and how much more that is than both costs alone.",
    PairsOptions,
    {
        "cost": _pair(
            "cost of leaving out two blocks, of one on the diagonal", "nats", "mean over tokens of loss(S) − loss(full)"
        ),
        "kl": _pair(
            "KL of the prediction without two blocks, or one, from the full one", "nats", "mean of KL(full ‖ S)"
        ),
        "top1_agreement": _pair(
            "top-1 agreement with the full prediction", "1", "mean over tokens of [argmax p̄ = argmax p]"
        ),
        "interaction": _pair(
            "what leaving out both costs beyond both alone; missing on the diagonal",
            "nats",
            "cost({a, b}) − cost({a}) − cost({b})",
        ),
        "baseline_loss": Label(
            "prompt", "cross-entropy of the next token of the full prediction", "nats", "−log p(next token)", _SOURCE
        ),
        "n_averaged": Label("prompt", "tokens that a prompt's means are over", "token", source=_SOURCE),
        "interaction_mean": _mean("mean interaction over prompts", formula="mean over prompts"),
        **interval("interaction", _mean, "its interval", formula="paired bootstrap over prompts"),
    },
    order=150,
    panels={"interaction": ("interaction", "interaction_mean"), "cost": ("cost",)},
    question="which two blocks make up for each other, and which need each other?",
    rows="one per pair of blocks",
)

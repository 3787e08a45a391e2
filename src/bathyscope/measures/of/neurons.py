"""Declaration of the neurons' census; its code is ``measures.neurons``."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

from bathyscope.labels import Label
from bathyscope.measures.declaration import Declaration
from bathyscope.options import Range

_label = partial(Label, source="lad2024, prediction and suppression neurons")
_neuron = partial(_label, "block neuron")
_listed = partial(_label, "token_class rank")


@dataclass(frozen=True)
class NeuronsOptions:
    """Options of the neurons' census.

    Args:
        kurtosis: a neuron is a prediction or suppression neuron above it (a normal distribution has 3).
    """

    kurtosis: Annotated[float, Range(1.0, 1e6)] = 10.0


DECLARATION: Final = Declaration(
    "neurons",
    "Moments of every neuron's effect on the logits, and the neurons that act most on classes of tokens.",
    NeuronsOptions,
    {
        "mean": _neuron("mean of a neuron's cosines with the unembedding", formula="mean over tokens of z, z = ŵ·Ŵ_U"),
        "variance": _neuron("variance of a neuron's cosines with the unembedding", formula="mean of (z − mean)²"),
        "skew": _neuron(
            "skew of a neuron's cosines with the unembedding", formula="mean of (z − mean)³ / variance^1.5"
        ),
        "kurtosis": _neuron(
            "kurtosis of a neuron's cosines with the unembedding", formula="mean of (z − mean)⁴ / variance²; normal: 3"
        ),
        **{
            f"{kind}_fraction": _label(
                "block",
                f"share of {kind} neurons",
                formula=f"neurons with kurtosis > {{threshold=10}} and skew {sign} 0, over all neurons of the block",
            )
            for kind, sign in (("prediction", ">"), ("suppression", "<"))
        },
        "n_neurons": _label("block", "neurons of the block", "neurons"),
        "zero_neurons": _label("block", "neurons without output weights", "neurons", "ŵ = 0"),
        "top_block": _listed("block of a neuron that acts on a class (−1 = none)", "block"),
        "top_neuron": _listed("neuron that acts on a class (−1 = none)", "neuron"),
        "top_effect": _listed(
            "effect of a neuron on a class of tokens against all others, largest in size first",
            "logits",
            "mean over the class's tokens of w_out·W_U − mean over all others",
        ),
        "top_skew": _listed("skew of such a neuron"),
        "top_kurtosis": _listed("kurtosis of such a neuron"),
        "class_tokens": _label("token_class", "tokens of a class", "tokens"),
        "histogram": _label(
            "token_class rank side bin",
            "share of the class's tokens, and of all others, by a neuron's effect on them",
            formula="tokens with w_out·W_U in the bin / tokens",
        ),
        "histogram_edge": _label("token_class rank edge", "edges of the bins of a neuron", "logits"),
    },
    derived=True,
    order=900,
    synonyms=("mlp_neurons", "neuron"),
    panels={
        "fractions": ("prediction_fraction", "suppression_fraction"),
        "kurtosis": ("kurtosis",),
        "top_ing": ("histogram",),
    },
    question="which neurons predict or suppress single tokens?",
    rows="none: from the weights",
)

"""All measures by name, in the order in which they appear in a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bathyscope.errors import OptionError, did_you_mean
from bathyscope.measures.attention_locality import AttentionLocality
from bathyscope.measures.base import Measure
from bathyscope.measures.cka import Cka
from bathyscope.measures.depth_score import DepthScore
from bathyscope.measures.direct import Direct
from bathyscope.measures.drop import Drop
from bathyscope.measures.effective_depth import EffectiveDepth
from bathyscope.measures.erasure import Erasure
from bathyscope.measures.gradient import Gradient
from bathyscope.measures.integrated_gradients import IntegratedGradients
from bathyscope.measures.lens import Lens
from bathyscope.measures.neurons import Neurons
from bathyscope.measures.repeat import Repeat
from bathyscope.measures.residual import Residual
from bathyscope.measures.skip import Skip
from bathyscope.measures.stages import Stages
from bathyscope.measures.swap import Swap
from bathyscope.measures.swap_cosine import SwapCosine

MEASURES: Mapping[str, type[Measure[Any]]] = {
    measure.name: measure
    for measure in (
        Residual,
        Lens,
        Skip,
        Direct,
        DepthScore,
        Erasure,
        IntegratedGradients,
        Gradient,
        Drop,
        Swap,
        Repeat,
        SwapCosine,
        Cka,
        AttentionLocality,
        Neurons,
        EffectiveDepth,
        Stages,
    )
}
DEFAULT = ("residual", "lens", "skip", "effective_depth")


def expand(names: Iterable[str]) -> tuple[str, ...]:
    """The asked measures and those they bring along, in the registry's order; ``all`` means every one.

    Raises:
        OptionError: unknown name, or no name at all.
    """
    asked = list(names)
    if not asked:
        raise OptionError(f"No measure asked for; allowed: all, {', '.join(MEASURES)}.")
    wanted: set[str] = set()
    for name in asked:
        if name == "all":
            wanted |= set(MEASURES)
        elif name in MEASURES:
            wanted |= {name, *MEASURES[name].requires}
        else:
            raise OptionError(
                f"Unknown measure {name!r}.{did_you_mean(name, MEASURES)} Allowed: all, {', '.join(MEASURES)}."
            )
    return tuple(name for name in MEASURES if name in wanted)

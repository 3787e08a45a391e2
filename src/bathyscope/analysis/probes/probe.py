"""All probes by name."""

from collections.abc import Callable
from typing import Any, Literal

from bathyscope.analysis.probes.ing import ing_probe
from bathyscope.analysis.probes.subjoiner import subjoiner
from bathyscope.analysis.probes.wic import wic_probe
from bathyscope.core.calls import checked
from bathyscope.core.result import LabelledResult
from bathyscope.model import ModelArgument

Kind = Literal["wic", "ing", "subjoiner"]
_PROBES: dict[str, Callable[..., LabelledResult]] = {"wic": wic_probe, "ing": ing_probe, "subjoiner": subjoiner}


@checked
def probe(kind: Kind, model: ModelArgument, *data: Any, **options: Any) -> LabelledResult:
    """Probe a model with labelled data.

    Args:
        kind: ``wic`` (whether a word means the same in two sentences, at every boundary), ``ing`` (whether the next
            token ends in "ing", by single neurons and ensembles) or ``subjoiner`` (heads that gather the tokens of a
            word).
        data: of the probe: rows to train on and to validate (none = the hub's), a corpus, or words.
        **options: of the probe, see ``wic_probe``, ``ing_probe`` and ``subjoiner`` in ``bathyscope.analysis.probes``.

    Raises:
        OptionError: an unknown probe; otherwise as the probe itself.

    Example:
        >>> bathyscope.probe("subjoiner", model, "words.txt", window=8)  # doctest: +SKIP
    """
    return _PROBES[kind](model, *data, **options)

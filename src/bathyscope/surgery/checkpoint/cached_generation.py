"""Can plain transformers generate text with a cache from a rewritten configuration? It is tried on an outline."""

import torch
from transformers import DynamicCache, PreTrainedConfig

from bathyscope.model.anatomy.gaps import random_ids
from bathyscope.surgery.checkpoint.outline import outlined

_TOKENS = 5
_NEW_TOKENS = 2


def uncached_reason(config: PreTrainedConfig, rewritten: PreTrainedConfig) -> str | None:
    """Return why a model of the rewritten configuration cannot generate with a cache; None where it can.

    It is tried where the kinds of layers in the cache are no longer those of the model, as in a hybrid whose last
    attention block was dropped: a cache of recurrent states alone does not know how many tokens it holds.
    """
    if _cache_kinds(rewritten) == _cache_kinds(config):
        return None
    outline = outlined(rewritten)
    try:
        with torch.no_grad():
            outline.generate(  # type: ignore[operator]
                random_ids(outline, _TOKENS)[:1],
                max_new_tokens=_NEW_TOKENS,
                do_sample=False,
                use_cache=True,
            )
    # whatever a family's forward raises when it goes on from a cache answers the question
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return None


def _cache_kinds(config: PreTrainedConfig) -> set[str]:
    try:
        return {type(layer).__name__ for layer in DynamicCache(config=config).layers}
    except Exception:  # a family without a cache of the library's kind
        return set()

"""How ``generate`` continues a text: by the caller's settings alone, and on a cache where that is right."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import Tensor
from transformers import GenerationConfig, PreTrainedModel

from bathyscope.model.anatomy.gaps import gap, random_ids, tolerance
from bathyscope.model.anatomy.mode import evaluating, goes_on_from_a_cache, runs_schedule
from bathyscope.model.anatomy.recording import reset_rotary
from bathyscope.model.in_hand import departure_in_words, stale_places

_TRIED_TOKENS: Final = 5
_STEPWISE: Final = 1e-3
"""What counts as equal on a cache: recurrent states sum in another order token by token."""
_WITHOUT_EFFECT: Final[dict[str, Any]] = {
    **dict.fromkeys(("repetition_penalty", "encoder_repetition_penalty", "guidance_scale", "num_beams"), 1),
    **dict.fromkeys(("no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "min_length", "min_new_tokens"), 0),
    **dict.fromkeys(("suppress_tokens", "begin_suppress_tokens", "bad_words_ids", "sequence_bias", "force_words_ids")),
    **dict.fromkeys(("forced_bos_token_id", "forced_eos_token_id", "exponential_decay_length_penalty", "stop_strings")),
    **dict.fromkeys(("penalty_alpha", "dola_layers", "constraints", "watermarking_config")),
}
"""Settings by which ``generate`` writes other tokens without sampling, each with the value that changes none."""


def settings_beyond_greedy(hf: Any) -> dict[str, Any]:
    """Return the model's own generation settings that change greedy decoding, by name."""
    settings = hf.generation_config.to_dict()
    changing = {name: settings.get(name) for name, neutral in _WITHOUT_EFFECT.items() if settings.get(name) != neutral}
    return {name: value for name, value in changing.items() if value not in (None, [], {})}


@contextmanager
def generating_by(hf: Any, settings: GenerationConfig) -> Iterator[None]:
    """Let ``generate`` follow these settings alone inside.

    Settings that are passed to it are filled up with the model's own: chat models bring penalties, filters and beams.
    """
    own_settings = hf.generation_config
    hf.generation_config = settings
    try:
        yield
    finally:
        hf.generation_config = own_settings


def writes_on_a_cache(hf: PreTrainedModel) -> bool:
    """Whether a model, as it runs at the moment, writes with a cache what it writes without.

    A model that its configuration makes does. Caches are kept by numbers that blocks bear: it is not so where they bear
    those of other places, and has to be tried where modules were put in by hand, which may not know caches at all.
    """
    if runs_schedule(hf):
        return goes_on_from_a_cache(hf)
    if not departure_in_words(hf):
        return True
    return not stale_places(hf) and _agrees_with_its_cache(hf)


@torch.no_grad()
def _agrees_with_its_cache(hf: PreTrainedModel) -> bool:
    """Try a few tokens with a cache and without."""
    with evaluating(hf):
        try:
            cached, whole = (_written_logits(hf, use_cache) for use_cache in (True, False))
        except Exception:  # whatever modules raise that do not know caches answers the question
            return False
    return cached.shape == whole.shape and gap(cached, whole) <= max(tolerance(hf.dtype), _STEPWISE)


def _written_logits(hf: Any, use_cache: bool) -> Tensor:
    """Return the logits of greedy tokens, [tokens, vocabulary]."""
    reset_rotary(hf)
    ids_1T = random_ids(hf)[:1]
    settings = GenerationConfig(
        max_new_tokens=_TRIED_TOKENS,
        do_sample=False,
        use_cache=use_cache,
        output_logits=True,
        return_dict_in_generate=True,
        pad_token_id=0,
    )
    with generating_by(hf, settings):
        logits = hf.generate(ids_1T, attention_mask=torch.ones_like(ids_1T)).logits
    return torch.cat(logits)

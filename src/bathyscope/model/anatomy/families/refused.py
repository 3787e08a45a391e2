"""Types that cannot be measured at all, with the reason."""

from bathyscope.model.anatomy.family import Family

_DRAFTER = (
    "it drafts for another model: it continues that model's states and attends to its keys and values, and cannot run "
    "on token ids alone"
)
_SOUND = (
    "it reads a description and writes sound, and its decoder alone is the causal model: build MusicgenForCausalLM or "
    "MusicgenMelodyForCausalLM from the decoder's part of the configuration"
)
_REASONS = {
    ("blt",): "its tokens are bytes, whose number of patches depends on the text, so blocks of one model run on other "
    "lengths than the prompt's",
    ("cpmant",): "every token attends to all others, and its forward puts tokens of its own in front of every prompt, "
    "so its states have other tokens than the prompt",
    ("gemma4_assistant", "gemma4_unified_assistant"): _DRAFTER,
    ("musicgen", "musicgen_melody"): _SOUND,
    ("xlm",): "its attentions, norms and MLPs are in lists of their own, so that none of its modules is a block",
}

FAMILIES = tuple(Family(types[0], types, refused=reason) for types, reason in _REASONS.items())

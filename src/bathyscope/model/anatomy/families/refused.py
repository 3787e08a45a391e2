"""Types that cannot be measured at all, with the reason."""

from bathyscope.model.anatomy.family import Family

_DRAFTER = (
    "it drafts for another model: it continues that model's states and attends to its keys and values, and cannot run "
    "on token ids alone"
)
_CODEBOOKS = "it reads and predicts several codebooks of sound for each token, so a prompt is no list of token ids"
_REASONS = {
    ("blt",): "its tokens are bytes, whose number of patches depends on the text, so blocks of one model run on other "
    "lengths than the prompt's",
    (
        "cpmant",
    ): "its forward puts tokens of its own in front of every prompt, so its states have other tokens than the prompt",
    ("gemma4_assistant", "gemma4_unified_assistant"): _DRAFTER,
    ("musicgen", "musicgen_decoder"): _CODEBOOKS,
    ("musicgen_melody", "musicgen_melody_decoder"): _CODEBOOKS,
    ("prophetnet",): "its blocks run a stream for each of several predicted tokens along the axis of "
    "tokens, which attend to the main one",
    (
        "reformer",
    ): "its blocks are reversible and run inside one function of its own, and hashed attention lets tokens depend on "
    "later ones",
    (
        "xlm",
        "flaubert",
    ): "attention, norms and MLPs stand in lists next to each other, so no module is a block that could "
    "be run by itself",
    ("xlnet",): "its attention is not causal: every token attends to all others unless a permutation is given",
}

FAMILIES = tuple(Family(types[0], types, refused=reason) for types, reason in _REASONS.items())

"""Families that cannot be measured at all, with the reason."""

from bathyscope.model.anatomy.family import Family

_HYPER_CONNECTIONS = (
    "its hyper-connections mix several residual streams in every block, so no single stream "
    "exists whose contributions could be measured"
)
_REASONS = {
    ("deepseek_v4",): _HYPER_CONNECTIONS,
    ("gemma3n", "gemma3n_text"): "its blocks mix several residual streams (AltUp), so no single stream exists whose "
    "contributions could be measured",
    ("glm_moe_dsa",): "its blocks pass the attended positions on in addition to the residual stream, which alone "
    "does not determine what follows",
    ("hy_v4",): _HYPER_CONNECTIONS,
    ("inkling2", "inkling2_text"): "its blocks attend over the states of earlier blocks instead of adding to one "
    "residual stream",
    ("minimax",): "its blocks return α·norm(x) + β·f(norm(x)), so there is no identity residual stream to which "
    "blocks add",
    ("qwen4_exp", "qwen4_exp_text"): _HYPER_CONNECTIONS,
    ("zaya",): "its blocks pass router states on in addition to the residual stream, which alone does not determine "
    "what follows",
}

FAMILIES = tuple(Family(types[0], types, refused=reason) for types, reason in _REASONS.items())

"""Families that cannot be measured at all, with the reason."""

from bathyscope.anatomy.family import Family

_HYPER_CONNECTIONS = (
    "its hyper-connections mix several residual streams in every block, so no single stream "
    "exists whose contributions could be measured"
)

FAMILIES = (
    Family("deepseek_v4", ("deepseek_v4",), refused=_HYPER_CONNECTIONS),
    Family(
        "gemma3n",
        ("gemma3n", "gemma3n_text"),
        refused="its blocks mix several residual streams (AltUp), so no single stream exists whose "
        "contributions could be measured",
    ),
    Family(
        "glm_moe_dsa",
        ("glm_moe_dsa",),
        refused="its blocks hand the attended positions to the next block beside the residual stream, so the "
        "stream alone does not determine what follows",
    ),
    Family("hy_v4", ("hy_v4",), refused=_HYPER_CONNECTIONS),
    Family(
        "inkling2",
        ("inkling2", "inkling2_text"),
        refused="its blocks attend over the states of earlier blocks instead of adding to one residual stream",
    ),
    Family(
        "minimax",
        ("minimax",),
        refused="its blocks return α·norm(x) + β·f(norm(x)), so there is no identity residual "
        "stream to which blocks add",
    ),
    Family("qwen4_exp", ("qwen4_exp", "qwen4_exp_text"), refused=_HYPER_CONNECTIONS),
    Family(
        "zaya",
        ("zaya",),
        refused="its blocks hand router states to the next block beside the residual stream, so the stream "
        "alone does not determine what follows",
    ),
)

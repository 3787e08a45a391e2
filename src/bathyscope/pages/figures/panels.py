"""Panels by name with their variables, so that a panel can be found by its own name or by a variable's."""

from collections.abc import Collection, Mapping
from typing import Final

_SIZES: Final = ("norm_resid", "norm_attn", "norm_mlp", "norm_block")
_COSTS: Final = {name: (name,) for name in ("kl", "top1_agreement", "loss", "entropy")}
_EFFECTS: Final = {
    "all": ("effect_all",),
    "future": ("effect_future",),
    "influence_all": ("given_all", "received_all"),
    "influence_future": ("given_future", "received_future"),
    "output_all": ("output_all",),
    "output_future": ("output_future",),
    "prompts_all": ("effect_all",),
    "prompts_future": ("effect_future",),
}
_PROMPT: Final = "prompt_"
"""Prefix of a panel of one prompt; like every name here that ends so, the prompt's number follows."""

PANELS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "effective_depth": {"estimates": ("depth", "ratio", "index")},
    "residual": {
        "norms": _SIZES,
        "norms_rest": tuple(f"{name}_rest" for name in _SIZES),
        "norms_max": tuple(f"{name}_max" for name in _SIZES),
        "largest": ("largest",),
        "largest_ratio": ("largest_ratio",),
        "ratios": ("ratio_attn", "ratio_mlp", "ratio_block"),
        "cosines": ("cos_attn", "cos_mlp", "cos_block"),
        "neighbour": ("cos_neighbour",),
    },
    "lens": {
        "kl": ("kl_lens_final", "kl_final_lens"),
        "agreement": ("overlap", "top1_agreement"),
        "entropy": ("entropy",),
        "cross_entropy": ("cross_entropy",),
        "settling": ("settle_depth",),
        "deep_thinking": ("deep_thinking_ratio",),
        "gate": ("gate_exit",),
        "exits": ("exit_agreement", "exit_depth"),
    },
    "skip": _EFFECTS,
    "direct": {
        name: ("effect_all",) if name.endswith("all") else ("effect_future",)
        for name in _EFFECTS
        if not name.startswith("output")
    },
    "depth_score": {
        "layer": ("score_layer", "prompt_score_layer"),
        "output": ("score_output", "prompt_score_output"),
        "by_level_layer": ("layer_effect",),
        "by_level_output": ("output_effect",),
    },
    "translated_lens": {
        "kl": ("kl",),
        "top1_agreement": ("top1_agreement",),
        "prediction_depth": ("prediction_depth",),
    },
    "jacobian_lens": {
        "kl": ("kl",),
        "top1_agreement": ("top1_agreement",),
        "trust": ("half_agreement", "half_agreement_rest", "identity_share"),
    },
    "patching": dict.fromkeys((_PROMPT, "attention_", "mlp_"), ("recovered", "change")),
    "erasure": {_PROMPT: ("effect",), "later_": ("effect_future",)},
    "integrated_gradients": {
        **dict.fromkeys((_PROMPT, "attention_", "mlp_"), ("attribution",)),
        "completeness": ("completeness",),
    },
    "gradient": {"norms": ("norm", "norm_own", "norm_rest")},
    "drop": _COSTS,
    "swap": _COSTS,
    "repeat": _COSTS,
    "drop_and_swap": {"top1_agreement": ("top1_agreement",), "kl": ("kl",)},
    "pairs": {"interaction": ("interaction", "interaction_mean"), "cost": ("cost",)},
    "swap_cosine": {"attention": ("self", "index", "adjacent"), "mlp": ("self", "index", "adjacent")},
    "cka": {"last": ("cka",), "all": ("cka",), "rest": ("cka",), "neighbours": ("cka",)},
    "attention_locality": {
        "places": ("total_prev5", "self_weight", "first_key"),
        "offsets": ("weight",),
        "heads": ("head_prev5",),
    },
    "neurons": {"fractions": ("prediction_fraction", "suppression_fraction"), "kurtosis": ("kurtosis",)},
    "prediction_fall": {"fall": ("prediction_fraction",)},
    "stages": {
        "signatures": ("signature",),
        "held_out": ("heldout_error", "unexplained"),
        "loops": ("by_place", "by_loop"),
    },
}
"""Figure → panel → its variables of the figure's measure; the panel of one prompt stands for those of all prompts."""


def panel_of(figure: str, variable: str, panels: Collection[str]) -> str | None:
    """Return the first of a figure's panels that shows a variable; None where no panel does.

    Args:
        panels: names of the run's panels.
    """
    # A variable may be in several panels; the first in the order of a page stands for it.
    for panel, variables in PANELS.get(figure, {}).items():
        if variable in variables:
            for name in panels:
                if name == panel or (panel.endswith("_") and name.startswith(panel)):
                    return name
    return None


def panel_rows() -> list[dict[str, str]]:
    """Return every panel with its variables, for ``names``; ``N`` stands for the number of a prompt."""
    profile = "lens.top1_agreement, lens.prediction_depth, skip.output_all, drop.loss"
    return [{"name": "profile", "variables": profile}] + [
        {
            "name": f"{figure}.{panel}{'N' if panel.endswith('_') else ''}",
            "variables": ", ".join(f"{figure}.{name}" for name in variables),
        }
        for figure, panels in PANELS.items()
        for panel, variables in panels.items()
    ]

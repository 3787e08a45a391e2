"""The same model with another number of loops, in memory and with the same weights."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from transformers import PreTrainedConfig, PreTrainedModel

from bathyscope.errors import ModelError, OptionError
from bathyscope.model import Model, load
from bathyscope.model.anatomy.sharing import share

LOOPS = "loops:"
"""How a schedule begins that asks for another number of loops."""


def with_loops(model: Model, text: str) -> Model:
    """Return a looped model that runs another number of loops, such as ``loops:6``.

    Raises:
        OptionError: no number of loops.
        ModelError: the model does not loop, its family does not declare where its loops are counted, another number
            there does not give as many loops, or a check fails.
    """
    number = text.removeprefix(LOOPS)
    if not number.isdecimal() or not 1 <= int(number) <= 999:
        raise OptionError(f"{text!r}: write loops: and a number of loops from 1 to 999, alone, for example loops:6.")
    family, cycle = model.anatomy.family, model.anatomy.cycle
    if cycle is None or cycle.period is None:
        if family.loops is not None:
            raise ModelError(
                f"schedule={text!r}: {model.name} is set to one loop, which says nothing of which blocks loop. Load it "
                f"with {family.loops}={number} in its configuration."
            )
        raise ModelError(f"schedule={text!r} needs a model that loops, and each block of {model.name} runs once.")
    if family.loops is None:
        raise ModelError(
            f"schedule={text!r}: it is not declared where the configuration of {model.name} counts its loops. Declare "
            "it with load(model, family=Family(..., loops='NAME'))."
        )
    loops = int(number)
    expected = model.n_blocks + (loops - cycle.loops) * cycle.period
    looped = load(_with_count(model, family.loops, loops), family=family)
    if looped.n_blocks != expected:
        raise ModelError(
            f"{model.name} does not run {loops} loops: with {family.loops}={loops} it runs {looped.n_blocks} steps, "
            f"not the {expected} expected. Set its configuration by hand, and load it."
        )
    return replace(
        looped, name=model.name, revision=model.revision, schedule=text, given_tokenizer=model.given_tokenizer
    )


def _with_count(model: Model, name: str, loops: int) -> PreTrainedModel:
    """Return the model with another entry of its configuration, which shares all weights where its forward counts."""
    config = copy.deepcopy(model.hf.config)
    setattr(config.get_text_config(), name, loops)
    if model.anatomy.loops is not None:
        twin: Any = share(model.hf)
        for module in twin.modules():
            if isinstance(module.__dict__.get("config"), PreTrainedConfig):
                module.__dict__["config"] = config
        return twin
    # a module for every run, made by the model's class, which shares their weights itself
    settings = {key: value for key, value in config.to_diff_dict().items() if key != "num_hidden_layers"}
    built: Any = type(model.hf)(type(config)(**settings))
    built.to(model.dtype)
    built.config._attn_implementation = model.hf.config._attn_implementation
    missing = built.load_state_dict(model.hf.state_dict(), strict=False).missing_keys
    parameters = dict(built.named_parameters(remove_duplicate=False))
    filled = {id(value) for name, value in parameters.items() if name not in missing}
    # a weight that is shared with one that was loaded has its numbers
    lacking = [name for name in missing if id(parameters.get(name)) not in filled]
    if lacking:
        raise ModelError(
            f"{model.name} does not run {loops} loops: {lacking[0]} would have no weights. Only models whose loops "
            "share all weights run more of them."
        )
    whole: PreTrainedModel = built.to(model.device).eval()
    return whole

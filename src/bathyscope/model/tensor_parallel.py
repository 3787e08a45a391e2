"""Loading a model over several ranks by transformers' plan for its family, or saying why that is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import torch
import transformers
from torch import nn
from transformers import AutoConfig

from bathyscope.errors import ModelError
from bathyscope.model.admission import without_adapter, without_compilation
from bathyscope.model.anatomy.anatomy import config_of
from bathyscope.model.anatomy.configurations import block_values
from bathyscope.model.classes import class_for
from bathyscope.model.options import read_split
from bathyscope.model.ranks import Split, size, together
from bathyscope.model.shards import is_split, split_fault

COMPARED: Final = frozenset(
    (
        *("deepseek_v3", "gemma2", "gpt_neox", "llama", "ministral"),
        *("mixtral", "olmo2", "phi3", "qwen3", "qwen3_moe"),
    )
)
"""Types of models of which every measure was compared with the whole model's (``docs/tensor_parallel.csv``)."""

P = ParamSpec("P")
R = TypeVar("R")

_INSTEAD: Final = "Load it on one device, on several of one machine (device_map), or streamed (placement='stream')."
_QUERIES: Final = ("q_proj", "qkv_proj", "query_key_value", "q_b_proj")
_KEYS: Final = ("k_proj", "qkv_proj", "query_key_value")


def split_of(model: object, loading: Mapping[str, Any] | None = None) -> Split | None:
    """Return over how many ranks a model is split, or is to be; None = it is whole.

    Args:
        model: what ``load`` returns or takes.
        loading: arguments of ``load`` for a model given by its name.
    """
    hf = getattr(model, "hf", model)
    if isinstance(hf, nn.Module):
        inner = without_adapter(without_compilation(hf))
        # what something else has split is refused by itself, and its processes may not wait for each other
        return "auto" if is_split(inner) and not split_fault(inner) else None
    return None if loading is None else read_split(loading.get("tensor_parallel"))


def over_ranks(verb: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Return a verb whose first argument is a model, and which works on one that is split over ranks as well.

    All ranks have to come to it. Its model may be given by name, with ``loading={"tensor_parallel": …}``.
    """

    @wraps(verb)
    def call(model: Any, *args: P.args, **options: P.kwargs) -> R:
        loading: Any = options.get("loading")
        with together(split_of(model, loading if isinstance(loading, Mapping) else None)):
            return verb(model, *args, **options)

    return call


def require_splittable(
    name: str, source: str, revision: str | None, trust_remote_code: bool, ranks: int | None = None
) -> None:
    """Refuse a checkpoint that transformers cannot split over the ranks, before any weight of it is read.

    Args:
        name: for the message.
        source: a folder or a hub name.
        ranks: how many; None = those at work together.

    Raises:
        ModelError: quantised weights, a family without a plan, heads that do not divide.
    """
    ranks = size() if ranks is None else ranks
    config: Any = AutoConfig.from_pretrained(source, revision=revision, trust_remote_code=trust_remote_code)
    kind = str(getattr(config, "model_type", ""))
    if getattr(config, "quantization_config", None) is not None:
        raise ModelError(f"{name} is quantised, and packed weights are not split over ranks here. {_INSTEAD}")
    # the plan is put together by a model alone, and one on the meta device takes no memory
    with torch.device("meta"):
        outline = class_for(config).from_config(config, trust_remote_code=trust_remote_code)
    plan: dict[str, str] = getattr(outline, "_tp_plan", None) or {}
    if not any(is_of_blocks(rule) for rule in plan):
        raise ModelError(
            f"{name} is a {kind} model ({type(outline).__name__}), and transformers {transformers.__version__} has no "
            f"plan by which its blocks are split over ranks (base_model_tp_plan). {_INSTEAD}"
        )
    text = config_of(outline)
    for projections, entry, what in (
        (_QUERIES, "num_attention_heads", "attention"),
        (_KEYS, "num_key_value_heads", "keys and values"),
    ):
        split = any(rule.rpartition(".")[2] in projections and style == "colwise" for rule, style in plan.items())
        counts = block_values(text, entry) if split else []
        uneven = next((int(count) for count in counts if int(count) % ranks), None)
        if uneven is not None:
            divisors = [number for number in range(2, uneven + 1) if uneven % number == 0]
            allowed = f"; allowed: {', '.join(map(str, divisors))}" if divisors else ""
            heads = f"{uneven} heads of {what}" if uneven > 1 else f"one head of {what}"
            raise ModelError(
                f"{name} has {heads} in a block, which {ranks} ranks cannot share evenly{allowed}. {_INSTEAD}"
            )


def comparison_warning(hf: nn.Module) -> str | None:
    """Say that a split model's type was not compared with the whole one; None where it was, or nothing is split."""
    kind = str(getattr(hf.config, "model_type", ""))
    if not is_split(hf) or kind in COMPARED:
        return None
    return (
        f"Models of type {kind} were not compared over ranks with whole ones ({', '.join(sorted(COMPARED))} were): "
        "what is measured is what transformers' plan computes. Compare a few prompts with the whole model."
    )


def is_of_blocks(rule: str) -> bool:
    """Whether a rule of a plan is about the weights of blocks."""
    return ".*." in f"{rule}."


def splitting(ranks: int) -> dict[str, Any]:
    """Return the arguments of ``from_pretrained`` that split a model over the ranks."""
    try:
        from transformers.distributed import DistributedConfig
    except ImportError as error:
        raise ModelError(
            f"transformers {transformers.__version__} does not split models over ranks; install a newer one."
        ) from error
    return {"distributed_config": DistributedConfig(tp_size=ranks)}

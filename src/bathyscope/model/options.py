"""Options of loading a model, for calls, flags and recipes alike; importing them does not import torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from bathyscope.errors import OptionError, describe_value
from bathyscope.options import Range

Placement = Literal["auto", "resident", "stream"]
Attention = Literal["eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention"]


@dataclass(frozen=True)
class LoadOptions:
    """Options of ``load``.

    Args:
        dtype: float32, bfloat16, float16 or float64; not given = the checkpoint's, and of a GGUF file float32, to
            which its weights are unpacked.
        device: cpu, cuda …; not given = the first accelerator, else the CPU.
        revision: branch, tag or commit on the hub.
        trust_remote_code: allow code that comes with the checkpoint. Off unless requested.
        placement: resident = all weights in memory; stream = blocks are read from disk when they run, for models
            larger than memory; auto = streamed where the model does not fit.
        window: how many streamed blocks stay in memory, besides the one on its way; not given = as many as the rows of
            a survey go back.
        stream: short for --placement stream.
        attn: how attention is computed (attn_implementation in transformers); not given = as the checkpoint says, else
            the library's choice. A run's identity contains it.
        gguf_file: name of a GGUF file inside the folder that is given as the model.
        base: of an adapter (LoRA and its kin), the model that it is put into; not given = the one that its files name.
    """

    dtype: str | None = None
    device: str | None = None
    revision: str | None = None
    trust_remote_code: bool = False
    placement: Placement = "auto"
    window: Annotated[int, Range(1)] | None = None
    stream: bool = False
    attn: Attention | None = None
    gguf_file: str | None = None
    base: str | None = None


def require_loading(loading: object) -> None:
    """Refuse what is no arguments of ``load`` by name.

    Raises:
        OptionError: with what is allowed.
    """
    if loading is None or (isinstance(loading, Mapping) and all(isinstance(name, str) for name in loading)):
        return
    raise OptionError(
        f"loading={describe_value(loading)} is no dict of arguments of load by name; give one, such as "
        "loading={'dtype': 'bfloat16'}."
    )

"""Options of loading a model, for calls, flags and recipes alike; importing them does not import torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from bathyscope.core.common_options import Revision, TrustRemoteCode
from bathyscope.core.conditions import Excludes
from bathyscope.core.strict import whole_number_in
from bathyscope.errors import OptionError, describe_value
from bathyscope.options import Range

Placement = Literal["auto", "resident", "stream"]
Attention = Literal["eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention"]
_STREAMED: Final = Excludes(
    "placement", "do not go together, since a resident model keeps all blocks in memory", only="resident"
)
_SPLIT: Final = "do not go together, since the plan of its family says which rank has which part of each weight"
_WHOLE: Final = tuple(Excludes(option, _SPLIT) for option in ("device", "placement", "stream", "gguf_file", "base"))


@dataclass(frozen=True)
class LoadOptions:
    """Options of ``load``.

    Args:
        dtype: ``"float32"``, ``"bfloat16"``, ``"float16"`` or ``"float64"``; None = the checkpoint's, and of a GGUF
            file or a quantised checkpoint ``"float32"``, to which its weights are unpacked.
        device: ``"cpu"``, ``"cuda"`` …; None = the first accelerator, else the CPU.
        placement: ``"resident"`` = all weights in memory; ``"stream"`` = blocks are read from disk when they run, for
            models larger than memory; ``"auto"`` = streamed where the model does not fit.
        window: how many streamed blocks stay in memory, besides the one on its way; None = as many as the rows of a
            survey go back.
        stream: short for ``placement="stream"``.
        attn: how attention is computed (``attn_implementation`` in transformers); None = as the checkpoint says, else
            the library's choice. A run's identity contains it.
        gguf_file: name of a GGUF file inside the folder that is given as the model.
        base: of an adapter (LoRA and its kin), the model that it is put into; None = the one that its files name.
        tensor_parallel: split every block over this many processes, which ``torchrun`` has started; ``"auto"`` =
            over all of them. None = one process has the whole model.
    """

    dtype: str | None = None
    device: str | None = None
    revision: Revision = None
    trust_remote_code: TrustRemoteCode = False
    placement: Placement = "auto"
    window: Annotated[int | None, Range(1), _STREAMED] = None
    stream: Annotated[bool, _STREAMED] = False
    attn: Attention | None = None
    gguf_file: str | None = None
    base: str | None = None
    tensor_parallel: Annotated[str | int | None, *_WHOLE] = None


def read_split(tensor_parallel: object) -> int | Literal["auto"] | None:
    """Return over how many processes a model is to be split, as it was typed or given.

    Raises:
        OptionError: neither ``"auto"`` nor a number from 2 on.
    """
    if tensor_parallel is None or tensor_parallel == "auto":
        return None if tensor_parallel is None else "auto"
    number = whole_number_in(tensor_parallel) if isinstance(tensor_parallel, str) else tensor_parallel
    if isinstance(number, bool) or not isinstance(number, int) or number < 2:
        raise OptionError(
            f"tensor_parallel={describe_value(tensor_parallel)} is no number of processes; give 'auto', or how many "
            "torchrun has started, from 2 on."
        )
    return number


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


def require_one_process(loading: Mapping[str, Any] | None, task: str) -> None:
    """Refuse to split a model for what works in one process.

    Args:
        loading: arguments of ``load`` by name.
        task: such as ``course``, for the message.

    Raises:
        OptionError: they ask for several processes.
    """
    split = (loading or {}).get("tensor_parallel")
    if split is not None:
        raise OptionError(
            f"tensor_parallel={describe_value(split)} is for load, check and survey, and {task} works in one process; "
            "leave it out."
        )

"""Which packing a configuration declares, and whether it is unpacked here."""

from collections.abc import Mapping
from typing import Any, Final

from bathyscope.model.packed.awq import Awq
from bathyscope.model.packed.bitsandbytes import Bitsandbytes
from bathyscope.model.packed.compressed_tensors import CompressedTensors
from bathyscope.model.packed.fp8 import Fp8
from bathyscope.model.packed.gptq import Gptq
from bathyscope.model.packed.mxfp4 import Mxfp4
from bathyscope.model.packed.packing import Packing
from bathyscope.model.packed.torchao import Torchao

PACKINGS: Final[Mapping[str, type[Packing]]] = {
    kind.method: kind for kind in (Gptq, Awq, CompressedTensors, Bitsandbytes, Torchao, Fp8, Mxfp4)
}
"""By ``quant_method``."""


def packing_of(config: Any) -> Packing | None:
    """Return how a checkpoint's weights are packed; None where they are plain, or packed in a way unknown here.

    Args:
        config: a configuration, an object or as it was written; of a model of images and text that of its text counts
            where the whole has none.
    """
    declared = quantisation_of(config)
    kind = None if declared is None else PACKINGS.get(_method(declared))
    return None if kind is None or declared is None else kind(declared)


def quantisation_of(config: Any) -> Mapping[str, Any] | None:
    """Return the ``quantization_config`` of a configuration; None where it has none that can be read."""
    nested = _entry(config, "text_config")
    for place in (config, nested):
        declared = None if place is None else _entry(place, "quantization_config")
        if declared is not None:
            declared = declared if isinstance(declared, Mapping) else getattr(declared, "to_dict", dict)()
            return declared if isinstance(declared, Mapping) else None
    return None


def _entry(config: Any, name: str) -> Any:
    return config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)


def _method(declared: Mapping[str, Any]) -> str:
    # transformers takes folders of bitsandbytes from before methods were named
    if declared.get("load_in_8bit") or declared.get("load_in_4bit"):
        return Bitsandbytes.method
    return str(declared.get("quant_method") or "").rpartition(".")[2].lower().replace("_", "-")

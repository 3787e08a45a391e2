"""Reading a checkpoint by transformers, and whether it held everything the model needs."""

import errno
import logging
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shutil import disk_usage
from tempfile import TemporaryDirectory
from typing import Any, cast
from weakref import finalize

import torch
import transformers
from safetensors import SafetensorError
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers.utils import cached_file

from bathyscope.core.network import cache_alone_without_network
from bathyscope.errors import ModelError, is_out_of_memory, warn
from bathyscope.model.anatomy.registry import family_for
from bathyscope.model.files import INDEX, indexed, require_whole
from bathyscope.model.gguf import GgufFile, is_gguf, open_gguf
from bathyscope.model.memory import out_of_memory
from bathyscope.model.place import folder_of, require_hub, similar_folders
from bathyscope.model.placement import blocks_of, device_map, is_streamed, straight_to
from bathyscope.model.streaming.carrying import ALIGNMENT
from bathyscope.model.streaming.offloaded import take_over

_SHOWN = 5
_LONGEST = 400


def read_checkpoint(
    name: str,
    dtype: torch.dtype | None,
    revision: str | None,
    trust_remote_code: bool,
    device: torch.device,
    placement: str = "resident",
    window: int | None = None,
    attn: str | None = None,
) -> PreTrainedModel:
    """The causal language model of a folder or a hub name, with every weight from its files.

    Args:
        device: where it goes.
        placement, window, attn: as for ``load``.

    Raises:
        ModelError: nothing there; damaged or foreign files; not a causal language model; tensors that are missing or
            of another shape, which the library would draw at random.
    """
    if is_gguf(name):
        return _read_gguf(name, open_gguf(name), dtype or torch.float32, device, placement, attn)
    folder = folder_of(name, revision)
    if folder is not None:
        return _read(name, folder, dtype, revision, trust_remote_code, device, placement, window, attn)
    require_hub(name, revision)
    with cache_alone_without_network():
        return _read(name, folder, dtype, revision, trust_remote_code, device, placement, window, attn)


def _read(
    name: str,
    folder: Path | None,
    dtype: torch.dtype | None,
    revision: str | None,
    trust_remote_code: bool,
    device: torch.device,
    placement: str,
    window: int | None,
    attn: str | None,
) -> PreTrainedModel:
    """Read a checkpoint in a folder, or (None) one of the hub."""
    source = name if folder is None else str(folder)
    # transformers raises whatever its parsers raise; all mean that there is no such model
    try:
        declared = _declared(source, revision)
    except Exception as error:
        raise ModelError(_unloadable(name, error, [])) from error
    if folder is not None:
        require_whole(folder, declared)
    here = _downloaded(name, revision) if folder is None else folder
    indexed(here)
    streamed = is_streamed(name, here, placement, dtype, device)
    with ExitStack() as stack:
        # blocks whose tensors the library puts together out of several are kept here, as long as the model is
        rewritten = Path(stack.enter_context(_temporary())) if streamed else None
        with _reports() as reports:
            try:
                if rewritten is None:
                    placed = straight_to(device)
                else:
                    blocks_on_disk = device_map(source, revision, trust_remote_code, device)
                    placed = {"device_map": blocks_on_disk, "offload_folder": str(rewritten)}
                loaded: Any = AutoModelForCausalLM.from_pretrained(
                    source,
                    dtype=dtype or "auto",
                    revision=revision,
                    trust_remote_code=trust_remote_code,
                    use_safetensors=True,
                    ignore_mismatched_sizes=True,
                    output_loading_info=True,
                    attn_implementation=attn,
                    **placed,
                )
            except ModelError:
                raise
            except Exception as error:
                if is_out_of_memory(error):
                    raise out_of_memory(name, device) from error
                if rewritten is not None and _is_unwritten(error):
                    raise ModelError(_no_room(name, rewritten.parent, error)) from error
                raise ModelError(_unloadable(name, error, reports)) from error
        hf: PreTrainedModel
        hf, found = loaded
        if folder is None:
            require_whole(_downloaded(name, revision), declared)
        _require_complete(name, hf, found)
        if rewritten is None:
            cast(nn.Module, hf).to(device)
        align(hf)
        if rewritten is None:
            return hf
        finalize(take_over(hf, blocks_of(hf), window), stack.pop_all().close)
        return hf


def _read_gguf(
    name: str, file: GgufFile, dtype: torch.dtype, device: torch.device, placement: str, attn: str | None
) -> PreTrainedModel:
    """The model of a GGUF file with all of its weights unpacked: from here on it is like any other in memory."""
    if placement == "stream":
        raise ModelError(
            f"{name} is a GGUF file, and GGUF files cannot be streamed: their weights are unpacked in memory. Load it "
            "with placement='resident'."
        )
    _gguf_config(name, file)
    # without this, versions of transformers that can compute with packed weights would keep them
    kinds: Any = getattr(transformers, "GgufConfig", None)
    unpacked = {} if kinds is None else {"quantization_config": kinds(dequantize=True)}
    with _reports() as reports:
        try:
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                str(file.path.parent),
                gguf_file=file.path.name,
                dtype=dtype,
                output_loading_info=True,
                attn_implementation=attn,
                **unpacked,
            )
        except Exception as error:
            if is_out_of_memory(error):
                raise out_of_memory(name, device) from error
            raise ModelError(_unloadable(name, error, reports)) from error
    hf: PreTrainedModel
    hf, report = loaded
    _require_complete(name, hf, report)
    forget_packing(hf)
    cast(nn.Module, hf).to(device)
    align(hf)
    return hf


def align(hf: nn.Module) -> None:
    """Moves weights in the host's memory to addresses that are multiples of a cache line.

    Products round in another order where a weight begins elsewhere. Weights mapped from a file begin where it has them,
    so that without this the same model gave other last bits from another file: in shards, in one piece, unpacked.
    """
    for value in hf.parameters():
        if value.device.type == "cpu" and value.data_ptr() % ALIGNMENT:
            value.data = value.data.clone(memory_format=torch.contiguous_format)


def forget_packing(hf: PreTrainedModel) -> None:
    """Removes what a model whose weights have been unpacked still says of how its file had packed them.

    It is the same model as one that was saved unpacked: equal configuration, can be saved, computes by plain kernels.
    """
    for name in ("hf_quantizer", "quantization_method"):
        if name in vars(hf):
            delattr(hf, name)
    setattr(hf, "is_quantized", False)  # noqa: B010 (no field that its class declares)
    for name in ("quantization_config", "_model_name_or_path"):
        if name in vars(hf.config):
            delattr(hf.config, name)


def _gguf_config(name: str, file: GgufFile) -> Any:
    """The configuration that transformers makes of a GGUF file's header."""
    try:
        config = AutoConfig.from_pretrained(str(file.path.parent), gguf_file=file.path.name)
    except Exception as error:
        if "upported" in str(error) or isinstance(error, KeyError):
            raise ModelError(
                f"{name} is a GGUF file of the architecture {file.architecture!r}, which transformers "
                f"{transformers.__version__} cannot read; give the model's safetensors checkpoint."
            ) from error
        raise ModelError(_unloadable(name, error, [])) from error
    if "_model_name_or_path" in vars(config):
        del config._model_name_or_path
    return config


def _temporary() -> TemporaryDirectory[str]:
    try:
        return TemporaryDirectory(prefix="bathyscope-")
    except OSError as error:
        raise ModelError(
            f"Streaming needs a temporary folder, and none can be made ({error.strerror or error}); set TMPDIR to one "
            "that can be written."
        ) from error


def _is_unwritten(error: Exception) -> bool:
    """Tensors could not be written, by either library's word for it."""
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return full or (isinstance(error, SafetensorError) and "while serializing" in str(error))


def _no_room(name: str, folder: Path, error: Exception) -> str:
    free = disk_usage(folder).free / 1e9
    return (
        f"{name} is streamed, and what is put together out of several of its tensors (experts) has to be written once "
        f"more, which failed in {folder}, where {free:.1f} GB are free ({_reason(error)}). Set TMPDIR to a folder with "
        "room for it."
    )


def load_config(name: str, revision: str | None = None, trust_remote_code: bool = False) -> Any:
    """Only the configuration of a checkpoint (for estimates)."""
    if is_gguf(name):
        return _gguf_config(name, open_gguf(name))
    folder = folder_of(name, revision)
    if folder is None:
        require_hub(name, revision)
    source = name if folder is None else str(folder)
    try:
        _declared(source, revision)
        return AutoConfig.from_pretrained(source, revision=revision, trust_remote_code=trust_remote_code)
    except Exception as error:
        raise ModelError(f"{name} has no readable configuration: {_reason(error)}") from error


def _declared(source: str, revision: str | None) -> Mapping[str, Any]:
    """The configuration as it was written; the library then knows the type where a package declares its family."""
    try:
        declared, _ = PreTrainedConfig.get_config_dict(source, revision=revision)
    except TypeError as error:  # the library looks for names in whatever it has read
        raise OSError("its config.json holds a single value, and a configuration has names and values") from error
    if not isinstance(declared, Mapping):
        kind = type(declared).__name__
        raise OSError(f"its config.json holds a {kind}, and a configuration has names and values")
    family_for(str(declared.get("model_type")))
    return declared


def _downloaded(name: str, revision: str | None) -> Path:
    """The folder in which the library keeps a model of the hub; its index is fetched where it has one."""
    try:
        config = cached_file(name, "config.json", revision=revision)
        cached_file(name, INDEX, revision=revision, _raise_exceptions_for_missing_entries=False)
    except OSError as error:
        raise ModelError(_unloadable(name, error, [])) from error
    return Path(str(config)).parent


def _unloadable(name: str, error: Exception, reports: Collection[str]) -> str:
    said = " ".join([_reason(error), *(_joined(report) for report in reports if "above report" in str(error))])
    hint = "" if "/" in name else similar_folders(Path(name)).rstrip()
    return f"{name} cannot be loaded as a causal language model: {said}{' ' if hint else ''}{hint}"


def _reason(error: Exception) -> str:
    plain = isinstance(error, OSError | ValueError | RuntimeError | ImportError) and not isinstance(error, UnicodeError)
    text = _joined(str(error))
    return text if plain and text else f"{type(error).__name__}: {text}"


def _joined(text: str) -> str:
    text = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", text).split())
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " …"


@contextmanager
def _reports() -> Iterator[list[str]]:
    """Keeps back the library's report on a checkpoint, which says in a table what is said here in sentences."""
    kept: list[str] = []

    def keep(record: logging.LogRecord) -> bool:
        is_report = "LOAD REPORT" in record.getMessage()
        if is_report:
            kept.append(record.getMessage())
        return not is_report

    def keep_quiet(record: logging.LogRecord) -> bool:
        return "on the meta device because they were offloaded" not in record.getMessage()

    with ExitStack() as stack:
        for logger, one in (("transformers.modeling_utils", keep), ("accelerate.big_modeling", keep_quiet)):
            logging.getLogger(logger).addFilter(one)
            stack.callback(logging.getLogger(logger).removeFilter, one)
        yield kept


def _require_complete(name: str, hf: PreTrainedModel, found: Mapping[str, Any]) -> None:
    """Every weight of the model came from the checkpoint; what it holds beyond them brings a warning."""
    unexpected = set(found["unexpected_keys"])
    if found["mismatched_keys"]:
        shapes = {
            f"{tensor} is {_shape(there)} in the file and {_shape(wanted)} by the configuration"
            for tensor, there, wanted in found["mismatched_keys"]
        }
        raise ModelError(
            f"{name} does not fit its configuration: {_listed(shapes)}; config.json belongs to another checkpoint."
        )
    if found["missing_keys"]:
        missing = set(found["missing_keys"])
        also = (
            f"; it holds {_number(unexpected)} that the model does not know ({_listed(unexpected)})"
            if unexpected
            else ""
        )
        raise ModelError(
            f"{name} lacks {_number(missing)} of its {type(hf).__name__}, which would be drawn at random: "
            f"{_listed(missing)}{also}. A base model, a classifier or a checkpoint with other names or fewer blocks "
            "than its configuration cannot be measured; give the complete causal language model."
        )
    if unexpected:
        warn(_left_over(name, hf, unexpected))


def _left_over(name: str, hf: PreTrainedModel, unexpected: set[str]) -> str:
    blocks = getattr(hf.config.get_text_config(), "num_hidden_layers", None)
    places = [re.search(r"\.(\d+)\.", f".{key}.") for key in unexpected]
    numbers = [int(place[1]) for place in places if place]
    if isinstance(blocks, int) and len(numbers) == len(unexpected) and min(numbers) >= blocks:
        return (
            f"{name} holds {max(numbers) + 1} blocks, and its configuration asks for the first {blocks}; the others "
            "are left out. Was config.json changed?"
        )
    return f"{name} holds {_number(unexpected)} that its {type(hf).__name__} has no place for: {_listed(unexpected)}."


def _number(names: Collection[str]) -> str:
    return f"{len(names)} tensor{'s' if len(names) > 1 else ''}"


def _listed(names: Collection[str]) -> str:
    shown = sorted(names, key=_natural)[:_SHOWN]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _natural(name: str) -> list[tuple[int, str]]:
    """Block 10 after block 9."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _shape(shape: Any) -> str:
    return "×".join(str(size) for size in shape)

"""Reading a checkpoint by transformers: a folder, a name on the hub, or a GGUF file."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast
from weakref import finalize

import torch
import transformers
from huggingface_hub import snapshot_download
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig, PreTrainedModel
from transformers.utils import cached_file

from bathyscope.core.gguf_headers import quick_headers
from bathyscope.core.network import cache_alone_without_network
from bathyscope.errors import ModelError
from bathyscope.model.classes import class_for
from bathyscope.model.completeness import join_sentences, require_complete
from bathyscope.model.configuration import GENERATION_NAME, contradicting_bases, gguf_config, read_declared
from bathyscope.model.files import ADAPTER, INDEX, indexed, require_own_base, require_whole
from bathyscope.model.gguf import GgufFile
from bathyscope.model.load_errors import loading_errors, unloadable, without_bar, without_gguf_bar
from bathyscope.model.packed.folder import forget_quantisation, open_packed
from bathyscope.model.place import folder_of, require_hub
from bathyscope.model.placement import blocks_of, device_map, is_streamed, outline_of, straight_to
from bathyscope.model.ranks import size
from bathyscope.model.streaming.carrying import align
from bathyscope.model.streaming.offloaded import take_over
from bathyscope.model.tensor_parallel import require_splittable, splitting


@dataclass(frozen=True)
class CheckpointRequest:
    """What is read, and how.

    Args:
        name: a folder, a hub name or a GGUF file.
        device: where the model goes.
        gguf: the header of the GGUF file; None = it is none.
        split: over the ranks that work together.
        dtype, revision, trust_remote_code, placement, window, attn: as for ``load``.
    """

    name: str
    device: torch.device
    dtype: torch.dtype | None = None
    revision: str | None = None
    trust_remote_code: bool = False
    placement: str = "resident"
    window: int | None = None
    attn: str | None = None
    gguf: GgufFile | None = None
    split: bool = False


@dataclass(frozen=True)
class Checkpoint:
    """A causal language model with every weight from its files.

    Args:
        left_over: sentences about what of the files was not used, or not as its configuration says; None = all was.
        packing: how its files have packed the weights, which were unpacked; None = they are plain.
    """

    hf: PreTrainedModel
    left_over: str | None
    packing: str | None = None


def read_checkpoint(request: CheckpointRequest) -> Checkpoint:
    """Read the causal language model of a folder, a hub name or a GGUF file.

    Raises:
        ModelError: nothing there; damaged or foreign files; not a causal language model; tensors that are missing or
            of another shape, which the library would draw at random.
    """
    if request.gguf is not None:
        return _read_gguf(request, request.gguf)
    folder = folder_of(request.name, request.revision)
    if folder is not None:
        return _read(request, folder)
    require_hub(request.name, request.revision)
    with cache_alone_without_network():
        return _read(request, None)


def _read(request: CheckpointRequest, folder: Path | None) -> Checkpoint:
    """Read a checkpoint in a folder, or (None) one of the hub."""
    name, revision, device = request.name, request.revision, request.device
    source = name if folder is None else str(folder)
    # transformers raises whatever its parsers raise; all mean that there is no such model
    try:
        declared = read_declared(source, revision)
    except Exception as error:
        raise ModelError(unloadable(name, error)) from error
    if folder is not None:
        require_whole(folder, declared)
    files = _downloaded(name, revision) if folder is None else folder
    indexed(files)
    _require_no_pickle(name, files)
    if request.split:
        require_splittable(name, source, revision, request.trust_remote_code)
    packed = open_packed(name, declared, lambda: _with_weights(name, revision) if folder is None else folder)
    dtype = request.dtype if packed is None else request.dtype or torch.float32
    unpacked_bytes = None if packed is None or dtype is None else packed.nbytes(dtype)
    streamed = not request.split and is_streamed(name, files, request.placement, dtype, device, unpacked_bytes)
    with ExitStack() as stack:
        # tensors that the library puts together out of several (experts) are stored here, as long as the model exists
        rewritten = Path(stack.enter_context(_temporary())) if streamed else None
        with loading_errors(name, device, rewritten), without_bar():
            code: dict[str, Any] = {"revision": revision, "trust_remote_code": request.trust_remote_code}
            kind: Any = class_for(declared)
            weights = {"pretrained_model_name_or_path": source, "use_safetensors": True, **code}
            config: Any = None if packed is None and rewritten is None else AutoConfig.from_pretrained(source, **code)
            if packed is not None:
                forget_quantisation(config)
                outline = outline_of(config, request.trust_remote_code)
                kind = type(outline)
                weights = {
                    "pretrained_model_name_or_path": None,
                    "config": config,
                    "state_dict": packed.tensors(outline),
                }
            if request.split:
                placed = splitting(size())
            elif rewritten is None:
                placed = straight_to(device)
            else:
                blocks_on_disk = device_map(source, config, request.trust_remote_code, device)
                placed = {"device_map": blocks_on_disk, "offload_folder": str(rewritten)}
            loaded: Any = kind.from_pretrained(
                **weights,
                dtype=dtype or "auto",
                ignore_mismatched_sizes=True,
                output_loading_info=True,
                attn_implementation=request.attn,
                **placed,
            )
        hf: PreTrainedModel
        hf, report = loaded
        # only now are the files of a model on the hub here
        if folder is None:
            require_whole(_downloaded(name, revision), declared)
        left_over = require_complete(name, hf, report, declared.get("architectures"))
        if packed is not None:
            _name_source(hf, source, packed.folder)
            left_over = left_over or packed.warning
        left_over = join_sentences(left_over, contradicting_bases(declared, hf.config))
        if rewritten is None and not request.split:
            cast(nn.Module, hf).to(device)
        align(hf)
        if rewritten is not None:
            # the folder goes when the store does, which the model holds
            finalize(take_over(hf, blocks_of(hf), request.window), stack.pop_all().close)
        return Checkpoint(hf, left_over, None if packed is None else packed.description)


def _name_source(hf: PreTrainedModel, source: str, folder: Path) -> None:
    """Give a model of unpacked weights what the library reads next to plain ones."""
    hf.config._name_or_path = hf.name_or_path = source
    if hf.can_generate() and (folder / GENERATION_NAME).is_file():
        hf.generation_config = GenerationConfig.from_pretrained(str(folder))


def _with_weights(name: str, revision: str | None) -> Path:
    """Return the folder of a model of the hub with its weights, which are fetched unless they are there."""
    patterns = ["*.safetensors", "*.safetensors.index.json", "config.json", GENERATION_NAME]
    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=patterns))
    except OSError as error:
        raise ModelError(unloadable(name, error)) from error


def _require_no_pickle(name: str, files: Path) -> None:
    """Refuse weights that are there as pickles alone."""
    pickles = sorted(file.name for file in files.glob("pytorch_model*.bin"))
    if pickles and not any(files.glob("*.safetensors")):
        raise ModelError(
            f"{name} holds {pickles[0]} alone, a pickle, which may run any code when it is opened and is not opened "
            "here. Convert it where you trust it: AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(NEW)."
        )


def _read_gguf(request: CheckpointRequest, file: GgufFile) -> Checkpoint:
    """Read a GGUF file with all of its weights unpacked: from here on the model is like any other in memory."""
    name, device = request.name, request.device
    if request.placement == "stream":
        raise ModelError(
            f"{name} is a GGUF file, and GGUF files cannot be streamed: their weights are unpacked in memory. Load it "
            "with placement='resident'."
        )
    config = gguf_config(name, file)
    # without this, versions of transformers that can compute with packed weights would leave them packed
    kinds: Any = getattr(transformers, "GgufConfig", None)
    unpacked = {} if kinds is None else {"quantization_config": kinds(dequantize=True)}
    with loading_errors(name, device), without_gguf_bar(), quick_headers():
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            str(file.path.parent),
            config=config,
            gguf_file=file.path.name,
            dtype=request.dtype or torch.float32,
            output_loading_info=True,
            attn_implementation=request.attn,
            **unpacked,
        )
    hf: PreTrainedModel
    hf, report = loaded
    left_over = require_complete(name, hf, report) or file.left_over
    forget_packing(hf)
    cast(nn.Module, hf).to(device)
    align(hf)
    return Checkpoint(hf, left_over)


def forget_packing(hf: PreTrainedModel) -> None:
    """Remove what a model with unpacked weights still says of how its file had packed them.

    It is then the same as a model that was saved unpacked: equal configuration, can be saved, runs on plain kernels.
    """
    for name in ("hf_quantizer", "quantization_method"):
        if name in vars(hf):
            delattr(hf, name)
    setattr(hf, "is_quantized", False)  # noqa: B010 (no field that its class declares)
    for name in ("quantization_config", "_model_name_or_path"):
        if name in vars(hf.config):
            delattr(hf.config, name)


def _temporary() -> TemporaryDirectory[str]:
    try:
        return TemporaryDirectory(prefix="bathyscope-")
    except OSError as error:
        raise ModelError(
            f"Streaming needs a temporary folder, and none can be made ({error.strerror or error}); set TMPDIR to one "
            "that can be written."
        ) from error


def _downloaded(name: str, revision: str | None) -> Path:
    """Return the folder in which the library stores a model of the hub; its index is fetched where it has one.

    Raises:
        ModelError: no such model, or an adapter to another one.
    """
    try:
        config = cached_file(name, "config.json", revision=revision)
        cached_file(name, INDEX, revision=revision, _raise_exceptions_for_missing_entries=False)
        adapter = cached_file(name, ADAPTER, revision=revision, _raise_exceptions_for_missing_entries=False)
    except OSError as error:
        raise ModelError(unloadable(name, error)) from error
    if adapter is not None:
        require_own_base(name, Path(str(adapter)))
    return Path(str(config)).parent

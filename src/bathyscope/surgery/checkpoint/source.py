"""What is exported: a checkpoint's files, or a model in memory; and what is next to its weights."""

import copy
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from huggingface_hub import snapshot_download
from transformers import PreTrainedConfig, PreTrainedModel

from bathyscope.core.atomic import create
from bathyscope.core.foreign import open_regular
from bathyscope.errors import ModelError, OptionError, describe_value
from bathyscope.model import AnyModel, Model, load, load_config, weight_hash
from bathyscope.model.admission import without_adapter
from bathyscope.model.anatomy.family import Family
from bathyscope.model.anatomy.plain import is_unpacked
from bathyscope.model.attending import registered_in_words
from bathyscope.model.files import SINGLE, indexed, require_own_files, require_whole
from bathyscope.model.gguf import is_gguf
from bathyscope.model.in_hand import count_departure
from bathyscope.model.load_errors import needs_code
from bathyscope.model.packed.registry import packing_of
from bathyscope.model.place import folder_of, here
from bathyscope.model.replaced import replaced_in_words
from bathyscope.model.shards import is_split
from bathyscope.surgery.checkpoint.configuration import count_entry
from bathyscope.surgery.checkpoint.weight_files import file_hashes, stored_in

_BESIDE = (
    *("tokenizer*", "special_tokens_map.json", "added_tokens.json", "vocab.*", "merges.txt", "*.model", "*.tiktoken"),
    *("chat_template.*", "generation_config.json", "*processor_config.json", "LICENSE*", "NOTICE*"),
)
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.*", "*.tiktoken", "spiece.model", "*.bpe.model")
Kind = TypeVar("Kind")
_KINDS = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


@dataclass(frozen=True)
class Source:
    """A model to be exported.

    Args:
        name: as given.
        config: its configuration.
        hf: the model in memory; None where it is copied from files.
        files: the checkpoint's weights.
        folder: where tokenizer and generation settings lie; None where there is no such place.
        family: where its parts are, if that is known already.
        tokenizer: one that was given with the model in memory.
        packing: how the weights in memory were packed in the files that they come from; None = they were plain.
        packed_files: those files, where they are in a folder.
    """

    name: str
    config: PreTrainedConfig
    hf: PreTrainedModel | None = None
    files: tuple[Path, ...] = ()
    folder: Path | None = None
    family: Family | None = None
    tokenizer: Any = None
    packing: str | None = None
    packed_files: tuple[Path, ...] = ()

    @property
    def n_blocks(self) -> int:
        """L, the number of blocks."""
        config = self.config.get_text_config()
        return int(getattr(config, count_entry(config)))

    @property
    def dtype(self) -> torch.dtype:
        """What weights are loaded as: what most are in memory; of files what the configuration says, or most are."""
        # By bytes and not by tensors: many small norms are often stored wider than the matrices.
        if self.hf is not None:
            weights = [weight for weight in self.hf.parameters() if weight.is_floating_point()]
            return _most((weight.dtype, weight.numel() * weight.element_size()) for weight in weights)
        if isinstance(self.config.dtype, torch.dtype):
            return self.config.dtype
        stored = [tensor for file in self.files for tensor in stored_in(file).values()]
        return _KINDS.get(_most((tensor.kind, tensor.end - tensor.start) for tensor in stored), torch.float32)

    @property
    def has_tokenizer(self) -> bool:
        """There is a tokenizer to be copied."""
        if self.tokenizer is not None:
            return True
        return self.folder is not None and any(any(self.folder.glob(name)) for name in _TOKENIZERS)

    @property
    def public_name(self) -> str:
        """What a model card calls it: the name on the hub, or a folder's own name without the path to it."""
        path = Path(self.name)
        here_now = self.name.startswith(("/", ".", "~")) or path.is_dir()
        was_here = self.folder is not None and self.folder.as_posix().endswith(f"/{path.as_posix()}")
        return path.expanduser().resolve().name or self.name if here_now else path.name if was_here else self.name

    def stamps(self) -> tuple[tuple[int, int, int], ...]:
        """Return size, time and inode of every file; 0 for a file that was removed."""
        stamps = []
        for file in self.files:
            try:
                status = file.stat()
            except OSError:
                stamps.append((0, 0, 0))
            else:
                stamps.append((status.st_size, status.st_mtime_ns, status.st_ino))
        return tuple(stamps)

    def hashes(self) -> Mapping[str, str]:
        """Return the SHA-256 of the weights: of every file, or of all in memory."""
        return file_hashes(self.files) if self.hf is None else {"in memory": weight_hash(self.hf)}


def source_of(model: AnyModel, revision: str | None = None, weights: bool = True) -> Source:
    """Return the source of an export, from whatever ``export`` takes.

    Args:
        weights: its weights are wanted too; those of a model on the hub are fetched then.

    Raises:
        OptionError: no model.
        ModelError: nothing there, damaged files, or no safetensors; methods of a streamed model that were replaced in
            memory.
    """
    split = getattr(model, "hf", model)
    if isinstance(split, torch.nn.Module) and is_split(split) and weights:
        name = str(getattr(model, "name", "") or getattr(split.config, "_name_or_path", "") or "a folder")
        raise ModelError(
            f"This model is split over processes (tensor parallelism), and a checkpoint is copied from files by one. "
            f"Give the folder or hub name that it was loaded from ({name})."
        )
    if isinstance(model, Model) and model.blocks is not None and weights:
        if model.blocks.names - model.blocks.lasting:
            raise ModelError(
                f"The blocks of {model.name} are streamed, and not from its files; give its folder, or load it with "
                "placement='resident'."
            )
        if replaced := replaced_in_words(model.hf) or registered_in_words(model.hf):
            raise ModelError(
                f"The files of {model.name} are copied, and {replaced}, which no file holds. Undo the change, or give "
                "the folder to export the model as it is there."
            )
        return replace(_source_of_name(model.name, model.revision), tokenizer=model.given_tokenizer)
    if isinstance(model, Model):
        hf = model.hf
        tokenizer = model.given_tokenizer
        # A model in memory may have been loaded from a folder, whose tokenizer the copy takes along.
        place = here(model.name, model.revision)
        if tokenizer is None and (place is None or not any(any(place.glob(name)) for name in _TOKENIZERS)):
            tokenizer = _tokenizer_of(model)
        config = _counted_config(hf)
        packed_files = _weight_files(place) if place is not None and model.packing is not None else ()
        return Source(
            model.name,
            config,
            hf,
            folder=place,
            family=model.anatomy.family,
            tokenizer=tokenizer,
            packing=model.packing,
            packed_files=packed_files,
        )
    if isinstance(model, torch.nn.Module):
        hf = without_adapter(model)  # type: ignore[assignment]
        if not isinstance(hf, PreTrainedModel):
            raise OptionError(
                f"export() takes a folder, a hub name or a transformers model; {type(model).__name__} given."
            )
        name = str(getattr(hf.config, "_name_or_path", "") or type(hf).__name__)
        return Source(name, _counted_config(hf), hf, folder=here(name, None))
    if not isinstance(model, str | Path):
        raise OptionError(
            f"export() takes a folder, a hub name or a transformers model; {describe_value(model)} given."
        )
    if not weights:
        return Source(str(model), load_config(str(model), revision))
    # a GGUF file holds no tensors that could be copied as they are
    return source_of(load(model, revision=revision)) if is_gguf(model) else _source_of_name(str(model), revision)


def _most(sizes: Iterable[tuple[Kind, int]]) -> Kind:
    """Return the kind of which there are the most bytes, the first of equal ones."""
    total: dict[Kind, int] = {}
    for kind, size in sizes:
        total[kind] = total.get(kind, 0) + size
    return max(total, key=lambda kind: total[kind])


def _weight_files(folder: Path) -> tuple[Path, ...]:
    """List the files of a folder's weights; where it holds both, transformers reads the single file."""
    return tuple(folder / file for file in ([SINGLE] if (folder / SINGLE).is_file() else indexed(folder)))


def plain_config(hf: PreTrainedModel) -> PreTrainedConfig:
    """Return the configuration of a model, without how its file had packed weights that are unpacked in memory."""
    if getattr(hf.config, "quantization_config", None) is None or not is_unpacked(hf):
        return hf.config
    config = copy.deepcopy(hf.config)
    del config.quantization_config
    return config


def _counted_config(hf: PreTrainedModel) -> PreTrainedConfig:
    """Return the configuration of a model in memory, which counts its blocks.

    Raises:
        ModelError: it says another number of blocks.
    """
    counted = count_departure(hf)
    if counted:
        raise ModelError(counted)
    return plain_config(hf)


def list_companions(source: Source) -> list[Path]:
    """Return the files next to the weights that a copy takes along: tokenizer, generation settings, licences."""
    if source.folder is None:
        return []
    return [file for file in sorted({file for name in _BESIDE for file in source.folder.glob(name)}) if file.is_file()]


def companions(source: Source, place: Path) -> None:
    """Copy what is next to the weights.

    Raises:
        OSError: one is no regular file, or a link that leaves the source's folder.
    """
    for file in list_companions(source):
        with open_regular(file, source.folder) as stored, open(create(place / file.name), "wb") as copied:
            shutil.copyfileobj(stored, copied)
    if source.hf is not None and source.hf.can_generate():
        source.hf.generation_config.save_pretrained(place)
    if source.tokenizer is not None:
        source.tokenizer.save_pretrained(place)


def _source_of_name(name: str, revision: str | None) -> Source:
    try:
        config = load_config(name, revision)
    except ModelError as error:
        if needs_code(error.__cause__):
            raise ModelError(
                f"{name} comes with code of its own, and an exported checkpoint is one that transformers loads by "
                "itself. Load it with trust_remote_code=True, and run the order by bathyscope.scheduled instead."
            ) from error
        raise
    # nor does a checkpoint whose weights are packed
    if packing_of(config) is not None:
        return source_of(load(name, revision=revision, placement="resident"))
    folder = folder_of(name, revision)
    if folder is None:
        patterns = ["*.safetensors", "*.safetensors.index.json", "config.json", *_BESIDE]
        folder = Path(snapshot_download(name, revision=revision, allow_patterns=patterns))
        require_own_files(folder)
    require_whole(folder, config.to_dict())
    files = _weight_files(folder)
    if not files:
        raise ModelError(
            f"{name} holds no {SINGLE} and no index of several; only safetensors are read. Load it with transformers, "
            "save it with save_pretrained(), and export that."
        )
    return Source(name, config, files=files, folder=folder)


def _tokenizer_of(model: Model) -> Any:
    """Return a model's tokenizer; None where none could be copied."""
    try:
        return model.tokenizer
    except ModelError:
        return None

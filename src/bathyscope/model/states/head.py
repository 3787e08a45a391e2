"""The head of a served model: final norm and unembedding alone, read from its checkpoint; nothing else is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers.utils import cached_file

from bathyscope.core.network import cache_alone_without_network
from bathyscope.errors import ModelError
from bathyscope.model.adapter import find_adapter
from bathyscope.model.anatomy.anatomy import config_of
from bathyscope.model.anatomy.family import Family
from bathyscope.model.anatomy.readout import Readout
from bathyscope.model.anatomy.registry import family_for
from bathyscope.model.anatomy.resolving import (
    count_entries,
    flag_of,
    list_blocks,
    make_readout,
)
from bathyscope.model.anatomy.sites import submodule
from bathyscope.model.checkpoint_names import CheckpointNames
from bathyscope.model.completeness import require_own_head
from bathyscope.model.configuration import load_config
from bathyscope.model.files import INDEX, SINGLE, indexed, list_names, places_of_weights
from bathyscope.model.gguf import is_gguf
from bathyscope.model.load_errors import unloadable
from bathyscope.model.outlines import build_outline
from bathyscope.model.place import folder_of, require_hub
from bathyscope.model.states.embedding import HeadEmbedding, find_embedding
from bathyscope.model.streaming.files import CheckpointFile

_ONE_STREAM = "and the states of a file are those of one stream behind each block"


class HeadFile(CheckpointFile):
    """A file of the checkpoint that the head is read from."""

    use = "which holds the head,"
    again = "Put the checkpoint back as it was, or download it again; finished shards are kept."


class HeadModel(nn.Module):
    """A model of which only the readout is there, in the place of the whole one.

    Args:
        outline: the model without weights, whose configuration and embedding are looked at.
        readout: with weights.
    """

    def __init__(self, outline: Any, readout: Readout) -> None:
        super().__init__()
        self.config = outline.config
        self.norm, self.head, self.projection = readout.norm, readout.head, readout.projection
        # in a list, so that it is no module of this one: it has no weights
        self._embedding = [outline.get_input_embeddings()]

    def get_input_embeddings(self) -> nn.Module:
        """Return the embedding, without its weights."""
        embedding: nn.Module = self._embedding[0]
        return embedding


@dataclass(frozen=True)
class ServedHead:
    """What reads states out, and what is known of the model that it is of.

    Args:
        model: holds the modules of the readout.
        n_blocks: L.
        parallel: as in ``Anatomy``.
        embedding: what boundary 0 is compared with, and whether it may depend on a token's place.
        bytes_read: of the checkpoint's weights.
    """

    family: Family
    model: HeadModel
    readout: Readout
    n_blocks: int
    width: int
    vocabulary: int
    parallel: bool
    embedding: HeadEmbedding
    bytes_read: int


def read_head(
    name: str, dtype: torch.dtype, revision: str | None = None, trust_remote_code: bool = False
) -> ServedHead:
    """Read final norm and unembedding of a checkpoint, in the dtype of the states that they are to read.

    Args:
        name: a folder with the configuration and these tensors at least, or a hub name.

    Raises:
        ModelError: no such model, of no known family, of several streams, or without these tensors.
    """
    _require_checkpoint(name, revision)
    config = load_config(name, revision, trust_remote_code)
    require_own_head(name, config.architectures, bool(config.get_text_config().tie_word_embeddings))
    outline = build_outline(name, config, dtype, trust_remote_code)
    family = _family_of(name, config)
    norm = submodule(outline, family.final_norm) if family.final_norm else None
    readout = make_readout(outline, family, norm)
    text = config_of(outline)
    vocabulary = count_entries(outline, readout.head, text, family)
    width = int(getattr(text, "hidden_size", None) or outline.get_input_embeddings().weight.shape[-1])  # type: ignore[index]
    blocks = list_blocks(outline, family)
    if len(set(map(id, blocks))) < len(blocks):
        raise ModelError(f"{name} runs a block several times, {_ONE_STREAM}. Load the model itself to survey it.")
    source = _Tensors(name, revision, outline)
    for path in (family.final_norm, family.head, family.projection):
        module = None if path is None else submodule(outline, path)
        if path is not None and module is not None:
            _fill(outline, path, module, source)
    _require_rows_that_differ(name, readout)
    return ServedHead(
        family=family,
        model=HeadModel(outline, readout),
        readout=readout,
        n_blocks=len(blocks),
        width=width,
        vocabulary=vocabulary,
        parallel=flag_of(text, family.parallel),
        embedding=find_embedding(outline, family, blocks, width, _adds_positions(outline), source.rows),
        bytes_read=source.bytes_read,
    )


def _require_rows_that_differ(name: str, readout: Readout) -> None:
    """Refuse an unembedding that gives all tokens the same logit, whatever it reads."""
    weight = getattr(readout.head, "weight", None)
    # ends at the first row that differs, in a head of a trained model at once
    if weight is not None and len(weight) > 1 and all(torch.equal(weight[0], row) for row in weight[1:]):
        raise ModelError(
            f"All {len(weight):,} rows of the unembedding in {name} are equal, so that it predicts all tokens alike. "
            "Give a head that was trained: the file may have been written before its weights were there."
        )


def _require_checkpoint(name: str, revision: str | None) -> None:
    if is_gguf(name):
        raise ModelError(
            f"{name} is a GGUF file, and a head is read from a safetensors checkpoint. Give the one that was served, "
            "or that the file was made from."
        )
    if find_adapter(name, revision) is not None:
        raise ModelError(
            f"{name} is an adapter, and a head is read from a whole checkpoint. Merge it into its base "
            "(merge_and_unload(), save_pretrained(FOLDER)), or give the base where its norm and head are untouched."
        )


def _family_of(name: str, config: Any) -> Family:
    """Return the declared family of a model whose boundaries are one stream each."""
    text = config.get_text_config()
    family = family_for(config.model_type) or family_for(text.model_type)
    if family is None:
        raise ModelError(
            f"{name} is of the unknown type {text.model_type!r}, and only a whole model can be searched for its norm "
            "and head. Load it (bathyscope check), or declare its family."
        )
    if refusal := family.refusal(text):
        raise ModelError(f"{family.name} models cannot be measured: {refusal}")
    several = (family.loops, family.streams_in_width, family.earlier_streams, family.paired, family.initial_state)
    if any(several) or family.own_readout:
        raise ModelError(
            f"{name} ({family.name}) loops, or has several streams, {_ONE_STREAM}. Load the model itself to survey it."
        )
    return family


def _adds_positions(outline: Any) -> bool:
    """Whether a model may add something to the embedding that depends on a token's place: a table, or a function."""
    named = [type(module).__name__ for module in outline.modules()]
    tables = sum(isinstance(module, nn.Embedding) for module in outline.modules())
    functions = any("Position" in name and "Rotary" not in name for name in named)
    return tables > 1 or functions or any("pos" in name for name, _ in outline.named_buffers())


class _Tensors:
    """Tensors of a checkpoint by name, read one by one."""

    def __init__(self, name: str, revision: str | None, outline: Any) -> None:
        self.name, self.bytes_read = name, 0
        self._names = CheckpointNames(outline)
        self._revision = revision
        self._folder = folder_of(name, revision)
        if self._folder is None:
            require_hub(name, revision)
        self._files: dict[str, HeadFile] = {}
        index = self._fetch(INDEX, optional=True)
        if index is not None and (self._folder is None or not (self._folder / SINGLE).is_file()):
            indexed(index.parent)
            self._places = places_of_weights(index.parent)
        else:
            self._places = dict.fromkeys(self._file(SINGLE).places, SINGLE)

    def read(self, names: Sequence[str], target: Tensor) -> None:
        """Fill a tensor from the one that the checkpoint has for it.

        Args:
            names: that the tensor has in the model, of a tied one several.

        Raises:
            ModelError: it has none of them, or a tensor of another shape or kind.
        """
        stored = self._stored_name(names)
        if stored is None:
            raise ModelError(
                f"{self.name} holds no {names[0]}, which the head needs; it has {list_names(self._places)}. Copy the "
                "tensors of final norm and unembedding too, under their names in the checkpoint."
            )
        file = self._file(self._places[stored])
        place = file.places.get(stored)
        if place is None or place.shape != tuple(target.shape):
            shape = "absent" if place is None else list(place.shape)
            raise ModelError(
                f"{file.path}: {stored} is {shape}, and the configuration says {list(target.shape)}. Download the "
                "checkpoint again, or give its own config.json."
            )
        if place.dtype is None or not place.dtype.is_floating_point or place.dtype.itemsize < 2:
            raise ModelError(
                f"{file.path} stores {stored} quantised ({place.dtype}), and a head is read in floating point. Give a "
                "checkpoint whose head is not quantised."
            )
        with file.reading() as stream:
            file.read(stream, stored, target)
        self.bytes_read += place.stop - place.start
        if not torch.isfinite(target).all():
            raise ModelError(f"{file.path} holds NaN or Inf in {stored}. Download or convert the checkpoint again.")

    def rows(self, names: Sequence[str], numbers: Sequence[int], dtype: torch.dtype) -> Tensor | None:
        """Return some rows of a matrix, by number; None where it is not stored here, or not in floating point.

        From the hub nothing is fetched for it: the head needs no other file.
        """
        stored = self._stored_name(names)
        if stored is None or not self._is_here(self._places[stored]):
            return None
        file = self._file(self._places[stored])
        place = file.places.get(stored)
        if place is None or place.dtype is None or not place.dtype.is_floating_point or place.dtype.itemsize < 2:
            return None
        if len(place.shape) != 2 or max(numbers) >= place.shape[0]:
            return None
        rows = torch.empty((len(numbers), place.shape[1]), dtype=dtype)
        with file.reading() as stream:
            for target, number in zip(rows, numbers):
                self.bytes_read += file.read(stream, stored, target[None], number)
        return rows

    def _is_here(self, name: str) -> bool:
        return name in self._files or (self._folder is not None and (self._folder / name).is_file())

    def _stored_name(self, names: Sequence[str]) -> str | None:
        """Return the name that the checkpoint has for a tensor, which the library may rename when it loads it."""
        if names[0] in self._places:
            return names[0]
        # those of blocks have a number
        outside = [name for name in self._places if not any(part.isdecimal() for part in name.split("."))]
        renamed = ((name, self._names.of(name)) for name in outside if self._names.is_copied(name))
        return next((name for name, model_name in renamed if model_name in names), None)

    def _file(self, name: str) -> HeadFile:
        if name not in self._files:
            path = self._fetch(name)
            assert path is not None
            self._files[name] = HeadFile(path)
        return self._files[name]

    def _fetch(self, name: str, *, optional: bool = False) -> Path | None:
        """Return a file of the checkpoint, from the folder or, alone, from the hub."""
        if self._folder is not None:
            path = self._folder / name
            return None if optional and not path.is_file() else path
        try:
            with cache_alone_without_network():
                cached = cached_file(
                    self.name, name, revision=self._revision, _raise_exceptions_for_missing_entries=not optional
                )
        except OSError as error:
            raise ModelError(unloadable(self.name, error)) from error
        return None if cached is None else Path(str(cached))


def _fill(outline: nn.Module, path: str, module: nn.Module, source: _Tensors) -> None:
    """Give a module of the outline its weights from the checkpoint."""
    names = _names_by_tensor(outline)
    stored_names = module.state_dict().keys()
    for inner_path, inner in module.named_modules():
        at = ".".join(part for part in (path, inner_path) if part)
        for table in (inner._parameters, inner._buffers):
            for name, tensor in table.items():
                if tensor is None or f"{inner_path}.{name}".lstrip(".") not in stored_names:
                    continue
                target = torch.empty(tensor.shape, dtype=tensor.dtype)
                source.read([f"{at}.{name}", *names[id(tensor)]], target)
                filled = nn.Parameter(target, requires_grad=False) if table is inner._parameters else target
                table[name] = filled


def _names_by_tensor(outline: nn.Module) -> dict[int, list[str]]:
    """Return every name that each tensor has in a model; a tied one has several."""
    names: dict[int, list[str]] = {}
    for name, tensor in (
        *outline.named_parameters(remove_duplicate=False),
        *outline.named_buffers(remove_duplicate=False),
    ):
        names.setdefault(id(tensor), []).append(name)
    return names

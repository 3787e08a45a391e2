"""A checked model, as every measure takes it."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from bathyscope.core.tables import html_table
from bathyscope.errors import legible
from bathyscope.model.adapter import Adapter
from bathyscope.model.anatomy.anatomy import Anatomy, config_of
from bathyscope.model.anatomy.configurations import LENGTHS
from bathyscope.model.anatomy.measured_gaps import Checks
from bathyscope.model.anatomy.plain import home_of, vocabulary
from bathyscope.model.bundled import model_path
from bathyscope.model.gguf import GgufFile
from bathyscope.model.states.folder import StatesFolder
from bathyscope.model.streaming.offloaded import store_of
from bathyscope.model.streaming.store import BlockStore
from bathyscope.prompts.padding import EdgeTokens

# positions (ALiBi biases in MPT) come from tables that are buffers or parameters and no embeddings
_OWN_TABLES = ("codegen", "ctrl", "gptj", "mpt", "reformer")


@dataclass(frozen=True)
class Model:
    """A checked model, as every measure takes it.

    Args:
        name: hub name or folder as given; the class's name for a model already in memory.
        revision: the hub revision, None for a folder.
        anatomy: where its parts are.
        checks: what the checks at load measured.
        weight_hash: SHA-256 over names, shapes and values of the weights, as they were when it was loaded, and over
            constants and methods of its modules that are not those of its configuration.
        given_tokenizer: the tokenizer that was given in the place of the checkpoint's own; None = none was.
        origin: the model that this control of it was derived from, whose tokenizer it reads with; None = it is none.
        schedule: the order in which it runs another model's blocks; None = its own.
        settings_hash: of its configuration when it was checked.
        gguf: the file that its weights were unpacked from; None = they come from elsewhere.
        warnings: what a reader of its results must know of how it was loaded, such as blocks of the checkpoint that
            its configuration leaves out.
        states: stored states that are measured in its place, of which it has the head alone; None = it is all there.
        adapter: what its name stands for, and the model that it was put into; None = its name is that of a model.
        ranks: over how many processes its blocks are split; 1 = it is whole.
        packing: how the checkpoint packs the weights, such as ``gptq 4-bit, group 128``, from which they were unpacked;
            None = they are stored plain, or in a GGUF file.

    Example:
        >>> model.n_blocks, model.dtype, model.placement, model.max_tokens
        (4, torch.float32, 'resident', 2048)
        >>> model.tokenizer.decode(model.tokenizer("Once upon").input_ids[1:])
        'Once upon'
    """

    name: str
    revision: str | None
    anatomy: Anatomy
    checks: Checks
    weight_hash: str
    trust_remote_code: bool = False
    given_tokenizer: Any = None
    origin: "Model | None" = None
    schedule: str | None = None
    gguf: GgufFile | None = None
    settings_hash: str = ""
    warnings: tuple[str, ...] = ()
    adapter: Adapter | None = None
    ranks: int = 1
    states: StatesFolder | None = None
    packing: str | None = None

    @property
    def hf(self) -> PreTrainedModel:
        """The transformers model itself."""
        return self.anatomy.model  # type: ignore[return-value]

    @property
    def n_blocks(self) -> int:
        """L, the number of blocks."""
        return self.anatomy.n_blocks

    @property
    def dtype(self) -> torch.dtype:
        """The weights' dtype."""
        return next(p.dtype for p in self.hf.parameters() if p.is_floating_point())

    @property
    def device(self) -> torch.device:
        """Where the weights are; of streamed and scattered models, where the residual stream is."""
        return home_of(self.hf)

    @property
    def placement(self) -> str:
        """``"resident"`` or ``"stream"``."""
        return "resident" if self.blocks is None else "stream"

    @property
    def blocks(self) -> BlockStore | None:
        """What lends streamed blocks and counts how often (``blocks.readings``); None where all are in memory."""
        return store_of(self.hf)

    @property
    def max_tokens(self) -> int | None:
        """The longest prompt the model takes; None where the family sets no limit."""
        config = config_of(self.hf)
        limits = (int(getattr(config, name, None) or 0) for name in LENGTHS)
        # XLNet, whose positions are distances, has a limit of -1
        return next((limit for limit in limits if limit > 0), None)

    @cached_property
    def has_position_table(self) -> bool:
        """Whether positions come from a table of ``max_tokens`` entries, so that longer prompts cannot be run."""
        if self.states is not None:
            return False
        if config_of(self.hf).model_type in _OWN_TABLES:
            return True
        limit = self.max_tokens
        tables = [m for m in self.hf.modules() if isinstance(m, nn.Embedding)]
        others = [m for m in tables if m is not self.hf.get_input_embeddings()]
        # OPT and BART keep two entries more than positions
        return limit is not None and any(limit <= m.num_embeddings <= limit + 8 for m in others)

    @property
    def vocabulary(self) -> int:
        """How many token ids the embedding takes."""
        return vocabulary(self.hf)

    @property
    def predictable(self) -> int:
        """How many token ids the head predicts; fewer than ``vocabulary`` where the embedding alone was enlarged."""
        return self.anatomy.vocabulary

    @cached_property
    def tokenizer(self) -> Any:
        """The checkpoint's own tokenizer, loaded when text is first given; None without one.

        Raises:
            ModelError: it cannot be loaded.
        """
        from bathyscope.prompts.tokenizer import load_gguf_tokenizer, load_tokenizer

        if self.given_tokenizer is not None:
            return self.given_tokenizer
        if self.origin is not None:
            # its name says how it was derived, and leads to no files
            return self.origin.tokenizer
        if self.gguf is not None:
            return load_gguf_tokenizer(self.gguf.path) if self.gguf.has_tokenizer else None
        source = self._checkpoint
        if source is None:
            return None
        return load_tokenizer(source, revision=self._revision, trust_remote_code=self.trust_remote_code)

    @cached_property
    def edges(self) -> EdgeTokens:
        """The tokens that pad, begin and end its texts, as its settings and its tokenizer's files name them.

        The tokenizer is not loaded for them.
        """
        from bathyscope.prompts.edge_files import edges_in_files

        declared = (config_of(self.hf), getattr(self.hf, "generation_config", None))
        edges = EdgeTokens.of(self.given_tokenizer, *declared)
        if self.given_tokenizer is not None:
            return edges
        if self.origin is not None:
            return edges | self.origin.edges
        source = self._checkpoint
        return edges if source is None else edges | edges_in_files(source, revision=self._revision)

    @property
    def unpacked_from(self) -> str | None:
        """What its weights were unpacked from: a GGUF file with its types, or a packing; None = plain weights."""
        return self.packing if self.gguf is None else f"{self.gguf.path.name} ({self.gguf.quantisation})"

    @property
    def _checkpoint(self) -> str | None:
        """The folder or hub name whose tokenizer is its own; None where it has none."""
        if self.gguf is not None:
            return None
        if not getattr(self.hf.config, "_name_or_path", "") and self.name == type(self.hf).__name__:
            # made in memory: it has no checkpoint whose tokenizer could be its own
            return None
        if self.adapter is not None:
            return str(self.adapter.folder) if self.adapter.has_tokenizer else self.adapter.base
        return str(Path(self.name).expanduser()) if self.name.startswith("~") else self.name

    @property
    def _revision(self) -> str | None:
        """The revision of what its tokenizer is read from."""
        if self.adapter is None:
            return self.revision
        return None if self.adapter.has_tokenizer else self.adapter.base_revision

    @property
    def _shown_name(self) -> str:
        """Return the name as notebooks and prompts show it, which are passed on: of a folder its last part."""
        folder = Path(self.name).expanduser()
        if not folder.is_absolute():
            return self.name
        return "bundled model" if folder == model_path() else folder.name or self.name

    def _repr_html_(self) -> str:
        """Show in a notebook what it is, and what the checks at load measured."""
        facts = {
            "model": self._shown_name,
            "family": self.anatomy.family.name,
            "blocks × width": f"{self.n_blocks} × {self.anatomy.width}",
            "weights": f"{str(self.dtype).removeprefix('torch.')} on {self.device}",
            **({} if self.ranks == 1 else {"split over": f"{self.ranks} ranks"}),
            **({} if self.adapter is None else {"adapter in": self.adapter.base}),
            **({} if self.unpacked_from is None else {"unpacked from": self.unpacked_from}),
            "replay against the model": f"{self.checks.no_op:.1e} (allowed {self.checks.tolerance:.0e})",
            "readout against its logits": f"{self.checks.readout:.1e}",
            "contributions of attention and MLP": "yes" if self.checks.parts else "whole blocks alone",
        }
        return html_table([], facts.items(), letters=80)

    def __repr__(self) -> str:
        shape = f"{self.n_blocks} blocks × width {self.anatomy.width}"
        streamed = ", streamed" if self.blocks else f", split over {self.ranks} ranks" if self.ranks > 1 else ""
        weights = f"{str(self.dtype).removeprefix('torch.')} on {self.device}{streamed}"
        return legible(f"Model({self._shown_name}, {self.anatomy.family.name}, {shape}, {weights})")

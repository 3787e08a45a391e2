"""Loading a causal language model and checking that its anatomy holds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from bathyscope.anatomy.anatomy import Anatomy, config_of, resolve
from bathyscope.anatomy.checks import Checks, check, find_bad_weight
from bathyscope.anatomy.generic import infer_family
from bathyscope.anatomy.mode import evaluating, require_own_order
from bathyscope.anatomy.registry import family_for, make_known
from bathyscope.errors import ModelError, warn

_DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
_HASHED_BYTES = 1 << 24
# positions (ALiBi biases in MPT) come from tables that are no embeddings
_OWN_TABLES = ("codegen", "ctrl", "gptj", "mpt")


@dataclass(frozen=True)
class Model:
    """A checked model, as every measure takes it.

    Args:
        name: hub name or folder as given; the class's name for a model already in memory.
        revision: the hub revision, None for a folder.
        anatomy: where its parts are.
        checks: what the checks at load measured.
        weight_hash: SHA-256 over names, shapes and values of the weights.
    """

    name: str
    revision: str | None
    anatomy: Anatomy
    checks: Checks
    weight_hash: str
    trust_remote_code: bool = False
    _given_tokenizer: Any = field(default=None, repr=False)

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
        """Where the weights are."""
        return next(self.hf.parameters()).device

    @property
    def max_tokens(self) -> int | None:
        """The longest prompt the model takes; None where the family sets no limit."""
        config = config_of(self.hf)
        names = ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "n_ctx")
        found = next((getattr(config, n) for n in names if getattr(config, n, None)), None)
        return int(found) if found else None

    @cached_property
    def has_position_table(self) -> bool:
        """Positions are looked up in a table of ``max_tokens`` entries, so that longer prompts cannot be run."""
        if config_of(self.hf).model_type in _OWN_TABLES:
            return True
        limit = self.max_tokens
        tables = [m for m in self.hf.modules() if isinstance(m, nn.Embedding)]
        others = [m for m in tables if m is not self.hf.get_input_embeddings()]
        # OPT and BART keep two entries more than positions
        return limit is not None and any(limit <= m.num_embeddings <= limit + 8 for m in others)

    @property
    def vocabulary(self) -> int:
        """Token ids the embedding takes."""
        return int(self.hf.get_input_embeddings().weight.shape[0])  # type: ignore[index]

    @cached_property
    def tokenizer(self) -> Any:
        """The checkpoint's own tokenizer, loaded when text is first given; None where there is none.

        Raises:
            ModelError: it cannot be loaded.
        """
        from bathyscope.prompts.tokenizer import load_tokenizer

        if self._given_tokenizer is not None:
            return self._given_tokenizer
        if not getattr(self.hf.config, "_name_or_path", "") and self.name == type(self.hf).__name__:
            return None  # made in memory: it has no checkpoint whose tokenizer could be its own
        return load_tokenizer(self.name, revision=self.revision, trust_remote_code=self.trust_remote_code)

    def __repr__(self) -> str:
        return (
            f"Model({self.name}, {self.anatomy.family.name}, {self.n_blocks} blocks × width {self.anatomy.width}, "
            f"{str(self.dtype).removeprefix('torch.')} on {self.device})"
        )


def load(
    model: str | Path | PreTrainedModel,
    dtype: str | torch.dtype | None = None,
    device: str | torch.device | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    tokenizer: Any = None,
) -> Model:
    """Loads a causal language model and checks its anatomy.

    Args:
        model: a hub name, a local folder, or a transformers model already in memory (used as it is).
        dtype: ``"float32"``, ``"bfloat16"``, ``"float16"``, ``"float64"`` or a torch dtype; None = the checkpoint's.
        device: ``"cpu"``, ``"cuda"`` …; None = the first accelerator, else the CPU.
        revision: branch, tag or commit on the hub.
        trust_remote_code: allow code that comes with the checkpoint. Off unless asked.
        tokenizer: used instead of the checkpoint's own.

    Raises:
        ModelError: nothing there, not a causal language model, no safetensors, NaN or Inf in the weights, a
            refused family, or a check that fails (with the measured gap).
    """
    if isinstance(model, nn.Module):
        if not hasattr(model, "config"):
            raise ModelError(
                f"{type(model).__name__} has no config; give a transformers causal language model, a folder "
                "or a hub name."
            )
        require_own_order(model)
        hf, name = model, str(getattr(model.config, "_name_or_path", "") or type(model).__name__)
        if dtype is not None and as_dtype(dtype) != next(hf.parameters()).dtype:
            raise ModelError(
                "dtype= is for models loaded by name; convert a model in memory yourself (model.to(dtype))."
            )
    else:
        name = str(model)
        hf = _from_pretrained(name, dtype, revision, trust_remote_code)
        cast(nn.Module, hf).to(as_device(device))
    _refuse_quantised_silence(hf)
    _refuse_compiled_masks(hf)
    bad = find_bad_weight(hf)
    if bad:
        raise ModelError(f"{name} holds NaN or Inf in {bad}; its checkpoint is damaged. Download or convert it again.")
    with evaluating(hf):
        anatomy = anatomy_of(hf)
        checks = check(anatomy)
    return Model(name, revision, anatomy, checks, weight_hash(hf), trust_remote_code, tokenizer)


AnyModel = Model | PreTrainedModel | str | Path
"""What every part takes as a model."""


def loaded(model: AnyModel) -> Model:
    """A model as ``load`` returns it, from that or from what ``load`` takes, ready to be measured.

    Raises:
        ModelError: as ``load``; also where the model runs a schedule at the moment.
    """
    found = model if isinstance(model, Model) else load(model)
    require_own_order(found.hf)
    return found


def anatomy_of(hf: nn.Module) -> Anatomy:
    """The anatomy by family file, else by search (accepted only if the checks hold).

    Raises:
        ModelError: refused family, or nothing found.
    """
    config: Any = hf.config
    types = [getattr(c, "model_type", None) for c in (config, config_of(hf))]
    family = next((f for f in (family_for(t) for t in types if t) if f is not None), None)
    return resolve(hf, family or infer_family(hf))


def as_dtype(dtype: str | torch.dtype) -> torch.dtype:
    """A torch dtype from its name."""
    if isinstance(dtype, torch.dtype):
        return dtype
    if dtype not in _DTYPES:
        raise ModelError(f"Unknown dtype {dtype!r}; allowed: {', '.join(_DTYPES)}.")
    return _DTYPES[dtype]


def as_device(device: str | torch.device | None) -> torch.device:
    """The asked device, or the first accelerator, or the CPU."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        wanted = torch.device(device)
    except RuntimeError as error:
        raise ModelError(f"Unknown device {device!r}; try cpu, cuda or cuda:0.") from error
    if wanted.type == "cuda" and not torch.cuda.is_available():
        raise ModelError(f"Device {device!r} asked for, but torch sees no CUDA device; use --device cpu.")
    return wanted


def _from_pretrained(
    name: str, dtype: str | torch.dtype | None, revision: str | None, trust_remote_code: bool
) -> PreTrainedModel:
    folder = Path(name)
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise ModelError(f"{name} is a folder without a config.json; give a folder saved by save_pretrained().")
    if folder.is_file():
        raise ModelError(f"{name} is a file; give the checkpoint's folder or a hub name.")
    looks_local = name.startswith((".", "/", "~")) or name.count("/") > 1
    if looks_local and not folder.is_dir():
        raise ModelError(
            f"There is no folder {name}. Give a checkpoint folder or a hub name such as Qwen/Qwen2.5-1.5B."
        )
    wanted: Any = "auto" if dtype is None else as_dtype(dtype)
    try:
        _make_known(name, revision)
        return AutoModelForCausalLM.from_pretrained(
            name, dtype=wanted, revision=revision, trust_remote_code=trust_remote_code, use_safetensors=True
        )
    except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
        raise ModelError(f"{name} cannot be loaded as a causal language model: {_first_lines(error)}") from error


def _make_known(name: str, revision: str | None) -> None:
    """Lets the library know the type of a checkpoint that is one of this program's own."""
    declared, _ = PreTrainedConfig.get_config_dict(name, revision=revision)
    make_known(str(declared.get("model_type")))


def _first_lines(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 400 else text[:400] + " …"


def _refuse_quantised_silence(hf: nn.Module) -> None:
    if getattr(hf.config, "quantization_config", None) is not None:
        warn(
            "This model's weights are quantised. 8-bit kernels choose outlier columns over a whole batch, which "
            "leaks between tokens; effects near the noise floor are not to be trusted.",
        )


def _refuse_compiled_masks(hf: nn.Module) -> None:
    attention = str(getattr(config_of(hf), "_attn_implementation", "") or "")
    if "flex" in attention or "paged" in attention:
        raise ModelError(
            f"The attention implementation {attention!r} compiles its mask for one shape of batch, so that recorded "
            "masks cannot serve other rows; load the model with attn_implementation='sdpa' (or 'eager')."
        )


def weight_hash(hf: nn.Module) -> str:
    """SHA-256 over names, shapes, dtypes and values of all parameters, and of the buffers a checkpoint carries.

    Tensors above 16 MiB are sampled evenly (16 MiB of each), so that a large model is not read twice.
    """
    digest = hashlib.sha256()
    for name, value in _named(hf):
        digest.update(json.dumps([name, list(value.shape), str(value.dtype)]).encode())
        flat = value.detach().reshape(-1).view(torch.uint8) if value.numel() else value.new_empty(0, dtype=torch.uint8)
        stride = max(1, -(-flat.numel() // _HASHED_BYTES))
        digest.update(flat[::stride].contiguous().cpu().numpy().data)
    return digest.hexdigest()


def _named(hf: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from hf.named_parameters()
    kept = hf.state_dict().keys()
    yield from ((name, buffer) for name, buffer in hf.named_buffers() if name in kept)


def load_config(name: str, revision: str | None = None, trust_remote_code: bool = False) -> Any:
    """Only the configuration of a checkpoint (for estimates).

    Raises:
        ModelError: there is none.
    """
    try:
        _make_known(name, revision)
        return AutoConfig.from_pretrained(name, revision=revision, trust_remote_code=trust_remote_code)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"{name} has no readable configuration: {_first_lines(error)}") from error

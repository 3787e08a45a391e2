"""A folder or a hub name of an adapter (LoRA and its kin): which model it belongs to, and the adapter put into it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, cast

from huggingface_hub import try_to_load_from_cache
from safetensors import SafetensorError, safe_open
from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils import cached_file

from bathyscope.core.foreign import read_regular, require_regular
from bathyscope.core.network import unreachable
from bathyscope.core.paths import given_path
from bathyscope.core.strict import DAMAGED, read_json
from bathyscope.core.text import elided
from bathyscope.errors import ModelError, warn
from bathyscope.model.adapter_settings import require_bounded, require_consistent
from bathyscope.model.admission import without_adapter
from bathyscope.model.files import ADAPTER, INDEX, SINGLE, list_names, require_own_files
from bathyscope.model.load_errors import joined
from bathyscope.model.place import folder_of

WEIGHTS: Final = "adapter_model.safetensors"
_PICKLE: Final = "adapter_model.bin"
_TOKENIZERS: Final = ("tokenizer.json", "tokenizer.model", "vocab.json", "spiece.model")
_OTHER_CODE: Final = ("megatron_config",)
"""Settings by which the library imports a module that the file names."""
_VIRTUAL_TOKENS: Final = frozenset(
    {"PROMPT_TUNING", "MULTITASK_PROMPT_TUNING", "P_TUNING", "PREFIX_TUNING", "CPT", "CARTRIDGE"}
)
"""Kinds that put states in front of a prompt, in as many places as their settings say, and leave the blocks alone."""
_RANKS: Final = ("r", "init_r", "rank")
_SIZES: Final = ("num_vectors", "vector_length", "n_frequency", "adapter_len", "n_tasks", "n_skills", "theta_d_length")
"""Further settings that are a size of some tensor, by the kinds of adapter that have them."""
_PREFIX: Final = "base_model.model."
"""What the library writes before the paths of a model's modules."""


@dataclass(frozen=True)
class Adapter:
    """An adapter and the model that it belongs to.

    Args:
        name: its folder or hub name, as given.
        folder: where its files are.
        base: folder or hub name of the model it is put into.
        base_revision: of a base on the hub, as the adapter says; None = the newest.
        rank: the largest that its settings declare; 0 where they declare none.
    """

    name: str
    folder: Path
    base: str
    base_revision: str | None
    rank: int = 0

    @property
    def has_tokenizer(self) -> bool:
        """Whether a tokenizer is next to it, which may know more tokens than the base's."""
        return any((self.folder / file).is_file() for file in _TOKENIZERS)

    def put_into(self, hf: PreTrainedModel) -> PreTrainedModel:
        """Return a model with the adapter in its layers.

        Raises:
            ModelError: peft is not installed; an adapter of another model; damaged weights; one that lives outside the
                blocks.
        """
        from peft import PeftModel

        shapes = _shapes(self)
        settings = _settings(self.name, self.folder)
        # the library makes tensors of the declared sizes before it looks at those of the file
        largest = max((size for shape in shapes.values() for size in shape), default=0)
        sizes = {"a rank": self.rank, **{f"{name}, a size,": settings.get(name) for name in _SIZES}}
        for what, size in sizes.items():
            if isinstance(size, int) and size > largest:
                raise ModelError(
                    f"The adapter {self.name} declares {what} of {size:,}, and its file holds no matrix of that size. "
                    "Download it, or save the adapter, again."
                )
        _fit_embedding(self, hf, shapes)
        paths = {path for path, _ in hf.named_modules()}
        require_bounded(self.name, settings, shapes, paths)
        require_consistent(self.name, settings, shapes)
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                adapted = PeftModel.from_pretrained(hf, str(self.folder), is_trainable=False)
        # whatever its configuration and its tensors are made of: the library's errors are of many kinds
        except Exception as error:
            _require_saved_whole(self.name, settings, error)
            raise ModelError(
                f"The adapter {self.name} does not fit {self.base} ({type(error).__name__}: {joined(str(error))}). "
                "Give the model that it was trained on (base=, --base)."
            ) from error
        for warning in caught:
            text = joined(str(warning.message))
            if "missing adapter keys" in text:
                raise ModelError(
                    f"The adapter {self.name} lacks weights for layers of {self.base} ({text}). Give the model that it "
                    "was trained on (base=, --base)."
                )
            if not issubclass(warning.category, DeprecationWarning | FutureWarning):
                warn(f"{self.name}: {text}")
        inner = without_adapter(adapted)
        paths |= {path for path, _ in inner.named_modules()}
        _require_used(self, shapes, paths)
        return cast(PreTrainedModel, inner)


def find_adapter(name: str, revision: str | None = None, base: str | Path | None = None) -> Adapter | None:
    """Return the adapter that a folder here or a hub name holds; None where it holds a model.

    Args:
        name: folder or hub name.
        revision: of an adapter on the hub.
        base: the model that it is put into; None = the one that its ``adapter_config.json`` names.

    Raises:
        ModelError: a damaged adapter, one without a base, whole weights next to an adapter, weights as a pickle, one
            that would import other code, or peft is not installed.
    """
    folder = _folder_of(name, revision, expected=base is not None)
    if folder is None:
        if base is not None:
            raise ModelError(
                f"base={str(base)!r} is for adapters, and {name} holds no {ADAPTER}; leave base out, or give the "
                "folder of the adapter."
            )
        return None
    require_own_files(folder)
    settings = _settings(name, folder)
    if any((folder / file).is_file() for file in (SINGLE, INDEX)):
        raise ModelError(
            f"{name} holds whole weights ({SINGLE}) and an adapter ({ADAPTER}), and only one of them can be meant. "
            "Move the other into a folder of its own."
        )
    if not (folder / WEIGHTS).is_file():
        pickled = f"{_PICKLE} alone, a pickle, which is not opened here" if (folder / _PICKLE).is_file() else "none"
        raise ModelError(
            f"{name} is an adapter whose weights are to be in {WEIGHTS}, and there is {pickled}. Save it again "
            "(model.save_pretrained(FOLDER))."
        )
    if find_spec("peft") is None:
        raise ModelError(f"{name} is an adapter, and reading it needs peft: pip install 'bathyscope[adapters]'.")
    declared = settings.get("base_model_name_or_path")
    chosen = str(base) if base is not None else declared
    if not isinstance(chosen, str) or not chosen.strip():
        raise ModelError(f"{name} is an adapter that does not say of which model; give it (base=, --base).")
    if Path(chosen).is_dir() and Path(chosen).resolve() == folder.resolve():
        raise ModelError(
            f"{name} is an adapter, and the base that it names is its own folder; give the model that it was trained "
            "on (base=, --base)."
        )
    if base is None:
        _require_base_here(name, chosen)
    revised = settings.get("revision") if base is None else None
    return Adapter(name, folder, chosen, revised if isinstance(revised, str) and revised else None, _rank_of(settings))


def _require_base_here(name: str, base: str) -> None:
    """Refuse an adapter whose file names a base that cannot be where it says.

    Raises:
        ModelError: names the adapter and its file, which the user may never have read.
    """
    try:
        folder_of(base)
    except ModelError as error:
        raise ModelError(
            f"The adapter {name} names in its {ADAPTER} a base that cannot be read: {error} If the base was moved, "
            "give its folder (base=, --base)."
        ) from error


def _rank_of(settings: Mapping[str, Any]) -> int:
    """Return the largest rank that settings declare, of all layers or of some."""
    pattern = settings.get("rank_pattern")
    ranks = [*map(settings.get, _RANKS), *(pattern.values() if isinstance(pattern, Mapping) else ())]
    return max((rank for rank in ranks if isinstance(rank, int)), default=0)


def _folder_of(name: str, revision: str | None, *, expected: bool) -> Path | None:
    """Return the folder of an adapter's files; None where no adapter is there.

    Args:
        expected: an adapter is asked for, so that the hub is asked as well.
    """
    folder = given_path(name, "model") if name.startswith("~") else Path(name)
    try:
        if folder.is_dir():
            return folder if revision is None and (folder / ADAPTER).is_file() else None
    # no possible name: whoever loads the model says so
    except OSError:
        return None
    if not expected and _on_hub(name, "config.json", revision) is not None:
        return None
    settings = _on_hub(name, ADAPTER, revision)
    if settings is None:
        return None
    for file in (WEIGHTS, *_TOKENIZERS, "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"):
        _on_hub(name, file, revision)
    return Path(settings).parent


def _on_hub(name: str, file: str, revision: str | None) -> str | None:
    """Return where a file of the hub is stored here; None where it has no such file, or the hub is not reached."""
    try:
        cached = try_to_load_from_cache(name, file, revision=revision)
        if isinstance(cached, str):
            return cached
        if unreachable():
            return None
        return cached_file(name, file, revision=revision, _raise_exceptions_for_missing_entries=False)
    # no such repository, no possible name: whoever loads the model says so
    except (OSError, ValueError):
        return None


def _settings(name: str, folder: Path) -> Mapping[str, Any]:
    try:
        settings = read_json(read_regular(folder / ADAPTER, folder))
    except DAMAGED as error:
        raise ModelError(
            f"{name} has no readable {ADAPTER} ({elided(error, 80)}). Download it, or save the adapter, again."
        ) from error
    if not isinstance(settings, Mapping) or not isinstance(settings.get("peft_type"), str):
        raise ModelError(f"{name} has an {ADAPTER} that names no kind of adapter (peft_type). Save the adapter again.")
    if settings["peft_type"] in _VIRTUAL_TOKENS:
        raise ModelError(
            f"{name} is an adapter by {settings['peft_type']}, which puts states in front of a prompt and changes no "
            "layer; such adapters are not read. Give one that changes layers, such as LoRA."
        )
    _require_finite(name, settings)
    for setting in _NUMBERS:
        if isinstance(settings.get(setting), str):
            raise ModelError(
                f"{name} has an {ADAPTER} that says {setting}: {settings[setting]!r}, a text in place of a number. "
                "Write the number without quotes, or save the adapter again."
            )
    saved = settings.get(_SAVED_WHOLE)
    if saved is not None and not (isinstance(saved, list) and all(isinstance(module, str) for module in saved)):
        raise ModelError(
            f"{name} has an {ADAPTER} that says {_SAVED_WHOLE}: {elided(repr(saved), 40)}, which is no list of names. "
            'Write them as ["lm_head"], or save the adapter again.'
        )
    for setting in _OTHER_CODE:
        if settings.get(setting) is not None:
            raise ModelError(
                f"{name} sets {setting}, by which other code is imported; such adapters are not read. Merge it where "
                "you trust it (merge_and_unload()), and give the merged model."
            )
    return settings


_SAVED_WHOLE: Final = "modules_to_save"
_NUMBERS: Final = ("r", "alpha", "lora_alpha", "lora_dropout")


def _require_finite(name: str, settings: Mapping[str, Any], inside: str = "") -> None:
    """Refuse a setting that is NaN or infinite, which kernels of attention make finite numbers of all the same."""
    for setting, value in settings.items():
        if isinstance(value, Mapping):
            _require_finite(name, value, f"{inside}{setting}.")
        elif isinstance(value, float) and not math.isfinite(value):
            raise ModelError(
                f"{name} has an {ADAPTER} that says {inside}{setting}: {value}, and settings are finite numbers. "
                "Download it, or save the adapter, again."
            )


def _shapes(adapter: Adapter) -> dict[str, tuple[int, ...]]:
    """Return the shapes of an adapter's tensors, by their paths in the model.

    Raises:
        ModelError: no whole safetensors file.
    """
    weights = adapter.folder / WEIGHTS
    try:
        require_regular(weights, adapter.folder)
        with safe_open(weights, framework="pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            shapes = {name.removeprefix(_PREFIX): tuple(part.get_shape()) for name, part in slices.items()}
            other = next((name for name, part in slices.items() if not part.get_dtype().startswith(("F", "BF"))), None)
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelError(
            f"{adapter.name}: {WEIGHTS} is no whole safetensors file ({joined(str(error))}). Download it, or save the "
            "adapter, again."
        ) from error
    if other is not None:
        # the library casts them, which cuts whole numbers off and drops imaginary parts without a word
        raise ModelError(
            f"{adapter.name}: {WEIGHTS} stores {elided(other, 80)} as {slices[other].get_dtype()}, and weights of an "
            "adapter are floating-point numbers. Save the adapter again."
        )
    return shapes


def _fit_embedding(adapter: Adapter, hf: PreTrainedModel, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Give a model the embedding and unembedding of the size that an adapter brings along.

    Raises:
        ModelError: the rows of the unembedding are stored nowhere, and would be drawn at random.
    """
    embedding, head = hf.get_input_embeddings(), hf.get_output_embeddings()
    paths = {module: path for path, module in hf.named_modules()}
    stored = shapes.get(f"{paths[embedding]}.weight")
    weight = embedding.weight
    assert isinstance(weight, Tensor)
    # of another width it does not fit, which is said where it is put in
    if stored is None or len(stored) != 2 or stored[0] == weight.shape[0] or stored[1] != weight.shape[1]:
        return
    tied = head is None or head.weight is weight
    hf.resize_token_embeddings(stored[0], mean_resizing=False)
    if head is not None and not tied and f"{paths[head]}.weight" not in shapes:
        raise ModelError(
            f"The adapter {adapter.name} has an embedding of another size than {adapter.base}, and no weights of "
            f"{paths[head]} for it, which would be drawn at random. Save it with both (save_embedding_layers=True)."
        )


def _require_saved_whole(name: str, settings: Mapping[str, Any], error: Exception) -> None:
    """Refuse an adapter that says that it saves a module whole, and does not.

    Args:
        error: what the library raised; a KeyError of a weight that it looked for among those of the adapter.
    """
    weight = str(error.args[0]).removeprefix(_PREFIX) if isinstance(error, KeyError) and error.args else ""
    module = weight.rpartition(".")[0]
    saved = next((saved for saved in settings.get(_SAVED_WHOLE) or () if saved and module.endswith(saved)), None)
    if saved is not None:
        raise ModelError(
            f"The adapter {name} has an {ADAPTER} that says that it saves {saved} whole ({_SAVED_WHOLE}), and its file "
            f"lacks {weight}. Save the adapter again, or remove {saved} there."
        ) from error


def _require_used(adapter: Adapter, tensors: Collection[str], paths: Collection[str]) -> None:
    """Refuse an adapter with tensors that no layer of the model takes, which the library leaves out.

    Args:
        paths: of all modules of the model.
    """
    # of a tensor the module that it belongs to, or the one around that, is in the model; the model itself has none
    modules = {*paths} - {""}
    unused = [name for name in tensors if not {name.rpartition(".")[0], name.rsplit(".", 2)[0]} & modules]
    if unused:
        raise ModelError(
            f"The adapter {adapter.name} has weights for layers that {adapter.base} does not have "
            f"({list_names(unused, 2)}). Give the model that it was trained on (base=, --base)."
        )

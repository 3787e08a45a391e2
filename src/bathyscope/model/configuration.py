"""The configuration of a checkpoint: a folder's, a hub model's or a GGUF file's, read alone."""

import codecs
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import transformers
from transformers import AutoConfig, PreTrainedConfig

from bathyscope.core.foreign import read_regular
from bathyscope.core.gguf_headers import quick_headers
from bathyscope.core.strict import read_json
from bathyscope.core.text import elided
from bathyscope.errors import ModelError
from bathyscope.model.adapter import find_adapter
from bathyscope.model.anatomy.configurations import length_fault
from bathyscope.model.anatomy.registry import family_for
from bathyscope.model.gguf import GgufFile, is_gguf, open_gguf
from bathyscope.model.load_errors import needs_code, reason_of, unloadable
from bathyscope.model.place import folder_of, require_hub

CONFIG_NAME = "config.json"
GENERATION_NAME = "generation_config.json"
_BLOCK_COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers", "decoder_layers")
_MOST_BLOCKS = 1_000
"""Several times the deepest published model; the outline of each costs an estimate some milliseconds."""
_MOST_LABELS = 100_000
"""Whose names the library writes out, and which no language model has."""
_IMPLEMENTATIONS = ("attn_implementation", "_attn_implementation", "experts_implementation", "_experts_implementation")
"""Entries by which the library fetches a kernel from the hub and runs it, where they name a repository."""
_BASE = "rope_theta"
_ROTARY_BASES = (_BASE, "rope_local_base_freq", "local_rope_theta", "global_rope_theta", "rotary_emb_base")
_WORD = re.compile(r"\w*")


def gguf_config(name: str, file: GgufFile) -> Any:
    """Return the configuration that transformers makes of a GGUF file's header."""
    try:
        with quick_headers():
            config = AutoConfig.from_pretrained(str(file.path.parent), gguf_file=file.path.name)
    except Exception as error:
        if "upported" in str(error) or isinstance(error, KeyError):
            raise ModelError(
                f"{name} is a GGUF file of the architecture {elided(repr(file.architecture), 60)}, which transformers "
                f"{transformers.__version__} cannot read; give the model's safetensors checkpoint."
            ) from error
        raise ModelError(unloadable(name, error)) from error
    header = config.to_dict()
    if (fault := _unusable_base(header) or length_fault(header)) is not None:
        raise ModelError(f"{name} cannot be read: its header says {fault}.")
    # where a configuration was read from is no part of it
    if "_model_name_or_path" in vars(config):
        del config._model_name_or_path
    return config


def load_config(name: str, revision: str | None = None, trust_remote_code: bool = False) -> Any:
    """Read only the configuration of a checkpoint (for estimates).

    Raises:
        ModelError: nothing there, or no configuration that can be read.
    """
    if is_gguf(name):
        return gguf_config(name, open_gguf(name))
    # an adapter has its base's configuration
    if (adapter := find_adapter(name, revision)) is not None:
        return load_config(adapter.base, adapter.base_revision, trust_remote_code)
    folder = folder_of(name, revision)
    if folder is None:
        require_hub(name, revision)
    source = name if folder is None else str(folder)
    try:
        read_declared(source, revision)
        return AutoConfig.from_pretrained(source, revision=revision, trust_remote_code=trust_remote_code)
    except Exception as error:
        if needs_code(error):
            raise ModelError(unloadable(name, error)) from error
        raise ModelError(f"{name} has no readable configuration: {reason_of(error)}") from error


def read_declared(source: str, revision: str | None) -> Mapping[str, Any]:
    """Read the configuration as it was written.

    A package that declares the family may make its type known to the library when its declaration is read.
    """
    try:
        declared, _ = PreTrainedConfig.get_config_dict(source, revision=revision)
    except OSError:
        _require_json(Path(source) / CONFIG_NAME)
        raise
    # the library looks for names in whatever it has read
    except TypeError as error:
        raise OSError("its config.json holds a single value, and a configuration has names and values") from error
    if not isinstance(declared, Mapping):
        kind = type(declared).__name__
        raise OSError(f"its config.json holds a {kind}, and a configuration has names and values")
    _require_modest(declared)
    family = declared.get("model_type")
    if not isinstance(family, str | None):
        raise OSError(f"its config.json says model_type: {elided(repr(family), 60)}; give a family's name, as 'llama'")
    family_for(str(family))
    _require_generation(Path(source) / GENERATION_NAME)
    return declared


def _require_json(file: Path) -> Any:
    """Return what a file of a local folder holds as JSON; where it is none, say what the library does not.

    Raises:
        OSError: with the place of the fault.
    """
    if not file.is_file():
        return None
    content = read_regular(file)
    if content.startswith(codecs.BOM_UTF8):
        raise OSError(
            f"its {file.name} begins with a byte-order mark, which JSON does not have; save it as UTF-8 without one"
        )
    try:
        return read_json(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise OSError(f"its {file.name} is not UTF-8 text (byte {error.start}); copy it again") from error
    except ValueError as error:
        raise OSError(f"its {file.name} is not a valid JSON file ({error}); copy it again") from error


def _require_generation(file: Path) -> None:
    """Refuse settings of writing that the library would leave aside without a word, so that answers end elsewhere.

    Raises:
        OSError: a file of a local folder that is no JSON, or whose tokens that end an answer are none.
    """
    settings = _require_json(file)
    if settings is None:
        return
    if not isinstance(settings, Mapping):
        raise OSError(f"its {file.name} holds a {type(settings).__name__}, and settings have names and values")
    ends = settings.get("eos_token_id")
    if not all(type(end) is int for end in (ends if isinstance(ends, list) else [ends]) if ends is not None):
        raise OSError(f"its {file.name} says eos_token_id: {elided(repr(ends), 60)}; give a token's number, or a list")


def _require_modest(declared: Mapping[str, Any]) -> None:
    """Refuse numbers of blocks and labels that no model has; millions of them would be made for minutes."""
    nested = declared.get("text_config")
    for config in (declared, *([nested] if isinstance(nested, Mapping) else [])):
        _require_no_kernels(config)
        if (fault := _unusable_base(config) or _unusable_number(config) or length_fault(config)) is not None:
            raise OSError(f"its config.json says {fault}")
        labels = config.get("num_labels")
        if isinstance(labels, int) and labels > _MOST_LABELS:
            raise OSError(f"its config.json says num_labels: {labels}; at most {_MOST_LABELS:,} are named")
        for name in _BLOCK_COUNTS:
            count = config.get(name)
            if isinstance(count, int) and not 0 < count <= _MOST_BLOCKS:
                raise OSError(f"its config.json says {name}: {count}; a model has 1 to {_MOST_BLOCKS:,} blocks")


def _unusable_base(config: Mapping[str, Any]) -> str | None:
    """A clause about a base of rotary frequencies of which no power is a frequency; None where it has none such."""
    for entries in _with_rotations(config):
        for name in _ROTARY_BASES:
            base = entries.get(name)
            if isinstance(base, int | float) and not 0 < base < math.inf:
                return f"{name}: {base}; rotary frequencies are powers of a finite number above 0"
    return None


def contradicting_bases(declared: Mapping[str, Any], config: Any) -> str | None:
    """Say which of two bases of rotary frequencies was used, where a configuration has both; None where it does not.

    Args:
        declared: the configuration as it was written.
        config: what the library made of it.
    """
    nested = declared.get("text_config")
    written = nested if isinstance(nested, Mapping) else declared
    rotation = written.get("rope_parameters")
    bases = (written.get(_BASE), rotation.get(_BASE) if isinstance(rotation, Mapping) else None)
    if None in bases or bases[0] == bases[1]:
        return None
    used = (getattr(config.get_text_config(), "rope_parameters", None) or {}).get(_BASE)
    return (
        f"The config.json says {_BASE}: {elided(bases[0], 40)} and, in rope_parameters, {_BASE}: "
        f"{elided(bases[1], 40)}; the model uses {used}. Remove the one that is not meant."
    )


def _unusable_number(config: Mapping[str, Any]) -> str | None:
    """A clause about a number by which every state would be NaN; None where all numbers can be computed with."""
    for name, value in config.items():
        if isinstance(value, float) and math.isnan(value):
            return f"{name}: nan; give the number of the original"
        if name.endswith(("_eps", "_epsilon")) and isinstance(value, int | float) and not 0 <= value < math.inf:
            return f"{name}: {value}; a norm adds a finite number of 0 or more to what it takes the root of"
    return None


def _with_rotations(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A configuration, its entry about rotation, and that of each kind of block, where they have one of their own."""
    yield config
    rotation = config.get("rope_parameters")
    if isinstance(rotation, Mapping):
        yield rotation
        yield from (kind for kind in rotation.values() if isinstance(kind, Mapping))


def _require_no_kernels(config: Mapping[str, Any]) -> None:
    """Refuse a configuration that names the code of a repository."""
    for name in _IMPLEMENTATIONS:
        value = config.get(name)
        for choice in value.values() if isinstance(value, Mapping) else [value]:
            if isinstance(choice, str) and not _WORD.fullmatch(choice):
                raise OSError(
                    f"its config.json says {name}: {elided(repr(choice), 60)}, which is code of a repository; a "
                    "configuration names none"
                )

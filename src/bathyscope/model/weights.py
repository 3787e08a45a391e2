"""A model's weights in one reading: their hash, and whether all of them are numbers; and a hash of its settings.

Settings are what a model computes with besides its weights: two models of equal weights may still differ in them.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig

from bathyscope.model.constants.departure import looked_at
from bathyscope.model.marks import Mark, marks_of
from bathyscope.model.ranks import of_all
from bathyscope.model.shards import is_shard, is_split, locals_of, whole_chunks
from bathyscope.model.streaming.offloaded import store_of
from bathyscope.model.unread import unreadable

_CHUNK_BYTES = 1 << 24
# hashing lets other threads run; each holds one chunk
_THREADS = 4
_READ: WeakKeyDictionary[nn.Module, dict[str, tuple[Mark, bytes]]] = WeakKeyDictionary()
"""Of the tensors in memory that a model had when it was last read, all of them finite."""


class WeightReading:
    """One reading of a model's weights: what is in memory at once, and streamed blocks as they are brought.

    Args:
        hf: the model. What was read earlier and is still the same is not read again: files by their time and size,
            tensors in memory by their mark. Reading takes seconds for each gigabyte, and longer where tensors have to
            leave an accelerator first.
    """

    def __init__(self, hf: nn.Module) -> None:
        self._hf = hf
        self._store = store_of(hf)
        shared = set() if self._store is None else self._store.repeated
        absent = set() if self._store is None else self._store.names
        named = {name: value for name, value in _named(hf) if name not in shared}
        self._order = tuple(named)
        self._parameters = {name for name, _ in hf.named_parameters()}
        self._digests: dict[str, bytes] = {}
        self._bad: dict[str, str] = {}
        self._look_in_memory(hf, {name: value for name, value in named.items() if name not in absent})
        if self._store is not None:
            self._store.require_unchanged()
            self._digests |= self._store.digests

    def look(self, tensors: Mapping[str, Tensor]) -> None:
        """Take some tensors, by name, into the reading; no more than a few chunks are copied at a time."""
        # whole tensors of several ranks are put together by collectives, which all ranks make in one order
        split = {name: _read(name, value) for name, value in tensors.items() if is_shard(value)}
        plain = {name: value for name, value in tensors.items() if name not in split}
        with ThreadPoolExecutor(_THREADS) as pool:
            digests = split | dict(zip(plain, pool.map(_read, plain, plain.values())))
        for name, (digest, bad) in digests.items():
            self._digests[name] = digest
            if bad and name in self._parameters:
                self._bad[name] = f"{name} ({bad} of {tensors[name].numel()} values)"

    def _look_in_memory(self, hf: nn.Module, tensors: Mapping[str, Tensor]) -> None:
        marks = marks_of(locals_of(tensors))
        earlier = _READ.get(hf, {})
        same = {name: earlier[name][1] for name, mark in marks.items() if name in earlier and earlier[name][0] == mark}
        if is_split(hf):
            # what has changed on one rank is read again on all
            unchanged = set.intersection(*of_all(set(same)))
            same = {name: digest for name, digest in same.items() if name in unchanged}
        self._digests |= same
        self.look({name: value for name, value in tensors.items() if name not in same})
        _READ[hf] = {name: (mark, self._digests[name]) for name, mark in marks.items() if name not in self._bad}

    @property
    def bad(self) -> str | None:
        """The first parameter seen so far that holds NaN or Inf, with how many; None if all are finite."""
        return next((self._bad[name] for name in self._order if name in self._bad), None)

    def sha256(self) -> str:
        """Hash names, shapes, dtypes and every byte of all parameters, and of the buffers a checkpoint carries.

        Constants count where they are not those that the model's configuration makes; one that cannot be read is named
        behind the hash. Blocks that have not run yet are brought now.
        """
        missing = [name for name in self._order if name not in self._digests]
        if self._store is not None:
            if missing:
                self._store.bring_all(self.look)
            self._store.digests |= {name: self._digests[name] for name in self._store.lasting & set(self._order)}
        settings = config_hash(self._hf) if hasattr(self._hf, "config") else None
        departure, unread = (None, []) if settings is None else looked_at(self._hf, settings)
        changed = b"" if departure is None else departure.encode()
        digest = hashlib.sha256(b"".join(self._digests[name] for name in self._order) + changed).hexdigest()
        return unreadable(digest, unread[0]) if unread else digest


def weight_hash(hf: nn.Module) -> str:
    """Return the hash of a model's weights, wherever they lie."""
    return WeightReading(hf).sha256()


def _named(hf: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from hf.named_parameters()
    saved_names = hf.state_dict().keys()
    yield from ((name, buffer) for name, buffer in hf.named_buffers() if name in saved_names)


def _read(name: str, value: Tensor) -> tuple[bytes, int]:
    """Hash one tensor under its name (SHA-256), and count its values that are no finite numbers."""
    digest = hashlib.sha256(json.dumps([name, list(value.shape), str(value.dtype)]).encode())
    bad = 0
    for chunk in whole_chunks(value.detach(), _CHUNK_BYTES):
        on_host = chunk.cpu().contiguous()
        digest.update(on_host.view(torch.uint8).numpy().data)
        if on_host.is_floating_point():
            # numbers of eight bits have no test of their own
            finite = torch.isfinite(on_host.float() if on_host.element_size() == 1 else on_host)
            bad += 0 if finite.all() else int((~finite).sum())
    return digest.digest(), bad


# where a model came from, how it is called, and its special tokens change no number of a survey
_OF_NO_ACCOUNT = frozenset(
    {
        *("_name_or_path", "architectures", "auto_map", "dtype", "torch_dtype", "transformers_version"),
        *("use_cache", "return_dict", "output_attentions", "output_hidden_states", "id2label", "label2id"),
        "distributed_config",
        *("bos_token_id", "eos_token_id", "pad_token_id", "initializer_range"),
    }
)
_OF_ADAPTERS = ("active_adapters", "disable_adapters", "scaling")


def config_hash(hf: nn.Module) -> str:
    """Hash a model's configuration, without its class's defaults, and its adapters' states (SHA-256)."""
    adapters = {name: state for name, module in hf.named_modules() if (state := _adapter_state(module)) is not None}
    text = json.dumps([_departures(hf.config), adapters], sort_keys=True, default=str)  # type: ignore[arg-type]
    return hashlib.sha256(text.encode()).hexdigest()


def _adapter_state(module: nn.Module) -> dict[str, str] | None:
    """Return what the adapters of a layer do; None where it has none, or, without scaling, its only one is active."""
    names = {name for kind in getattr(module, "adapter_layer_names", ()) for name in getattr(module, kind, ())}
    has_scaling = isinstance(getattr(module, "scaling", None), dict)
    # hashes of earlier versions do not tell layers without scaling, which is right while a single adapter is active
    if not has_scaling and (not names or (len(names) == 1 and not getattr(module, "disable_adapters", False))):
        return None
    return {key: str(getattr(module, key, None)) for key in _OF_ADAPTERS}


def settings_hash(hf: nn.Module) -> str:
    """Return a hash of everything in a model's configuration that its anatomy was read and checked with."""
    kernels = [str(getattr(hf.config, name, None)) for name in ("_attn_implementation", "_experts_implementation")]
    return hashlib.sha256(json.dumps([config_hash(hf), *kernels]).encode()).hexdigest()


def adapters_of(hf: nn.Module) -> str | None:
    """Name the adapters in a model's layers and what each does, such as ``default active``; None without any.

    An adapter is active, merged into the weights, disabled with all others, or inactive while another one is active.
    What was merged and unloaded is no adapter any more; it shows in the weights.
    """
    states: dict[str, set[str]] = {}
    for module in hf.modules():
        disabled = getattr(module, "disable_adapters", None)
        if disabled is None or not getattr(module, "adapter_layer_names", ()):
            continue
        # whole modules that are trained next to adapters are never merged
        merged = getattr(module, "merged_adapters", ())
        active = getattr(module, "active_adapters", ())
        for name in {name for kind in getattr(module, "adapter_layer_names", ()) for name in getattr(module, kind, ())}:
            used = "merged" if name in merged else "active" if name in active else "inactive"
            states.setdefault(name, set()).add("disabled" if disabled else used)
    return ", ".join(f"{name} {' and '.join(sorted(uses))}" for name, uses in sorted(states.items())) or None


def configuration_difference(first: PreTrainedConfig, second: PreTrainedConfig) -> dict[str, tuple[Any, Any]]:
    """Return the entries of two configurations that differ and count, by path, with both values; None = it has none."""
    names = dict.fromkeys(name for config in (first, second) for name in _flattened(_departures(config)))
    left, right = (_flattened(config.to_dict()) for config in (first, second))
    return {name: (left.get(name), right.get(name)) for name in names if left.get(name) != right.get(name)}


def _flattened(entries: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in entries.items():
        flat |= _flattened(value, f"{above}{name}.") if isinstance(value, Mapping) else {f"{above}{name}": value}
    return flat


def _departures(config: PreTrainedConfig) -> dict[str, Any]:
    """Return what a configuration says beyond its class: newer versions of the library add entries with defaults."""
    try:
        usual = type(config)().to_dict()
    # a class of whatever code, which cannot be made without arguments, has no defaults
    except Exception:
        usual = {}
    departures: dict[str, Any] = {}
    for name, value in config.to_dict().items():
        inner = vars(config).get(name)  # entries that differ by block may not be asked for as attributes
        if isinstance(inner, PreTrainedConfig):
            departures[name] = _departures(inner)
        elif name not in _OF_NO_ACCOUNT and (name not in usual or usual[name] != value):
            departures[name] = value
    return departures

"""What transformers raises and reports while it loads a model, as sentences about the checkpoint."""

import errno
import logging
import re
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shutil import disk_usage
from typing import Any

import torch
from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars
from safetensors import SafetensorError
from transformers.utils import logging as library_logging

from bathyscope.core.foreign import read_regular
from bathyscope.core.strict import DAMAGED, read_json
from bathyscope.errors import ModelError, is_out_of_memory
from bathyscope.model.memory import out_of_memory
from bathyscope.model.place import similar_folders

_LONGEST = 400


@contextmanager
def loading_errors(name: str, device: torch.device, rewritten: Path | None = None) -> Iterator[None]:
    """Turn whatever transformers raises inside into a ModelError that says what is wrong with the checkpoint.

    Args:
        rewritten: the folder in which the library stores tensors of a streamed model; None = it stores none.
    """
    with _reports() as reports:
        try:
            yield
        except ModelError:
            raise
        except Exception as error:
            if is_out_of_memory(error):
                raise out_of_memory(name, device) from error
            if rewritten is not None and _is_unwritten(error):
                raise ModelError(_no_room(name, rewritten.parent, error)) from error
            raise ModelError(unloadable(name, error, reports)) from error


def unloadable(name: str, error: Exception, reports: Collection[str] = ()) -> str:
    """Say why a checkpoint cannot be loaded, with the library's reports where its error refers to them."""
    if needs_code(error):
        return (
            f"{name} comes with code of its own, which is not run unless it is asked for: trust_remote_code=True "
            "(--trust-remote-code). Read it first."
        )
    if other := of_other_inputs(name, error):
        return other
    reason = " ".join([reason_of(error), *(joined(report) for report in reports if "above report" in str(error))])
    # another folder cannot have been meant where this one is there
    hint = "" if "/" in name or Path(name).is_dir() else similar_folders(Path(name)).rstrip()
    if isinstance(error, LookupError | ArithmeticError | AttributeError | TypeError):
        # the library's own code has failed on a value of the configuration, and says nothing of which
        what = _culprit(name, error)
        hint = f"Its config.json has {what} that transformers cannot use; compare it with the original's."
    stop = "." if hint and not reason.endswith((".", "!", "?", "…")) else ""
    return f"{name} cannot be loaded as a causal language model: {reason}{stop}{' ' if hint else ''}{hint}"


def _culprit(name: str, error: Exception) -> str:
    """Name the entries of a configuration whose value the library could not look up; "a value" where none is found."""
    try:
        settings = read_json(read_regular(Path(name) / "config.json"))
    except DAMAGED:
        return "a value"
    places = _places(settings, error.args[0]) if error.args and isinstance(error.args[0], str) else []
    return f"a value ({', '.join(places)})" if places else "a value"


def _places(settings: Any, value: str, path: str = "") -> list[str]:
    """Return where a text stands in a configuration, as paths with points."""
    if not isinstance(settings, dict):
        return [path] if settings == value else []
    return [place for key, inner in settings.items() for place in _places(inner, value, f"{path}.{key}".strip("."))]


def of_other_inputs(name: str, error: Exception) -> str:
    """Say how a model is measured whose folder the library opens by another class; empty for other errors."""
    configuration = re.search(
        r"Unrecognized configuration class <class '[\w.]*?(\w+)'> for this kind of AutoModel", str(error)
    )
    if configuration is None:
        return ""
    return (
        f"{name} is no causal language model alone (its configuration is a {configuration[1]}). Where it writes text, "
        "load it by its own class, which its config.json names (architectures), and give that model in memory."
    )


def needs_code(error: BaseException | None) -> bool:
    """Whether the library has refused to run code that comes with a checkpoint."""
    return error is not None and "trust_remote_code" in str(error)


def reason_of(error: Exception) -> str:
    """Return an error's text in one line; the type of errors that say too little without it comes first."""
    if "Should have a `model_type` key" in str(error):
        return "its config.json names no family; give it the original's model_type, such as 'llama'"
    plain = isinstance(error, OSError | ValueError | RuntimeError | ImportError) and not isinstance(error, UnicodeError)
    text = joined(str(error))
    return text if plain and text else f"{type(error).__name__}: {text}"


def joined(text: str) -> str:
    """Return a text in one line, without colours of a terminal and not too long."""
    text = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", text).split())
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " …"


def _is_unwritten(error: Exception) -> bool:
    """Whether tensors could not be written, by either library's word for it."""
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return full or (isinstance(error, SafetensorError) and "while serializing" in str(error))


def _no_room(name: str, folder: Path, error: Exception) -> str:
    free = disk_usage(folder).free / 1e9
    return (
        f"{name} is streamed, and what is put together out of several of its tensors (experts) has to be written once "
        f"more, which failed in {folder}, where {free:.1f} GB are free ({reason_of(error)}). Set TMPDIR to a folder "
        "with room for it."
    )


@contextmanager
def without_bar() -> Iterator[None]:
    """Hide transformers' bar of weights, which lasts a moment; bars of downloads stay."""
    bars, downloads = library_logging.is_progress_bar_enabled(), not are_progress_bars_disabled()
    library_logging.disable_progress_bar()
    if downloads:
        enable_progress_bars()
    try:
        yield
    finally:
        if bars:
            library_logging.enable_progress_bar()
        if not downloads:
            disable_progress_bars()


@contextmanager
def without_gguf_bar() -> Iterator[None]:
    """Hide the bar of GGUF tensors as well, which transformers draws by tqdm itself, past its own setting."""
    from transformers import modeling_gguf_pytorch_utils

    module: Any = modeling_gguf_pytorch_utils
    plain = getattr(module, "tqdm", None)
    with without_bar():
        if plain is not None:
            module.tqdm = library_logging.tqdm
        try:
            yield
        finally:
            if plain is not None:
                module.tqdm = plain


@contextmanager
def _reports() -> Iterator[list[str]]:
    """Collect the library's report on a checkpoint, which says in a table what is said here in sentences."""
    reports: list[str] = []

    def collect(record: logging.LogRecord) -> bool:
        is_report = "LOAD REPORT" in record.getMessage()
        if is_report:
            reports.append(record.getMessage())
        return not is_report

    # weights of streamed blocks are elsewhere on purpose
    def without_meta(record: logging.LogRecord) -> bool:
        return "on the meta device because they were offloaded" not in record.getMessage()

    with ExitStack() as stack:
        for logger, keeps in (("transformers.modeling_utils", collect), ("accelerate.big_modeling", without_meta)):
            logging.getLogger(logger).addFilter(keeps)
            stack.callback(logging.getLogger(logger).removeFilter, keeps)
        yield reports
